//! Read views, cursors and the bytes they lend.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::engine::rocks::PinnedSlice;
use crate::engine::{EngineCursor, EngineReader};
use crate::error::StorageError;
use crate::keyspace::{CursorOptions, Direction, KeyRange, Keyspace, ReadTier};
use crate::layered::LayeredReader;
use crate::row_cache::Row;
use crate::store::Store;
use crate::unit::WriteUnit;

/// A key and its value, lent by a cursor until it moves.
pub type KeyValue<'a> = (&'a [u8], &'a [u8]);

/// One state of the store to read from: the latest (each call sees every write acknowledged before it)
/// or one in time (every call sees the same). Cheap to clone.
#[derive(Clone)]
pub struct ReadView {
    reader: Arc<dyn EngineReader>,
}

impl ReadView {
    pub(crate) fn new(reader: Arc<dyn EngineReader>) -> ReadView {
        ReadView { reader }
    }

    /// The value of `key`, without copying it where the engine allows.
    ///
    /// # Errors
    /// Damage or failing disks.
    pub fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<PinnedBytes>, StorageError> {
        self.reader.get(keyspace, key, ReadTier::Any)
    }

    /// As [`ReadView::get`], limited to a tier.
    ///
    /// # Errors
    /// As [`ReadView::get`]; [`StorageError::WouldBlock`] when the tier was not enough.
    pub fn get_tier(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        tier: ReadTier,
    ) -> Result<Option<PinnedBytes>, StorageError> {
        self.reader.get(keyspace, key, tier)
    }

    /// Whether `key` exists.
    ///
    /// # Errors
    /// As [`ReadView::get`].
    pub fn exists(&self, keyspace: Keyspace, key: &[u8]) -> Result<bool, StorageError> {
        Ok(self.get(keyspace, key)?.is_some())
    }

    /// A cursor over a range. Also on the latest view it sees one state, that of this call, and holds on
    /// to the files of that state: do not keep one open across requests.
    ///
    /// # Errors
    /// What the engine reports.
    pub fn cursor(
        &self,
        keyspace: Keyspace,
        range: KeyRange,
        direction: Direction,
    ) -> Result<Cursor, StorageError> {
        self.cursor_with(keyspace, range, direction, CursorOptions::default())
    }

    /// As [`ReadView::cursor`], with a tier and cache behaviour.
    ///
    /// # Errors
    /// What the engine reports.
    pub fn cursor_with(
        &self,
        keyspace: Keyspace,
        range: KeyRange,
        direction: Direction,
        options: CursorOptions,
    ) -> Result<Cursor, StorageError> {
        Ok(Cursor { inner: self.reader.cursor(keyspace, range, direction, options)? })
    }

    /// This view with units above it: what it would be if they had been committed then. Counters do not count
    /// what is in them.
    ///
    /// # Panics
    /// With a unit that removes ranges.
    #[must_use]
    pub fn with(&self, units: &[WriteUnit]) -> ReadView {
        let mutations = units.iter().flat_map(|unit| unit.log().iter());
        ReadView::new(Arc::new(LayeredReader::new(Arc::clone(&self.reader), mutations)))
    }

    /// The sequence number up to which this view sees, without units above it.
    pub fn sequence(&self) -> u64 {
        self.reader.sequence()
    }
}

/// Which states of the store an operation reads: the choice of whoever runs it, which all its reads follow.
#[derive(Clone, Debug)]
pub enum ReadSource {
    /// What is there when it is read.
    Latest(Store),
    /// One state.
    View(ReadView),
    /// One of before: names may have stood for something else then.
    Past(ReadView),
    /// None: what is put aside keeps no state, and is given another source before it reads again.
    Released,
}

impl ReadSource {
    /// For a read that need not agree with another one.
    #[inline]
    pub fn view(&self) -> &ReadView {
        match self {
            ReadSource::Latest(store) => store.latest(),
            ReadSource::View(view) | ReadSource::Past(view) => view,
            ReadSource::Released => released(),
        }
    }

    /// For reads that must agree with each other: one state from now on.
    pub fn moment(&self) -> ReadView {
        match self {
            ReadSource::Latest(store) => store.pinned_view(),
            ReadSource::View(view) | ReadSource::Past(view) => view.clone(),
            ReadSource::Released => released(),
        }
    }

    /// Whether counters, which have no past, tell of the same state.
    pub fn is_latest(&self) -> bool {
        matches!(self, ReadSource::Latest(_))
    }
}

#[cold]
fn released() -> ! {
    panic!("a read that was put aside goes on without a source")
}

impl fmt::Debug for ReadView {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ReadView").field("sequence", &self.sequence()).finish()
    }
}

/// A walk over a range of keys in one direction.
pub struct Cursor {
    inner: Box<dyn EngineCursor>,
}

impl Cursor {
    /// Makes [`Cursor::next`] continue at `key`, inclusive, or at the nearest key behind it in the
    /// cursor's direction. Keys outside the cursor's range lead to its first entry or to its end.
    pub fn seek(&mut self, key: &[u8]) {
        self.inner.seek(key);
    }

    /// Moves to the next entry and lends it; `None` at the end of the range.
    ///
    /// # Errors
    /// Damage, failing disks, or [`StorageError::WouldBlock`]; seek again before going on.
    #[expect(clippy::should_implement_trait, reason = "an Iterator cannot lend")]
    pub fn next(&mut self) -> Result<Option<KeyValue<'_>>, StorageError> {
        self.inner.next()
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Cursor")
    }
}

/// A value, held where it is kept (a row or a block of a cache) for as long as this lives.
pub struct PinnedBytes {
    held: Held,
}

enum Held {
    Row(Row),
    Shared(Arc<[u8]>),
    Block(PinnedSlice),
}

impl PinnedBytes {
    pub(crate) fn shared(bytes: Arc<[u8]>) -> PinnedBytes {
        PinnedBytes { held: Held::Shared(bytes) }
    }

    pub(crate) fn row(row: Row) -> PinnedBytes {
        PinnedBytes { held: Held::Row(row) }
    }

    pub(crate) fn block(slice: PinnedSlice) -> PinnedBytes {
        PinnedBytes { held: Held::Block(slice) }
    }
}

impl Deref for PinnedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.held {
            Held::Row(row) => row.value(),
            Held::Shared(bytes) => bytes,
            Held::Block(slice) => slice,
        }
    }
}

impl AsRef<[u8]> for PinnedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PinnedBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(formatter)
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for PinnedBytes {
    fn eq(&self, other: &T) -> bool {
        self.deref() == other.as_ref()
    }
}
