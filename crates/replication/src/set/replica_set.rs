//! A running member as the commands see it.

use crate::initial_sync::CopyStatus;
use crate::log::LogError;
use crate::optime::OpTime;
use crate::retryable::RetryTable;
use crate::set::apply_queue::{ApplyQueue, Unapplied};
use crate::set::background::{self, MemberTasks};
use crate::set::batches::BatchFigures;
use crate::set::copying::{Copying, source_for_others};
use crate::set::driver::{Asked, Driver, Inbox, Links, Received, Told};
use crate::set::envelope::Envelope;
use crate::set::heartbeat::{self, MemberStatus, Statuses};
use crate::set::history::{History, HistoryFigures, Moment};
use crate::set::kept_log::{KeptLogFigures, LogNeed};
use crate::set::memory::MemberMemory;
use crate::set::own_place;
use crate::set::shared::{Reply, Shared, question};
use crate::set::state::SetState;
use crate::set::{
    Copies, DefaultReadFreshness, ElectionFigures, FlowFigures, FlowSettings, ReplSetConfig, SetError,
    SyncSourceFigures, Topology,
};
use crate::{LogOptions, Oplog, Peers};
use catalog::Catalog;
use document::{DocumentBuf, ObjectId, RawDocument, Timestamp, doc};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;
use storage::{ENTRY_BYTES_MAX, Store};
use wire::ErrorCode;

/// As in MongoDB (`periodicNoopIntervalSecs`): drivers reckon with it (`maxStalenessSeconds`).
const NOOP_INTERVAL: Duration = Duration::from_secs(10);

/// What a member is told when it starts.
#[derive(Debug, Clone)]
pub struct SetOptions {
    /// The name of the set: `--replSet`.
    pub set_name: String,
    /// As what other members may know this one, `host:port`; the first one is what it calls itself.
    pub own_hosts: Vec<String>,
    /// Where the random part of its time-outs comes from.
    pub seed: u64,
    /// Bytes of entries that wait for a majority; further ones wait with their clients.
    pub uncommitted_bytes_max: u64,
    /// After so long without an operation a primary logs one that changes nothing.
    pub noop_interval: Duration,
    /// Bytes of entries that may be on their way whatever a majority works off, before further ones wait.
    pub window_bytes_min: u64,
    /// Bytes of what is committed and waits in memory to be applied; further entries are read from the log
    /// again.
    pub unapplied_bytes_max: u64,
    /// Bytes from other members that wait for this one; more are dropped, and sent again.
    pub received_bytes_max: usize,
    /// Of the oplog.
    pub log: LogOptions,
    /// The data directory, for initial syncs; without one there are none.
    pub data: Option<PathBuf>,
    /// Whether the data have just been copied from another member.
    pub has_copied: bool,
}

impl SetOptions {
    /// With the bounds of [`crate::Config`]. Times are the set's: `settings` of its configuration.
    pub fn new(set_name: impl Into<String>, own_hosts: Vec<String>, seed: u64) -> Self {
        let config = crate::Config::new(1, seed);
        SetOptions {
            set_name: set_name.into(),
            own_hosts,
            seed,
            uncommitted_bytes_max: config.uncommitted_bytes_max,
            noop_interval: NOOP_INTERVAL,
            window_bytes_min: 1 << 20,
            unapplied_bytes_max: 128 << 20,
            received_bytes_max: 128 << 20,
            log: LogOptions::default(),
            data: None,
            has_copied: false,
        }
    }

    /// With bounds for a process that may use so many bytes of memory.
    #[must_use]
    pub fn within_memory(mut self, memory: u64) -> Self {
        const MIB: u64 = 1 << 20;
        self.uncommitted_bytes_max = (memory / 32).clamp(16 * MIB, self.uncommitted_bytes_max);
        self.unapplied_bytes_max = (memory / 64).clamp(16 * MIB, self.unapplied_bytes_max);
        let received = self.received_bytes_max as u64;
        self.received_bytes_max = (memory / 64).clamp(32 * MIB, received) as usize;
        self.log.recent_bytes = (memory / 256).clamp(4 * MIB, self.log.recent_bytes);
        self
    }
}

/// When a member stops.
const SYNC_ENDS_WITHIN: Duration = Duration::from_secs(2);

/// A member of a replica set, running or not yet initiated. Clones are the same one.
#[derive(Clone, Debug)]
pub struct ReplicaSet(Arc<Running>);

#[derive(Debug)]
struct Running {
    copying: Arc<Copying>,
    set_name: String,
    own_hosts: Vec<String>,
    /// This process, so that it knows itself when it asks a host who is there.
    instance: ObjectId,
    peers: Arc<dyn Peers>,
    shared: Arc<Shared>,
    statuses: Arc<Statuses>,
    sessions: Arc<RetryTable>,
    history: Arc<History>,
    inbox: Arc<Inbox>,
    queue: Arc<ApplyQueue>,
    store: Store,
    has_copied: bool,
    /// A leaf in the lock order.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ReplicaSet {
    /// Starts the member that the data directory makes of this server, on threads of its own.
    ///
    /// # Errors
    /// What is wrong with the log.
    pub fn start(
        options: SetOptions,
        catalog: Arc<Catalog>,
        peers: Arc<dyn Peers>,
    ) -> Result<Self, LogError> {
        let (set, background) = ReplicaSet::without_threads(options, catalog, peers, background::clock())?;
        let threads = background.start().map_err(|error| LogError(Box::new(error)))?;
        *set.0.threads.lock() = threads;
        Ok(set)
    }

    /// As [`ReplicaSet::start`]: what the threads would do is done when it is told to; the time is `now` (on
    /// a clock that only goes on, and since 1970).
    ///
    /// # Errors
    /// What is wrong with the log.
    pub fn without_threads(
        options: SetOptions,
        catalog: Arc<Catalog>,
        peers: Arc<dyn Peers>,
        (monotonic, wall): (Duration, Duration),
    ) -> Result<(Self, MemberTasks), LogError> {
        let (shared, inbox) = (Arc::new(Shared::new()), Arc::new(Inbox::new(options.received_bytes_max)));
        let history = Arc::new(History::new(Arc::clone(&catalog)));
        let copying = Arc::new(Copying::new(
            catalog.store().clone(),
            options.data.as_deref(),
            &peers,
            &options.own_hosts,
        ));
        let links = Links {
            copying: Arc::clone(&copying),
            peers: Arc::clone(&peers),
            shared: Arc::clone(&shared),
            statuses: Arc::default(),
            sessions: Arc::new(RetryTable::new(Arc::clone(&catalog))),
            catalog,
            queue: Arc::new(ApplyQueue::new(options.unapplied_bytes_max)),
            history: Arc::clone(&history),
        };
        let set = ReplicaSet(Arc::new(Running {
            copying,
            set_name: options.set_name.clone(),
            own_hosts: options.own_hosts.clone(),
            instance: ObjectId::new(),
            peers,
            shared,
            statuses: Arc::clone(&links.statuses),
            sessions: Arc::clone(&links.sessions),
            history,
            inbox: Arc::clone(&inbox),
            queue: Arc::clone(&links.queue),
            store: links.catalog.store().clone(),
            has_copied: options.has_copied,
            threads: Mutex::default(),
        }));
        let now = crate::set::driver::Now { monotonic, wall };
        let (driver, report) = Driver::open(options, links.clone(), Arc::clone(&inbox), now)?;
        Ok((set, MemberTasks::new(driver, report, links, inbox)))
    }

    /// The set, as this member sees it.
    pub fn topology(&self) -> Arc<Topology> {
        self.0.shared.topology()
    }

    /// Resolves when there is a topology of a later counter.
    pub async fn topology_changed(&self, counter: i64) {
        self.0.shared.topology_changed(counter).await;
    }

    /// Whether this member takes writes.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.0.shared.is_writable()
    }

    /// The name of the set that this server was started for.
    pub fn set_name(&self) -> &str {
        &self.0.set_name
    }

    /// The retryable writes that commands and who applies know of.
    pub fn sessions(&self) -> &Arc<RetryTable> {
        &self.0.sessions
    }

    /// Grows whenever users or roles may have changed by what another member has logged, once that is in the
    /// data. Whoever changes them here may count as well.
    pub fn access_changes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.0.shared.access_changes)
    }

    /// As what other members may know this server, first what it calls itself.
    pub fn own_hosts(&self) -> &[String] {
        &self.0.own_hosts
    }

    /// The oplog; `None` before the set is initiated.
    pub fn oplog(&self) -> Option<Oplog> {
        self.0.shared.oplog.get().cloned()
    }

    /// Tells this process from any other one: the answer to `_isSelf`.
    pub fn instance(&self) -> ObjectId {
        self.0.instance
    }

    async fn own_id(&self, config: &ReplSetConfig) -> Result<i32, SetError> {
        own_place::own_id(config, &self.0.own_hosts, self.0.instance, &*self.0.peers).await
    }

    async fn ask<T>(&self, asked: impl FnOnce(Reply<T>) -> Asked) -> Result<T, SetError> {
        let (reply, answer) = question();
        self.0.inbox.tell(Told::Asked(asked(reply)));
        answer.await
    }

    /// Makes the set, where this member has none; resolves when it is there and this member its primary.
    ///
    /// # Errors
    /// `AlreadyInitialized`, `InvalidReplicaSetConfig`, `NodeNotFound` where a member does not answer.
    pub async fn initiate(&self, config: ReplSetConfig) -> Result<(), SetError> {
        if self.topology().config.is_some() {
            return Err(SetError::new(ErrorCode::AlreadyInitialized, "already initialized"));
        }
        config.check_initiate(&self.0.set_name)?;
        let invalid = |error: SetError| error.with_code(ErrorCode::InvalidReplicaSetConfig);
        let own = self.own_id(&config).await.map_err(invalid)?;
        config.own_electable(own).map_err(invalid)?;
        check_length(&config.to_document().to_buf())?;
        heartbeat::check_all_answer(&config, own, &*self.0.peers).await?;
        self.ask(|reply| Asked::Initiate(config, own, reply)).await?;
        self.0.shared.until_advanced(|| self.topology().config.is_some().then_some(())).await;
        Ok(())
    }

    /// Gives the set another configuration; resolves when this member has applied it.
    ///
    /// # Errors
    /// `NotWritablePrimary`, `NewReplicaSetConfigurationIncompatible`, `InvalidReplicaSetConfig`,
    /// `ConfigurationInProgress`.
    pub async fn reconfigure(&self, config: ReplSetConfig, force: bool) -> Result<(), SetError> {
        check_length(&config.to_document().to_buf())?;
        if !force {
            self.own_id(&config).await?;
        }
        self.ask(|reply| Asked::Reconfigure { config, force, reply }).await.map(drop)
    }

    /// Has another member be primary, and this one not again for a while.
    ///
    /// # Errors
    /// `NotWritablePrimary`; `ExceededTimeLimit` where nobody is electable in time, without `force`.
    pub async fn step_down(
        &self,
        secondary_catch_up: Duration,
        lasts: Duration,
        force: bool,
    ) -> Result<(), SetError> {
        self.ask(|reply| Asked::StepDown { catch_up: secondary_catch_up, lasts, force, reply }).await
    }

    /// Keeps this member from becoming primary for a while, or, with no time, lets it again.
    ///
    /// # Errors
    /// `NotSecondary` of a primary.
    pub async fn freeze(&self, lasts: Duration) -> Result<(), SetError> {
        self.ask(|reply| Asked::Freeze(lasts, reply)).await
    }

    /// Has a member without a vote follow the log of the member with this `_id`, or of the primary again, as
    /// long as that can be followed.
    pub fn sync_from(&self, id: i32) {
        self.0.inbox.tell(Told::Asked(Asked::Follow(id)));
    }

    /// The `_id` of the member whose log this one follows.
    pub fn sync_source(&self) -> Option<i32> {
        self.0.shared.source()
    }

    /// Has this member be primary.
    ///
    /// # Errors
    /// `CommandFailed` where it is not elected.
    pub async fn step_up(&self) -> Result<(), SetError> {
        self.ask(Asked::StepUp).await
    }

    /// Keeps this member from being read from, and from becoming primary, or ends that.
    ///
    /// # Errors
    /// `NotSecondary` of a primary; `OperationFailed` for an end too many: each beginning is ended by itself.
    pub async fn set_maintenance(&self, is_on: bool) -> Result<(), SetError> {
        self.ask(|reply| Asked::Maintenance(is_on, reply)).await
    }

    /// The last operation that is in the data.
    #[inline]
    pub fn last_applied(&self) -> OpTime {
        self.0.shared.reached().applied
    }

    /// The last operation that is on the disks of a majority, as far as this member knows.
    pub fn last_committed(&self) -> OpTime {
        self.0.shared.reached().committed
    }

    /// The last operation that is on this member's disk.
    pub fn last_durable(&self) -> OpTime {
        self.0.shared.reached().durable
    }

    /// What was applied of other leaders' operations.
    pub fn batches(&self) -> BatchFigures {
        self.0.shared.batches.figures()
    }

    /// Resolves when no batch is under way.
    pub async fn between_batches(&self) {
        let shared = &self.0.shared;
        shared.until_advanced(|| (!shared.batches.is_under_way()).then_some(())).await;
    }

    /// For tests: a batch that is applied is not shown as long as this says so. To be called once.
    pub fn pause_batches_while(&self, is_paused: impl Fn() -> bool + Send + Sync + 'static) {
        self.0.shared.batches.pause_while(Box::new(is_paused));
    }

    /// What the configuration demands of reads that say nothing themselves.
    #[inline]
    pub fn read_freshness(&self) -> Option<DefaultReadFreshness> {
        self.0.shared.read_freshness()
    }

    /// How old the data may be at this time of the clock that only goes on: everything that was acknowledged
    /// longer ago is in them, whoever leads the set. `None` before that is known.
    pub fn staleness_at(&self, monotonic: Duration) -> Option<Duration> {
        Some(monotonic.saturating_sub(self.0.shared.fresh_as_of()?))
    }

    /// The same, now.
    pub fn staleness(&self) -> Option<Duration> {
        self.staleness_at(background::clock().0)
    }

    /// Resolves when the data are as of so long ago, or later; asks the primary where they are not.
    pub async fn fresh(&self, staleness_max: Duration) {
        // In whole microseconds, none of them too few.
        let as_of = background::clock().0.saturating_sub(staleness_max).as_nanos().div_ceil(1_000);
        let as_of = Duration::from_micros(as_of as u64);
        let is_fresh = || self.0.shared.fresh_as_of().is_some_and(|fresh| fresh >= as_of).then_some(());
        if is_fresh().is_none() {
            self.0.shared.want_fresh(as_of);
            self.0.inbox.tell(Told::Asked(Asked::Freshness));
            self.0.shared.until_advanced(is_fresh).await;
        }
    }

    /// Resolves when everything up to this time is in the data: `afterClusterTime`.
    pub async fn applied(&self, at_least: Timestamp) {
        let is_there = || (self.last_applied().timestamp >= at_least).then_some(());
        self.0.shared.until_advanced(is_there).await;
    }

    /// Has a primary log something where nothing of this time or later is logged.
    pub fn reach(&self, timestamp: Timestamp) {
        self.0.inbox.tell(Told::Asked(Asked::Reach(timestamp)));
    }

    /// The data as they are now, and of which time that is.
    ///
    /// # Errors
    /// `InternalError`: what the store reports.
    pub fn moment(&self) -> Result<Moment, SetError> {
        self.0.history.now(self.is_writable())
    }

    /// The data exactly as of a time up to which everything is [applied](ReplicaSet::applied). May block:
    /// what is not kept is computed.
    ///
    /// # Errors
    /// `SnapshotTooOld`, `SnapshotUnavailable`; `InternalError`: what the store reports.
    pub fn moment_at(&self, timestamp: Timestamp) -> Result<Moment, SetError> {
        self.0.history.at(timestamp, self.is_writable())
    }

    /// How long the past is kept for [`ReplicaSet::moment_at`].
    pub fn set_history_window(&self, window: Duration) {
        self.0.history.set_window(window);
    }

    /// What `serverStatus` tells of it.
    pub fn history_figures(&self) -> HistoryFigures {
        self.0.history.figures()
    }

    /// Resolves when an operation has reached so many members; never where they do not exist.
    ///
    /// # Errors
    /// `PrimarySteppedDown`: this member does not learn of it any more.
    pub async fn replicated(&self, optime: OpTime, to: &Copies) -> Result<(), SetError> {
        let shared = &self.0.shared;
        let found = || {
            if *to == Copies::Majority && shared.reached().committed >= optime {
                return Some(Ok(()));
            }
            let (topology, copied) = (shared.topology(), shared.copied());
            let config = topology.config.as_ref().filter(|_| topology.is_writable);
            let Some(config) = config else {
                let message = "Primary stepped down while waiting for replication";
                return Some(Err(SetError::new(ErrorCode::PrimarySteppedDown, message)));
            };
            let own = topology.own_member().map(|member| member.id);
            let has = |id: i32| match Some(id) == own {
                true => shared.reached().applied >= optime,
                false => copied.get(&id).is_some_and(|reached| *reached >= optime),
            };
            config.has_copies(to, |member| has(member.id)).then_some(Ok(()))
        };
        shared.until_advanced(found).await
    }

    /// Resolves when a majority has said, after this was asked, that this member is the primary, and its data
    /// are as far as they were then.
    ///
    /// # Errors
    /// `NotWritablePrimary`, `InterruptedDueToReplStateChange`.
    pub async fn read_barrier(&self) -> Result<(), SetError> {
        self.ask(Asked::Read).await
    }

    /// Logs an operation that changes nothing; resolves when it is applied here.
    ///
    /// # Errors
    /// `NotWritablePrimary`, `InterruptedDueToReplStateChange`; `BadValue` for what would be read as the
    /// state of the set.
    pub async fn append_note(&self, note: DocumentBuf) -> Result<OpTime, SetError> {
        if SetState::of_note(note.as_raw()).is_some() {
            let message = "a note with the documents 'config' and 'numbers' is the server's own";
            return Err(SetError::new(ErrorCode::BadValue, message));
        }
        check_length(&note)?;
        self.ask(|reply| Asked::Note(note, reply)).await
    }

    /// What waits to be applied.
    pub fn unapplied(&self) -> Unapplied {
        self.0.queue.figures()
    }

    /// What it keeps in memory for the other members.
    pub fn memory(&self) -> MemberMemory {
        let (unapplied, received) = (self.unapplied().bytes, self.0.inbox.waiting_bytes() as u64);
        MemberMemory { unapplied, received, ..self.0.shared.kept_memory.figures() }
    }

    /// Changes what it may keep to that of a process with so much memory, but for the end of the log. What is
    /// more stays until its turn has come, and no more comes until then.
    pub fn bound_memory(&self, memory: u64) {
        let bounds = SetOptions::new("", Vec::new(), 0).within_memory(memory);
        self.0.shared.kept_memory.set_uncommitted_max(bounds.uncommitted_bytes_max);
        self.0.queue.set_bytes_max(bounds.unapplied_bytes_max);
        self.0.inbox.set_bytes_max(bounds.received_bytes_max);
    }

    /// How flow control is set, to be changed at any time.
    pub fn flow_settings(&self) -> &FlowSettings {
        &self.0.shared.flow_settings
    }

    /// How clients are held.
    pub fn flow(&self) -> FlowFigures {
        *self.0.shared.flow.lock()
    }

    /// What has come in from the other members.
    pub fn received(&self) -> Received {
        self.0.inbox.received()
    }

    /// The members of the configuration, as this one sees them; this one alone where it is in none.
    pub fn members(&self) -> Vec<MemberStatus> {
        heartbeat::members(&self.0.shared, &self.0.statuses)
    }

    /// Takes what another member has sent.
    ///
    /// # Errors
    /// `BadValue` for what no member sends.
    pub fn receive(&self, envelope: RawDocument<'_>) -> Result<(), SetError> {
        let bytes = envelope.as_bytes().len();
        let envelope =
            Envelope::decode(envelope).map_err(|defect| SetError::new(ErrorCode::BadValue, defect))?;
        self.0.inbox.receive(envelope, bytes);
        Ok(())
    }

    /// Answers `replSetHeartbeat`.
    ///
    /// # Errors
    /// `InconsistentReplicaSetNames`, `AlreadyInitialized`.
    pub fn heartbeat(&self, request: RawDocument<'_>) -> Result<DocumentBuf, SetError> {
        self.0.copying.source.expire();
        heartbeat::answer(&self.0.shared, &self.0.set_name, request)
    }

    /// Answers `_heddleCopy`. Blocks: it reads files, and writes memtables to them.
    ///
    /// # Errors
    /// `BadValue`; `NoSuchKey` for a copy that is not there; what the file system says.
    pub fn copy(&self, request: RawDocument<'_>) -> Result<DocumentBuf, SetError> {
        if request.contains("chooseSource") {
            if let Some(need) = LogNeed::read(request, "for", "at") {
                self.0.inbox.tell(Told::Asked(Asked::Keep(need)));
            }
            let source = source_for_others(&self.0.shared, &self.0.statuses);
            return Ok(source.map(|source| doc! { "source": source }.to_buf()).unwrap_or_default());
        }
        self.0.copying.source.answer(request)
    }

    /// How an initial sync goes that this process has begun.
    pub fn copy_status(&self) -> Option<CopyStatus> {
        self.0.copying.receiver.as_ref()?.status()
    }

    /// What this member keeps of its log for others that copy.
    pub fn kept_log(&self) -> KeptLogFigures {
        *self.0.shared.kept_log.lock()
    }

    /// Elections, as this member has seen them.
    pub fn elections(&self) -> ElectionFigures {
        self.0.shared.elections.lock().clone()
    }

    /// Whose log it has followed.
    pub fn sync_sources(&self) -> SyncSourceFigures {
        *self.0.shared.sources.lock()
    }

    /// Whether this process has begun with the data of an initial sync.
    pub fn has_copied(&self) -> bool {
        self.0.has_copied
    }

    /// Whether a member that the log cannot bring up to date replaces its data by itself. A new one always
    /// does.
    pub fn set_replaces_data(&self, replaces: bool) {
        self.0.copying.set_replaces_data(replaces);
    }

    /// Whether it does.
    pub fn replaces_data(&self) -> bool {
        self.0.copying.replaces_data()
    }

    /// Resolves when the data have been copied: they are this member's after its next start.
    pub async fn copied(&self) {
        self.0.copying.copied().await;
    }

    /// Hands over where this member is the primary, and ends its threads.
    pub fn stop(&self) {
        self.0.copying.stop();
        self.0.inbox.tell(Told::Asked(Asked::Stop));
        self.0.store.end_waits();
        let began = ambient::now();
        for (place, thread) in std::mem::take(&mut *self.0.threads.lock()).into_iter().enumerate() {
            // Behind the driver: who syncs may wait for room on the disk, and has nothing to lose.
            while place > 0 && !thread.is_finished() && ambient::elapsed(began) < SYNC_ENDS_WITHIN {
                std::thread::sleep(Duration::from_millis(1));
            }
            if place == 0 || thread.is_finished() {
                drop(thread.join());
            }
        }
    }
}

/// What is logged as a note must leave room for what an entry has beside it.
fn check_length(note: &DocumentBuf) -> Result<(), SetError> {
    const BESIDE: usize = 8 << 10;
    let length = note.as_bytes().len();
    if length > ENTRY_BYTES_MAX - BESIDE {
        let message = format!("an entry of the oplog would be too large: {length} bytes of a note");
        return Err(SetError::new(ErrorCode::BSONObjectTooLarge, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_members_keep_for_each_other_leaves_room_in_small_memory() {
        for memory in [512_u64, 1_024, 4_096, 24_000, 100_000].map(|mib| mib << 20) {
            let options = SetOptions::new("rs", Vec::new(), 1).within_memory(memory);
            // A group that waits is there as entries and as data.
            let writes = 2 * (options.uncommitted_bytes_max + options.unapplied_bytes_max);
            let all = writes + options.received_bytes_max as u64 + options.log.recent_bytes;
            assert!(all <= memory / 4, "{} MiB of {} MiB", all >> 20, memory >> 20);
        }
    }
}
