//! What unit tests run on: servers in memory without surroundings, a client that lives in an event loop, and
//! an engine that has to be asked twice.

use crate::client::Client;
use crate::parameters::{Parameter, Parameters, Setting};
use crate::server::{DataNode, ServiceContext};
use catalog::{Catalog, OperationContext, Receipts};
use dispatch::host::{ClientLink, Detached, Host};
use dispatch::request::{CommandOutcome, CommandRequest};
use document::{Document, RawDocument, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use pollster::block_on;
use replication::OpTime;
use replication::oplog::{self, Applier, OplogEntry};
use replication::retryable::RetryTable;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use storage::{
    CommitError, Engine, EngineCursor, EngineFailure, EngineHooks, EngineReader, HookedEngine, Keyspace,
    MemoryEngine, MutationLog, PinnedBytes, ProposalWindow, Proposals, ReadTier, StorageError,
    StorageOptions, Store, WriteUnit,
};

/// A fresh server.
pub(crate) fn server() -> Arc<ServiceContext> {
    server_on(Store::in_memory(&StorageOptions::small()).expect("memory is to be had"))
}

/// A server over this store.
pub(crate) fn server_on(store: Store) -> Arc<ServiceContext> {
    server_of(store, |node| node)
}

fn server_of(store: Store, kind: impl FnOnce(DataNode) -> DataNode) -> Arc<ServiceContext> {
    let catalog = Catalog::open(store).expect("the store has a catalog");
    let parameters = Parameters::default();
    // How fast this machine is must not decide what tests see.
    parameters.set(Parameter::LoopSlice, Setting::Integer(1_000_000)).expect("a second is allowed");
    let node = kind(DataNode::new(catalog, &parameters));
    ServiceContext::new(node, Arc::new(parameters), Host::detached()).expect("threads are to be had")
}

/// A member of a set that has no other: whatever it proposes is committed at once.
pub(crate) struct TestMember {
    pub(crate) server: Arc<ServiceContext>,
    proposals: Arc<Proposals>,
    log: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl TestMember {
    /// A primary without data.
    pub(crate) fn new() -> Self {
        TestMember::far_from_others(Duration::ZERO)
    }

    /// One whose groups take so long.
    pub(crate) fn far_from_others(pause: Duration) -> Self {
        let store = Store::in_memory(&StorageOptions::small()).expect("memory is to be had");
        let (notify, notified) = std::sync::mpsc::channel();
        let proposals = Arc::new(store.take_proposals(Arc::new(move || _ = notify.send(()))));
        proposals.accept();
        let log = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let (owned, kept) = (Arc::clone(&proposals), Arc::clone(&log));
        std::thread::spawn(move || {
            while notified.recv().is_ok() {
                std::thread::sleep(pause);
                while let Some(mut group) = owned.next_group() {
                    let mut log = kept.lock();
                    for entry in group.entries_mut() {
                        let timestamp = Timestamp { time: 1, increment: log.len() as u32 + 1 };
                        oplog::place(entry, OpTime { timestamp, term: 1 });
                        log.push(std::mem::take(entry));
                    }
                    drop(log);
                    group.write(WriteUnit::new(), |_| {}).expect("memory is to be had");
                }
            }
        });
        TestMember { server: server_of(store, of_a_set), proposals, log }
    }

    /// Refuses writes from now on, or takes them again.
    pub(crate) fn steps(&self, up: bool) {
        match up {
            true => self.proposals.accept(),
            false => self.proposals.refuse(CommitError::SteppedDown),
        }
    }

    /// Lets units wait in front of its log from now on, or no longer.
    pub(crate) fn hold(&self, is_held: bool) {
        self.proposals.set_window(is_held.then_some(ProposalWindow {
            room: 0,
            room_for_small: 0,
            budget: None,
        }));
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> Vec<Vec<u8>> {
        self.log.lock().clone()
    }

    /// Applies what another member has logged.
    pub(crate) fn apply(&self, log: &[Vec<u8>]) {
        let node = &self.server.node;
        let receipts = Receipts::default();
        let sessions = node.retry_table.as_ref().expect("a member's");
        let context = OperationContext::writing(&node.store, &receipts);
        let applier = Applier::new(&node.catalog, sessions, context);
        for entry in log {
            let entry = OplogEntry::decode(entry).expect("an entry of ours");
            block_on(applier.apply(&entry)).unwrap_or_else(|error| panic!("{error}: {entry:?}"));
        }
    }
}

fn of_a_set(node: DataNode) -> DataNode {
    let sessions = Arc::new(RetryTable::new(Arc::clone(&node.catalog)));
    node.of_a_set(sessions)
}

/// The link of a client whose connection lives in an event loop: what is offloaded may block until the next
/// request.
#[derive(Debug, Default)]
pub(crate) struct LoopLink {
    offloaded: AtomicBool,
    /// To where it may compute for long.
    for_long: AtomicBool,
    /// How long the operation is said to have waited for a thread, in milliseconds.
    waited_ms: AtomicU64,
}

impl ClientLink for LoopLink {
    fn close(&self) {}
    fn may_block(&self) -> bool {
        self.offloaded.load(Ordering::Relaxed)
    }
    fn runs_briefly(&self) -> bool {
        self.may_block() && !self.for_long.load(Ordering::Relaxed)
    }
    fn poll_offload(&self, context: &mut Context<'_>) -> Poll<()> {
        self.offloaded.store(true, Ordering::Relaxed);
        if self.for_long.swap(true, Ordering::Relaxed) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
    fn poll_offload_briefly(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.offloaded.swap(true, Ordering::Relaxed) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
    fn offload_wait(&self) -> Duration {
        Duration::from_millis(self.waited_ms.load(Ordering::Relaxed))
    }
}

/// What a test hands to a write that it makes beside the commands; it outlives whatever becomes of the write.
pub(crate) fn writing(server: &ServiceContext) -> &OperationContext<'_> {
    Box::leak(Box::new(OperationContext::writing(&server.node.store, Box::leak(Box::default()))))
}

/// A client of a server; its commands run on the database `test`.
pub(crate) struct TestClient {
    pub(crate) server: Arc<ServiceContext>,
    pub(crate) client: Arc<Client>,
    link: Option<Arc<LoopLink>>,
}

impl TestClient {
    /// A client whose thread may block.
    pub(crate) fn of(server: &Arc<ServiceContext>) -> Self {
        let client = Arc::new(Client::new(1, "test", Arc::new(Detached)));
        TestClient { server: Arc::clone(server), client, link: None }
    }

    /// A client in an event loop.
    pub(crate) fn in_loop(server: &Arc<ServiceContext>) -> Self {
        let link = Arc::new(LoopLink::default());
        let client = Arc::new(Client::new(1, "test", Arc::<LoopLink>::clone(&link)));
        TestClient { server: Arc::clone(server), client, link: Some(link) }
    }

    /// Says of its commands from now on that they have waited for a thread for so long.
    pub(crate) fn waits_for_a_thread(&self, time: Duration) {
        let link = self.link.as_ref().expect("a client in a loop");
        link.waited_ms.store(time.as_millis() as u64, Ordering::Relaxed);
    }

    /// Runs a command; the reply, and whether it was offloaded.
    pub(crate) fn run(&self, command: Document) -> (Document, bool) {
        let (reply, _) = self.run_with(command, |_| {});
        let offloaded = self.link.as_ref().is_some_and(|link| link.offloaded.load(Ordering::Relaxed));
        (reply, offloaded)
    }

    /// Whether its last command was where what computes for long is.
    pub(crate) fn ran_for_long(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.for_long.load(Ordering::Relaxed))
    }

    /// As [`Client::run`], with changes to the request before it is run.
    pub(crate) fn run_with(
        &self,
        mut command: Document,
        change: impl FnOnce(&mut CommandRequest<'_>),
    ) -> (Document, CommandOutcome) {
        if let Some(link) = &self.link {
            link.offloaded.store(false, Ordering::Relaxed);
            link.for_long.store(false, Ordering::Relaxed);
        }
        if !command.contains("$db") {
            command.push("$db", "test");
        }
        let (command, mut reply) = (command.to_buf(), Vec::new());
        let mut request = CommandRequest::new(command.as_raw());
        change(&mut request);
        let outcome = block_on(dispatch::dispatch(&self.server, &self.client, request, &mut reply));
        (RawDocument::parse(&reply).expect("a reply is a valid document").to_document(), outcome)
    }
}

/// How often an engine has forgotten: in so many of a thousand reads from memory. And how its syncs went.
#[derive(Debug, Default)]
pub(crate) struct Forgetting {
    per_mille: AtomicU64,
    seed: AtomicU64,
    syncs: AtomicU64,
    fails_syncs: AtomicBool,
    fails_writes: AtomicBool,
    /// While somebody has it, syncs wait.
    sync_gate: Mutex<()>,
}

impl Forgetting {
    /// From now on so many of a thousand reads from memory fail.
    pub(crate) fn set(&self, per_mille: u64) {
        self.per_mille.store(per_mille, Ordering::Relaxed);
    }

    /// How often the journal was synced.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::SeqCst)
    }

    /// From now on syncs of the journal fail.
    pub(crate) fn fail_syncs(&self) {
        self.fails_syncs.store(true, Ordering::SeqCst);
    }

    /// Whether batches are refused from now on.
    pub(crate) fn fail_writes(&self, fails: bool) {
        self.fails_writes.store(fails, Ordering::SeqCst);
    }

    /// Syncs wait for as long as this is held.
    pub(crate) fn hold_syncs(&self) -> MutexGuard<'_, ()> {
        self.sync_gate.lock()
    }

    fn check(&self, tier: ReadTier) -> Result<(), StorageError> {
        if tier == ReadTier::Any {
            return Ok(());
        }
        let seed = self.seed.load(Ordering::Relaxed);
        let seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.seed.store(seed, Ordering::Relaxed);
        let forgets = (seed >> 33) % 1000 < self.per_mille.load(Ordering::Relaxed);
        if forgets { Err(StorageError::WouldBlock) } else { Ok(()) }
    }
}

/// A store on an engine in memory which pretends now and then that what is asked for is on a disk.
pub(crate) fn forgetful_store() -> (Store, Arc<Forgetting>) {
    let forgetting = Arc::new(Forgetting::default());
    let engine = HookedEngine::new(MemoryEngine::new(), Arc::clone(&forgetting));
    (Store::with_engine(Arc::new(engine), &StorageOptions::small()).expect("memory is to be had"), forgetting)
}

impl EngineHooks for Forgetting {
    fn write(
        &self,
        memory: &MemoryEngine,
        units: &[WriteUnit],
        counters: &MutationLog,
    ) -> Result<u64, EngineFailure> {
        match self.fails_writes.load(Ordering::SeqCst) {
            true => Err(EngineFailure::Failed(Arc::from("made to fail"))),
            false => memory.write(units, counters),
        }
    }
    fn sync_journal(&self, memory: &MemoryEngine, alone: bool) -> Result<(), EngineFailure> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        drop(self.sync_gate.lock());
        match self.fails_syncs.load(Ordering::SeqCst) {
            true => Err(EngineFailure::Failed(Arc::from("made to fail"))),
            false => memory.sync_journal(alone),
        }
    }
    fn get(
        &self,
        reader: &dyn EngineReader,
        keyspace: Keyspace,
        key: &[u8],
        tier: ReadTier,
    ) -> Result<Option<PinnedBytes>, StorageError> {
        self.check(tier)?;
        reader.get(keyspace, key, tier)
    }
    fn before_next(
        &self,
        _cursor: &mut dyn EngineCursor,
        _keyspace: Keyspace,
        tier: ReadTier,
    ) -> Result<(), StorageError> {
        self.check(tier)
    }
}
