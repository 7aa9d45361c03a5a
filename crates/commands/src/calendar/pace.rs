//! Holding work to a rate that several may share.

use super::{WorkKind, ask};
use crate::server::ServiceContext;
use catalog::BuildPace;
use parking_lot::Mutex;
use query::calendar::WorkRate;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

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
}

/// From now on index builds keep to the rate of the calendar.
pub fn keep_index_builds_to_calendar(server: &Arc<ServiceContext>) {
    let pace = BuildsPace { server: Arc::downgrade(server), pace: WorkPace::default() };
    server.node.catalog.pace_index_builds(Arc::new(pace));
}
