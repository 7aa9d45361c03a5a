//! The commands of a node with documents: one file per command, one row per file, sorted by name.

use crate::server::DataNode;
use dispatch::OnSecondary;
use dispatch::command::{Execution, TimeLimit, build_info, host_info};

type Command = dispatch::command::Command<DataNode>;
type Run = dispatch::command::Run<DataNode>;

mod access;
mod aggregate;
mod apply_ops;
mod backup;
mod calendar;
mod coll_mod;
pub(crate) mod coll_stats;
mod compact;
mod count;
mod create;
mod create_indexes;
mod data_size;
mod db_hash;
mod db_stats;
mod delete;
mod distinct;
mod drop;
mod drop_database;
mod drop_indexes;
mod explain;
mod feature_version;
mod find;
mod find_and_modify;
mod fsync;
mod get_diagnostic_data;
mod insert;
mod list_collections;
mod list_databases;
mod list_indexes;
mod lock_info;
mod plan_cache;
mod profile;
mod re_index;
mod rename_collection;
mod repl_set;
mod repl_set_internal;
mod rw_concern;
mod server_status;
mod transactions;
mod update;
mod validate;
mod validate_db_metadata;

pub(crate) use repl_set::copy_operation;
pub(crate) use rw_concern::load as load_default_concerns;

/// Every command that needs the documents, sorted by name.
pub(crate) static COMMANDS: &[&Command] = &[
    &repl_set_internal::CONSENSUS,
    &repl_set::COPY,
    &repl_set_internal::IS_SELF,
    &access::MERGE_AUTHORIZATION,
    &transactions::ABORT,
    &aggregate::COMMAND,
    &repl_set::APPEND_NOTE,
    &apply_ops::COMMAND,
    &coll_mod::COMMAND,
    &coll_stats::COMMAND,
    &transactions::COMMIT,
    &compact::COMMAND,
    &count::COMMAND,
    &create::COMMAND,
    &create_indexes::COMMAND,
    &data_size::COMMAND,
    &db_hash::COMMAND,
    &db_stats::COMMAND,
    &delete::COMMAND,
    &distinct::COMMAND,
    &drop::COMMAND,
    &access::CREATE_ROLE,
    &access::CREATE_USER,
    &access::DROP_ALL_ROLES,
    &access::DROP_ALL_USERS,
    &drop_database::COMMAND,
    &drop_indexes::COMMAND,
    &access::DROP_ROLE,
    &access::DROP_USER,
    &explain::COMMAND,
    &find::COMMAND,
    &find_and_modify::COMMAND,
    &fsync::COMMAND,
    &calendar::GET,
    &rw_concern::GET,
    &get_diagnostic_data::COMMAND,
    &access::GRANT_PRIVILEGES,
    &access::GRANT_ROLES_TO_ROLE,
    &access::GRANT_ROLES_TO_USER,
    &backup::COMMAND,
    &insert::COMMAND,
    &list_collections::COMMAND,
    &list_databases::COMMAND,
    &list_indexes::COMMAND,
    &lock_info::COMMAND,
    &plan_cache::CLEAR,
    &plan_cache::CLEAR_FILTERS,
    &plan_cache::LIST_FILTERS,
    &profile::COMMAND,
    &re_index::COMMAND,
    &rename_collection::COMMAND,
    &repl_set::ABORT_CATCH_UP,
    &repl_set::FREEZE,
    &repl_set::GET_CONFIG,
    &repl_set::GET_RBID,
    &repl_set::GET_STATUS,
    &repl_set_internal::HEARTBEAT,
    &repl_set::INITIATE,
    &repl_set::MAINTENANCE,
    &repl_set::RECONFIG,
    &repl_set::RESIZE_OPLOG,
    &repl_set::STEP_DOWN,
    &repl_set::STEP_UP,
    &repl_set::SYNC_FROM,
    &access::REVOKE_PRIVILEGES,
    &access::REVOKE_ROLES_FROM_ROLE,
    &access::REVOKE_ROLES_FROM_USER,
    &access::ROLES_INFO,
    &server_status::COMMAND,
    &calendar::SET,
    &rw_concern::SET,
    &feature_version::COMMAND,
    &update::COMMAND,
    &access::UPDATE_ROLE,
    &access::UPDATE_USER,
    &access::USERS_INFO,
    &validate::COMMAND,
    &validate_db_metadata::COMMAND,
];

#[cfg(test)]
mod tests {
    use super::*;
    use dispatch::command::CommandTable;

    /// Whoever adds a command says here whether a secondary answers it.
    fn expected(name: &str) -> OnSecondary {
        match name {
            "abortTransaction"
            | "appendOplogNote"
            | "collMod"
            | "commitTransaction"
            | "create"
            | "createIndexes"
            | "createRole"
            | "createUser"
            | "delete"
            | "applyOps"
            | "drop"
            | "dropAllRolesFromDatabase"
            | "dropAllUsersFromDatabase"
            | "dropDatabase"
            | "dropIndexes"
            | "dropRole"
            | "dropUser"
            | "findAndModify"
            | "grantPrivilegesToRole"
            | "grantRolesToRole"
            | "grantRolesToUser"
            | "insert"
            | "renameCollection"
            | "revokePrivilegesFromRole"
            | "revokeRolesFromRole"
            | "revokeRolesFromUser"
            | "setCalendar"
            | "setDefaultRWConcern"
            | "setFeatureCompatibilityVersion"
            | "update"
            | "updateRole"
            | "updateUser" => OnSecondary::Never,
            "aggregate"
            | "collStats"
            | "count"
            | "dataSize"
            | "dbStats"
            | "distinct"
            | "explain"
            | "find"
            | "listCollections"
            | "listDatabases"
            | "listIndexes"
            | "planCacheClear"
            | "planCacheClearFilters"
            | "planCacheListFilters"
            | "rolesInfo"
            | "usersInfo" => OnSecondary::IfAllowed,
            "authenticate"
            | "buildInfo"
            | "compact"
            | "configureFailPoint"
            | "connPoolStats"
            | "connectionStatus"
            | "currentOp"
            | "dbHash"
            | "endSessions"
            | "features"
            | "fsync"
            | "getCmdLineOpts"
            | "getCalendar"
            | "getDefaultRWConcern"
            | "getDiagnosticData"
            | "getLog"
            | "getMore"
            | "getParameter"
            | "hello"
            | "heddleBackup"
            | "hostInfo"
            | "isMaster"
            | "killAllSessions"
            | "killAllSessionsByPattern"
            | "killCursors"
            | "killOp"
            | "killSessions"
            | "listCommands"
            | "lockInfo"
            | "logApplicationMessage"
            | "logRotate"
            | "logout"
            | "ping"
            | "profile"
            | "reIndex"
            | "refreshSessions"
            | "replSetAbortPrimaryCatchUp"
            | "replSetFreeze"
            | "replSetHeartbeat"
            | "_heddleConsensus"
            | "replSetGetConfig"
            | "replSetGetRBID"
            | "replSetGetStatus"
            | "_heddleCopy"
            | "_isSelf"
            | "replSetInitiate"
            | "replSetMaintenance"
            | "replSetReconfig"
            | "replSetResizeOplog"
            | "replSetStepDown"
            | "replSetStepUp"
            | "replSetSyncFrom"
            | "rotateCertificates"
            | "saslContinue"
            | "saslStart"
            | "serverStatus"
            | "setParameter"
            | "shutdown"
            | "startSession"
            | "top"
            | "validate"
            | "validateDBMetadata"
            | "waitForFailPoint"
            | "whatsmyuri" => OnSecondary::Always,
            name => panic!("{name}: does a secondary answer it?"),
        }
    }

    /// What has no row is refused to everybody but members, and nobody would notice for which reason.
    #[test]
    fn it_is_known_of_every_command_what_it_needs() {
        let table = CommandTable::<DataNode>::of_node();
        let missing: Vec<_> = table
            .iter()
            .map(|command| command.name)
            .filter(|name| ::access::requirement_of(name).is_none())
            .collect();
        assert_eq!(missing, [""; 0], "say in crates/access/src/requirement/table.rs what these need");
        let gone: Vec<_> = ::access::requirements()
            .map(|(name, _)| name)
            .filter(|name| table.get(name.as_bytes()).is_none())
            .collect();
        assert_eq!(gone, [""; 0], "rows of commands that do not exist");
    }

    #[test]
    fn it_is_known_of_every_command_whether_a_secondary_answers_it() {
        for command in CommandTable::<DataNode>::of_node().iter() {
            if command.name.starts_with("test") {
                continue;
            }
            assert_eq!(command.on_secondary, expected(command.name), "{}", command.name);
            assert!(
                !command.takes_write_concern || command.on_secondary != OnSecondary::Always,
                "{} writes, but a secondary would answer it",
                command.name
            );
        }
    }
}
