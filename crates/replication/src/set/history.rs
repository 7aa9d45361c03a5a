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
/// A moment is kept after so many bytes of operations: what is replayed at most for a time behind it. Each
/// costs a version of every document that is written behind it, so as long as nobody reads the past they are
/// far apart.
const BYTES_BETWEEN: u64 = 64 << 20;
/// The same while somebody does.
const BYTES_BETWEEN_READ: u64 = 16 << 20;
/// What is folded for one time may have so many bytes, and all that is remembered of it.
const FOLDED_BYTES_MAX: u64 = 256 << 20;
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

/// A moment that was asked for.
#[derive(Debug)]
struct Asked {
    moment: Moment,
    /// When it was asked for last.
    used: Duration,
    /// Of what is laid over a kept view.
    bytes: u64,
}

#[derive(Debug, Default)]
struct Moments {
    /// In the order of their times.
    kept: VecDeque<Kept>,
    /// In the order of their last asking.
    asked: VecDeque<Asked>,
    /// When a time was last asked for that is past.
    past_read: Option<Duration>,
}

impl Moments {
    /// A moment that was asked for before, as asked for now.
    fn asked_again(&mut self, timestamp: Timestamp, now: Duration) -> Option<Moment> {
        let place = self.asked.iter().position(|asked| asked.moment.timestamp == timestamp)?;
        let mut asked = self.asked.remove(place)?;
        asked.used = now;
        let moment = asked.moment.clone();
        self.asked.push_back(asked);
        Some(moment)
    }

    /// Those that have to go for the others, the ones that were asked for longest ago.
    fn surplus(&mut self) -> Vec<Asked> {
        let mut bytes: u64 = self.asked.iter().map(|asked| asked.bytes).sum();
        let mut gone = Vec::new();
        // The last one is being read.
        while self.asked.len() > ASKED_MAX || (bytes > FOLDED_BYTES_MAX && self.asked.len() > 1) {
            let Some(first) = self.asked.pop_front() else { break };
            bytes -= first.bytes;
            gone.push(first);
        }
        gone
    }
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
        let moments = self.moments.lock();
        let is_read = moments.past_read.is_some_and(|read| now < read + window);
        let bytes_between = if is_read { BYTES_BETWEEN_READ } else { BYTES_BETWEEN };
        let is_due = match moments.kept.back() {
            None => true,
            Some(last) if last.moment.timestamp >= timestamp => false,
            Some(last) => {
                // Indexes are used of views that are later than their definition, which follows the change.
                let is_other = last.index <= changed && changed <= at.index;
                is_other || now >= last.taken + between || self.bytes.load(Ordering::Relaxed) >= bytes_between
            }
        };
        drop(moments);
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
        let asked_kept = ASKED_KEPT.min(window);
        let unused = moments.asked.iter().take_while(|asked| asked.used + asked_kept <= now).count();
        let unused: Vec<Asked> = moments.asked.drain(..unused).collect();
        drop(moments);
        drop((retired, unused));
    }

    /// The state of now.
    pub(crate) fn now(&self, is_primary: bool) -> Result<Moment, SetError> {
        Ok(self.remember(self.fresh(is_primary)?, 0))
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
        if let Some(known) = moments.asked_again(timestamp, self.clock()) {
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
            return Ok(self.remember(fresh, 0));
        }
        self.moments.lock().past_read = Some(self.clock());
        let Some((before, index)) = before else { return Err(self.too_old(timestamp)) };
        if before.timestamp == timestamp {
            return Ok(self.remember(before, 0));
        }
        let (view, bytes) = self.carry_on(before.view, index, timestamp)?;
        Ok(self.remember(Moment { timestamp, view }, bytes))
    }

    /// Who reads at a time reads there again. The bytes are those of what is laid over a kept view.
    fn remember(&self, moment: Moment, bytes: u64) -> Moment {
        let (mut moments, used) = (self.moments.lock(), self.clock());
        if let Some(known) = moments.asked_again(moment.timestamp, used) {
            return known;
        }
        moments.asked.push_back(Asked { moment: moment.clone(), used, bytes });
        let surplus = moments.surplus();
        drop(moments);
        drop(surplus);
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

    /// A view of behind this index with the operations up to this time, and the bytes that they have changed.
    fn carry_on(
        &self,
        view: ReadView,
        from: LogIndex,
        until: Timestamp,
    ) -> Result<(ReadView, u64), SetError> {
        self.replays.fetch_add(1, Ordering::Relaxed);
        let Some(oplog) = self.catalog.collection("local", "oplog.rs") else {
            return Err(self.too_old(until));
        };
        let mut replayed = Replayed::over(&self.catalog, &view, FOLDED_BYTES_MAX);
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
        let bytes = replayed.bytes;
        let units = replayed.into_units().map_err(|error| failed(&error))?;
        Ok((view.with(&units), bytes))
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
    /// Of the documents.
    bytes: u64,
    bytes_max: u64,
}

struct Documents {
    collection: Arc<Collection>,
    /// By their encoded `_id`, the place in the list.
    places: HashMap<Vec<u8>, usize>,
    /// What has the `_id`, and what the document is.
    documents: Vec<(DocumentBuf, Option<DocumentBuf>)>,
}

impl<'v> Replayed<'v> {
    fn over(catalog: &'v Catalog, view: &'v ReadView, bytes_max: u64) -> Self {
        Replayed { catalog, view, collections: HashMap::new(), bytes: 0, bytes_max }
    }

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
        let size =
            |after: &Option<DocumentBuf>| after.as_ref().map_or(0, |after| after.as_raw().as_bytes().len());
        let after_bytes = size(&after);
        let before_bytes = match place.and_then(|place| documents.documents.get_mut(place)) {
            Some((_, known)) => size(&std::mem::replace(known, after)),
            None => {
                documents.places.insert(key, documents.documents.len());
                documents.documents.push((named.clone(), after));
                0
            }
        };
        self.bytes = self.bytes + after_bytes as u64 - before_bytes as u64;
        if self.bytes > self.bytes_max {
            let message = "Unable to read from a snapshot: too much was written shortly before that time; \
                please retry the operation";
            return Err(SetError::new(ErrorCode::SnapshotUnavailable, message));
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

#[cfg(test)]
mod tests;
