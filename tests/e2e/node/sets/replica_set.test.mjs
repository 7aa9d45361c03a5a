// The Node driver with a replica set of three: HEDDLE_URI says where. Members have the tags { place: "a" | "b" | "c" }.
// The tests go from what leaves the set as it is to what ends one of its members.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { MongoClient, MongoNetworkError, MongoServerError, MongoServerSelectionError, MongoWriteConcernError } from "mongodb";

const URI = process.env.HEDDLE_URI;
const HOSTS = URI.split("/")[2].split(",");
const OPTIONS = { heartbeatFrequencyMS: 500, serverSelectionTimeoutMS: 30_000 };
const PATIENCE = 60_000;

const client = new MongoClient(URI, { ...OPTIONS, monitorCommands: true });
const database = client.db("node_sets");
const admin = client.db("admin");
const direct = new Map(HOSTS.map((host) => [host, new MongoClient(`mongodb://${host}/?directConnection=true`)]));

const started = [];
client.on("commandStarted", (event) => started.push(event));

async function eventually(what, found) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const result = await found().catch((error) => ((found.last = error), undefined));
    if (result) return result;
    assert.ok(Date.now() < end, `${what} does not come: ${found.last}`);
    await pause(50);
  }
}

const hello = (host) => direct.get(host).db("admin").command({ hello: 1 });
const pid = async (host) => (await direct.get(host).db("admin").command({ serverStatus: 1 })).pid;
const primary = async () => (await admin.command({ hello: 1 })).me;
async function secondary() {
  for (const host of HOSTS) {
    if ((await hello(host)).secondary) return { host, pid: await pid(host) };
  }
  throw new Error("no secondary");
}

const isWell = async () => {
  const { members } = await admin.command({ replSetGetStatus: 1 });
  return members.filter((member) => member.state === 1).length === 1 && members.every((member) => [1, 2].includes(member.state));
};

// The member that the last command of this name was sent to.
const askedMember = (name) => started.findLast((event) => event.commandName === name).address;

async function reconfigure(change) {
  const { config } = await admin.command({ replSetGetConfig: 1 });
  change(config);
  config.version += 1;
  await admin.command({ replSetReconfig: config });
}

before(async () => {
  await client.connect();
  await eventually("a set that is well", isWell);
  await database.dropDatabase();
  await database.collection("things").insertMany(
    Array.from({ length: 100 }, (_, number) => ({ _id: number })),
    { writeConcern: { w: 3 } },
  );
});
after(async () => {
  for (const one of direct.values()) await one.close(true);
  await client.close(true);
});

test("one member leads to all of them", async () => {
  const other = new MongoClient(`mongodb://${HOSTS[2]}/?replicaSet=rs`, OPTIONS);
  const seen = new Map();
  other.on("serverDescriptionChanged", ({ address, newDescription }) => seen.set(address, newDescription.type));
  try {
    await other.db("admin").command({ ping: 1 });
    await eventually("all members", async () => [...seen.values()].filter((type) => type !== "Unknown").length === 3);
    assert.deepEqual([...seen.keys()].sort(), [...HOSTS].sort());
    assert.deepEqual([...seen.values()].sort(), ["RSPrimary", "RSSecondary", "RSSecondary"]);
  } finally {
    await other.close();
  }
});

test("another set's name finds nobody", async () => {
  const other = new MongoClient(`mongodb://${HOSTS.join(",")}/?replicaSet=other`, { ...OPTIONS, serverSelectionTimeoutMS: 700 });
  await assert.rejects(other.connect(), MongoServerSelectionError);
  await other.close();
});

test("reads go where their preference says", async () => {
  const leads = await primary();
  for (const [readPreference, expected] of [
    ["primary", [leads]],
    ["primaryPreferred", [leads]],
    ["secondary", HOSTS.filter((host) => host !== leads)],
    ["secondaryPreferred", HOSTS.filter((host) => host !== leads)],
    ["nearest", HOSTS],
  ]) {
    const things = database.collection("things", { readPreference });
    assert.equal((await things.find({}, { batchSize: 30 }).toArray()).length, 100);
    assert.ok(expected.includes(askedMember("find")), `${readPreference} asked ${askedMember("find")}, the primary is ${leads}`);
    assert.equal(askedMember("getMore"), askedMember("find"));
    assert.equal((await things.aggregate([{ $match: { _id: { $lt: 7 } } }, { $count: "n" }]).toArray())[0].n, 7);
    assert.ok(expected.includes(askedMember("aggregate")), readPreference);
  }
  const stale = database.collection("things", { readPreference: { mode: "secondary", maxStalenessSeconds: 90 } });
  assert.equal(await stale.countDocuments(), 100);
});

test("tags choose members", async () => {
  const { config } = await admin.command({ replSetGetConfig: 1 });
  for (const { host, tags } of config.members) {
    const things = database.collection("things", { readPreference: { mode: "nearest", tags: [tags] } });
    assert.deepEqual(await things.findOne({ _id: 5 }), { _id: 5 });
    assert.equal(askedMember("find"), host);
  }
  const nowhere = new MongoClient(`${URI}&readPreference=secondary&readPreferenceTags=place:nowhere`, { ...OPTIONS, serverSelectionTimeoutMS: 700 });
  await assert.rejects(nowhere.db("node_sets").collection("things").findOne({}), MongoServerSelectionError);
  await nowhere.close();
});

test("read concerns", async () => {
  for (const level of ["local", "available", "majority", "linearizable"]) {
    const things = database.collection("things", { readConcern: { level } });
    assert.deepEqual(await things.findOne({ _id: 8 }), { _id: 8 }, level);
  }
});

test("write concerns that cannot be met are told, and the write is there", async () => {
  const unmet = database.collection("unmet");
  for (const [w, code] of [[4, 100], ["nowhere", 79]]) {
    await assert.rejects(unmet.insertOne({ _id: String(w) }, { writeConcern: { w } }), (error) => {
      assert.ok(error instanceof MongoServerError);
      assert.equal(error.code, code);
      return true;
    });
  }
  const stopped = await secondary();
  process.kill(stopped.pid, "SIGSTOP");
  try {
    await assert.rejects(unmet.insertOne({ _id: "late" }, { writeConcern: { w: 3, wtimeoutMS: 300 } }), (error) => {
      assert.ok(error instanceof MongoWriteConcernError, error.constructor.name);
      assert.equal(error.code, 64);
      return true;
    });
    await assert.rejects(unmet.bulkWrite([{ insertOne: { document: { _id: "bulk" } } }], { writeConcern: { w: 3, wtimeoutMS: 300 } }), (error) => {
      assert.equal(error.result.insertedCount, 1);
      return true;
    });
  } finally {
    process.kill(stopped.pid, "SIGCONT");
  }
  assert.deepEqual((await unmet.distinct("_id")).filter((id) => id === "late" || id === "bulk").sort(), ["bulk", "late"]);
});

test("a causal session reads its own writes anywhere", async () => {
  const writes = database.collection("causal", { writeConcern: { w: "majority" } });
  const reads = database.collection("causal", { readPreference: "secondary", readConcern: { level: "majority" } });
  await client.withSession({ causalConsistency: true }, async (session) => {
    for (let number = 0; number < 50; number++) {
      await writes.insertOne({ _id: number }, { session });
      assert.deepEqual(await reads.findOne({ _id: number }, { session }), { _id: number });
      const asked = started.findLast((event) => event.commandName === "find").command;
      assert.ok(asked.readConcern.afterClusterTime, "the driver asks for what it has seen");
    }
  });
});

test("a hidden member is left alone, until it is shown again", async () => {
  const { host } = await secondary();
  const shown = async () => (await admin.command({ hello: 1 })).hosts;
  const position = (config) => config.members.find((member) => member.host === host);
  const known = () => [...client.topology.description.servers.keys()];
  await reconfigure((config) => Object.assign(position(config), { hidden: true, priority: 0 }));
  await eventually("a smaller set", async () => !(await shown()).includes(host) && !known().includes(host));
  const things = database.collection("things", { readPreference: "secondary" });
  for (let reads = 0; reads < 10; reads++) {
    await things.findOne({});
    assert.notEqual(askedMember("find"), host);
  }
  await reconfigure((config) => Object.assign(position(config), { hidden: false, priority: 1 }));
  await eventually("all members", async () => known().length === 3 && known().includes(host));
});

// Clients that write and read while `change` happens. No read fails, and no write but where the driver does not try it again:
// it does so for one of those that a broken connection ends together, and leaves the others to the application.
async function unharmed(name, mayBreak, change) {
  const lists = database.collection(name);
  const counters = database.collection(`${name}_counters`);
  const state = { goesOn: true, writes: 0, reads: 0 };
  const unknown = [0, 0, 0, 0];
  await counters.insertMany(unknown.map((_, _id) => ({ _id, count: 0 })));
  const round = async (_id, number) => {
    await lists.insertOne({ _id: `${_id}-${number}`, writer: _id });
    await lists.bulkWrite([
      { updateOne: { filter: { name: `${_id}+${number}` }, update: { $inc: { times: 1 } }, upsert: true } },
      { insertOne: { document: { _id: `${_id}/${number}` } } },
    ]);
    const answer = await counters.findOneAndUpdate({ _id }, { $inc: { count: 1 } }, { returnDocument: "after" });
    assert.ok(number - unknown[_id] <= answer.count && answer.count <= number, `${answer.count} counted of ${number}`);
  };
  const writer = async (_id) => {
    for (let number = 1; state.goesOn; number++) {
      try {
        await round(_id, number);
        state.writes += 1;
      } catch (error) {
        if (!mayBreak || !((error.errorResponse ?? error) instanceof MongoNetworkError)) throw error;
        unknown[_id] += 1;
      }
    }
  };
  const reader = async (readPreference) => {
    const things = database.collection("things", { readPreference });
    for (let _id = 0; state.goesOn; _id = (_id + 1) % 100, state.reads++) {
      assert.deepEqual(await things.findOne({ _id }), { _id });
      assert.equal((await things.find({}).toArray()).length, 100);
      assert.equal((await things.distinct("_id", { _id: { $lt: 3 } })).length, 3);
    }
  };
  const running = [...unknown.map((_, _id) => writer(_id)), reader("primary"), reader("secondaryPreferred")];
  // Whoever fails ends all the others.
  const ended = Promise.all(running.map((one) => one.catch((error) => ((state.goesOn = false), Promise.reject(error)))));
  ended.catch(() => {});
  const more = async () => {
    const { writes, reads } = state;
    await eventually("further writes and reads", async () => !state.goesOn || (state.writes > writes + 20 && state.reads > reads + 20));
  };
  await more();
  await change();
  await more();
  state.goesOn = false;
  await ended;
  for (const { _id, count } of await counters.find().toArray()) {
    const inserted = await lists.countDocuments({ writer: _id });
    assert.ok(Math.abs(inserted - count) <= unknown[_id], `writer ${_id} inserted ${inserted} and counted ${count}`);
  }
  assert.equal(await lists.countDocuments({ times: { $ne: 1 }, name: { $exists: true } }), 0);
}

test("a step-down harms nobody", async () => {
  const before = await primary();
  await unharmed("planned", false, async () => {
    await direct.get(before).db("admin").command({ replSetStepDown: 10, secondaryCatchUpPeriodSecs: 10 });
    await eventually("another primary", async () => (await primary()) !== before);
  });
  await eventually("a set that is well", isWell);
});

test("the end of the primary harms nobody", async () => {
  const before = await primary();
  const killed = await pid(before);
  await unharmed("killed", true, async () => {
    process.kill(killed, "SIGKILL");
    await eventually("another primary", async () => (await primary()) !== before);
  });
});
