//! How an initial sync goes, for those who watch it.

use super::CopyError;
use std::time::{Duration, Instant};

/// So many failures are remembered, the latest ones.
const FAILURES_TOLD: usize = 10;

/// How far a copy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyProgress {
    /// From whom.
    pub source: String,
    /// Bytes that are here.
    pub bytes: u64,
    /// Of so many.
    pub bytes_total: u64,
    /// Since when, on the clock of [`ambient::now`].
    pub began: Instant,
}

impl CopyProgress {
    /// Of a hundred.
    pub fn percent(&self) -> f64 {
        self.bytes as f64 * 100.0 / self.bytes_total.max(1) as f64
    }
}

/// A try that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedAttempt {
    /// From whom it was to be.
    pub source: String,
    /// How long it took.
    pub lasted: Duration,
    /// Why it failed.
    pub reason: String,
}

/// An initial sync since this process began it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyStatus {
    /// On the clock of [`ambient::now`].
    pub began: Instant,
    /// While files are copied.
    pub progress: Option<CopyProgress>,
    /// How often it has failed.
    pub failed: u64,
    /// The latest of these, in their order.
    pub failures: Vec<FailedAttempt>,
}

/// What its thread notes of it.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    status: Option<CopyStatus>,
    /// Of the try under way: since when, and from whom.
    current: Option<(Instant, String)>,
}

impl Attempts {
    pub(super) fn status(&self) -> Option<CopyStatus> {
        self.status.clone()
    }

    pub(super) fn begin(&mut self, source: &str) {
        let now = ambient::now();
        let new = || CopyStatus { began: now, progress: None, failed: 0, failures: Vec::new() };
        self.status.get_or_insert_with(new);
        self.current = Some((now, source.to_owned()));
    }

    pub(super) fn copies(&mut self, progress: CopyProgress) {
        if let (Some((_, source)), Some(status)) = (&mut self.current, &mut self.status) {
            source.clone_from(&progress.source);
            status.progress = Some(progress);
        }
    }

    /// So many bytes more are here.
    pub(super) fn copied(&mut self, bytes: u64) -> CopyProgress {
        let progress = self.status.as_mut().and_then(|status| status.progress.as_mut());
        let progress = progress.expect("a copy that has begun");
        progress.bytes += bytes;
        progress.clone()
    }

    pub(super) fn fail(&mut self, error: &CopyError) {
        let (Some((began, source)), Some(status)) = (self.current.take(), &mut self.status) else { return };
        status.progress = None;
        status.failed += 1;
        if status.failures.len() == FAILURES_TOLD {
            status.failures.remove(0);
        }
        let lasted = ambient::elapsed(began);
        status.failures.push(FailedAttempt { source, lasted, reason: error.to_string() });
    }

    pub(super) fn end(&mut self) {
        self.current = None;
    }
}
