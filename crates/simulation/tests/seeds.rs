//! Many seeds: the server keeps its promises in each of them.
//!
//! `HEDDLE_SIMULATION_SEED=n` runs one and prints its trace with `HEDDLE_SIMULATION_TRACE=1`;
//! `HEDDLE_SIMULATION_SEEDS=n` runs so many.

use simulation::run;
use std::sync::atomic::{AtomicU64, Ordering};

const SEEDS: u64 = 500;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn every_seed_keeps_every_promise() {
    if let Some(seed) = number("HEDDLE_SIMULATION_SEED") {
        let outcome = run(seed, None);
        assert!(outcome.failure.is_none(), "{}", outcome.failure.unwrap_or_default());
        return;
    }
    let seeds = number("HEDDLE_SIMULATION_SEEDS").unwrap_or(SEEDS);
    let (next, commands, starts) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let failures = parking_lot::Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds || failures.lock().len() >= 5 {
                        break;
                    }
                    let outcome = run(seed, None);
                    commands.fetch_add(outcome.commands, Ordering::Relaxed);
                    starts.fetch_add(outcome.starts, Ordering::Relaxed);
                    failures.lock().extend(outcome.failure);
                }
            });
        }
    });
    let failures = failures.into_inner();
    assert!(failures.is_empty(), "{} seeds fail:\n{}", failures.len(), failures.join("\n"));
    let (commands, starts) = (commands.into_inner(), starts.into_inner());
    println!("{seeds} seeds, {commands} commands, {starts} starts");
    assert!(
        commands > 50 * seeds && starts > 2 * seeds,
        "the runs do something: {commands} commands, {starts} starts"
    );
}

#[test]
fn a_seed_gives_one_run() {
    for seed in 1_000_000..1_000_008 {
        let first = run(seed, None);
        // Another thread has other hash seeds and other thread locals.
        let second = std::thread::spawn(move || run(seed, None)).join().expect("the run ends");
        assert_eq!((first.hash, first.commands), (second.hash, second.commands), "seed {seed}");
    }
    assert_ne!(run(1, None).hash, run(2, None).hash);
}
