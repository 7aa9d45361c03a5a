//! Whole members with data, in one process on simulated time, network and disk.
//!
//! A seed decides everything: `HEDDLE_SIMULATION_SEED=n` runs one of them alone, `HEDDLE_SIMULATION_SEEDS=n` so
//! many.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail so")]

mod checker;
mod client;
mod disk;
#[path = "../simulation/network.rs"]
mod network;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use world::{Bug, World};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn nothing_acknowledged_is_lost_or_done_twice_and_members_become_equal() {
    let seeds = match number("HEDDLE_SIMULATION_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HEDDLE_SIMULATION_SEEDS").unwrap_or(40),
    };
    let (mut writes, mut reads, mut views, mut terms, mut fresh) = (0, 0, 0, 0, 0);
    for seed in seeds.clone() {
        let finding = catch_unwind(|| {
            let mut world = World::new(seed, None);
            world.run();
            world
        });
        let Ok(world) = finding else { panic!("HEDDLE_SIMULATION_SEED={seed}") };
        writes += world.checker.writes;
        reads += world.checker.reads;
        views += world.checker.views;
        terms += world.terms();
        fresh += world.fresh_claims;
    }
    println!("{seeds:?}: {writes} writes, {reads} reads, {views} views, {fresh} of known age, {terms} terms");
    assert!(writes > 0 && reads > 0 && views > 0 && fresh > 0);
}

#[track_caller]
fn finds(bug: Bug, seeds: u64) {
    let found = (0..seeds).find(|seed| {
        let run = AssertUnwindSafe(|| World::new(*seed, Some(bug)).run());
        catch_unwind(run).is_err()
    });
    println!("{bug:?}: found by seed {found:?}");
    assert!(found.is_some(), "{bug:?} was not found in {seeds} seeds");
}

#[test]
fn a_forgotten_sync_is_found() {
    finds(Bug::ForgottenSync, 40);
}

#[test]
fn an_acknowledgement_before_a_majority_is_found() {
    finds(Bug::AcknowledgedBeforeMajority, 40);
}

#[test]
fn a_view_that_is_published_too_early_is_found() {
    finds(Bug::PublishedEarly, 200);
}

#[test]
fn an_entry_that_is_applied_twice_is_found() {
    finds(Bug::AppliedTwice, 40);
}

#[test]
fn a_stale_read_is_found() {
    finds(Bug::StaleRead, 120);
}
