"""Every command, asked for with every built-in role, on the role's own database and on another one.

The expected side is written from MongoDB's manual ("Built-In Roles", "Privilege Actions", "Required Access" of each
command), not from the server's tables. `help: true` has the command authorised, and then told about instead of run.
"""

import pytest

from access_server import AccessServer

OF_A_DATABASE = ["read", "readWrite", "dbAdmin", "dbOwner", "userAdmin", "enableSharding"]
OF_ADMIN = [
    "readAnyDatabase", "readWriteAnyDatabase", "userAdminAnyDatabase", "dbAdminAnyDatabase", "clusterMonitor", "hostManager",
    "clusterManager", "clusterAdmin", "backup", "restore", "root", "__system",
]
OWN, OTHER = "shop", "bank"


def on(database_roles, any_roles):
    """Allowed to these roles of the database, and to these of `admin`."""
    return set(database_roles.split()), set(any_roles.split()) | {"__system"}


def cluster(roles):
    return on("", roles)


READ = on("read readWrite dbOwner", "readAnyDatabase readWriteAnyDatabase backup root")
STATISTICS = on("read readWrite dbAdmin dbOwner", "readAnyDatabase readWriteAnyDatabase dbAdminAnyDatabase clusterMonitor clusterAdmin root")
WRITE = on("readWrite dbOwner", "readWriteAnyDatabase root")
INSERT = on("readWrite dbOwner", "readWriteAnyDatabase restore root")
SHAPE = on("readWrite dbAdmin dbOwner", "readWriteAnyDatabase dbAdminAnyDatabase restore root")
DROP_INDEX = on("readWrite dbAdmin dbOwner", "readWriteAnyDatabase dbAdminAnyDatabase root")
DB_ADMIN = on("dbAdmin dbOwner", "dbAdminAnyDatabase root")
USERS = on("userAdmin dbOwner", "userAdminAnyDatabase restore root")
REPLACE_ROLES = on("", "userAdminAnyDatabase restore root")
MONITOR = cluster("clusterMonitor clusterAdmin root")
STATUS = cluster("clusterMonitor clusterAdmin backup root")
HOST = cluster("hostManager clusterAdmin root")
MANAGE = cluster("clusterManager clusterAdmin root")
SET_STATUS = cluster("clusterMonitor clusterManager clusterAdmin root")
MEMBERS = cluster("")



def privilege(database):
    return {"resource": {"db": database, "collection": "items"}, "actions": ["find"]}


# Command, by its fields on a database; and to whom it is allowed.
COMMANDS = {
    "aggregate": (lambda db: {"aggregate": "items", "pipeline": []}, READ),
    "count": (lambda db: {"count": "items"}, READ),
    "distinct": (lambda db: {"distinct": "items", "key": "a"}, READ),
    "explain": (lambda db: {"explain": {"find": "items"}}, READ),
    "find": (lambda db: {"find": "items"}, READ),
    "dataSize": (lambda db: {"dataSize": f"{db}.items"}, READ),
    "collStats": (lambda db: {"collStats": "items"}, (STATISTICS[0], STATISTICS[1] | {"backup"})),
    "dbStats": (lambda db: {"dbStats": 1}, STATISTICS),
    "dbHash": (lambda db: {"dbHash": 1}, on("read readWrite dbOwner", "readAnyDatabase readWriteAnyDatabase root")),
    "listCollections": (
        lambda db: {"listCollections": 1},
        on("read readWrite dbAdmin dbOwner", "readAnyDatabase readWriteAnyDatabase dbAdminAnyDatabase backup restore root"),
    ),
    "listIndexes": (
        lambda db: {"listIndexes": "items"},
        on("read readWrite dbAdmin dbOwner", "readAnyDatabase readWriteAnyDatabase dbAdminAnyDatabase backup root"),
    ),
    "insert": (lambda db: {"insert": "items", "documents": []}, INSERT),
    "update": (lambda db: {"update": "items", "updates": []}, WRITE),
    "delete": (lambda db: {"delete": "items", "deletes": []}, WRITE),
    "findAndModify": (lambda db: {"findAndModify": "items", "update": {}}, WRITE),
    "create": (lambda db: {"create": "new", "capped": True, "size": 1}, SHAPE),
    "createIndexes": (lambda db: {"createIndexes": "items", "indexes": []}, SHAPE),
    "drop": (lambda db: {"drop": "items"}, SHAPE),
    "dropIndexes": (lambda db: {"dropIndexes": "items", "index": "*"}, DROP_INDEX),
    "renameCollection": (lambda db: {"renameCollection": f"{db}.items", "to": f"{db}.new"}, DROP_INDEX),
    "dropDatabase": (lambda db: {"dropDatabase": 1}, on("dbAdmin dbOwner", "dbAdminAnyDatabase clusterAdmin root")),
    "collMod": (lambda db: {"collMod": "items"}, on("dbAdmin dbOwner", "dbAdminAnyDatabase restore root")),
    "compact": (lambda db: {"compact": "items"}, DB_ADMIN),
    "reIndex": (lambda db: {"reIndex": "items"}, DB_ADMIN),
    "validate": (lambda db: {"validate": "items"}, DB_ADMIN),
    "validateDBMetadata": (lambda db: {"validateDBMetadata": 1}, DB_ADMIN),
    "profile": (lambda db: {"profile": 0}, DB_ADMIN),
    "planCacheClear": (lambda db: {"planCacheClear": "items"}, DB_ADMIN),
    "planCacheClearFilters": (lambda db: {"planCacheClearFilters": "items"}, DB_ADMIN),
    "planCacheListFilters": (lambda db: {"planCacheListFilters": "items"}, DB_ADMIN),
    "_mergeAuthzCollections": (
        lambda db: {"_mergeAuthzCollections": 1, "tempUsersCollection": "admin.tempusers", "tempRolesCollection": "admin.temproles", "db": db, "drop": True},
        cluster("restore root"),
    ),
    "createUser": (lambda db: {"createUser": "x", "pwd": "p", "roles": ["read"]}, USERS),
    "updateUser": (lambda db: {"updateUser": "x", "pwd": "p"}, USERS),
    "dropUser": (lambda db: {"dropUser": "x"}, USERS),
    "dropAllUsersFromDatabase": (lambda db: {"dropAllUsersFromDatabase": 1}, USERS),
    "grantRolesToUser": (lambda db: {"grantRolesToUser": "x", "roles": ["read"]}, USERS),
    "revokeRolesFromUser": (lambda db: {"revokeRolesFromUser": "x", "roles": ["read"]}, USERS),
    "usersInfo": (lambda db: {"usersInfo": 1}, USERS),
    "createRole": (lambda db: {"createRole": "x", "privileges": [privilege(db)], "roles": ["read"]}, USERS),
    "updateRole": (lambda db: {"updateRole": "x", "roles": ["read"]}, REPLACE_ROLES),
    "dropRole": (lambda db: {"dropRole": "x"}, USERS),
    "dropAllRolesFromDatabase": (lambda db: {"dropAllRolesFromDatabase": 1}, USERS),
    "grantRolesToRole": (lambda db: {"grantRolesToRole": "x", "roles": ["read"]}, USERS),
    "revokeRolesFromRole": (lambda db: {"revokeRolesFromRole": "x", "roles": ["read"]}, USERS),
    "grantPrivilegesToRole": (lambda db: {"grantPrivilegesToRole": "x", "privileges": [privilege(db)]}, USERS),
    "revokePrivilegesFromRole": (lambda db: {"revokePrivilegesFromRole": "x", "privileges": [privilege(db)]}, USERS),
    "rolesInfo": (lambda db: {"rolesInfo": 1}, USERS),
    "connPoolStats": (None, MONITOR),
    "currentOp": (None, MONITOR),
    "getCmdLineOpts": (None, MONITOR),
    "getLog": (None, MONITOR),
    "hostInfo": (None, MONITOR),
    "top": (None, MONITOR),
    "getDiagnosticData": (None, MONITOR),
    "serverStatus": (None, STATUS),
    "lockInfo": (None, STATUS),
    "getCalendar": (None, STATUS),
    "getParameter": (None, cluster("clusterMonitor clusterAdmin backup restore root")),
    "listDatabases": (
        lambda db: {"listDatabases": 1, "authorizedDatabases": False},
        cluster("readAnyDatabase readWriteAnyDatabase userAdminAnyDatabase dbAdminAnyDatabase clusterMonitor clusterAdmin backup root"),
    ),
    "fsync": (None, HOST),
    "killAllSessions": (None, HOST),
    "killAllSessionsByPattern": (None, HOST),
    "logApplicationMessage": (
        lambda db: {"logApplicationMessage": "x"}, cluster("hostManager clusterManager clusterAdmin root"),
    ),
    "logRotate": (None, HOST),
    "rotateCertificates": (None, HOST),
    "setParameter": (None, HOST),
    "setCalendar": (None, HOST),
    "shutdown": (None, HOST),
    "setDefaultRWConcern": (None, MANAGE),
    "setFeatureCompatibilityVersion": (None, MANAGE),
    "replSetAbortPrimaryCatchUp": (None, MANAGE),
    "replSetFreeze": (None, MANAGE),
    "replSetInitiate": (None, MANAGE),
    "replSetMaintenance": (None, MANAGE),
    "replSetReconfig": (None, MANAGE),
    "replSetResizeOplog": (None, HOST),
    "replSetStepDown": (None, MANAGE),
    "replSetStepUp": (None, MANAGE),
    "replSetSyncFrom": (None, MANAGE),
    "getDefaultRWConcern": (None, SET_STATUS),
    "replSetGetConfig": (None, SET_STATUS),
    "replSetGetStatus": (None, SET_STATUS),
    "appendOplogNote": (None, cluster("clusterManager clusterAdmin backup root")),
    "heddleBackup": (None, cluster("backup root")),
    "applyOps": (None, MEMBERS),
    "_heddleConsensus": (None, MEMBERS),
    "_heddleCopy": (None, MEMBERS),
    "replSetGetRBID": (None, MEMBERS),
    "replSetHeartbeat": (None, MEMBERS),
}

# Asked of everybody who is logged in; what else they need they look at when they run (see test_privileges.py).
FOR_WHO_IS_LOGGED_IN = [
    "abortTransaction", "commitTransaction", "endSessions", "features", "getMore", "killCursors", "killOp", "killSessions",
    "refreshSessions", "startSession",
]
# These come before a login, or say who is there.
OPEN = [
    "_isSelf", "authenticate", "buildInfo", "connectionStatus", "hello", "isMaster", "listCommands", "logout", "ping", "saslContinue",
    "saslStart", "whatsmyuri",
]


@pytest.fixture(scope="module")
def access(tmp_path_factory):
    from server_process import Server

    server = Server(tmp_path_factory.mktemp("matrix") / "data", "--auth").wait_until_it_answers()
    running = AccessServer(server).make_root()
    with running.root() as root:
        for name in OF_A_DATABASE:
            root[OWN].command("createUser", name, pwd="p", roles=[name])
        for name in OF_ADMIN:
            root.admin.command("createUser", f"only-{name}", pwd="p", roles=[name])
    yield running
    server.process.kill()
    server.process.wait()


def is_allowed(client, database, command):
    from pymongo.errors import OperationFailure

    try:
        client[database].command({**command, "help": True})
        return True
    except OperationFailure as failure:
        assert failure.code == 13, (command, failure.details)
        assert "not authorized on" in failure.details["errmsg"] or "requires authentication" in failure.details["errmsg"]
        return False


def test_every_command_has_its_row(access):
    with access.root() as root:
        listed = set(root.admin.command("listCommands")["commands"])
    assert listed == set(COMMANDS) | set(FOR_WHO_IS_LOGGED_IN) | set(OPEN)


@pytest.mark.parametrize("role", OF_A_DATABASE + OF_ADMIN)
def test_a_role_may_do_what_the_manual_says_and_nothing_else(access, role):
    is_of_database = role in OF_A_DATABASE
    user = role if is_of_database else f"only-{role}"
    wrong, cells = [], 0
    with access.client(user, "p", OWN if is_of_database else "admin") as client:
        for name, (ask, (of_database, of_admin)) in COMMANDS.items():
            for database in (OWN, OTHER):
                expected = role in of_admin or (role in of_database and database == OWN)
                runs_on = database if of_database else "admin"
                command = ask(database) if ask else {name: 1}
                if name == "updateRole":
                    runs_on = database
                cells += 1
                if is_allowed(client, "admin" if name == "renameCollection" else runs_on, command) != expected:
                    wrong.append(f"{name} on {database}: expected {'allowed' if expected else 'refused'}")
        for name in FOR_WHO_IS_LOGGED_IN + OPEN:
            if not is_allowed(client, "admin", {name: 1}):
                wrong.append(f"{name}: expected allowed")
    assert not wrong, f"{role}: {len(wrong)} of {cells} cells: {wrong}"


def test_who_is_not_logged_in_may_say_hello_and_log_in(access):
    with access.client() as client:
        refused = [name for name in OPEN if not is_allowed(client, "admin", {name: 1})]
        allowed = [name for name in [*COMMANDS, *FOR_WHO_IS_LOGGED_IN] if is_allowed(client, "admin", {name: 1})]
    assert (refused, allowed) == ([], [])
