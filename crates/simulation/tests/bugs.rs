//! A planted fault is found within a bounded number of seeds.

use simulation::{Bug, run};

const SEEDS_MAX: u64 = 60;

#[test]
fn every_planted_bug_is_found() {
    let missed: Vec<String> = std::thread::scope(|scope| {
        let searches: Vec<_> = Bug::ALL.map(|bug| (bug, scope.spawn(move || found_after(bug)))).into();
        let results = searches.into_iter().map(|(bug, search)| (bug, search.join().expect("the runs end")));
        results
            .inspect(|(bug, found)| println!("{bug:?}: {found:?}"))
            .filter(|(_, found)| found.is_none())
            .map(|(bug, _)| format!("{bug:?}"))
            .collect()
    });
    assert!(missed.is_empty(), "not found in {SEEDS_MAX} seeds: {missed:?}");
}

/// The seed that finds it, and what is said.
fn found_after(bug: Bug) -> Option<(u64, String)> {
    (0..SEEDS_MAX).find_map(|seed| {
        let failure = run(seed, Some(bug)).failure?;
        Some((seed, failure.lines().next().unwrap_or_default().to_owned()))
    })
}
