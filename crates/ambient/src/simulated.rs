//! Time and randomness of a simulation. It has one thread, so that its state belongs to the thread.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Where simulated time begins: 2026-01-01, in seconds since 1970.
const BEGINS_AT: Duration = Duration::from_secs(1_767_225_600);
/// Looking at the clock takes up to so many nanoseconds.
const LOOK_NANOS_MAX: u64 = 4_000;

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    static STATE: RefCell<State> = RefCell::new(State::new(0));
}

struct State {
    /// Since the simulation began.
    elapsed: Duration,
    random: fastrand::Rng,
    process: [u8; 5],
    next_number: u32,
    latest_timestamp: u64,
}

impl State {
    fn new(seed: u64) -> State {
        State {
            elapsed: Duration::ZERO,
            random: fastrand::Rng::with_seed(seed),
            process: [0; 5],
            next_number: 0,
            latest_timestamp: 0,
        }
    }

    fn look(&mut self) -> Duration {
        let took = self.random.u64(1..=LOOK_NANOS_MAX);
        self.elapsed += Duration::from_nanos(took);
        self.elapsed
    }
}

/// From here to its end this thread has simulated time and randomness.
#[derive(Debug)]
pub struct Simulation {
    /// It stays on its thread.
    thread: PhantomData<*const ()>,
}

impl Simulation {
    /// Begins one whose time and randomness come from the seed. A thread has one at a time.
    pub fn begin(seed: u64) -> Simulation {
        assert!(!IS_ON.replace(true), "this thread simulates already");
        STATE.with_borrow_mut(|state| {
            *state = State::new(seed);
            state.random.fill(&mut state.process);
        });
        Simulation { thread: PhantomData }
    }

    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        STATE.with_borrow_mut(|state| state.elapsed += time);
    }

    /// The time since it began, without a look at the clock.
    pub fn elapsed(&self) -> Duration {
        STATE.with_borrow(|state| state.elapsed)
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        IS_ON.set(false);
    }
}

#[inline]
pub(crate) fn is_on() -> bool {
    IS_ON.get()
}

#[cold]
pub(crate) fn now() -> Instant {
    /// What simulated moments are counted from: an [`Instant`] cannot be made of a number.
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now) + STATE.with_borrow_mut(State::look)
}

#[cold]
pub(crate) fn since_epoch() -> Duration {
    BEGINS_AT + STATE.with_borrow_mut(State::look)
}

pub(crate) fn fill(bytes: &mut [u8]) {
    STATE.with_borrow_mut(|state| state.random.fill(bytes));
}

pub(crate) fn unique_number() -> ([u8; 5], u32) {
    STATE.with_borrow_mut(|state| {
        state.next_number += 1;
        (state.process, state.next_number)
    })
}

pub(crate) fn timestamp() -> u64 {
    STATE.with_borrow_mut(|state| {
        let seconds = (BEGINS_AT + state.elapsed).as_secs();
        state.latest_timestamp = (seconds << 32 | 1).max(state.latest_timestamp + 1);
        state.latest_timestamp
    })
}
