//! Room on the data disk: what is refused when it runs out, and the reserve that keeps a full disk from being
//! a trap.
//!
//! ```text
//!            free < reserve + demand               free < reserve / 4, or the engine found no room
//!  Normal ───────────────────────────▶ Low ───────────────────────────▶ Full
//!    ▲   inserts, growing updates are    │   the reserve is given up, half  │
//!    │   refused; the reserve is held    │   of it and half of it again     │
//!    └──────────────◀────────────────────┴────────────────◀─────────────────┘
//!           free >= 2 * reserve + demand, after the reserve has been made again
//! ```
//! *Demand* is what flushes and the next compactions of level 0 are about to write. Commits read one atomic;
//! the disk is looked at by the governor. See `docs/design/disk-reserve.md`.

mod disk;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::engine::Pressure;
use crate::error::CommitError;
use crate::options::StorageOptions;
use crate::unit::Growth;
pub(crate) use disk::DataDisk;

/// The reserve takes this share of the file system, in hundredths, …
const RESERVE_PERCENT: u64 = 1;
/// … on small ones up to this share, so that it is worth something, …
const RESERVE_PERCENT_MAX: u64 = 5;
/// … and never more than this.
const RESERVE_BYTES_MAX: u64 = 1 << 30;
/// What flushes and compactions need beside memtables of two keyspaces.
const RESERVE_BESIDE_MEMTABLES: u64 = 64 << 20;
/// The share of the reserve that is kept for the next starts when the rest has been given up.
const KEPT_FOR_START: u64 = 8;
/// A start needs so much in any case: manifest, options, a log, and tables of what was not flushed.
const START_BYTES: u64 = 8 << 20;
/// The disk is full when less than this share of the reserve is free beside it.
const FULL_BELOW: u64 = 4;
/// While less than this share of the reserve is free, the next half of it is given up …
const NEXT_HALF_BELOW: u64 = 16;
/// … this long after the last one: whoever fills the disk and then fails has not had all of it.
const NEXT_HALF_PAUSE: Duration = Duration::from_secs(2);
/// With less room than this, whatever the reserve has, a write may find the disk full.
const ENOUGH_MIN: u64 = 64 << 20;
/// An engine that found the disk full looks for room every five seconds. Commits that met it wait for that, …
const HOLD: Duration = Duration::from_secs(15);
/// … and after this time it was not enough room.
const ENGINE_PATIENCE: Duration = Duration::from_secs(8);

/// How much room there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes of the file system.
    pub total: u64,
    /// Bytes of it that this process may still write.
    pub free: u64,
}

/// The file system that holds the data, and the reserve on it.
pub trait Disk: Send + Sync + 'static {
    /// How much room there is now.
    ///
    /// # Errors
    /// What the operating system says.
    fn room(&self) -> std::io::Result<Room>;

    /// Makes the reserve this large. What it gives up is free when this returns.
    ///
    /// # Errors
    /// When there is no room for it, or the file system cannot set room aside.
    fn set_reserve(&self, bytes: u64) -> std::io::Result<()>;

    /// Bytes the reserve has now.
    fn reserve(&self) -> u64;
}

/// How the room is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum SpaceState {
    /// There is room.
    #[default]
    Normal = 0,
    /// Nothing may grow.
    Low = 1,
    /// Only what makes room may go on, and the reserve is given up for it.
    Full = 2,
}

impl SpaceState {
    /// The state's name in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            SpaceState::Normal => "normal",
            SpaceState::Low => "low",
            SpaceState::Full => "full",
        }
    }
}

/// Figures of the data disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStatistics {
    /// How the room is judged.
    pub state: SpaceState,
    /// Bytes of the file system.
    pub total_bytes: u64,
    /// Bytes of it that are free, beside the reserve.
    pub free_bytes: u64,
    /// Bytes of the reserve.
    pub reserve_bytes: u64,
}

/// Watches a disk and answers whether a unit may be written.
pub(crate) struct Space {
    /// `None` for a store in memory.
    disk: Option<Arc<dyn Disk>>,
    /// What the reserve should have; zero when there is none.
    reserve_bytes: u64,
    /// A [`SpaceState`]. Written under `watch`.
    state: AtomicU8,
    /// Nothing can be written at all until somebody makes room.
    refuses_all: AtomicBool,
    watch: Mutex<SpaceWatch>,
}

#[derive(Default)]
struct SpaceWatch {
    /// Free bytes and the reserve when they last were found to be little.
    room_when_low: u64,
    /// When a part of the reserve was last given up.
    given_up: Option<Instant>,
    /// Whether commits that found the disk full wait for the engine to use it.
    holds: bool,
}

/// The reserve of a disk of this size, for memtables of this size.
pub(crate) fn default_reserve(total: u64, memtable_bytes: u64) -> u64 {
    let wanted = (total / 100 * RESERVE_PERCENT).max(memtable_bytes * 2 + RESERVE_BESIDE_MEMTABLES);
    wanted.min(RESERVE_BYTES_MAX).min(total / 100 * RESERVE_PERCENT_MAX)
}

impl Space {
    /// Of a store in memory.
    pub(crate) fn unwatched() -> Space {
        Space::new(None, 0)
    }

    /// On a disk, with the reserve that the options ask for.
    pub(crate) fn of(disk: Arc<dyn Disk>, options: &StorageOptions) -> std::io::Result<Space> {
        let by_default = default_reserve(disk.room()?.total, options.memtable_bytes);
        Ok(Space::new(Some(disk), options.disk_reserve_bytes.unwrap_or(by_default)))
    }

    fn new(disk: Option<Arc<dyn Disk>>, reserve_bytes: u64) -> Space {
        let (state, refuses_all) = (AtomicU8::new(0), AtomicBool::new(false));
        Space { disk, reserve_bytes, state, refuses_all, watch: Mutex::default() }
    }

    /// Before the engine is opened, which needs some room itself: on a full disk half of what is left of the
    /// reserve is given up for it. Otherwise the reserve is made.
    pub(crate) fn before_open(&self) -> std::io::Result<()> {
        let Some(disk) = &self.disk else { return Ok(()) };
        let (free, held) = (disk.room()?.free, disk.reserve());
        if held > 0 && free < self.full_below() {
            disk.set_reserve(held / 2)?;
            self.enter(SpaceState::Full, 0, free);
            return Ok(());
        }
        // The reserve comes first, unless it would be given up at once.
        if free + held >= self.reserve_bytes + self.full_below() {
            self.make_reserve(&**disk);
        }
        Ok(())
    }

    /// The engine found no room to open: whether there was still something to give up for it.
    pub(crate) fn give_up_all(&self) -> bool {
        let Some(disk) = &self.disk else { return false };
        let held = disk.reserve();
        let given = held > 0 && disk.set_reserve(0).is_ok();
        if given {
            self.enter(SpaceState::Full, 0, 0);
        }
        given
    }

    #[inline]
    pub(crate) fn state(&self) -> SpaceState {
        match self.state.load(Ordering::Relaxed) {
            0 => SpaceState::Normal,
            1 => SpaceState::Low,
            _ => SpaceState::Full,
        }
    }

    /// Why a unit of this kind may not be written now.
    #[inline]
    pub(crate) fn refusal(&self, growth: Growth) -> Option<CommitError> {
        match self.state() {
            SpaceState::Normal => None,
            SpaceState::Full if self.refuses_all.load(Ordering::Relaxed) => Some(exhausted()),
            state => refused(state, growth),
        }
    }

    /// Whether the engine has found no room for longer than commits wait for it, and nothing is left to give
    /// up: another one has taken all of it.
    pub(crate) fn is_exhausted(&self, pressure: &Pressure, now: Instant) -> bool {
        let given_up = self.watch.lock().given_up;
        self.state() == SpaceState::Full
            && pressure.out_of_space
            && given_up.is_none_or(|given_up| now.saturating_duration_since(given_up) >= HOLD)
            && self.reserve_held() <= self.kept_for_start()
    }

    /// Refuses whatever is to be written from now on, or no more than usual.
    pub(crate) fn refuse_all(&self, all: bool) {
        self.refuses_all.store(all, Ordering::Relaxed);
    }

    /// Whether a write may find the disk full at any moment.
    pub(crate) fn is_scarce(&self) -> bool {
        let Some(disk) = &self.disk else { return false };
        let enough = self.reserve_bytes.saturating_mul(2).max(ENOUGH_MIN);
        self.state() != SpaceState::Normal || !disk.room().is_ok_and(|room| room.free >= enough)
    }

    /// Looks at the disk and acts. Called by the governor; `memtable_bytes` is what a file of level 0 has at
    /// most.
    pub(crate) fn look(&self, pressure: &Pressure, memtable_bytes: u64, now: Instant) {
        let Some(disk) = &self.disk else { return };
        let free = match disk.room() {
            Ok(room) => room.free,
            Err(error) => {
                tracing::debug!(%error, "the room on the data disk is not known");
                return;
            }
        };
        let demand =
            pressure.unflushed_bytes.saturating_add(pressure.level0_files.saturating_mul(memtable_bytes));
        let state = self.state();
        if pressure.out_of_space || free < self.full_below() {
            if state != SpaceState::Full || self.needs_more(pressure, free, now) {
                self.give_up(&**disk, now);
            }
        } else if state == SpaceState::Normal {
            if self.reserve_bytes > 0 && free < self.reserve_bytes.saturating_add(demand) {
                self.enter(SpaceState::Low, free + disk.reserve(), free);
            }
        } else {
            self.go_back(&**disk, free, demand);
        }
    }

    /// A commit found the disk full. Whether it should wait, because a part of the reserve is given up for
    /// it.
    pub(crate) fn make_way(&self, now: Instant) -> bool {
        let made = self.disk.as_ref().is_some_and(|disk| self.give_up(&**disk, now));
        self.watch.lock().holds |= made;
        made
    }

    /// Whether commits wait until the engine writes again.
    pub(crate) fn holds_commits(&self, now: Instant, engine_writes: impl FnOnce() -> bool) -> bool {
        let mut watch = self.watch.lock();
        watch.holds = watch.holds
            && watch.given_up.is_some_and(|given_up| now.saturating_duration_since(given_up) < HOLD)
            && !engine_writes();
        watch.holds
    }

    /// Bytes that something large may take without writes being refused afterwards.
    pub(crate) fn room_beside_data(&self) -> u64 {
        let room = self.disk.as_ref().and_then(|disk| disk.room().ok());
        room.map_or(u64::MAX, |room| room.free.saturating_sub(self.reserve_bytes))
    }

    pub(crate) fn statistics(&self) -> SpaceStatistics {
        let room = self.disk.as_ref().and_then(|disk| disk.room().ok()).unwrap_or_default();
        SpaceStatistics {
            state: self.state(),
            total_bytes: room.total,
            free_bytes: room.free,
            reserve_bytes: self.reserve_held(),
        }
    }

    fn reserve_held(&self) -> u64 {
        self.disk.as_ref().map_or(0, |disk| disk.reserve())
    }

    fn kept_for_start(&self) -> u64 {
        (self.reserve_bytes / KEPT_FOR_START).max(START_BYTES.min(self.reserve_bytes / 2))
    }

    fn full_below(&self) -> u64 {
        self.reserve_bytes / FULL_BELOW
    }

    /// Whether what was given up of the reserve was not enough.
    fn needs_more(&self, pressure: &Pressure, free: u64, now: Instant) -> bool {
        let given_up = self.watch.lock().given_up;
        let since = given_up.map_or(Duration::MAX, |given_up| now.saturating_duration_since(given_up));
        (free < self.reserve_bytes / NEXT_HALF_BELOW && since >= NEXT_HALF_PAUSE)
            || (pressure.out_of_space && since >= ENGINE_PATIENCE)
    }

    /// Gives up half of the reserve, but for what a start needs. Whether there was anything to give up.
    fn give_up(&self, disk: &dyn Disk, now: Instant) -> bool {
        let held = disk.reserve();
        let kept = (held / 2).max(self.kept_for_start());
        let free = disk.room().map_or(0, |room| room.free);
        let mut given = held > kept;
        if given && let Err(error) = disk.set_reserve(kept) {
            tracing::error!(%error, "the disk reserve cannot be given up");
            given = false;
        }
        if given {
            self.watch.lock().given_up = Some(now);
        }
        self.enter(SpaceState::Full, 0, free);
        given
    }

    /// Back to normal when there is room again, beside the reserve.
    fn go_back(&self, disk: &dyn Disk, free: u64, demand: u64) {
        let held = disk.reserve();
        let before = self.watch.lock().room_when_low;
        let wanted = self.reserve_bytes.saturating_mul(3).saturating_add(demand);
        let wanted = wanted.max(before.saturating_add(self.reserve_bytes));
        let for_starts = self.kept_for_start();
        if free + held >= wanted && self.make_reserve(disk) {
            self.enter(SpaceState::Normal, 0, free);
        } else if held < for_starts
            && let Err(error) = disk.set_reserve(for_starts)
        {
            tracing::debug!(%error, "what the next start needs cannot be set aside");
        }
    }

    fn make_reserve(&self, disk: &dyn Disk) -> bool {
        if disk.reserve() == self.reserve_bytes {
            return true;
        }
        match disk.set_reserve(self.reserve_bytes) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => false,
            Err(error) => {
                tracing::warn!(%error, "no disk reserve: this file system does not set room aside");
                true
            }
        }
    }

    fn enter(&self, state: SpaceState, room: u64, free: u64) {
        let mut watch = self.watch.lock();
        let before = self.state();
        if before == state {
            return;
        }
        self.state.store(state as u8, Ordering::Relaxed);
        if before == SpaceState::Normal {
            watch.room_when_low = room;
        }
        let reserve = self.reserve_held();
        match state {
            SpaceState::Low => tracing::warn!(
                free_bytes = free,
                reserve_bytes = reserve,
                "the data disk is nearly full: what grows is refused, deletes and drops go on"
            ),
            SpaceState::Full => tracing::error!(
                free_bytes = free,
                reserve_bytes = reserve,
                "the data disk is full: the disk reserve is given up for deletes, drops and compaction"
            ),
            SpaceState::Normal => {
                *watch = SpaceWatch::default();
                tracing::info!(
                    free_bytes = free,
                    reserve_bytes = reserve,
                    "the data disk has room again: writes go on"
                );
            }
        }
    }
}

#[cold]
fn exhausted() -> CommitError {
    CommitError::NoSpace(Arc::from(
        "the disk is full, what the disk reserve has given up as well: nothing can be written until there is \
         room",
    ))
}

#[cold]
fn refused(state: SpaceState, growth: Growth) -> Option<CommitError> {
    let refuses = match state {
        SpaceState::Normal => false,
        SpaceState::Low => growth == Growth::Grows,
        SpaceState::Full => matches!(growth, Growth::Grows | Growth::Keeps),
    };
    refuses.then(|| {
        CommitError::NoSpace(Arc::from(match state {
            SpaceState::Full => "the disk is full, only deletes and drops go on until there is room",
            _ => "the disk is nearly full, nothing may grow until there is room",
        }))
    })
}

#[cfg(test)]
mod tests;
