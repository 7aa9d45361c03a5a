//! Holding work to a rate that several may share.

use super::{WorkKind, ask};
use crate::server::ServiceContext;
use catalog::BuildPace;
use parking_lot::Mutex;
use query::calendar::WorkRate;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A command does not go to sleep for less.
const REST_MIN: Duration = Duration::from_millis(5);

/// When everything is paid for that was done.
#[derive(Debug, Default)]
pub(crate) struct WorkPace(Mutex<Option<Instant>>);

impl WorkPace {
    /// How long to rest after so much was done at this rate.
    pub(crate) fn rest_after(&self, rate: WorkRate, documents: u64, bytes: u64) -> Duration {
        let micros = rate.micros_for(documents, bytes);
        if micros == 0 {
            return Duration::ZERO;
        }
        let now = ambient::now();
        let mut paid = self.0.lock();
        let until = paid.map_or(now, |paid| paid.max(now)) + Duration::from_micros(micros);
        *paid = Some(until);
        until.saturating_duration_since(now)
    }
}

/// The rate of all index builds together.
#[derive(Debug)]
struct BuildsPace {
    server: Weak<ServiceContext>,
    pace: WorkPace,
}

impl BuildPace for BuildsPace {
    fn rest_after(&self, documents: u64, bytes: u64) -> Duration {
        let Some(server) = self.server.upgrade() else { return Duration::ZERO };
        // Outside of their window nothing but the I/O budget holds those that somebody waits for.
        match ask(&server, WorkKind::IndexBuilds, None).rate() {
            Some(rate) => self.pace.rest_after(rate, documents, bytes),
            None => Duration::ZERO,
        }
    }

    fn may_go_on(&self) -> bool {
        // Where another member leads meanwhile there is nothing to wait for: it cannot become ready here.
        self.server.upgrade().is_none_or(|server| {
            server.node.replays() || ask(&server, WorkKind::IndexBuilds, None).rate().is_some()
        })
    }
}

/// How long `$out` or `$merge` rests after it has written so much: what it writes is paid for in the part of
/// the I/O budget that all work beside flush and compaction shares, and at the calendar's rate. On a thread
/// that may read the disk.
pub(crate) fn rest_of_output(server: &ServiceContext, documents: u64, bytes: u64) -> Duration {
    let by_rate = match ask(server, WorkKind::Out, None).rate() {
        Some(rate) => server.node.calendar.outputs.rest_after(rate, documents, bytes),
        // What has begun goes on behind the end of its window.
        None => Duration::ZERO,
    };
    let rest = by_rate.max(server.node.store.background_pause(bytes));
    // What is left out is not forgotten: it is paid for with the next.
    if rest < REST_MIN { Duration::ZERO } else { rest }
}

/// From now on index builds keep to the rate of the calendar.
pub fn keep_index_builds_to_calendar(server: &Arc<ServiceContext>) {
    let pace = BuildsPace { server: Arc::downgrade(server), pace: WorkPace::default() };
    server.node.catalog.pace_index_builds(Arc::new(pace));
}
