//! Time and randomness: of the machine, or of a simulation that runs on this thread. And how the machine
//! shares its processors among threads ([`niceness`]), which no simulation has.
//!
//! The crates that a simulation runs ([`simulated`]) take nothing that differs from run to run from
//! elsewhere, so that one seed gives one run. What they hash with a secret is not asked for here: the order
//! of such a table must never show.
//!
//! ```text
//!  document, query, storage, catalog, commands ─▶ now, random_bytes, … ─┬─▶ operating system
//!                                                                       └─▶ Simulation of this thread
//! ```
//! # Not here
//!
//! Waiting: who waits for a time gives its waker to the timers of `commands`, and threads have their own
//! clocks to sleep by.

pub mod niceness;
mod simulated;

pub use simulated::Simulation;

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// A moment of the monotonic clock.
#[inline]
pub fn now() -> Instant {
    if simulated::is_on() { simulated::now() } else { Instant::now() }
}

/// The time since a moment of [`now`].
#[inline]
pub fn elapsed(since: Instant) -> Duration {
    now().saturating_duration_since(since)
}

/// The time since 1970, UTC.
pub fn since_epoch() -> Duration {
    match simulated::is_on() {
        true => simulated::since_epoch(),
        false => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
    }
}

/// Bytes that nobody can guess, where the system has an entropy source.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if simulated::is_on() {
        simulated::fill(&mut bytes);
    } else if getrandom::fill(&mut bytes).is_err() {
        // Without an entropy source the process id keeps processes of one host apart.
        for (target, source) in bytes.iter_mut().zip(std::process::id().to_le_bytes()) {
            *target = source;
        }
    }
    bytes
}

/// A random UUID (version 4).
pub fn uuid() -> Uuid {
    uuid::Builder::from_random_bytes(random_bytes()).into_uuid()
}

/// A seed that differs from call to call, without a system call; not for secrets.
pub fn seed() -> u64 {
    match simulated::is_on() {
        true => u64::from_ne_bytes(random_bytes()),
        false => RandomState::new().hash_one(0_u8),
    }
}

/// What tells this process from others, and a number that it has not given before (modulo 2^32): the parts of
/// an object id.
pub fn unique_number() -> ([u8; 5], u32) {
    static PROCESS: OnceLock<[u8; 5]> = OnceLock::new();
    static NEXT: AtomicU32 = AtomicU32::new(0);
    if simulated::is_on() {
        return simulated::unique_number();
    }
    let process = PROCESS.get_or_init(|| {
        let [a, b, c, process @ ..] = random_bytes::<8>();
        NEXT.store(u32::from_be_bytes([0, a, b, c]), Ordering::Relaxed);
        process
    });
    (*process, NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Seconds since 1970 in the upper half and an ordinal in the lower one; later than all that this process has
/// had before.
pub fn timestamp() -> u64 {
    static LATEST: AtomicU64 = AtomicU64::new(0);
    if simulated::is_on() {
        return simulated::timestamp();
    }
    let first = since_epoch().as_secs() << 32 | 1;
    let next = |latest: u64| first.max(latest + 1);
    let latest = LATEST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |latest| Some(next(latest)));
    latest.map_or(first, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Sample = (u64, [u8; 9], u64, ([u8; 5], u32), u64, Duration);

    /// Some of everything.
    fn sample() -> Sample {
        let began = now();
        let random = (seed(), random_bytes(), seed());
        (random.0, random.1, random.2, unique_number(), timestamp(), elapsed(began))
    }

    #[test]
    fn a_seed_decides_everything() {
        let run = |seed| {
            let simulation = Simulation::begin(seed);
            let first = sample();
            simulation.advance(Duration::from_secs(1));
            (first, sample())
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        assert_ne!(sample().1, sample().1, "without a simulation");
    }

    #[test]
    fn simulated_time_goes_on_by_itself_and_when_told() {
        let simulation = Simulation::begin(7);
        let (before, unix) = (now(), since_epoch());
        assert!(now() > before, "who looks at the clock until it has moved comes to an end");
        simulation.advance(Duration::from_secs(3600));
        assert!(elapsed(before) >= Duration::from_secs(3600));
        assert!(since_epoch() - unix >= Duration::from_secs(3600));
    }

    #[test]
    fn numbers_are_given_once() {
        let check = || {
            let [(process, first), (same, second)] = [unique_number(), unique_number()];
            assert_eq!((process, first.wrapping_add(1)), (same, second));
            assert!(timestamp() < timestamp());
        };
        check();
        let _simulation = Simulation::begin(3);
        check();
    }
}
