//! The roles that every server has, and their privileges.
//!
//! Source: MongoDB manual 7.0, "Built-In Roles". What concerns shards is listed as well: the roles are shown
//! to clients, and mean the same wherever their documents are taken.

use crate::action::Action::{self, *};
use crate::names::RoleName;
use crate::privileges::{Privilege, add_privilege};
use crate::resource::ResourcePattern as On;

const READ: &[Action] = &[
    ChangeStream,
    CollStats,
    DbHash,
    DbStats,
    Find,
    KillCursors,
    ListCollections,
    ListIndexes,
    ListSearchIndexes,
    PlanCacheRead,
];

/// What `readWrite` has beside `read`.
const WRITE: &[Action] = &[
    CompactStructuredEncryptionData,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DropCollection,
    DropIndex,
    DropSearchIndex,
    Insert,
    Remove,
    RenameCollectionSameDb,
    Update,
    UpdateSearchIndex,
];

const DB_ADMIN: &[Action] = &[
    BypassDocumentValidation,
    CollMod,
    CollStats,
    Compact,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DbStats,
    DropCollection,
    DropDatabase,
    DropIndex,
    DropSearchIndex,
    EnableProfiler,
    ListCollections,
    ListIndexes,
    ListSearchIndexes,
    PlanCacheIndexFilter,
    PlanCacheRead,
    PlanCacheWrite,
    ReIndex,
    RenameCollectionSameDb,
    StorageDetails,
    UpdateSearchIndex,
    Validate,
];

/// What `dbAdmin` may do with `system.profile`.
const PROFILE: &[Action] = &[
    ChangeStream,
    CollStats,
    ConvertToCapped,
    CreateCollection,
    DbHash,
    DbStats,
    DropCollection,
    Find,
    KillCursors,
    ListCollections,
    ListIndexes,
    PlanCacheRead,
];

const USER_ADMIN: &[Action] = &[
    ChangeCustomData,
    ChangePassword,
    CreateRole,
    CreateUser,
    DropRole,
    DropUser,
    GrantRole,
    RevokeRole,
    SetAuthenticationRestriction,
    ViewRole,
    ViewUser,
];

const MONITOR_CLUSTER: &[Action] = &[
    CheckFreeMonitoringStatus,
    ConnPoolStats,
    GetCmdLineOpts,
    GetDefaultRwConcern,
    GetLog,
    GetParameter,
    GetShardMap,
    HostInfo,
    Inprog,
    ListDatabases,
    ListSessions,
    ListShards,
    Netstat,
    OperationMetrics,
    ReplSetGetConfig,
    ReplSetGetStatus,
    ServerStatus,
    SetFreeMonitoring,
    ShardingState,
    Top,
    UseUuid,
];

const MONITOR_DATABASE: &[Action] = &[CollStats, DbStats, GetDatabaseVersion, GetShardVersion, IndexStats];

const HOST_MANAGER: &[Action] = &[
    ApplicationMessage,
    AuditConfigure,
    CloseAllDatabases,
    ConnPoolSync,
    DropConnections,
    FlushRouterConfig,
    Fsync,
    InvalidateUserCache,
    KillAnyCursor,
    KillAnySession,
    Killop,
    LogRotate,
    OidReset,
    ReplSetResizeOplog,
    Resync,
    RotateCertificates,
    SetParameter,
    Shutdown,
    Touch,
    Unlock,
];

const CLUSTER_MANAGER: &[Action] = &[
    AddShard,
    AppendOplogNote,
    ApplicationMessage,
    CheckMetadataConsistency,
    CleanupOrphaned,
    FlushRouterConfig,
    GetClusterParameter,
    GetDefaultRwConcern,
    ListSessions,
    ListShards,
    RemoveShard,
    ReplSetConfigure,
    ReplSetGetConfig,
    ReplSetGetStatus,
    ReplSetStateChange,
    Resync,
    SetClusterParameter,
    SetDefaultRwConcern,
    SetFeatureCompatibilityVersion,
    SetFreeMonitoring,
];

const SHARDED_COLLECTIONS: &[Action] = &[
    AnalyzeShardKey,
    ClearJumboFlag,
    EnableSharding,
    MoveChunk,
    RefineCollectionShardKey,
    ReshardCollection,
    SplitChunk,
    SplitVector,
];

/// What `restore` may do with data.
const RESTORE: &[Action] = &[
    BypassDocumentValidation,
    CollMod,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DropCollection,
    Insert,
    UpdateSearchIndex,
];

/// Built-in roles that every database has.
const OF_EVERY_DATABASE: &[&str] =
    &["dbAdmin", "dbOwner", "enableSharding", "read", "readWrite", "userAdmin"];

/// Built-in roles that only `admin` has.
const OF_ADMIN: &[&str] = &[
    "__queryableBackup",
    "__system",
    "backup",
    "clusterAdmin",
    "clusterManager",
    "clusterMonitor",
    "dbAdminAnyDatabase",
    "directShardOperations",
    "hostManager",
    "readAnyDatabase",
    "readWriteAnyDatabase",
    "restore",
    "root",
    "userAdminAnyDatabase",
];

/// The names of the built-in roles of a database, sorted.
pub fn builtin_roles(database: &str) -> Vec<&'static str> {
    let mut names = OF_EVERY_DATABASE.to_vec();
    if database == "admin" {
        names.extend(OF_ADMIN);
        names.sort_unstable();
    }
    names
}

/// Whether a database has a built-in role of this name.
pub fn is_builtin(role: &RoleName) -> bool {
    let (name, is_admin) = (role.role.as_str(), role.database == "admin");
    OF_EVERY_DATABASE.contains(&name) || is_admin && OF_ADMIN.contains(&name)
}

/// The privileges of a built-in role; `None` where there is none of this name.
pub fn builtin_privileges(role: &RoleName) -> Option<Vec<Privilege>> {
    if !is_builtin(role) {
        return None;
    }
    let mut privileges = Collected::default();
    privileges.add_role(&role.role, &role.database);
    Some(privileges.0)
}

#[derive(Default)]
struct Collected(Vec<Privilege>);

impl Collected {
    fn add(&mut self, resource: On, actions: &[Action]) {
        add_privilege(&mut self.0, &Privilege::new(resource, actions));
    }

    fn add_role(&mut self, role: &str, database: &str) {
        match role {
            "read" => self.read(database),
            "readWrite" => self.read_write(database),
            "dbAdmin" => self.db_admin(database),
            "userAdmin" => self.add(On::Database(database.into()), USER_ADMIN),
            "dbOwner" => {
                self.read_write(database);
                self.db_admin(database);
                self.add(On::Database(database.into()), USER_ADMIN);
            }
            "enableSharding" => self.add(
                On::AnyNormal,
                &[AnalyzeShardKey, EnableSharding, RefineCollectionShardKey, ReshardCollection],
            ),
            "readAnyDatabase" => self.read_any(),
            "readWriteAnyDatabase" => self.read_write_any(),
            "userAdminAnyDatabase" => self.user_admin_any(),
            "dbAdminAnyDatabase" => self.db_admin_any(),
            "clusterMonitor" => self.cluster_monitor(),
            "hostManager" => self.host_manager(),
            "clusterManager" => self.cluster_manager(),
            "clusterAdmin" => self.cluster_admin(),
            "__queryableBackup" => self.queryable_backup(),
            "backup" => self.backup(),
            "directShardOperations" => self.add(On::Cluster, &[IssueDirectShardOperations]),
            "restore" => self.restore(),
            "root" => self.root(),
            "__system" => self.add(On::AnyResource, &[AnyAction]),
            other => unreachable!("{other} is in the lists of built-in roles"),
        }
    }

    fn read(&mut self, database: &str) {
        self.add(On::Database(database.into()), READ);
        self.add(On::Collection(database.into(), "system.js".into()), READ);
    }

    fn read_write(&mut self, database: &str) {
        self.read(database);
        self.add(On::Database(database.into()), WRITE);
        self.add(On::Collection(database.into(), "system.js".into()), WRITE);
    }

    fn db_admin(&mut self, database: &str) {
        self.add(On::Database(database.into()), DB_ADMIN);
        self.add(On::Collection(database.into(), "system.profile".into()), PROFILE);
    }

    fn read_any(&mut self) {
        self.add(On::AnyNormal, READ);
        self.add(On::Cluster, &[ListDatabases]);
        self.add(On::CollectionName("system.js".into()), READ);
    }

    fn read_write_any(&mut self) {
        self.read_any();
        self.add(On::AnyNormal, WRITE);
        self.add(On::CollectionName("system.js".into()), WRITE);
    }

    fn user_admin_any(&mut self) {
        self.add(On::AnyNormal, USER_ADMIN);
        self.add(On::AnyNormal, &[ListCachedAndActiveUsers]);
        self.add(On::Database("local".into()), USER_ADMIN);
        self.add(On::Database("config".into()), USER_ADMIN);
        self.add(On::Cluster, &[AuthSchemaUpgrade, InvalidateUserCache, ListDatabases, ViewUser]);
        for name in ["system.users", "system.roles"] {
            let collection = On::Collection("admin".into(), name.into());
            self.add(collection.clone(), READ);
            self.add(collection, &[CreateIndex, CreateSearchIndexes, DropIndex, DropSearchIndex]);
        }
        self.add(On::CollectionName("system.users".into()), READ);
        self.add(On::Collection("admin".into(), "system.backup_users".into()), READ);
        self.add(On::Collection("admin".into(), "system.version".into()), READ);
    }

    fn db_admin_any(&mut self) {
        self.add(On::AnyNormal, DB_ADMIN);
        self.add(On::Cluster, &[ApplyOps, ListDatabases]);
        self.add(On::CollectionName("system.profile".into()), PROFILE);
    }

    fn cluster_monitor(&mut self) {
        self.add(On::Cluster, MONITOR_CLUSTER);
        self.add(On::AnyNormal, MONITOR_DATABASE);
        self.add(On::Database("config".into()), MONITOR_DATABASE);
        self.add(On::Database("config".into()), READ);
        self.add(On::Database("local".into()), MONITOR_DATABASE);
        self.add(On::Database("local".into()), READ);
        for database in ["config", "local"] {
            self.add(On::Collection(database.into(), "system.js".into()), READ);
        }
        self.add(On::Collection("config".into(), "system.sessions".into()), MONITOR_DATABASE);
        self.add(On::Collection("local".into(), "system.replset".into()), &[Find]);
        self.add(On::CollectionName("system.profile".into()), &[Find]);
    }

    fn host_manager(&mut self) {
        self.add(On::Cluster, HOST_MANAGER);
        self.add(On::AnyNormal, &[KillCursors, KillAnyCursor]);
    }

    fn cluster_manager(&mut self) {
        self.add(On::Cluster, CLUSTER_MANAGER);
        self.add(On::AnyNormal, SHARDED_COLLECTIONS);
        self.read("config");
        for database in ["config", "local"] {
            self.add(On::Database(database.into()), SHARDED_COLLECTIONS);
            self.add(On::Database(database.into()), &[Insert, Remove, Update]);
        }
        for name in ["system.healthlog", "system.replset"] {
            self.add(On::Collection("local".into(), name.into()), READ);
        }
    }

    fn cluster_admin(&mut self) {
        self.cluster_monitor();
        self.host_manager();
        self.cluster_manager();
        self.add(On::AnyNormal, &[DropDatabase]);
    }

    fn queryable_backup(&mut self) {
        self.add(On::AnyResource, &[CollStats, ListCollections, ListIndexes, ListSearchIndexes]);
        self.add(On::AnyNormal, &[Find]);
        self.add(On::Cluster, &[GetParameter, ListDatabases, UseUuid]);
        for database in ["config", "local"] {
            self.add(On::Database(database.into()), &[Find]);
        }
        for name in ["system.js", "system.profile", "system.users"] {
            self.add(On::CollectionName(name.into()), &[Find]);
        }
        for name in ["system.backup_users", "system.roles", "system.version"] {
            self.add(On::Collection("admin".into(), name.into()), &[Find]);
        }
    }

    fn backup(&mut self) {
        self.queryable_backup();
        self.add(On::Cluster, &[AppendOplogNote, ServerStatus, SetUserWriteBlockMode]);
        self.add(On::Collection("config".into(), "settings".into()), &[Insert, Update]);
    }

    fn restore(&mut self) {
        self.add(On::AnyNormal, RESTORE);
        self.add(On::AnyNormal, USER_ADMIN);
        self.add(On::AnyResource, &[ListCollections]);
        self.add(On::Cluster, &[ApplyOps, ForceUuid, GetParameter, SetUserWriteBlockMode, UseUuid]);
        self.add(On::CollectionName("system.js".into()), RESTORE);
        for database in ["config", "local"] {
            self.add(On::Database(database.into()), RESTORE);
        }
        self.add(On::Collection("local".into(), "system.replset".into()), RESTORE);
        self.add(On::CollectionName("system.users".into()), RESTORE);
        self.add(On::CollectionName("system.users".into()), &[Find, Remove, Update]);
        for name in ["system.backup_users", "system.version"] {
            self.add(On::Collection("admin".into(), name.into()), RESTORE);
        }
        self.add(On::Collection("admin".into(), "system.roles".into()), &[CreateIndex]);
        for name in ["system.version", "tempusers", "temproles"] {
            self.add(On::Collection("admin".into(), name.into()), &[Find]);
        }
    }

    fn root(&mut self) {
        self.cluster_admin();
        self.user_admin_any();
        self.db_admin_any();
        self.read_write_any();
        self.backup();
        self.restore();
        self.add(On::AnyResource, &[Validate]);
        self.add(On::Cluster, &[IssueDirectShardOperations]);
        // Internal collections of the server are nobody's but its own; what is left over can be seen and
        // removed.
        for name in ["system.views", "system.sessions"] {
            self.add(On::CollectionName(name.into()), READ);
        }
    }
}
