//! Reads of the past: views of the moments that are kept, and the exact state at any time between two of
//! them.
//!
//! ```text
//!  kept:   ●────────●──────────────●─────●          views, no nearer than what is quickly replayed
//!  at T:            ●══ oplog ══▶T                  the view before it, carried on by the operations since
//!  now:                                  ●          a view of this moment; its time is the mark within it
//! ```
//! A moment is a view and the time that its own applied mark tells, so that it is exact by itself. What lies
//! between two was never published, and readers of another member may still ask for it: a secondary's batches
//! end elsewhere.

use crate::entry::{LogIndex, LogPosition};
use crate::oplog::{Operation, OplogCommand, OplogEntry, OplogUpdate, Target, delta};
use crate::set::SetError;
use crate::store_log::LocalState;
use catalog::{Catalog, CatalogError, Collection};
use document::key::encode_value;
use document::{DocumentBuf, RawDocument, RawValue, Timestamp};
use parking_lot::Mutex;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use storage::{Direction, ReadView, Store, WriteUnit};
use uuid::Uuid;
use wire::ErrorCode;

/// Unless told otherwise: MongoDB's `minSnapshotHistoryWindowInSeconds`.
const WINDOW_MS: u64 = 300_000;
/// A moment is kept after so many bytes of operations: what is replayed at most for a time behind it.
const BYTES_BETWEEN: u64 = 16 << 20;
/// And after this share of the window, at most so long.
const WINDOW_SHARE: u32 = 10;
const BETWEEN_MAX: Duration = Duration::from_secs(30);
/// With so many every other one goes.
const KEPT_MAX: usize = 1_024;
/// Moments that somebody has read at: they read there again.
const ASKED_MAX: usize = 64;
const ASKED_KEPT: Duration = Duration::from_secs(60);

/// A state of the data, exactly as of this time.
#[derive(Debug, Clone)]
pub struct Moment {
    /// The last operation in it.
    pub timestamp: Timestamp,
    /// What is read.
    pub view: ReadView,
}

#[derive(Debug)]
struct Kept {
    moment: Moment,
    index: LogIndex,
    taken: Duration,
}

#[derive(Debug, Default)]
struct Moments {
    /// In the order of their times.
    kept: VecDeque<Kept>,
    /// What was asked for, with the time of the last asking, which they are in the order of.
    asked: VecDeque<(Moment, Duration)>,
}

/// What `serverStatus` tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HistoryFigures {
    /// How long the past is kept.
    pub window: Duration,
    /// Moments that are kept.
    pub kept: u64,
    /// The earliest time that can be read at, and the latest that was kept.
    pub oldest: Timestamp,
    /// See there.
    pub newest: Timestamp,
    /// Times that were not kept and were computed.
    pub replays: u64,
    /// Operations that were replayed for it.
    pub replayed_operations: u64,
    /// Reads of a time that is not kept any more.
    pub too_old: u64,
}

/// The past of a member.
#[derive(Debug)]
pub(crate) struct History {
    catalog: Arc<Catalog>,
    /// On the driver's clock, as of its last turn, in microseconds.
    now_us: AtomicU64,
    window_ms: AtomicU64,
    /// Bytes of operations since the last moment that was kept.
    bytes: AtomicU64,
    /// The last place of a change of names or indexes.
    changed: AtomicU64,
    /// Up to where the oplog was trimmed.
    trimmed: AtomicU64,
    /// The data may be newer than their mark up to here: see [`History::begin`].
    inexact: Mutex<Option<LogPosition>>,
    /// A leaf in the lock order; views are let go of without it.
    moments: Mutex<Moments>,
    replays: AtomicU64,
    replayed_operations: AtomicU64,
    too_old: AtomicU64,
}

impl History {
    pub(crate) fn new(catalog: Arc<Catalog>) -> Self {
        History {
            now_us: AtomicU64::new(0),
            window_ms: AtomicU64::new(WINDOW_MS),
            bytes: AtomicU64::new(0),
            changed: AtomicU64::new(0),
            trimmed: AtomicU64::new(0),
            inexact: Mutex::new(None),
            moments: Mutex::default(),
            replays: AtomicU64::new(0),
            replayed_operations: AtomicU64::new(0),
            too_old: AtomicU64::new(0),
            catalog,
        }
    }

    fn store(&self) -> &Store {
        self.catalog.store()
    }

    /// What time it is, on a clock that only goes on.
    pub(crate) fn advance(&self, now: Duration) {
        self.now_us.store(now.as_micros() as u64, Ordering::Relaxed);
    }

    fn clock(&self) -> Duration {
        Duration::from_micros(self.now_us.load(Ordering::Relaxed))
    }

    fn window(&self) -> Duration {
        Duration::from_millis(self.window_ms.load(Ordering::Relaxed))
    }

    pub(crate) fn set_window(&self, window: Duration) {
        self.window_ms.store(window.as_millis() as u64, Ordering::Relaxed);
    }

    /// Operations with so many bytes have come.
    #[inline]
    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A change of names or indexes is at this place of the log.
    pub(crate) fn names_change(&self, index: LogIndex) {
        self.changed.fetch_max(index, Ordering::AcqRel);
    }

    pub(crate) fn trimmed_through(&self, index: LogIndex) {
        self.trimmed.fetch_max(index, Ordering::AcqRel);
    }

    /// A member begins, with this last entry in its log and this term. Before a crash a part of a batch may
    /// have been applied whose mark was not: the data are as of their mark again once all of that log is
    /// applied, or an entry of a later term, before which all is that was committed then.
    pub(crate) fn begin(&self, log: LogPosition) {
        *self.inexact.lock() = Some(log);
    }

    fn is_exact(&self, at: LogPosition) -> bool {
        let mut inexact = self.inexact.lock();
        if inexact.is_some_and(|log| at.index >= log.index || at.term > log.term) {
            *inexact = None;
        }
        inexact.is_none()
    }

    /// The data are at this place now, and nobody changes them meanwhile: keeps the moment where it is time
    /// to.
    pub(crate) fn note(&self, at: LogPosition, timestamp: Timestamp) {
        let (window, now) = (self.window(), self.clock());
        if !self.is_exact(at) || window.is_zero() || timestamp == Timestamp::default() {
            return;
        }
        let between = (window / WINDOW_SHARE).min(BETWEEN_MAX);
        let changed = self.changed.load(Ordering::Acquire);
        let is_due = match self.moments.lock().kept.back() {
            None => true,
            Some(last) if last.moment.timestamp >= timestamp => false,
            Some(last) => {
                // Indexes are used of views that are later than their definition, which follows the change.
                let is_other = last.index <= changed && changed <= at.index;
                is_other || now >= last.taken + between || self.bytes.load(Ordering::Relaxed) >= BYTES_BETWEEN
            }
        };
        if !is_due {
            return;
        }
        self.bytes.store(0, Ordering::Relaxed);
        let view = self.store().pinned_view();
        let mut moments = self.moments.lock();
        moments.kept.push_back(Kept { moment: Moment { timestamp, view }, index: at.index, taken: now });
        let gone = if moments.kept.len() > KEPT_MAX { thin_out(&mut moments.kept) } else { Vec::new() };
        drop(moments);
        // The engine lets go of states here, without the lock.
        drop(gone);
    }

    /// Lets go of what is older than the window, and of all where the disk is short of room.
    pub(crate) fn retire(&self) {
        let now = self.clock();
        let is_short = self.store().check_room().is_err();
        let window = if is_short { Duration::ZERO } else { self.window() };
        let mut moments = self.moments.lock();
        // The one from which the beginning of the window is computed stays.
        let old = moments.kept.iter().take_while(|kept| kept.taken + window <= now).count();
        let old = if window.is_zero() { moments.kept.len() } else { old.saturating_sub(1) };
        let retired: Vec<Kept> = moments.kept.drain(..old).collect();
        let unused =
            moments.asked.iter().take_while(|(_, used)| *used + ASKED_KEPT <= now || is_short).count();
        let unused: Vec<(Moment, Duration)> = moments.asked.drain(..unused).collect();
        drop(moments);
        drop((retired, unused));
    }

    /// The state of now.
    pub(crate) fn now(&self, is_primary: bool) -> Result<Moment, SetError> {
        Ok(self.remember(self.fresh(is_primary)?))
    }

    fn fresh(&self, is_primary: bool) -> Result<Moment, SetError> {
        let published = if is_primary { None } else { self.store().published_view() };
        let view = published.unwrap_or_else(|| self.store().pinned_view());
        let mark = LocalState::applied_in(&view).map_err(|error| failed(&error))?;
        let mark = mark.filter(|mark| self.is_exact(mark.position)).ok_or_else(|| {
            let message = "Unable to read from a snapshot before what was logged is applied; please retry \
                the operation";
            SetError::new(ErrorCode::SnapshotUnavailable, message)
        })?;
        Ok(Moment { timestamp: mark.timestamp, view })
    }

    /// The state at a time up to which everything is applied.
    pub(crate) fn at(&self, timestamp: Timestamp, is_primary: bool) -> Result<Moment, SetError> {
        let mut moments = self.moments.lock();
        if let Some(place) = moments.asked.iter().position(|(asked, _)| asked.timestamp == timestamp)
            && let Some((known, _)) = moments.asked.remove(place)
        {
            moments.asked.push_back((known.clone(), self.clock()));
            return Ok(known);
        }
        let later = moments.kept.partition_point(|kept| kept.moment.timestamp <= timestamp);
        let before = later.checked_sub(1).and_then(|place| moments.kept.get(place));
        let before = before.map(|kept| (kept.moment.clone(), kept.index));
        let is_later = later == moments.kept.len();
        drop(moments);
        if is_later
            && let Ok(fresh) = self.fresh(is_primary)
            && fresh.timestamp == timestamp
        {
            return Ok(self.remember(fresh));
        }
        let Some((before, index)) = before else { return Err(self.too_old(timestamp)) };
        if before.timestamp == timestamp {
            return Ok(self.remember(before));
        }
        let view = self.carry_on(before.view, index, timestamp)?;
        Ok(self.remember(Moment { timestamp, view }))
    }

    /// Who reads at a time reads there again.
    fn remember(&self, moment: Moment) -> Moment {
        let mut moments = self.moments.lock();
        if let Some((known, _)) = moments.asked.iter().find(|(known, _)| known.timestamp == moment.timestamp)
        {
            return known.clone();
        }
        moments.asked.push_back((moment.clone(), self.clock()));
        let unused = if moments.asked.len() > ASKED_MAX { moments.asked.pop_front() } else { None };
        drop(moments);
        drop(unused);
        moment
    }

    fn too_old(&self, timestamp: Timestamp) -> SetError {
        self.too_old.fetch_add(1, Ordering::Relaxed);
        let Timestamp { time, increment } = timestamp;
        let message = format!(
            "Read timestamp Timestamp({time}, {increment}) is older than the oldest available timestamp."
        );
        SetError::new(ErrorCode::SnapshotTooOld, message)
    }

    /// A view of behind this index with the operations up to this time.
    fn carry_on(&self, view: ReadView, from: LogIndex, until: Timestamp) -> Result<ReadView, SetError> {
        self.replays.fetch_add(1, Ordering::Relaxed);
        let Some(oplog) = self.catalog.collection("local", "oplog.rs") else {
            return Err(self.too_old(until));
        };
        let mut replayed = Replayed { catalog: &self.catalog, view: &view, collections: HashMap::new() };
        let latest = self.store().read_view();
        let cursor = oplog.records(&latest, from + 1..u64::MAX, Direction::Forward);
        let mut cursor = cursor.map_err(|error| failed(&error))?;
        let mut operations = 0;
        // What the cursor does not have any more was trimmed before it was opened.
        if self.trimmed.load(Ordering::Acquire) > from {
            return Err(self.too_old(until));
        }
        while let Some((_, entry)) = cursor.next().map_err(|error| failed(&error))? {
            if !matches!(entry.get("ts"), Some(RawValue::Timestamp(timestamp)) if timestamp <= until) {
                break;
            }
            let entry = OplogEntry::decode(entry.as_bytes()).map_err(|error| failed(&error))?;
            replayed.replay(&entry.operation)?;
            operations += 1;
        }
        self.replayed_operations.fetch_add(operations, Ordering::Relaxed);
        let units = replayed.into_units().map_err(|error| failed(&error))?;
        Ok(view.with(&units))
    }

    pub(crate) fn figures(&self) -> HistoryFigures {
        let moments = self.moments.lock();
        let time = |kept: Option<&Kept>| kept.map(|kept| kept.moment.timestamp).unwrap_or_default();
        HistoryFigures {
            window: self.window(),
            kept: moments.kept.len() as u64,
            oldest: time(moments.kept.front()),
            newest: time(moments.kept.back()),
            replays: self.replays.load(Ordering::Relaxed),
            replayed_operations: self.replayed_operations.load(Ordering::Relaxed),
            too_old: self.too_old.load(Ordering::Relaxed),
        }
    }
}

/// Takes every other moment out but the last.
fn thin_out(kept: &mut VecDeque<Kept>) -> Vec<Kept> {
    let (mut place, mut gone, last) = (0, Vec::new(), kept.len() - 1);
    for one in std::mem::take(kept) {
        if place % 2 == 1 && place != last {
            gone.push(one)
        } else {
            kept.push_back(one)
        }
        place += 1;
    }
    gone
}

fn failed(error: &impl Display) -> SetError {
    SetError::new(ErrorCode::InternalError, format!("the past cannot be read: {error}"))
}

fn unavailable(target: &Target) -> SetError {
    let message = format!(
        "Unable to read from a snapshot due to pending collection catalog changes to {}; please retry the \
        operation",
        target.namespace
    );
    SetError::new(ErrorCode::SnapshotUnavailable, message)
}

/// What has become of documents since a view.
struct Replayed<'v> {
    catalog: &'v Catalog,
    view: &'v ReadView,
    collections: HashMap<Uuid, Documents>,
}

struct Documents {
    collection: Arc<Collection>,
    /// By their encoded `_id`, the place in the list.
    places: HashMap<Vec<u8>, usize>,
    /// What has the `_id`, and what the document is.
    documents: Vec<(DocumentBuf, Option<DocumentBuf>)>,
}

impl Replayed<'_> {
    /// Changes of names and indexes are passed over: who reads looks whether a name is the same in the view,
    /// and takes no index that is younger than it.
    fn replay(&mut self, operation: &Operation) -> Result<(), SetError> {
        let (target, named) = match operation {
            Operation::Insert { target, document } => (target, document),
            Operation::Update { target, document_key, .. } | Operation::Delete { target, document_key } => {
                (target, document_key)
            }
            Operation::Command(OplogCommand::ApplyOps(parts)) => {
                return parts.iter().try_for_each(|part| self.replay(part));
            }
            Operation::Command(_) | Operation::Noop(_) => return Ok(()),
        };
        // Views are compared by who reads, too.
        let Some(uuid) = target.uuid else { return Ok(()) };
        let view = self.view;
        let documents = self.documents_of(uuid).ok_or_else(|| unavailable(target))?;
        let id = named.as_raw().get("_id").ok_or_else(|| failed(&"an operation has no _id"))?;
        let mut key = Vec::new();
        encode_value(&mut key, id);
        let place = documents.places.get(&key).copied();
        let after = match operation {
            Operation::Insert { document, .. }
            | Operation::Update { update: OplogUpdate::Replacement(document), .. } => Some(document.clone()),
            Operation::Update { update: OplogUpdate::Delta(delta), .. } => {
                let before = match place.and_then(|place| documents.documents.get(place)) {
                    Some((_, before)) => before.clone(),
                    None => {
                        let found = documents.collection.find_in(view, id).map_err(|error| failed(&error))?;
                        found.map(|(_, before)| before)
                    }
                };
                let updated = before.map(|before| delta::apply(before.as_raw(), delta.as_raw()));
                updated.transpose().map_err(|error| failed(&error))?
            }
            _ => None,
        };
        match place.and_then(|place| documents.documents.get_mut(place)) {
            Some((_, known)) => *known = after,
            None => {
                documents.places.insert(key, documents.documents.len());
                documents.documents.push((named.clone(), after));
            }
        }
        Ok(())
    }

    fn documents_of(&mut self, uuid: Uuid) -> Option<&mut Documents> {
        match self.collections.entry(uuid) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(place) => {
                let state = self.catalog.state();
                let collection = Arc::clone(state.collections().find(|known| known.uuid() == uuid)?);
                Some(place.insert(Documents { collection, places: HashMap::new(), documents: Vec::new() }))
            }
        }
    }

    fn into_units(self) -> Result<Vec<WriteUnit>, CatalogError> {
        let units = self.collections.into_values().map(|Documents { collection, documents, .. }| {
            let documents = documents.iter().filter_map(|(named, after)| {
                Some((
                    named.as_raw().get("_id")?,
                    after.as_ref().map(|after| RawDocument::trusted(after.as_bytes())),
                ))
            });
            collection.carry_on(self.view, documents)
        });
        units.collect()
    }
}
