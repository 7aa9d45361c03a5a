// The real Node driver: handshake, compression, the streaming monitor, sessions, errors.
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { MongoClient, MongoServerError } from "mongodb";

const uri = process.env.HEDDLE_URI;

async function withClient(options, body) {
  const client = new MongoClient(uri, { serverSelectionTimeoutMS: 10_000, ...options });
  try {
    return await body(client);
  } finally {
    await client.close();
  }
}

test("connects and pings", () =>
  withClient({}, async (client) => {
    assert.equal((await client.db("admin").command({ ping: 1 })).ok, 1);
    const build = await client.db("admin").command({ buildInfo: 1 });
    assert.match(build.version, /^7\.0\./);
  }));

test("the monitor streams", () =>
  withClient({ heartbeatFrequencyMS: 500, serverMonitoringMode: "stream" }, async (client) => {
    const deadline = AbortSignal.timeout(10_000);
    await client.connect();
    for (;;) {
      const [event] = await once(client, "serverHeartbeatSucceeded", { signal: deadline });
      if (event.awaited) {
        assert.equal(event.reply.isWritablePrimary ?? event.reply.ismaster, true);
        return;
      }
    }
  }));

for (const compressor of ["snappy", "zlib"]) {
  test(`compresses with ${compressor}`, () =>
    withClient({ compressors: [compressor] }, async (client) => {
      const figures = async () => {
        const status = await client.db("admin").command({ serverStatus: 1 });
        return status.network.compression[compressor].decompressor.bytesIn;
      };
      const before = await figures();
      await client.db("admin").command({ ping: 1, comment: "x".repeat(10_000) });
      assert.ok((await figures()) > before);
    }));
}

test("sessions begin and end", () =>
  withClient({}, async (client) => {
    const session = client.startSession();
    assert.equal((await client.db("admin").command({ ping: 1 }, { session })).ok, 1);
    await session.endSession();
  }));

test("errors carry code and name", () =>
  withClient({}, async (client) => {
    await assert.rejects(client.db("admin").command({ nonsense: 1 }), (error) => {
      assert.ok(error instanceof MongoServerError);
      assert.deepEqual([error.code, error.codeName], [59, "CommandNotFound"]);
      return true;
    });
  }));
