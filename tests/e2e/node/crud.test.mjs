// The Node driver against a running server: HEDDLE_URI says where.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { Decimal128, Double, Long, MongoClient, MongoServerError, ObjectId } from "mongodb";

const client = new MongoClient(process.env.HEDDLE_URI);
const database = client.db("node_crud");
const things = database.collection("things");

before(() => client.connect());
beforeEach(() => database.dropDatabase());
after(async () => {
  await database.dropDatabase();
  await client.close();
});

test("inserts and reads every kind of value", async () => {
  const document = {
    _id: new ObjectId(),
    double: new Double(1.5),
    text: "grüße",
    nested: { list: [1, "two", null, { three: 3 }] },
    when: new Date("2024-02-29T12:00:00Z"),
    long: Long.fromString("1099511627776"),
    decimal: Decimal128.fromString("0.10"),
    bytes: Buffer.from([1, 2, 3]),
    pattern: /^a/i,
  };
  await things.insertOne(document);
  const found = await things.findOne({ _id: document._id }, { promoteValues: false, promoteBuffers: true });
  assert.equal(String(found.decimal), "0.10");
  assert.equal(String(found.long), "1099511627776");
  const plain = await things.findOne({ text: "grüße" });
  assert.deepEqual(plain.nested, document.nested);
  assert.equal(plain.when.toISOString(), "2024-02-29T12:00:00.000Z");
  assert.equal(plain.pattern.source, "^a");
});

test("iterates over several batches", async () => {
  await things.insertMany(Array.from({ length: 1000 }, (_, number) => ({ _id: number, even: number % 2 === 0 })));
  const seen = [];
  for await (const document of things.find({ even: true }).sort({ _id: -1 }).batchSize(33)) seen.push(document._id);
  assert.equal(seen.length, 500);
  assert.equal(seen[0], 998);
  assert.equal(await things.countDocuments({ even: false }), 500);
});

test("reports duplicate keys with pattern and value", async () => {
  await things.createIndex({ email: 1 }, { unique: true });
  await things.insertOne({ email: "a@example.com" });
  await assert.rejects(things.insertOne({ email: "a@example.com" }), (error) => {
    assert.ok(error instanceof MongoServerError);
    assert.equal(error.code, 11000);
    assert.deepEqual(error.keyPattern, { email: 1 });
    assert.deepEqual(error.keyValue, { email: "a@example.com" });
    return true;
  });
});

test("bulk writes, ordered and unordered", async () => {
  const result = await things.bulkWrite([
    { insertOne: { document: { _id: 1, n: 1 } } },
    { updateOne: { filter: { _id: 1 }, update: { $inc: { n: 5 } } } },
    { replaceOne: { filter: { _id: 2 }, replacement: { n: 2 }, upsert: true } },
    { deleteMany: { filter: { n: 6 } } },
  ]);
  assert.equal(result.insertedCount, 1);
  assert.equal(result.modifiedCount, 1);
  assert.equal(result.upsertedCount, 1);
  assert.equal(result.deletedCount, 1);
  await assert.rejects(things.bulkWrite([2, 2, 3].map((id) => ({ insertOne: { document: { _id: id } } })), { ordered: false }));
  assert.equal(await things.countDocuments(), 2);
});

test("aggregates", async () => {
  await things.insertMany([1, 2, 3, 4].map((n) => ({ n, group: n % 2 ? "odd" : "even" })));
  const grouped = await things
    .aggregate([{ $group: { _id: "$group", sum: { $sum: "$n" } } }, { $sort: { _id: 1 } }])
    .toArray();
  assert.deepEqual(grouped, [{ _id: "even", sum: 6 }, { _id: "odd", sum: 4 }]);
});

test("findOneAndUpdate and distinct", async () => {
  await things.insertMany([{ _id: 1, tags: ["a", "b"] }, { _id: 2, tags: ["b"] }]);
  const after = await things.findOneAndUpdate({ _id: 1 }, { $push: { tags: "c" } }, { returnDocument: "after" });
  assert.deepEqual(after.tags, ["a", "b", "c"]);
  assert.deepEqual((await things.distinct("tags")).sort(), ["a", "b", "c"]);
});

test("sessions are accepted and end", async () => {
  await client.withSession(async (session) => {
    await things.insertOne({ _id: 1 }, { session });
    assert.equal((await things.find({}, { session, batchSize: 1 }).toArray()).length, 1);
  });
});

// The driver's zstd module has a native part that npm does not carry for every platform; pymongo's tests cover zstd too.
const modules = { snappy: "snappy", zstd: "@mongodb-js/zstd" };

for (const compressor of ["snappy", "zlib", "zstd", "none"]) {
  test(`speaks with compressor ${compressor}`, async (context) => {
    const missing = modules[compressor] && (await import(modules[compressor]).then(() => false, () => true));
    if (missing) return context.skip(`the driver's module ${modules[compressor]} is not installed`);
    const compressed = new MongoClient(process.env.HEDDLE_URI, { compressors: [compressor] });
    try {
      const text = "repeat me ".repeat(5000);
      const collection = compressed.db("node_crud").collection("compressed");
      await collection.insertOne({ _id: compressor, text });
      assert.equal((await collection.findOne({ _id: compressor })).text, text);
    } finally {
      await compressed.close();
    }
  });
}

test("errors carry MongoDB's codes", async () => {
  await assert.rejects(database.command({ frobnicate: 1 }), { code: 59, codeName: "CommandNotFound" });
  await assert.rejects(things.find({ a: { $foo: 1 } }).toArray(), { code: 2, codeName: "BadValue" });
  await assert.rejects(things.updateOne({}, { $foo: { a: 1 } }), { code: 9 });
});
