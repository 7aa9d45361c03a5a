// The README's first session and more, run by the real mongosh. Throws at the first surprise.
const assert = require("node:assert/strict");
// The shell's own arrays have another prototype than the assertion library's: compare what they hold.
const assertSame = (found, expected) => assert.equal(EJSON.stringify(found), EJSON.stringify(expected));
// The shell waits for its own calls only in functions that it has read itself, so `assert.throws` cannot be used.
const refusal = (operation) => {
  try {
    operation();
  } catch (error) {
    return error.message;
  }
  return "nothing was refused";
};

const shop = db.getSiblingDB("mongosh_shop");
shop.dropDatabase();

const inserted = shop.orders.insertMany([
  { _id: 1, item: "linen", price: 12.5, tags: ["natural", "blue"] },
  { _id: 2, item: "wool", price: NumberDecimal("30.10"), tags: ["warm"] },
  { _id: 3, item: "silk", price: NumberInt(99) },
]);
assert.equal(Object.keys(inserted.insertedIds).length, 3);
assert.equal(shop.orders.countDocuments({ price: { $gt: 20 } }), 2);
assertSame(shop.orders.find({}, { item: 1, _id: 0 }).sort({ item: -1 }).toArray().map((order) => order.item), [
  "wool",
  "silk",
  "linen",
]);

assert.equal(shop.orders.createIndex({ item: 1 }, { unique: true }), "item_1");
assert.equal(shop.orders.getIndexes().length, 2);
assert.match(refusal(() => shop.orders.insertOne({ item: "wool" })), /E11000 duplicate key error/);
assert.equal(shop.orders.find({ item: "wool" }).explain().queryPlanner.winningPlan.inputStage.stage, "IXSCAN");

assert.equal(shop.orders.updateOne({ _id: 1 }, { $push: { tags: "new" }, $inc: { price: 1 } }).modifiedCount, 1);
assertSame(shop.orders.findOne({ _id: 1 }).tags, ["natural", "blue", "new"]);
assert.equal(shop.orders.deleteOne({ _id: 3 }).deletedCount, 1);
const [total] = shop.orders.aggregate([{ $group: { _id: null, total: { $sum: "$price" } } }]).toArray();
assert.equal(total.total.toString(), "43.60");

assertSame(shop.getCollectionNames(), ["orders"]);
assert.equal(shop.orders.stats().count, 2);
assert.equal(shop.orders.validate({ full: true }).valid, true);
assert.ok(db.adminCommand({ listDatabases: 1 }).databases.some((database) => database.name === "mongosh_shop"));
assert.match(db.version(), /^7\.0\./);
assert.equal(db.serverStatus().ok, 1);
assert.equal(db.hello().isWritablePrimary, true);
assert.ok(db.currentOp().inprog.length >= 1);
assert.match(refusal(() => db.adminCommand({ frobnicate: 1 })), /no such command: 'frobnicate'/);

const cursor = shop.many;
cursor.insertMany(Array.from({ length: 500 }, (_, number) => ({ _id: number })));
assert.equal(cursor.find().batchSize(20).toArray().length, 500);

shop.dropDatabase();
print("first session: ok");
