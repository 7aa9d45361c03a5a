//! What the planner answers.

use std::sync::Arc;

use document::Value;

use super::{IndexDescription, Intervals};
use crate::matcher::Matcher;

/// Which way a scan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScanDirection {
    /// In the order of the keys.
    #[default]
    Forward,
    /// Against it.
    Backward,
}

impl ScanDirection {
    /// As `explain` names it.
    pub const fn name(self) -> &'static str {
        match self {
            ScanDirection::Forward => "forward",
            ScanDirection::Backward => "backward",
        }
    }
}

/// How a plan reaches documents.
#[derive(Debug, Clone)]
pub enum Access {
    /// The filter matches nothing.
    Empty,
    /// The collection in its own order; `ids` bounds the `_id` where the collection is clustered by it.
    CollectionScan {
        /// Which way.
        direction: ScanDirection,
        /// Intervals of `_id`; `None`: everything.
        ids: Option<Intervals>,
    },
    /// The document with this `_id`.
    IdLookup {
        /// The `_id`.
        id: Value,
    },
    /// The entries of an index, each leading to a document unless the scan is covered.
    IndexScan(IndexScan),
    /// Several ways; a document met by more than one counts once.
    Union(Vec<Access>),
}

/// The part of an index that is scanned.
#[derive(Debug, Clone)]
pub enum IndexBounds {
    /// Intervals for each field of the index.
    Fields(Vec<Intervals>),
    /// From a whole key (inclusive) to a whole key (exclusive): the `min` and `max` of a command.
    Keys {
        /// Values of all fields; `None`: from the beginning.
        from: Option<Vec<Value>>,
        /// Values of all fields; `None`: to the end.
        to: Option<Vec<Value>>,
    },
}

/// A scan of an index.
#[derive(Debug, Clone)]
pub struct IndexScan {
    /// The index.
    pub index: Arc<IndexDescription>,
    /// Which part.
    pub bounds: IndexBounds,
    /// Which way.
    pub direction: ScanDirection,
    /// The keys hold all that the query needs: documents need not be fetched. A null key stands for null and
    /// for a missing field alike: where the difference shows, fetch the document of an entry whose key has a
    /// null.
    pub covered: bool,
    /// A document may be met several times (multikey index): count it once.
    pub deduplicate: bool,
    /// Only the first entry for each value of this many leading fields is wanted: seek past the others. For
    /// null keys the warning of `covered` holds.
    pub distinct_fields: Option<usize>,
}

/// How to run one query.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How to reach documents.
    pub access: Access,
    /// What is left to check on each document; `None`: nothing.
    pub residual: Option<Matcher>,
    /// Whether documents come in the order asked for; otherwise they must be sorted.
    pub sort_provided: bool,
}

impl Plan {
    /// Whether keys alone answer the query.
    pub const fn is_covered(&self) -> bool {
        matches!(&self.access, Access::IndexScan(scan) if scan.covered)
    }
}
