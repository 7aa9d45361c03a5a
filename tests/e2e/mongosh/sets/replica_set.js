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

function refused(run, message) {
    try {
        run();
    } catch (error) {
        return assert(error.message.includes(message), error.message);
    }
    throw new Error(`not refused: ${message}`);
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

// Every helper that there is.
assert.strictEqual(rs.hello().me, hello.me);
assert.strictEqual(rs.isMaster().ismaster, true);
assert.strictEqual(rs.config().version, rs.conf().version);
assert(EJSON.stringify(rs.printReplicationInfo()).includes("oplog first event time"));
const behind = EJSON.stringify(rs.printSecondaryReplicationInfo());
for (const host of hello.hosts.filter((host) => host !== hello.me)) assert(behind.includes(host), behind);
rs.secondaryOk();

const spare = process.env.HEDDLE_SPARE;
assert.strictEqual(rs.add(spare).ok, 1);
const stateOf = (host) => rs.status().members.find((member) => member.name === host)?.stateStr;
eventually("a fourth member", () => stateOf(spare) === "SECONDARY");
db.things.insertOne({ _id: "four" }, { writeConcern: { w: 4, wtimeout: 20000 } });
assert.strictEqual(rs.remove(spare).ok, 1);
eventually("three members", () => db.hello().hosts.length === 3 && stateOf(spare) === undefined);
db.things.deleteOne({ _id: "four" });

const another = new Mongo(`mongodb://${hello.hosts.find((host) => host !== hello.me)}/?directConnection=true`);
assert.strictEqual(another.getDB("admin").runCommand({ replSetFreeze: 1 }).ok, 1);
assert.strictEqual(another.getDB("admin").runCommand({ replSetFreeze: 0 }).ok, 1);
refused(() => rs.freeze(1), "cannot freeze node when primary");
refused(() => rs.initiate(), "already initialized");
assert.strictEqual(db.adminCommand({ getDefaultRWConcern: 1 }).defaultWriteConcern.w, "majority");

const before = hello.me;
assert.strictEqual(rs.stepDown(10, 5).ok, 1);
eventually("another primary", () => {
    const now = db.hello();
    return now.isWritablePrimary && now.me !== before;
});
assert.strictEqual(db.things.countDocuments(), 1);
db.things.insertOne({ _id: 2 });

print("replica set: ok");
