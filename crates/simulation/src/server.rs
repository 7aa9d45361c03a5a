//! One server: it starts from a disk, takes messages, does its background work when it is told to, and
//! crashes.

use crate::disk::{Crash, RESERVE_BYTES, SimulatedDisk};
use crate::engine::{self, DiskHooks};
use crate::random::SeededRandom;
use catalog::Catalog;
use commands::{DataNode, ServiceContext, TtlMonitor};
use dispatch::client::Client;
use dispatch::dispatch;
use dispatch::host::{ClientLink, Host};
use dispatch::parameters::{Parameter, Parameters, Setting};
use dispatch::request::CommandRequest;
use dispatch::timers::Timers;
use document::RawDocument;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use storage::{StorageOptions, Store, StoreTasks};

/// How often the governor looks at the disk.
const GOVERNOR_TICK: Duration = Duration::from_millis(10);

/// A reply on its way; `None` when the server died first.
pub type Reply = Pin<Box<dyn Future<Output = Option<Vec<u8>>>>>;

/// Where a client's messages go in: what a network will stand between.
#[derive(Debug, Clone)]
pub struct Port {
    client: Arc<Client>,
    link: Arc<Link>,
}

/// The server's side of a connection. It lives in an event loop, or on a thread of its own that may block.
#[derive(Debug)]
struct Link {
    in_loop: bool,
    offloaded: AtomicBool,
}

impl ClientLink for Link {
    fn close(&self) {}

    fn may_block(&self) -> bool {
        !self.in_loop || self.offloaded.load(Ordering::Relaxed)
    }

    fn poll_offload(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.may_block() {
            return Poll::Ready(());
        }
        self.offloaded.store(true, Ordering::Relaxed);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Port {
    /// Whether what its operation commits now is written at the end of a turn.
    pub(crate) fn defers(&self) -> bool {
        !self.link.may_block()
    }
}

struct Running {
    server: Arc<ServiceContext>,
    hooks: Arc<DiskHooks>,
    background: StoreTasks,
    /// The TTL monitor's endless work.
    ttl: Pin<Box<dyn Future<Output = ()>>>,
    synced_at: Instant,
    governed_at: Instant,
}

/// What the thread of the TTL monitor does.
async fn expire(server: Arc<ServiceContext>, hooks: Arc<DiskHooks>) {
    let mut monitor = TtlMonitor::new();
    loop {
        hooks.expiry_step(true);
        let next = monitor.step(&server).await;
        hooks.expiry_step(false);
        catalog::give_way().await;
        server.sleep_until(next).await;
    }
}

fn expire_on(running: &mut Running) {
    let Running { hooks, ttl, .. } = running;
    // Whoever's turn it was, what is owed stays so: this is another thread.
    hooks.expires(|| {
        let ended = ttl.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(ended.is_pending(), "the TTL monitor never ends");
    });
}

/// A server and its disk.
pub struct SimulatedServer {
    disk: Arc<SimulatedDisk>,
    running: RefCell<Option<Running>>,
    /// Counts starts: what was asked before the last one is never answered.
    starts: Cell<u64>,
    random: RefCell<SeededRandom>,
}

impl SimulatedServer {
    /// A server that has not been started yet.
    pub fn new(disk: Arc<SimulatedDisk>, seed: u64) -> SimulatedServer {
        SimulatedServer {
            disk,
            running: RefCell::new(None),
            starts: Cell::new(0),
            random: RefCell::new(SeededRandom::new(seed)),
        }
    }

    /// Its disk.
    pub fn disk(&self) -> &Arc<SimulatedDisk> {
        &self.disk
    }

    /// How often it was started.
    pub fn starts(&self) -> u64 {
        self.starts.get()
    }

    /// Whether it lives.
    pub fn is_running(&self) -> bool {
        self.running.borrow().is_some()
    }

    /// Starts it on what the disk has.
    ///
    /// # Errors
    /// Why it does not start.
    pub fn start(&self) -> Result<(), String> {
        storage::commit_inline();
        let (hooks, engine) = engine::open(&self.disk);
        let options = self.options();
        let disk = Arc::clone(&self.disk);
        let (store, mut background) = Store::without_threads(Arc::new(engine), disk, &options)
            .map_err(|error| format!("the store does not open: {error}"))?;
        let catalog = Catalog::open(store).map_err(|error| format!("the catalog does not open: {error}"))?;
        let parameters = self.parameters();
        let data = DataNode::new(catalog, &parameters);
        let server =
            ServiceContext::with_timers(data, parameters, Host::detached(), Timers::without_thread());
        let mut finish = |future: &mut dyn FnMut(&mut Context<'_>) -> Poll<Result<(), String>>| {
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..1000 {
                if let Poll::Ready(result) = future(&mut context) {
                    return result;
                }
                background.sync_journal();
                background.govern();
            }
            Err("the start does not end".to_owned())
        };
        {
            let mut tidy = pin!(commands::remove_unfinished_outputs(&server.node));
            finish(&mut |context| tidy.as_mut().poll(context).map_err(|error| error.to_string()))?;
            let mut prepare = pin!(commands::prepare_own_collections(&server));
            finish(&mut |context| prepare.as_mut().poll(context).map_err(|error| error.to_string()))?;
        }
        let now = ambient::now();
        let ttl = Box::pin(expire(Arc::clone(&server), Arc::clone(&hooks)));
        let running = Running { server, hooks, background, ttl, synced_at: now, governed_at: now };
        *self.running.borrow_mut() = Some(running);
        self.starts.set(self.starts.get() + 1);
        Ok(())
    }

    fn options(&self) -> StorageOptions {
        let mut random = self.random.borrow_mut();
        StorageOptions {
            journal_interval: Duration::from_millis(2 + random.below(50)),
            row_cache_bytes: if random.chance(500) { 0 } else { 1 << 20 },
            disk_reserve_bytes: Some(RESERVE_BYTES),
            ..StorageOptions::small()
        }
    }

    fn parameters(&self) -> Arc<Parameters> {
        let mut random = self.random.borrow_mut();
        let parameters = Parameters::default();
        let set = |parameter, micros: u64| {
            let micros = i64::try_from(micros).unwrap_or(i64::MAX);
            parameters.set(parameter, Setting::Integer(micros)).expect("the slice is within its range");
        };
        set(Parameter::LoopSlice, 1 + random.below(60));
        set(Parameter::ScanSlice, 50 + random.below(100));
        set(Parameter::TtlMonitorSleep, 1);
        set(Parameter::TtlIndexDeleteTargetDocs, random.below(4));
        set(Parameter::TtlMonitorSubPassTarget, random.below(2));
        Arc::new(parameters)
    }

    /// A client connects.
    pub fn connect(&self, id: i64, in_loop: bool) -> Port {
        let link = Arc::new(Link { in_loop, offloaded: AtomicBool::new(false) });
        let client = Arc::new(Client::new(id, "simulated", Arc::<Link>::clone(&link)));
        if let Some(running) = &*self.running.borrow() {
            running.server.opened(Arc::clone(&client));
        }
        Port { client, link }
    }

    /// A message goes in; its reply comes out. Nothing happens before the reply is polled.
    pub fn deliver(&self, port: &Port, message: Vec<u8>) -> Reply {
        let Some(server) = self.running.borrow().as_ref().map(|running| Arc::clone(&running.server)) else {
            return Box::pin(std::future::ready(None));
        };
        let port = port.clone();
        Box::pin(async move {
            port.link.offloaded.store(false, Ordering::Relaxed);
            let mut reply = Vec::new();
            let request = CommandRequest::new(RawDocument::trusted(&message));
            dispatch(&server, &port.client, request, &mut reply).await;
            Some(reply)
        })
    }

    /// The loops have nothing more to poll: what they committed is written.
    pub fn turn_ended(&self) {
        if let Some(running) = &*self.running.borrow() {
            running.server.node.store.turn_ended();
        }
    }

    /// Does what the threads would come to now: the journal at its interval, sooner when it is asked for and
    /// `hurries`, the governor at its ticks, those who sleep at their times, the TTL monitor.
    pub fn work(&self, hurries: bool) {
        let mut running = self.running.borrow_mut();
        let Some(running) = &mut *running else { return };
        let now = ambient::now();
        let interval = running.server.node.store.journal_interval();
        if now.saturating_duration_since(running.synced_at) >= interval
            || (hurries && running.background.take_sync_request())
        {
            running.synced_at = now;
            running.background.sync_journal();
        }
        if now.saturating_duration_since(running.governed_at) >= GOVERNOR_TICK {
            running.governed_at = now;
            running.background.govern();
            running.background.reclaim();
        }
        running.server.timers.wake_due();
        expire_on(running);
    }

    /// Does what the thread of the TTL monitor would come to now.
    pub fn expire(&self) {
        if let Some(running) = &mut *self.running.borrow_mut() {
            expire_on(running);
        }
    }

    /// It ends like this; answers with how many batches are lost. Replies that are awaited are to be dropped
    /// before the next start.
    pub fn crash(&self, crash: Crash) -> usize {
        if let Some(running) = self.running.take() {
            running.hooks.die();
        }
        self.disk.crash(crash)
    }
}
