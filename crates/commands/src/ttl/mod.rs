//! The TTL monitor: deletes documents that have expired by a TTL index, in the background.
//!
//! ```text
//!  asleep ──ttlMonitorSleepSecs──▶ pass: what had expired when it began
//!                                    └▶ sub-passes: which TTL indexes are there? those that are not done yet
//!                                          └▶ rounds: each index has a quantum
//!                                                └▶ units of a walk over its entries (`catalog::ExpiryWalk`)
//! ```
//! * *pass*: over all TTL indexes, until nothing is left of what had expired at its beginning.
//! * *sub-pass*: a part of it, after which new indexes take part (`ttlMonitorSubPassTargetSecs`).
//! * *quantum*: as much as is deleted for one index before the next one (`ttlIndexDeleteTargetDocs` and
//!   `…TimeMS`), so that a long one keeps nobody waiting.
//!
//! The monitor is called step by step ([`TtlMonitor::step`]): `heddle` does it on a thread of low priority, a
//! simulation when it likes. It rests where others write: on members that are not a writable primary.
//!
//! Source: MongoDB manual, "TTL Indexes" ("Delete Operations", "Timing of the Delete Operation"), "MongoDB
//! Server Parameters" (`ttl…`).

mod monitor;
mod pass;
#[cfg(test)]
mod tests;

use dispatch::counters::Counter;
use document::{Document, doc};

pub use monitor::TtlMonitor;

/// What the monitor has done since the start.
#[derive(Debug, Default)]
pub(crate) struct TtlFigures {
    deleted_documents: Counter,
    passes: Counter,
    sub_passes: Counter,
    /// TTL indexes that were passed over since nothing can expire by them.
    invalid_index_skips: Counter,
    examined_keys: Counter,
    examined_documents: Counter,
}

impl TtlFigures {
    /// `serverStatus.metrics.ttl`, beside so many hidden documents that made way for others: these have been
    /// deleted since they had expired, too.
    pub(crate) fn metrics(&self, made_way: u64) -> Document {
        doc! {
            "deletedDocuments": ((self.deleted_documents.get() + made_way) as i64),
            "invalidTTLIndexSkips": (self.invalid_index_skips.get() as i64),
            "passes": (self.passes.get() as i64), "subPasses": (self.sub_passes.get() as i64),
        }
    }

    /// `serverStatus.heddle.ttl`: what deleting has cost, and what the monitor was spared.
    pub(crate) fn work(&self, made_way: u64) -> Document {
        doc! {
            "madeWay": (made_way as i64),
            "examinedKeys": (self.examined_keys.get() as i64),
            "examinedDocuments": (self.examined_documents.get() as i64),
        }
    }
}
