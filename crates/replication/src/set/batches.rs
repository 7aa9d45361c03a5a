//! The batches that a member applies of other leaders' operations: how many there were, and whether one is
//! under way.

use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks at whether a batch may be shown.
const PAUSE: Duration = Duration::from_millis(5);

/// What a member has applied since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchFigures {
    /// Batches of which readers were shown the end.
    pub batches: u64,
    /// How long they took together.
    pub time: Duration,
    /// Operations in them.
    pub operations: u64,
}

type IsPaused = Box<dyn Fn() -> bool + Send + Sync>;

/// Written by who applies.
#[derive(Default)]
pub(crate) struct Batches {
    is_under_way: AtomicBool,
    /// A leaf in the lock order.
    figures: Mutex<BatchFigures>,
    /// Whether a batch is not to be shown yet, for tests.
    is_paused: OnceLock<IsPaused>,
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Batches").field("figures", &self.figures()).finish_non_exhaustive()
    }
}

impl Batches {
    /// A batch is begun; when, for its end.
    pub(super) fn begin(&self) -> Instant {
        self.is_under_way.store(true, Ordering::Release);
        ambient::now()
    }

    /// All of a batch is in the data, and is about to be shown.
    pub(super) fn await_showing(&self) {
        while self.is_paused.get().is_some_and(|is_paused| is_paused()) {
            std::thread::sleep(PAUSE);
        }
    }

    /// A batch is shown.
    pub(super) fn end(&self, begun: Instant, operations: usize) {
        let mut figures = self.figures.lock();
        figures.batches += 1;
        figures.time += ambient::elapsed(begun);
        figures.operations += operations as u64;
        drop(figures);
        self.is_under_way.store(false, Ordering::Release);
    }

    pub(super) fn pause_while(&self, is_paused: IsPaused) {
        assert!(self.is_paused.set(is_paused).is_ok(), "one place says whether batches are paused");
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::Acquire)
    }

    pub(super) fn figures(&self) -> BatchFigures {
        *self.figures.lock()
    }
}
