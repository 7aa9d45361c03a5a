// The Node driver's reactions to fail points, as the drivers' specifications test them: retries, monitors, pools, time limits.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, afterEach, before, test } from "node:test";
import { MongoClient } from "mongodb";

const admin = new MongoClient(process.env.HEDDLE_URI);
const documents = admin.db("node_fail_points").collection("documents");
const PATIENCE = 20_000;

const configure = (configureFailPoint, mode, data = {}) => admin.db("admin").command({ configureFailPoint, mode, data });
const failCommand = (mode, data) => configure("failCommand", mode, data);

// A client of its own, by a name that a fail point can mean.
async function withClient(appName, options, use) {
  const client = new MongoClient(process.env.HEDDLE_URI, { appName, monitorCommands: true, ...options });
  const events = { failed: [], succeeded: [], cleared: 0 };
  client.on("commandFailed", (event) => events.failed.push(event.commandName));
  client.on("commandSucceeded", (event) => events.succeeded.push(event.commandName));
  client.on("connectionPoolCleared", () => (events.cleared += 1));
  try {
    await use(client.db("node_fail_points").collection("documents"), events, client);
  } finally {
    await client.close();
  }
}

const soon = (emitter, name) => once(emitter, name, { signal: AbortSignal.timeout(PATIENCE) });

before(async () => {
  await documents.deleteMany({});
  await documents.insertMany(Array.from({ length: 20 }, (_, number) => ({ _id: number })));
});
afterEach(async () => {
  for (const name of ["failCommand", "maxTimeAlwaysTimeOut", "failGetMoreAfterCursorCheckout"]) await configure(name, "off");
});
after(async () => {
  await admin.db("node_fail_points").dropDatabase();
  await admin.close();
});

for (const data of [{ closeConnection: true }, { errorCode: 91 }, { errorCode: 10107 }, { errorCode: 6 }]) {
  test(`a read is tried again after ${JSON.stringify(data)}`, async () => {
    await withClient("retries", {}, async (collection, events) => {
      await failCommand({ times: 1 }, { failCommands: ["find"], appName: "retries", ...data });
      assert.deepEqual(await collection.findOne({ _id: 3 }), { _id: 3 });
      assert.deepEqual(events.failed, ["find"]);
      assert.deepEqual(events.succeeded, ["find"]);
    });
  });
}

test("a read is tried again once only", async () => {
  await withClient("retries", {}, async (collection, events) => {
    await failCommand({ times: 2 }, { failCommands: ["find"], appName: "retries", errorCode: 91 });
    await assert.rejects(collection.findOne({}), { code: 91 });
    assert.deepEqual(events.failed, ["find", "find"]);
  });
});

test("a lost connection clears the pool", async () => {
  await withClient("cleared", { retryReads: false }, async (collection, events) => {
    await collection.findOne({});
    await failCommand({ times: 1 }, { failCommands: ["find"], appName: "cleared", closeConnection: true });
    await assert.rejects(collection.findOne({}), { name: "MongoNetworkError" });
    assert.equal(events.cleared, 1);
    assert.ok(await collection.findOne({}));
  });
});

test("errors of writes carry the labels and the write concern's error", async () => {
  await withClient("writes", { retryWrites: false }, async (collection) => {
    const data = { failCommands: ["insert"], appName: "writes" };
    await failCommand({ times: 1 }, { ...data, errorCode: 91, errorLabels: ["RetryableWriteError"] });
    await assert.rejects(collection.insertOne({ _id: 100 }), (error) => error.hasErrorLabel("RetryableWriteError"));
    const writeConcernError = { code: 64, codeName: "WriteConcernFailed", errmsg: "waiting timed out" };
    await failCommand({ times: 1 }, { ...data, writeConcernError });
    await assert.rejects(collection.insertOne({ _id: 101 }), { name: "MongoWriteConcernError", code: 64 });
    assert.ok(await collection.findOne({ _id: 101 }), "it was written all the same");
  });
});

test("a handshake that fails is that of the named client only", async () => {
  await failCommand("alwaysOn", { failCommands: ["hello", "isMaster"], appName: "unwelcome", closeConnection: true });
  await assert.rejects(
    withClient("unwelcome", { serverSelectionTimeoutMS: 500 }, (collection) => collection.findOne({})),
    { name: "MongoServerSelectionError" },
  );
  await withClient("welcome", {}, async (collection) => assert.ok(await collection.findOne({})));
});

for (const data of [{ closeConnection: true }, { errorCode: 91 }, { blockConnection: true, blockTimeMS: 1200 }]) {
  test(`a streaming monitor notices ${JSON.stringify(data)} and recovers`, async () => {
    const options = { heartbeatFrequencyMS: 500, connectTimeoutMS: 500, serverMonitoringMode: "stream" };
    await withClient("watched", options, async (collection, events, client) => {
      await collection.findOne({});
      const failed = soon(client, "serverHeartbeatFailed");
      await failCommand({ times: 2 }, { failCommands: ["hello", "isMaster"], appName: "watched", ...data });
      await failed;
      await failCommand("off", {});
      await soon(client, "serverHeartbeatSucceeded");
      assert.ok(await collection.findOne({}));
      assert.ok(events.cleared >= 1, "an unknown server's pool is cleared");
    });
  });
}

test("an operation that is held up ends at the client's time limit, or at the server's", async () => {
  await withClient("limited", { socketTimeoutMS: 300, retryReads: false }, async (collection) => {
    await collection.findOne({});
    await failCommand("alwaysOn", { failCommands: ["find"], appName: "limited", blockConnection: true, blockTimeMS: 1000 });
    await assert.rejects(collection.findOne({}), { name: "MongoNetworkTimeoutError" });
    await assert.rejects(collection.findOne({}, { maxTimeMS: 50 }), { code: 50 });
  });
});

test("time limits and getMores fail when they are told to", async () => {
  await configure("maxTimeAlwaysTimeOut", "alwaysOn");
  await assert.rejects(documents.findOne({}, { maxTimeMS: 60_000 }), { code: 50, codeName: "MaxTimeMSExpired" });
  await configure("maxTimeAlwaysTimeOut", "off");
  await configure("failGetMoreAfterCursorCheckout", { times: 1 }, { errorCode: 4 });
  await assert.rejects(documents.find({}, { batchSize: 5 }).toArray(), { code: 4 });
  assert.equal((await documents.find({ _id: { $lt: 20 } }, { batchSize: 5 }).toArray()).length, 20);
});
