//! What a privilege allows to do.
//!
//! Source: MongoDB manual 7.0, "Privilege Actions".

use std::fmt;

macro_rules! actions {
    ($($name:ident $text:literal)*) => {
        /// Something that a privilege allows.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the names are the manual's own")]
        #[repr(u8)]
        pub enum Action { $($name,)* }

        /// Every action and its name.
        const ACTIONS: &[(Action, &str)] = &[$((Action::$name, $text),)*];
    };
}

actions! {
    AddShard "addShard"
    AnalyzeShardKey "analyzeShardKey"
    AnyAction "anyAction"
    AppendOplogNote "appendOplogNote"
    ApplicationMessage "applicationMessage"
    ApplyOps "applyOps"
    AuditConfigure "auditConfigure"
    AuthSchemaUpgrade "authSchemaUpgrade"
    BypassDocumentValidation "bypassDocumentValidation"
    ChangeCustomData "changeCustomData"
    ChangeOwnCustomData "changeOwnCustomData"
    ChangeOwnPassword "changeOwnPassword"
    ChangePassword "changePassword"
    ChangeStream "changeStream"
    CheckFreeMonitoringStatus "checkFreeMonitoringStatus"
    CheckMetadataConsistency "checkMetadataConsistency"
    CleanupOrphaned "cleanupOrphaned"
    ClearJumboFlag "clearJumboFlag"
    CloseAllDatabases "closeAllDatabases"
    CollMod "collMod"
    CollStats "collStats"
    Compact "compact"
    CompactStructuredEncryptionData "compactStructuredEncryptionData"
    ConnPoolStats "connPoolStats"
    ConnPoolSync "connPoolSync"
    ConvertToCapped "convertToCapped"
    CpuProfiler "cpuProfiler"
    CreateCollection "createCollection"
    CreateIndex "createIndex"
    CreateRole "createRole"
    CreateSearchIndexes "createSearchIndexes"
    CreateUser "createUser"
    DbHash "dbHash"
    DbStats "dbStats"
    DropCollection "dropCollection"
    DropConnections "dropConnections"
    DropDatabase "dropDatabase"
    DropIndex "dropIndex"
    DropRole "dropRole"
    DropSearchIndex "dropSearchIndex"
    DropUser "dropUser"
    EnableProfiler "enableProfiler"
    EnableSharding "enableSharding"
    Find "find"
    FlushRouterConfig "flushRouterConfig"
    ForceUuid "forceUUID"
    Fsync "fsync"
    GetClusterParameter "getClusterParameter"
    GetCmdLineOpts "getCmdLineOpts"
    GetDatabaseVersion "getDatabaseVersion"
    GetDefaultRwConcern "getDefaultRWConcern"
    GetLog "getLog"
    GetParameter "getParameter"
    GetShardMap "getShardMap"
    GetShardVersion "getShardVersion"
    GrantRole "grantRole"
    HostInfo "hostInfo"
    ImpersonateUser "impersonate"
    IndexStats "indexStats"
    Inprog "inprog"
    Insert "insert"
    Internal "internal"
    InvalidateUserCache "invalidateUserCache"
    IssueDirectShardOperations "issueDirectShardOperations"
    KillAnyCursor "killAnyCursor"
    KillAnySession "killAnySession"
    KillCursors "killCursors"
    Killop "killop"
    ListCachedAndActiveUsers "listCachedAndActiveUsers"
    ListClusterCatalog "listClusterCatalog"
    ListCollections "listCollections"
    ListDatabases "listDatabases"
    ListIndexes "listIndexes"
    ListSearchIndexes "listSearchIndexes"
    ListSessions "listSessions"
    ListShards "listShards"
    LogRotate "logRotate"
    MoveChunk "moveChunk"
    Netstat "netstat"
    OidReset "oidReset"
    OpenCursors "openCursors"
    OperationMetrics "operationMetrics"
    PlanCacheIndexFilter "planCacheIndexFilter"
    PlanCacheRead "planCacheRead"
    PlanCacheWrite "planCacheWrite"
    RefineCollectionShardKey "refineCollectionShardKey"
    ReIndex "reIndex"
    Remove "remove"
    RemoveShard "removeShard"
    RenameCollection "renameCollection"
    RenameCollectionSameDb "renameCollectionSameDB"
    ReplSetConfigure "replSetConfigure"
    ReplSetGetConfig "replSetGetConfig"
    ReplSetGetStatus "replSetGetStatus"
    ReplSetHeartbeat "replSetHeartbeat"
    ReplSetResizeOplog "replSetResizeOplog"
    ReplSetStateChange "replSetStateChange"
    ReshardCollection "reshardCollection"
    Resync "resync"
    RevokeRole "revokeRole"
    RotateCertificates "rotateCertificates"
    RunAsLessPrivilegedUser "runAsLessPrivilegedUser"
    RunTenantMigration "runTenantMigration"
    ServerStatus "serverStatus"
    SetAuthenticationRestriction "setAuthenticationRestriction"
    SetClusterParameter "setClusterParameter"
    SetDefaultRwConcern "setDefaultRWConcern"
    SetFeatureCompatibilityVersion "setFeatureCompatibilityVersion"
    SetFreeMonitoring "setFreeMonitoring"
    SetParameter "setParameter"
    SetUserWriteBlockMode "setUserWriteBlockMode"
    ShardingState "shardingState"
    Shutdown "shutdown"
    SplitChunk "splitChunk"
    SplitVector "splitVector"
    StorageDetails "storageDetails"
    Top "top"
    Touch "touch"
    Trafficrecord "trafficRecord"
    Unlock "unlock"
    Update "update"
    UpdateSearchIndex "updateSearchIndex"
    UseUuid "useUUID"
    Validate "validate"
    ViewRole "viewRole"
    ViewUser "viewUser"
}

impl Action {
    /// The manual's name.
    pub fn name(self) -> &'static str {
        ACTIONS.get(self as usize).map_or("", |(_, name)| name)
    }

    /// The action of this name.
    pub fn by_name(name: &str) -> Option<Action> {
        ACTIONS.iter().find(|(_, known)| *known == name).map(|(action, _)| *action)
    }
}

const WORDS: usize = 3;
const _: () = assert!(ACTIONS.len() <= 64 * WORDS, "a bit for each action");

/// A set of actions. Whoever has `anyAction` has them all.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct ActionSet([u64; WORDS]);

impl ActionSet {
    /// None.
    pub const NONE: ActionSet = ActionSet([0; WORDS]);

    /// These.
    pub fn of(actions: &[Action]) -> Self {
        actions.iter().copied().collect()
    }

    /// Adds one.
    pub fn add(&mut self, action: Action) {
        if let Some(word) = self.0.get_mut(action as usize / 64) {
            *word |= 1 << (action as usize % 64);
        }
    }

    /// Adds all of another set.
    pub fn add_all(&mut self, other: ActionSet) {
        self.0.iter_mut().zip(other.0).for_each(|(word, more)| *word |= more);
    }

    /// Takes out all of another set.
    pub fn remove_all(&mut self, other: ActionSet) {
        self.0.iter_mut().zip(other.0).for_each(|(word, less)| *word &= !less);
    }

    const fn has(self, action: Action) -> bool {
        let [first, second, third] = self.0;
        let word = match action as usize / 64 {
            0 => first,
            1 => second,
            _ => third,
        };
        word & (1 << (action as usize % 64)) != 0
    }

    /// Whether it is one of them.
    #[inline]
    pub const fn contains(self, action: Action) -> bool {
        self.has(action) || self.has(Action::AnyAction)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self == ActionSet::NONE
    }

    /// Those in it, in the order of their names.
    pub fn iter(self) -> impl Iterator<Item = Action> {
        ACTIONS.iter().map(|(action, _)| *action).filter(move |action| self.has(*action))
    }
}

impl FromIterator<Action> for ActionSet {
    fn from_iter<I: IntoIterator<Item = Action>>(actions: I) -> Self {
        let mut set = ActionSet::NONE;
        actions.into_iter().for_each(|action| set.add(action));
        set
    }
}

impl fmt::Debug for ActionSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.iter().map(Action::name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_action_has_its_own_bit_and_name() {
        for (position, (action, name)) in ACTIONS.iter().enumerate() {
            assert_eq!(*action as usize, position, "{name}");
            assert_eq!(Action::by_name(name), Some(*action), "{name}");
            let alone = ActionSet::of(&[*action]);
            assert_eq!(alone.iter().map(Action::name).collect::<Vec<_>>(), [*name]);
            assert_eq!(
                ACTIONS.iter().filter(|(other, _)| alone.contains(*other)).count(),
                if *name == "anyAction" { ACTIONS.len() } else { 1 },
                "{name}"
            );
        }
    }
}
