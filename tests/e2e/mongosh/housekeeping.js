// What an operator types first.
const assert = require("node:assert/strict");

assert.match(db.version(), /^7\.0\./);
assert.equal(db.adminCommand({ ping: 1 }).ok, 1);
assert.equal(db.hello().isWritablePrimary, true);
assert.ok(db.serverStatus().uptime >= 0);
assert.ok(db.hostInfo().system.numCores >= 1);
assert.equal(db.adminCommand({ getParameter: 1, featureCompatibilityVersion: 1 }).featureCompatibilityVersion.version, "7.0");
assert.ok(Array.isArray(db.adminCommand({ getLog: "global" }).log));
assert.ok(db.currentOp().inprog.length >= 1);
assert.ok("ping" in db.runCommand({ listCommands: 1 }).commands);
let refused = null;
try {
  db.adminCommand({ nonsense: 1 });
} catch (error) {
  refused = error;
}
assert.equal(refused.codeName, "CommandNotFound");
print("housekeeping: ok");
