//! The rows.
//!
//! Source: MongoDB manual 7.0, "Privilege Actions" and each command's "Required Access".

use super::Requirement::{self, Asked, Cluster, Collection, Database, Everything, Login, Nothing};
use super::{pipeline, users, writes};
use crate::action::Action as A;

/// Sorted by name.
const ROWS: &[(&str, Requirement)] = &[
    ("_heddleConsensus", Everything),
    ("_heddleCopy", Everything),
    ("_isSelf", Nothing),
    ("_mergeAuthzCollections", Asked(users::merge)),
    ("abortTransaction", Login),
    ("aggregate", Asked(pipeline::aggregate)),
    ("appendOplogNote", Cluster(&[A::AppendOplogNote])),
    ("applyOps", Everything),
    ("authenticate", Nothing),
    ("buildInfo", Nothing),
    ("collMod", Asked(writes::coll_mod)),
    ("collStats", Collection(A::CollStats)),
    ("commitTransaction", Login),
    ("compact", Collection(A::Compact)),
    ("configureFailPoint", Cluster(&[A::SetParameter])),
    ("connPoolStats", Cluster(&[A::ConnPoolStats])),
    ("connectionStatus", Nothing),
    ("count", Collection(A::Find)),
    ("create", Asked(writes::create)),
    ("createIndexes", Collection(A::CreateIndex)),
    ("createRole", Asked(users::create_role)),
    ("createUser", Asked(users::create_user)),
    ("currentOp", Asked(users::current_op)),
    ("dataSize", Asked(writes::data_size)),
    ("dbHash", Database(A::DbHash)),
    ("dbStats", Database(A::DbStats)),
    ("delete", Collection(A::Remove)),
    ("distinct", Collection(A::Find)),
    ("drop", Collection(A::DropCollection)),
    ("dropAllRolesFromDatabase", Database(A::DropRole)),
    ("dropAllUsersFromDatabase", Database(A::DropUser)),
    ("dropDatabase", Database(A::DropDatabase)),
    ("dropIndexes", Collection(A::DropIndex)),
    ("dropRole", Database(A::DropRole)),
    ("dropUser", Database(A::DropUser)),
    ("endSessions", Login),
    ("explain", Asked(writes::explain)),
    ("features", Login),
    ("find", Collection(A::Find)),
    ("findAndModify", Asked(writes::find_and_modify)),
    ("fsync", Cluster(&[A::Fsync])),
    ("getCalendar", Cluster(&[A::ServerStatus])),
    ("getCmdLineOpts", Cluster(&[A::GetCmdLineOpts])),
    ("getDefaultRWConcern", Cluster(&[A::GetDefaultRwConcern])),
    ("getDiagnosticData", Cluster(&[A::ServerStatus, A::ReplSetGetStatus, A::ConnPoolStats])),
    ("getLog", Cluster(&[A::GetLog])),
    // The cursor knows whose it is.
    ("getMore", Login),
    ("getParameter", Cluster(&[A::GetParameter])),
    ("grantPrivilegesToRole", Asked(users::grant_privileges)),
    ("grantRolesToRole", Asked(users::grant_roles)),
    ("grantRolesToUser", Asked(users::grant_roles)),
    ("heddleBackup", Asked(writes::backup)),
    ("hello", Nothing),
    ("hostInfo", Cluster(&[A::HostInfo])),
    ("insert", Asked(writes::insert)),
    ("isMaster", Nothing),
    ("killAllSessions", Cluster(&[A::KillAnySession])),
    ("killAllSessionsByPattern", Cluster(&[A::KillAnySession])),
    // It asks for each cursor.
    ("killCursors", Login),
    // It asks whose operation it is.
    ("killOp", Login),
    ("killSessions", Login),
    // Both show what may be seen.
    ("listCollections", Asked(users::list_collections)),
    ("listCommands", Nothing),
    ("listDatabases", Asked(users::list_databases)),
    ("listIndexes", Collection(A::ListIndexes)),
    ("lockInfo", Cluster(&[A::ServerStatus])),
    ("logApplicationMessage", Cluster(&[A::ApplicationMessage])),
    ("logRotate", Cluster(&[A::LogRotate])),
    ("logout", Nothing),
    ("ping", Nothing),
    ("planCacheClear", Collection(A::PlanCacheWrite)),
    ("planCacheClearFilters", Collection(A::PlanCacheIndexFilter)),
    ("planCacheListFilters", Collection(A::PlanCacheIndexFilter)),
    ("profile", Asked(users::profile)),
    ("reIndex", Collection(A::ReIndex)),
    ("refreshSessions", Login),
    ("renameCollection", Asked(writes::rename)),
    ("replSetAbortPrimaryCatchUp", Cluster(&[A::ReplSetStateChange])),
    ("replSetFreeze", Cluster(&[A::ReplSetStateChange])),
    ("replSetGetConfig", Cluster(&[A::ReplSetGetConfig])),
    ("replSetGetRBID", Everything),
    ("replSetGetStatus", Cluster(&[A::ReplSetGetStatus])),
    ("replSetHeartbeat", Everything),
    ("replSetInitiate", Cluster(&[A::ReplSetConfigure])),
    ("replSetMaintenance", Cluster(&[A::ReplSetStateChange])),
    ("replSetReconfig", Cluster(&[A::ReplSetConfigure])),
    ("replSetResizeOplog", Cluster(&[A::ReplSetResizeOplog])),
    ("replSetStepDown", Cluster(&[A::ReplSetStateChange])),
    ("replSetStepUp", Cluster(&[A::ReplSetStateChange])),
    ("replSetSyncFrom", Cluster(&[A::ReplSetStateChange])),
    ("revokePrivilegesFromRole", Asked(users::revoke_privileges)),
    ("revokeRolesFromRole", Asked(users::revoke_roles)),
    ("revokeRolesFromUser", Asked(users::revoke_roles)),
    ("rolesInfo", Asked(users::roles_info)),
    ("rotateCertificates", Cluster(&[A::RotateCertificates])),
    ("saslContinue", Nothing),
    ("saslStart", Nothing),
    ("serverStatus", Cluster(&[A::ServerStatus])),
    ("setCalendar", Cluster(&[A::SetParameter])),
    ("setDefaultRWConcern", Cluster(&[A::SetDefaultRwConcern])),
    ("setFeatureCompatibilityVersion", Cluster(&[A::SetFeatureCompatibilityVersion])),
    ("setParameter", Cluster(&[A::SetParameter])),
    ("shutdown", Cluster(&[A::Shutdown])),
    ("startSession", Login),
    ("testDeprecation", Login),
    ("testDeprecationInVersion2", Login),
    ("testRemoval", Login),
    ("testVersion2", Login),
    ("testVersions1And2", Login),
    ("top", Cluster(&[A::Top])),
    ("update", Asked(writes::update)),
    ("updateRole", Asked(users::update_role)),
    ("updateUser", Asked(users::update_user)),
    ("usersInfo", Asked(users::users_info)),
    ("validate", Collection(A::Validate)),
    ("validateDBMetadata", Database(A::Validate)),
    ("waitForFailPoint", Cluster(&[A::SetParameter])),
    ("whatsmyuri", Nothing),
];

/// Every command that there is a row for.
pub fn requirements() -> impl Iterator<Item = (&'static str, &'static Requirement)> {
    ROWS.iter().map(|(name, requirement)| (*name, requirement))
}

/// What a command needs, by its canonical name. `None` where nobody has said.
pub fn requirement_of(name: &str) -> Option<&'static Requirement> {
    let found = ROWS.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
    ROWS.get(found).map(|(_, requirement)| requirement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_name() {
        for (name, _) in ROWS {
            assert!(requirement_of(name).is_some(), "{name} is not in its place");
        }
        assert!(requirement_of("nonsense").is_none());
    }
}
