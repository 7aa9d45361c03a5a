//! What a member of a replica set answers, as what it is at the moment.

use crate::command::Command;
use crate::error::{CommandError, CommandResult};
use crate::generic::GenericArguments;
use crate::node::Node;
use document::{Document, DocumentBuilder, RawDocument, RawValue, Timestamp, doc};
use wire::ErrorCode;

/// What a member of a set does for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It takes writes.
    Primary,
    /// It answers reads of those who allow it.
    Secondary,
    /// Neither: it has no configuration, or not the data yet.
    Other,
}

/// Whether a member that is not the primary answers a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnSecondary {
    /// It is about this very server.
    Always,
    /// A read, of those whose read preference allows it.
    IfAllowed,
    /// A write, or else the primary's.
    Never,
}

/// The database that is each member's own: it is read and written whatever the member is.
pub(crate) const OWN_DATABASE: &str = "local";

/// Refuses what a member in this role does not answer.
pub(crate) fn admit<N: Node>(
    command: &Command<N>,
    role: Role,
    database: &str,
    generic: &GenericArguments<'_>,
) -> CommandResult {
    if role == Role::Primary || database == OWN_DATABASE || generic.help {
        return Ok(());
    }
    let (code, message) = match command.on_secondary {
        OnSecondary::Always => return Ok(()),
        OnSecondary::Never => (ErrorCode::NotWritablePrimary, "not primary"),
        OnSecondary::IfAllowed if !generic.allows_secondary => {
            (ErrorCode::NotPrimaryNoSecondaryOk, "not primary and secondaryOk=false")
        }
        OnSecondary::IfAllowed if role == Role::Secondary => return Ok(()),
        OnSecondary::IfAllowed => {
            (ErrorCode::NotPrimaryOrSecondary, "node is not in primary or recovering state")
        }
    };
    Err(CommandError::new(code as i32, message))
}

/// Whether an error tells that the server is not what the client takes it for, or stops.
pub(crate) fn is_change_of_state(code: i32) -> bool {
    use ErrorCode as E;
    matches!(
        E::from_code(code),
        Some(
            E::ShutdownInProgress
                | E::PrimarySteppedDown
                | E::LegacyNotPrimary
                | E::NotWritablePrimary
                | E::InterruptedAtShutdown
                | E::InterruptedDueToReplStateChange
                | E::NotPrimaryNoSecondaryOk
                | E::NotPrimaryOrSecondary
        )
    )
}

/// `topologyVersion`, which tells clients whether what an error says is news.
pub(crate) fn topology_version<N: Node>(server: &crate::ServiceContext<N>) -> Document {
    let counter = server.node.topology_counter();
    doc! { "topologyVersion": { "processId": (server.process_id), "counter": counter } }
}

/// The times that a member tells in every reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyTimes {
    /// `$clusterTime`: the latest time that it has heard of.
    pub cluster: Timestamp,
    /// `operationTime`: of the latest operation that the command can have done or seen.
    pub operation: Timestamp,
}

impl ReplyTimes {
    /// Without keys nothing is signed: clients hand the signature on as it is.
    pub(crate) fn append_to(self, reply: &mut DocumentBuilder<'_>) {
        let mut time = reply.start_document("$clusterTime");
        time.append("clusterTime", RawValue::Timestamp(self.cluster));
        let mut signature = time.start_document("signature");
        signature.append("hash", RawValue::Binary { subtype: 0, bytes: &[0; 20] }).append("keyId", 0_i64);
        signature.finish();
        time.finish();
        reply.append("operationTime", RawValue::Timestamp(self.operation));
    }
}

/// `clusterTime` in a request's `$clusterTime`.
pub(crate) fn cluster_time(gossip: RawDocument<'_>) -> CommandResult<Timestamp> {
    match gossip.get("clusterTime") {
        Some(RawValue::Timestamp(time)) => Ok(time),
        Some(other) => {
            Err(crate::fields::wrong_type("$clusterTime", "clusterTime", other.kind(), &["timestamp"]))
        }
        None => Err(CommandError::new(ErrorCode::NoSuchKey as i32, "Missing expected field \"clusterTime\"")),
    }
}
