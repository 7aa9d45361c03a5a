//! The disk's own `fdatasync` beside a load: what no server on it can be better than.

use crate::error::BenchError;
use crate::generator::Latencies;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// As often as a server's journal is synced.
const INTERVAL: Duration = Duration::from_millis(100);
/// The file begins anew behind so many bytes.
const FILE_BYTES: u64 = 64 << 20;

/// A thread that appends to a file of its own and syncs it, at an interval.
#[derive(Debug)]
pub(super) struct SyncProbe {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<Vec<(Duration, Duration)>>>,
}

/// How long syncs took.
#[derive(Debug, PartialEq)]
pub(super) struct Syncs {
    pub(super) latencies: Latencies,
    /// When each ended, counted from the first one's beginning, and how long it took.
    all: Vec<(Duration, Duration)>,
}

impl SyncProbe {
    /// Begins, in a file of this directory that goes with the thread. Each write has so many bytes.
    pub(super) fn start(directory: &Path, bytes: usize) -> Result<Self, BenchError> {
        let file = tempfile::tempfile_in(directory).map_err(BenchError::io("make a file to sync"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("sync-probe".to_owned())
            .spawn(move || sync_until(&until, file, bytes))
            .map_err(BenchError::io("start a thread"))?;
        Ok(SyncProbe { stop, thread })
    }

    pub(super) fn finish(self) -> Result<Syncs, BenchError> {
        self.stop.store(true, Ordering::Relaxed);
        let panicked =
            |_| BenchError::Program { program: "the probe of the disk", problem: "it panicked".into() };
        let all = self.thread.join().map_err(panicked)?.map_err(BenchError::io("sync a file"))?;
        Ok(Syncs::of(all))
    }
}

fn sync_until(stop: &AtomicBool, mut file: File, bytes: usize) -> std::io::Result<Vec<(Duration, Duration)>> {
    let (begun, data, mut all) = (Instant::now(), vec![0x5a; bytes], Vec::new());
    while !stop.load(Ordering::Relaxed) {
        if file.stream_position()? >= FILE_BYTES {
            file.set_len(0)?;
            file.rewind()?;
        }
        file.write_all(&data)?;
        let started = Instant::now();
        file.sync_data()?;
        let took = started.elapsed();
        all.push((begun.elapsed(), took));
        std::thread::sleep(INTERVAL.saturating_sub(took));
    }
    Ok(all)
}

impl Syncs {
    fn of(all: Vec<(Duration, Duration)>) -> Self {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for (_, took) in &all {
            *counts.entry(u64::try_from(took.as_micros()).unwrap_or(u64::MAX)).or_default() += 1;
        }
        Syncs { latencies: Latencies(counts.into_iter().collect()), all }
    }

    /// The longest sync that ended in each second from this moment on, in milliseconds.
    pub(super) fn longest_by_second(&self, from: Duration) -> Vec<(f64, f64)> {
        let mut longest: BTreeMap<u64, f64> = BTreeMap::new();
        for (ended, took) in self.all.iter().filter(|(ended, _)| *ended >= from) {
            let place = longest.entry((*ended - from).as_secs()).or_default();
            *place = place.max(took.as_secs_f64() * 1_000.0);
        }
        longest.into_iter().map(|(second, longest)| (second as f64, longest)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_synced_until_the_end_and_told_by_second() {
        let directory = tempfile::tempdir().expect("a directory");
        let probe = SyncProbe::start(directory.path(), 4_096).expect("starts");
        std::thread::sleep(INTERVAL * 3);
        let syncs = probe.finish().expect("ends");
        assert!(syncs.latencies.count() >= 2, "{syncs:?}");
        let at = Duration::from_millis;
        let syncs =
            Syncs::of(vec![(at(900), at(70)), (at(1_100), at(3)), (at(1_900), at(8)), (at(3_500), at(5))]);
        assert_eq!(syncs.longest_by_second(at(1_000)), [(0.0, 8.0), (2.0, 5.0)]);
        assert_eq!(syncs.latencies.longest_ms(), 70.0);
    }
}
