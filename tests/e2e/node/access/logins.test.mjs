// The real Node driver: logs in by both mechanisms, and is refused.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MongoClient, MongoServerError } from "mongodb";

const uri = process.env.HEDDLE_URI;
const root = { username: "root", password: "a root's password" };

async function withClient(auth, options, body) {
  const client = new MongoClient(uri, { auth, authSource: "admin", serverSelectionTimeoutMS: 10_000, ...options });
  try {
    return await body(client);
  } finally {
    await client.close();
  }
}

for (const authMechanism of [undefined, "SCRAM-SHA-1", "SCRAM-SHA-256"]) {
  const options = authMechanism ? { authMechanism } : {};
  test(`logs in by ${authMechanism ?? "what is agreed upon"}`, () =>
    withClient(root, options, async (client) => {
      const { authInfo } = await client.db("admin").command({ connectionStatus: 1 });
      assert.deepEqual(authInfo.authenticatedUsers, [{ user: "root", db: "admin" }]);
      await client.db("shop").collection("items").insertOne({ a: 1 });
      assert.equal((await client.db("shop").collection("items").findOne({ a: 1 })).a, 1);
    }));
  test(`is refused by ${authMechanism ?? "what is agreed upon"}`, () =>
    withClient({ ...root, password: "wrong" }, options, (client) =>
      assert.rejects(client.db("admin").command({ ping: 1 }), (error) => error instanceof MongoServerError && error.code === 18),
    ));
}

test("who is not logged in is told so", () =>
  withClient(undefined, {}, (client) =>
    assert.rejects(client.db("shop").collection("items").findOne({}), /Command find requires authentication/),
  ));
