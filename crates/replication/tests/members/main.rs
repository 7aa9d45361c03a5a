//! Whole members with data, in one process on simulated time, network and disk.
//!
//! A seed decides everything: `HEDDLE_SIMULATION_SEED=n` runs one of them alone, `HEDDLE_SIMULATION_TRACE=1`
//! prints its every step (with `--nocapture`), `HEDDLE_SIMULATION_SEEDS=n` runs so many, from
//! `HEDDLE_SIMULATION_FIRST=n` on.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail so")]

mod checker;
mod client;
mod clock;
mod disk;
mod end;
mod faults;
mod files;
mod linear;
mod member;
#[path = "../simulation/network.rs"]
mod network;
mod operator;
mod past;
mod planted;
mod wires;
mod world;

use planted::Bug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use world::{Figures, World};

const SEEDS: u64 = 300;
/// A planted fault is found by one of so many.
const SEEDS_TO_FIND: u64 = 1_000;
/// Further seeds are not begun when so many have failed.
const FAILURES_MAX: usize = 5;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn nothing_acknowledged_is_lost_or_done_twice_and_members_become_equal() {
    let (first, end) = match number("HEDDLE_SIMULATION_SEED") {
        Some(seed) => (seed, seed + 1),
        None => {
            let first = number("HEDDLE_SIMULATION_FIRST").unwrap_or(0);
            (first, first + number("HEDDLE_SIMULATION_SEEDS").unwrap_or(SEEDS))
        }
    };
    let next = AtomicU64::new(first);
    let (figures, failed) = (Mutex::new(Figures::default()), Mutex::new(Vec::new()));
    let run = || {
        while failed.lock().unwrap().len() < FAILURES_MAX {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                break;
            }
            match catch_unwind(|| World::new(seed, None).run()) {
                Ok(found) => *figures.lock().unwrap() += found,
                Err(_) => {
                    println!("HEDDLE_SIMULATION_SEED={seed} has failed");
                    failed.lock().unwrap().push(seed);
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get) as u64;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.min(end - first)).map(|_| scope.spawn(run)).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it catches what a seed finds"));
    });
    let figures = figures.into_inner().unwrap();
    println!("{} seeds from {first} on: {figures:?}", end - first);
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "seeds that have failed (HEDDLE_SIMULATION_SEED=n): {failed:?}");
    if end - first >= SEEDS {
        assert!(figures.are_all_there(), "nothing of a kind has happened: {figures:?}");
        // Some are where all have just died, and nobody knows who copies; with nothing kept it is one of six.
        assert!(figures.outrun_within_bounds * 20 < figures.copied, "the log is not kept: {figures:?}");
    }
}

#[track_caller]
fn finds(bug: Bug) {
    let found = (0..SEEDS_TO_FIND).find(|seed| {
        let run = AssertUnwindSafe(|| World::new(*seed, Some(bug)).run());
        catch_unwind(run).is_err()
    });
    println!("{bug:?}: found by seed {found:?}");
    assert!(found.is_some(), "{bug:?} was not found in {SEEDS_TO_FIND} seeds");
}

#[test]
fn a_forgotten_sync_is_found() {
    finds(Bug::ForgottenSync);
}

#[test]
fn a_forgotten_vote_is_found() {
    finds(Bug::ForgottenVote);
}

#[test]
fn an_acknowledgement_before_a_majority_is_found() {
    finds(Bug::AcknowledgedBeforeMajority);
}

#[test]
fn a_view_that_is_published_too_early_is_found() {
    finds(Bug::PublishedEarly);
}

#[test]
fn an_entry_that_is_applied_twice_is_found() {
    finds(Bug::AppliedTwice);
}

#[test]
fn a_stale_read_is_found() {
    finds(Bug::StaleRead);
}

#[test]
fn a_write_that_a_full_disk_has_refused_is_found() {
    finds(Bug::BelievedFullDisk);
}

#[test]
fn a_seed_gives_one_run() {
    let run = |seed| World::new(seed, None).run();
    for seed in 0..2 {
        // Another thread has other hash seeds and other thread locals.
        let other = std::thread::spawn(move || run(seed)).join().expect("the seed runs");
        assert_eq!(run(seed), other, "seed {seed}");
    }
}
