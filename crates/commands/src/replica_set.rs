//! What a server with documents does as a member of a replica set: the answers to what dispatch asks of its
//! node.

use crate::error::{CommandError, CommandResult, code};
use catalog::{Receipts, WriteError};
use dispatch::concern::{Provenance, ReadConcern, ReadConcernLevel, W, WriteConcern};
use dispatch::{ReplyTimes, Role};
use document::{Document, DocumentBuilder, RawValue, Timestamp, Value, doc};
use parking_lot::Mutex;
use replication::OpTime;
use replication::set::{Copies, MemberConfig, MemberState, ReplicaSet, SetError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use storage::{ReadSource, Store};
use wire::ErrorCode;

/// The database that every member has for itself.
const OWN_DATABASE: &str = "local";
/// How far from the own clock a time may be that somebody has heard of.
const CLOCK_DRIFT_SECONDS_MAX: u32 = 365 * 24 * 60 * 60;

/// A server as a member of a set.
#[derive(Debug)]
pub(crate) struct SetMember {
    pub(crate) set: ReplicaSet,
    store: Store,
    /// The latest cluster time that somebody has told.
    heard: AtomicU64,
    has_default: AtomicBool,
    /// `setDefaultRWConcern`'s write concern, where it is another than a majority.
    default: Mutex<Option<WriteConcern>>,
}

/// A set's refusal as the error that a client gets.
pub(crate) fn refused(error: SetError) -> CommandError {
    CommandError::new(error.code as i32, error.message)
}

impl SetMember {
    pub(crate) fn new(set: ReplicaSet, store: Store) -> Self {
        SetMember {
            set,
            store,
            heard: AtomicU64::new(0),
            has_default: AtomicBool::new(false),
            default: Mutex::new(None),
        }
    }

    /// What this member is. Who is about to become primary or has just ceased to be one takes no writes.
    #[inline]
    pub(crate) fn role(&self) -> Role {
        if self.set.is_writable() {
            return Role::Primary;
        }
        match self.set.topology().state {
            MemberState::Primary | MemberState::Secondary => Role::Secondary,
            _ => Role::Other,
        }
    }

    /// Whether it takes no writes of clients.
    #[inline]
    pub(crate) fn replays(&self) -> bool {
        !self.set.is_writable()
    }

    /// The last whole batch, for whoever is not the primary.
    #[inline]
    pub(crate) fn source(&self, database: &str) -> Option<ReadSource> {
        if self.set.is_writable() || database == OWN_DATABASE {
            return None;
        }
        self.store.published_view().map(ReadSource::View)
    }

    fn cluster_time(&self) -> Timestamp {
        Timestamp::from_u64(self.heard.load(Ordering::Relaxed)).max(self.set.last_applied().timestamp)
    }

    #[inline]
    pub(crate) fn reply_times(&self) -> Option<ReplyTimes> {
        let operation = self.set.last_applied().timestamp;
        let cluster = Timestamp::from_u64(self.heard.load(Ordering::Relaxed)).max(operation);
        (operation != Timestamp::default()).then_some(ReplyTimes { cluster, operation })
    }

    pub(crate) fn observe_cluster_time(&self, time: Timestamp) -> CommandResult {
        if time.as_u64() <= self.heard.load(Ordering::Relaxed) {
            return Ok(());
        }
        let clock = ambient::since_epoch().as_secs() as u32;
        if time.time > clock.saturating_add(CLOCK_DRIFT_SECONDS_MAX) {
            let message = format!(
                "New cluster time, {}, is too far from this node's wall clock time, {clock}.",
                time.time
            );
            return Err(CommandError::new(ErrorCode::ClusterTimeFailsRateLimiter as i32, message));
        }
        self.heard.fetch_max(time.as_u64(), Ordering::Relaxed);
        Ok(())
    }

    pub(crate) async fn readable(&self, concern: ReadConcern) -> CommandResult {
        let wanted = concern.after.map(|after| ("afterClusterTime", after));
        if let Some((name, time)) = wanted.or(concern.at.map(|at| ("atClusterTime", at))) {
            let current = self.cluster_time();
            if time > current {
                return Err(CommandError::invalid_options(format!(
                    "readConcern {name} value must not be greater than the current clusterTime. Requested \
                     clusterTime: {}; current clusterTime: {}",
                    Value::from(time).quoted(),
                    Value::from(current).quoted()
                )));
            }
            if time > self.set.last_applied().timestamp {
                self.set.reach(time);
            }
            self.set.applied(time).await;
        }
        if concern.level != ReadConcernLevel::Linearizable {
            return Ok(());
        }
        if !self.set.is_writable() {
            let message = "cannot satisfy linearizable read concern on non-primary node";
            return Err(CommandError::new(ErrorCode::NotWritablePrimary as i32, message));
        }
        self.set.read_barrier().await.map_err(refused)
    }

    /// What is applied is on a majority of members, and on their disks: only other copies are waited for.
    pub(crate) fn awaits(&self, concern: Option<&WriteConcern>, database: &str) -> bool {
        if database == OWN_DATABASE {
            return concern.is_some_and(WriteConcern::is_journaled);
        }
        match concern.map(|concern| &concern.w) {
            None | Some(None) => self.has_default.load(Ordering::Relaxed),
            Some(Some(w)) => copies(w).is_some(),
        }
    }

    pub(crate) async fn acknowledged(
        &self,
        receipts: &Receipts,
        concern: &WriteConcern,
        database: &str,
    ) -> CommandResult {
        if database == OWN_DATABASE {
            return journaled(receipts, &self.store).await;
        }
        let Some(copies) = concern.w.as_ref().and_then(copies) else { return Ok(()) };
        let topology = self.set.topology();
        let config = topology.config.as_ref();
        config.map_or(Ok(()), |config| config.check_copies(&copies)).map_err(refused)?;
        // What was written, and what the answer rests on, is applied by now.
        self.set.replicated(self.set.last_applied(), &copies).await.map_err(refused)
    }

    pub(crate) fn complete(&self, concern: WriteConcern) -> WriteConcern {
        if concern.w.is_some() {
            return concern;
        }
        match &*self.default.lock() {
            Some(default) => WriteConcern {
                w: default.w.clone(),
                timeout: concern.timeout.or(default.timeout),
                provenance: Provenance::CustomDefault,
                ..concern
            },
            None => WriteConcern { w: Some(W::Majority), provenance: Provenance::ImplicitDefault, ..concern },
        }
    }

    /// From now on this is the write concern of commands that have none.
    pub(crate) fn set_default(&self, concern: Option<WriteConcern>) {
        let is_other = concern.as_ref().is_some_and(|concern| concern.w.as_ref().and_then(copies).is_some());
        let mut default = self.default.lock();
        *default = concern;
        self.has_default.store(is_other, Ordering::Relaxed);
    }

    /// Writes what `hello` tells.
    pub(crate) fn write_hello(&self, writable: &str, reply: &mut DocumentBuilder<'_>) {
        let topology = self.set.topology();
        let (Some(config), Some(own)) = (&topology.config, topology.own_member()) else {
            reply.append(writable, false).append("secondary", false);
            reply.append("info", "Does not have a valid replica set config").append("isreplicaset", true);
            return;
        };
        let (arbiters, others): (Vec<&MemberConfig>, Vec<&MemberConfig>) =
            config.members.iter().filter(|member| !member.hidden).partition(|member| member.arbiter_only);
        let shown = || others.iter().copied();
        write_hosts(reply, "hosts", shown().filter(|member| member.is_electable()));
        if shown().any(|member| !member.is_electable()) {
            write_hosts(reply, "passives", shown().filter(|member| !member.is_electable()));
        }
        if !arbiters.is_empty() {
            write_hosts(reply, "arbiters", arbiters.into_iter());
        }
        reply.append("setName", config.set_name.as_str()).append("setVersion", config.version as i32);
        reply.append(writable, topology.is_writable);
        // A primary that takes no writes yet, or no more, is as good as a secondary.
        let is_readable = matches!(topology.state, MemberState::Primary | MemberState::Secondary);
        reply.append("secondary", is_readable && !topology.is_writable);
        if let Some(primary) = topology.primary_member() {
            reply.append("primary", primary.host.as_str());
        }
        write_own(reply, own);
        if let Some(id) = topology.election_id() {
            reply.append("electionId", id);
        }
        let mut last = reply.start_document("lastWrite");
        let [applied, committed] = [self.set.last_applied(), self.set.last_committed()];
        last.append_value("opTime", &shown_optime(applied).into());
        last.append("lastWriteDate", date_of(applied));
        last.append_value("majorityOpTime", &shown_optime(committed).into());
        last.append("majorityWriteDate", date_of(committed));
        last.finish();
        reply.append("isImplicitDefaultMajorityWC", true);
    }
}

/// Copies that are more than what every operation has before it is applied.
pub(crate) fn copies(w: &W) -> Option<Copies> {
    match w {
        W::Members(0 | 1) | W::Majority => None,
        W::Members(count) => Some(Copies::Members(*count as usize)),
        W::Mode(name) => Some(Copies::Mode(name.clone())),
    }
}

/// Waits for this disk.
pub(crate) async fn journaled(receipts: &Receipts, store: &Store) -> CommandResult {
    receipts.journaled(store).await.map_err(|error| CommandError::from(WriteError::from(error)))
}

fn write_hosts<'m>(
    reply: &mut DocumentBuilder<'_>,
    name: &str,
    members: impl Iterator<Item = &'m MemberConfig>,
) {
    let mut hosts = reply.start_array(name);
    for member in members {
        hosts.push(member.host.as_str());
    }
}

fn write_own(reply: &mut DocumentBuilder<'_>, own: &MemberConfig) {
    if own.arbiter_only {
        reply.append("arbiterOnly", true);
    } else if !own.is_electable() {
        reply.append("passive", true);
    }
    if own.hidden {
        reply.append("hidden", true);
    }
    if !own.delay.is_zero() {
        reply.append("secondaryDelaySecs", own.delay.as_secs() as i64);
    }
    if !own.tags.is_empty() {
        let mut tags = reply.start_document("tags");
        for (name, value) in &own.tags {
            tags.append(name, value.as_str());
        }
    }
    reply.append("me", own.host.as_str());
}

/// `{ts, t}`.
pub(crate) fn shown_optime(optime: OpTime) -> Document {
    doc! { "ts": (optime.timestamp), "t": (optime.term as i64) }
}

/// The second of an operation.
pub(crate) fn date_of(optime: OpTime) -> RawValue<'static> {
    RawValue::DateTime(i64::from(optime.timestamp.time) * 1000)
}

/// The command needs a set.
pub(crate) fn no_replica_set() -> CommandError {
    CommandError::new(code::NO_REPLICATION_ENABLED, "not running with --replSet")
}
