// What an operator does with a set, by the helpers of the shell.

const assert = require("assert");

function states() {
    return rs.status().members.map((member) => member.stateStr).sort();
}

function eventually(what, found) {
    for (let tries = 0; tries < 300; tries++) {
        if (found()) return;
        sleep(100);
    }
    throw new Error(`${what} does not come: ${EJSON.stringify(rs.status())}`);
}

const well = ["PRIMARY", "SECONDARY", "SECONDARY"];
eventually("a set that is well", () => EJSON.stringify(states()) === EJSON.stringify(well));

const hello = db.hello();
assert.strictEqual(hello.isWritablePrimary, true);
assert.strictEqual(hello.hosts.length, 3);

const config = rs.conf();
config.members[1].priority = 0.5;
assert.strictEqual(rs.reconfig(config).ok, 1);
assert.strictEqual(rs.conf().members[1].priority, 0.5);

db.things.insertOne({ _id: 1 }, { writeConcern: { w: 3, wtimeout: 20000 } });
const oplog = db.getReplicationInfo();
assert(oplog.tLast >= oplog.tFirst, EJSON.stringify(oplog));

const before = hello.me;
assert.strictEqual(rs.stepDown(10, 5).ok, 1);
eventually("another primary", () => {
    const now = db.hello();
    return now.isWritablePrimary && now.me !== before;
});
assert.strictEqual(db.things.countDocuments(), 1);
db.things.insertOne({ _id: 2 });

print("replica set: ok");
