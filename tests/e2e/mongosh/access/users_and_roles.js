// The real shell on a server with --auth: the first user, users, roles.
const assert = require("node:assert/strict");
const admin = db.getSiblingDB("admin");
const shop = db.getSiblingDB("shop");
const fails = (call, name) => {
  let refused = null;
  try {
    call();
  } catch (error) {
    refused = error;
  }
  assert.equal(refused?.codeName, name);
};

fails(() => shop.items.findOne(), "Unauthorized");
admin.createUser({ user: "root", pwd: "secret", roles: ["root"] });
fails(() => admin.auth("root", "wrong"), "AuthenticationFailed");
assert.equal(admin.auth("root", "secret").ok, 1);
shop.items.insertOne({ a: 1 });

shop.createRole({ role: "counter", privileges: [{ resource: { db: "shop", collection: "items" }, actions: ["find"] }], roles: [] });
shop.createUser({ user: "clerk", pwd: "c", roles: ["counter"] });
assert.equal(shop.getUser("clerk").roles[0].role, "counter");
assert.equal(shop.getUsers().users.length, 1);
assert.equal(shop.getRole("counter", { showPrivileges: true }).privileges[0].actions[0], "find");
assert.ok(shop.getRoles({ showBuiltinRoles: true }).roles.some((role) => role.role === "dbOwner" && role.isBuiltin));
shop.grantRolesToUser("clerk", ["read"]);
shop.revokeRolesFromUser("clerk", ["read"]);
shop.grantPrivilegesToRole("counter", [{ resource: { db: "shop", collection: "items" }, actions: ["insert"] }]);
shop.changeUserPassword("clerk", "d");

const clerk = new Mongo(db.getMongo().getURI()).getDB("shop");
fails(() => clerk.auth("clerk", "c"), "AuthenticationFailed");
assert.equal(clerk.auth("clerk", "d").ok, 1);
assert.equal(clerk.items.countDocuments({}), 1);
clerk.items.insertOne({ a: 2 });
fails(() => clerk.items.deleteOne({}), "Unauthorized");
assert.equal(clerk.runCommand({ connectionStatus: 1 }).authInfo.authenticatedUserRoles[0].role, "counter");

assert.ok(shop.dropUser("clerk"));
assert.ok(shop.dropRole("counter"));
fails(() => clerk.items.countDocuments({}), "Unauthorized");
print("users and roles: ok");
