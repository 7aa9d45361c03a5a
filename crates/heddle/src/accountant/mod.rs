//! The accountant of the process's memory: who holds how much, and what is done when all of it together comes
//! near what the process may have. See `docs/design/memory.md`.
//!
//! ```text
//!  resident size ─▶ Course::step ─▶ caches, memtables │ pool of sorts and groups │ transport: requests wait
//!   /proc/self/statm                 (storage)          (query)                    or are refused (dispatch)
//! ```
//! A thread looks at the resident size, as often as it takes to fill half of what is left. What the parts
//! hold is only asked for when somebody wants to see it, but for the caches.

mod course;
mod report;

use crate::allocator;
use crate::machine::Machine;
use crate::network;
use crate::sizing::Sizes;
use commands::ServiceContext;
use course::{Course, Level, Measures};
use dispatch::parameters::{Parameter, Parameters, Setting};
use parking_lot::Mutex;
use query::memory::MemoryPool;
use replication::network::TcpPeers;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use storage::{EngineMemory, StorageKnobs, Store, StoreMemory};

pub(crate) use report::MemoryReport;

/// The fastest that memory is expected to grow, in bytes a second: looks are so often that half of what is
/// left lasts until the next one.
const GROWTH_MAX: u64 = 1 << 30;
const PAUSE: std::ops::RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_secs(1);
/// Caches grow again after so long without a change.
const GROW_EVERY: Duration = Duration::from_secs(1);
/// Free memory goes back to the kernel no more often than this.
const GIVE_BACK_EVERY: Duration = Duration::from_millis(100);
/// While memory is not plenty the allocator keeps what is free for so long.
const KEEP_FREE_TIGHT: Duration = Duration::from_millis(100);

/// Keeps account of the process's memory.
#[derive(Debug)]
pub(crate) struct Accountant {
    machine: Machine,
    parameters: Arc<Parameters>,
    pool: Arc<MemoryPool>,
    store: Store,
    /// Once the server listens.
    parts: OnceLock<Parts>,
    /// A leaf in the order of locks.
    state: Mutex<State>,
    resident: AtomicU64,
    resident_max: AtomicU64,
    given_back: AtomicU64,
}

/// Whom it asks and tells besides.
#[derive(Debug)]
struct Parts {
    server: Weak<ServiceContext>,
    transport: Weak<transport::Server>,
    /// The way to the other members of a set.
    peers: Option<Weak<TcpPeers>>,
}

impl Parts {
    /// Bytes that a member of a set keeps for the others.
    fn for_members(&self) -> u64 {
        let server = self.server.upgrade();
        let set = server.as_ref().and_then(|server| server.node.replica_set());
        let waiting = self.peers.as_ref().and_then(Weak::upgrade).map_or(0, |peers| peers.waiting_bytes());
        set.map_or(0, |set| set.memory().total()) + waiting as u64
    }

    /// Bounds that to what suits a process with so much memory.
    fn bound_members(&self, memory: u64) {
        let server = self.server.upgrade();
        if let Some(set) = server.as_ref().and_then(|server| server.node.replica_set()) {
            set.bound_memory(memory);
        }
        if let Some(peers) = self.peers.as_ref().and_then(Weak::upgrade) {
            peers.bound_memory(memory);
        }
    }
}

#[derive(Debug)]
struct State {
    /// Those in force.
    sizes: Sizes,
    course: Course,
    /// What is in force.
    measures: Measures,
    changed: Instant,
    gave_back: Instant,
}

/// The thread that looks.
#[derive(Debug)]
pub(crate) struct AccountantThread(Sender<()>);

impl AccountantThread {
    pub(crate) fn stop(&self) {
        // It may have ended.
        let _ = self.0.send(());
    }
}

impl Accountant {
    /// An accountant for a process of these sizes.
    pub(crate) fn new(
        machine: Machine,
        sizes: Sizes,
        parameters: &Arc<Parameters>,
        pool: Arc<MemoryPool>,
        store: Store,
    ) -> Arc<Self> {
        let course = Course::new(sizes.memory, sizes.cache);
        let (now, measures) = (Instant::now(), course.measures());
        pool.set_most(size(sizes.queries));
        Arc::new(Accountant {
            machine,
            parameters: Arc::clone(parameters),
            pool,
            store,
            parts: OnceLock::new(),
            state: Mutex::new(State { sizes, course, measures, changed: now, gave_back: now }),
            resident: AtomicU64::new(0),
            resident_max: AtomicU64::new(0),
            given_back: AtomicU64::new(0),
        })
    }

    /// Begins to look, and to hear of another limit.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(
        self: &Arc<Self>,
        server: &Arc<ServiceContext>,
        transport: &Arc<transport::Server>,
        peers: Option<&Arc<TcpPeers>>,
    ) -> std::io::Result<AccountantThread> {
        let peers = peers.map(Arc::downgrade);
        let parts = Parts { server: Arc::downgrade(server), transport: Arc::downgrade(transport), peers };
        assert!(self.parts.set(parts).is_ok(), "the accountant starts once");
        let watching = Arc::downgrade(self);
        self.parameters.watch(Parameter::MemoryLimitMb, move |setting| match (setting, watching.upgrade()) {
            (Setting::Integer(limit), Some(accountant)) => accountant.set_limit(limit.unsigned_abs()),
            _ => Ok(()),
        });
        let (stop, stopped) = channel();
        let accountant = Arc::clone(self);
        std::thread::Builder::new().name("memory".into()).spawn(move || accountant.run(&stopped))?;
        Ok(AccountantThread(stop))
    }

    fn run(&self, stopped: &Receiver<()>) {
        let mut pause = Duration::ZERO;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            pause = self.look();
        }
    }

    /// Looks once; says when to look again.
    fn look(&self) -> Duration {
        // Without it there is nothing to go by; the kernel has told it before and will again.
        let Some(resident) = resident_bytes() else { return *PAUSE.end() };
        self.resident.store(resident, Ordering::Relaxed);
        self.resident_max.fetch_max(resident, Ordering::Relaxed);
        let now = Instant::now();
        let mut state = self.state.lock();
        self.follow_knobs(&mut state);
        let may_grow = now.duration_since(state.changed) >= GROW_EVERY;
        let held = self.store.memory();
        let measures = state.course.step(resident, held.rows + held.engine.cache, may_grow);
        self.apply(&mut state, measures, now);
        let headroom = state.course.limit().saturating_sub(resident);
        Duration::from_secs_f64(headroom as f64 / 2.0 / GROWTH_MAX as f64).clamp(*PAUSE.start(), *PAUSE.end())
    }

    /// The caches and memtables may have been given another size.
    fn follow_knobs(&self, state: &mut State) {
        let knobs = self.store.knobs();
        if state.sizes.memtable != knobs.shape.memtable_bytes {
            state.sizes = state.sizes.clone().with_memtable(knobs.shape.memtable_bytes);
            self.store.bound_memory(store_bound(&state.sizes, state.measures));
        }
        let cache = knobs.cache_bytes + knobs.row_cache_bytes;
        if (state.sizes.cache, state.sizes.row_cache) != (cache, knobs.row_cache_bytes) {
            (state.sizes.cache, state.sizes.row_cache) = (cache, knobs.row_cache_bytes);
            state.course.set_caches(cache);
        }
    }

    fn apply(&self, state: &mut State, measures: Measures, now: Instant) {
        if state.measures != measures {
            if state.measures.level != measures.level {
                self.tell_level(state, measures.level);
                let is_easy = measures.level == Level::Easy;
                allocator::keep_free_memory(if is_easy { state.sizes.keep_free } else { KEEP_FREE_TIGHT });
            }
            state.measures = measures;
            state.changed = now;
            self.lend(state, measures);
            self.pool.set_refuses(measures.level == Level::Exhausted);
        }
        let transport = self.parts.get().and_then(|parts| parts.transport.upgrade());
        if let Some(transport) = transport {
            transport.set_memory_is_short(measures.level >= Level::Short);
        }
        if measures.level >= Level::Tight && now.duration_since(state.gave_back) >= GIVE_BACK_EVERY {
            state.gave_back = now;
            self.given_back.fetch_add(1, Ordering::Relaxed);
            allocator::give_back_all();
        }
    }

    /// Tells each part what it may hold.
    fn lend(&self, state: &State, measures: Measures) {
        self.store.bound_memory(store_bound(&state.sizes, measures));
        self.pool.set_most(size(pool_bound(&state.sizes, measures.level)));
        if let Some(parts) = self.parts.get() {
            parts.bound_members(members_bound(&state.sizes, measures.level));
        }
    }

    /// The log hears of it when requests begin or cease to wait or to be refused.
    fn tell_level(&self, state: &State, level: Level) {
        if level.max(state.measures.level) < Level::Short {
            return;
        }
        let resident_mb = self.resident.load(Ordering::Relaxed) >> 20;
        let limit_mb = state.course.limit() >> 20;
        if level >= Level::Short {
            tracing::warn!(target: "control", id = 20_699, level = level.name(), resident_mb, limit_mb,
                "The process is near the end of its memory: requests wait or are refused");
        } else {
            tracing::info!(target: "control", id = 20_700, level = level.name(), resident_mb, limit_mb,
                "The process has memory again");
        }
    }

    /// Another `memoryLimitMB` while the server runs.
    fn set_limit(&self, limit_mb: u64) -> Result<(), String> {
        let mut state = self.state.lock();
        let sizes = state.sizes.followed_by(Sizes::within(limit_mb, &self.machine, &self.parameters))?;
        let StorageKnobs { cache_bytes, row_cache_bytes, shape, build_memory_bytes, .. } =
            sizes.storage().knobs();
        self.store.set_knobs(StorageKnobs {
            cache_bytes,
            row_cache_bytes,
            shape,
            build_memory_bytes,
            ..self.store.knobs()
        })?;
        state.course.set_limit(sizes.memory, sizes.cache);
        let measures = state.course.measures();
        state.sizes = sizes;
        self.lend(&state, measures);
        let transport = self.parts.get().and_then(|parts| parts.transport.upgrade());
        if let Some(transport) = transport {
            network::set_memory(&self.parameters, &transport, state.sizes.memory);
        }
        state.measures = measures;
        Ok(())
    }
}

/// What the store may hold at a level. Both caches shrink in the same proportion.
fn store_bound(sizes: &Sizes, measures: Measures) -> StoreMemory {
    let best = sizes.store_memory();
    let share = |part: u64| (part as f64 * (measures.caches as f64 / sizes.cache.max(1) as f64)) as u64;
    let (memtables, builds) = match measures.level {
        Level::Easy => (sizes.memtables, best.builds),
        Level::Tight => (sizes.memtables / 2, best.builds / 2),
        Level::Short | Level::Exhausted => (sizes.memtable, best.builds / 4),
    };
    StoreMemory {
        rows: share(best.rows),
        builds,
        engine: EngineMemory { cache: share(best.engine.cache), memtables: memtables.max(sizes.memtable) },
    }
}

/// What sorts and groups may hold at a level.
fn pool_bound(sizes: &Sizes, level: Level) -> u64 {
    match level {
        Level::Easy => sizes.queries,
        Level::Tight => sizes.queries / 2,
        Level::Short | Level::Exhausted => sizes.queries / 4,
    }
}

/// As a process of how much memory a member of a set keeps things for the others.
fn members_bound(sizes: &Sizes, level: Level) -> u64 {
    match level {
        Level::Easy => sizes.memory,
        Level::Tight => sizes.memory / 2,
        Level::Short | Level::Exhausted => sizes.memory / 4,
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Memory of this process that is in the machine's; `None` when the kernel does not say.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages = statm.split(' ').nth(1)?.parse::<u64>().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_the_resident_size() {
        let before = resident_bytes().expect("there is /proc here");
        let block = vec![1_u8; 64 << 20];
        let with = resident_bytes().expect("as before");
        assert!(with >= before.max(block.len() as u64), "{before} before, {with} with {}", block.len());
    }

    #[test]
    fn levels_take_from_memtables_and_queries() {
        let machine = Machine {
            memory: 512 << 20,
            memory_limit: None,
            processors: 2,
            allowed_processors: 2,
            processor_quota: None,
        };
        let sizes = Sizes::choose(&machine, &Parameters::default());
        let bound = |level, caches| store_bound(&sizes, Measures { level, caches });
        assert_eq!(bound(Level::Easy, sizes.cache), sizes.store_memory());
        let half = bound(Level::Tight, sizes.cache / 2);
        assert_eq!((half.engine.memtables, half.builds), (sizes.memtables / 2, 16 << 20));
        assert!(half.rows + half.engine.cache <= sizes.cache / 2 + 1);
        assert_eq!(bound(Level::Exhausted, 0).engine.memtables, sizes.memtable);
        assert_eq!(bound(Level::Short, 0).builds, 8 << 20);
        assert_eq!(pool_bound(&sizes, Level::Easy), 64 << 20);
        assert_eq!(pool_bound(&sizes, Level::Short), 16 << 20);
    }
}
