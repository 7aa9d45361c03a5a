//! Rows by key, with the protocol that keeps them true to the engine.
//!
//! ```text
//!  hash ─▶ bucket: lock │ written │ writes under way │ ghosts │ rows (tag, removals, stamp, key ‖ value)
//!
//!  reader   lookup ──hit──▶ value                        leader   begin_write: one more under way
//!             └──miss──▶ engine ──▶ fill, unless                    engine writes the batch
//!                                   it was written since            end_write: new value, its number in
//! ```
//! A row is only ever found while no write of its bucket is under way, and a value only enters when no write
//! has begun since the moment it was read at. So a row found is what the engine would have answered at that
//! moment, also for a reader that has seen the newest write by another way: the write began before anybody
//! could see it.
//!
//! A row is the newest version of its key, and its stamp the sequence number of the write that made it, or of
//! a later one of its bucket when it came from the engine. A view from there on sees it, an earlier one asks
//! the engine.
//!
//! The removal of a range does not look for its rows ([`Removals`]).

use std::sync::Arc;

use smallvec::SmallVec;

use super::removals::Removals;
use crate::prefetch::prefetch;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// Budget for each bucket: a few documents of usual size.
const BYTES_PER_BUCKET: u64 = 4 << 10;
/// What the length of a row's key takes.
const LENGTH_BYTES: usize = 2;
/// What a row costs besides its key and value: its entry, the counts of its allocation, the allocator's own.
const ROW_OVERHEAD: u64 = 64;
/// Longer keys, and values too large to be worth a copy, stay with the engine.
const KEY_BYTES_MAX: usize = 1 << 10;
const VALUE_BYTES_MAX: usize = 64 << 10;
/// Keys that collide on purpose must not make a bucket long.
const ROWS_PER_BUCKET_MAX: usize = 64;
/// Keys of which a bucket remembers that they were asked for lately.
const GHOSTS: usize = 4;
/// In [`Kept::stamp`].
const REFERENCED: u64 = 1;
/// Buckets that one fill looks through for room.
const SWEEP_MAX: usize = 128;

/// A key's value as it is kept: the key's length (`u16 LE`), the key, the value.
#[derive(Clone, Debug)]
pub(crate) struct Row(Arc<[u8]>);

impl Row {
    fn new(key: &[u8], value: &[u8]) -> Row {
        let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, row_len(key, value)).collect();
        write_row(Arc::get_mut(&mut bytes).expect("nobody else has a new row yet"), key, value);
        Row(bytes)
    }

    /// Another value, in the same memory where nobody reads it and the size is the same.
    fn set_value(&mut self, key: &[u8], value: &[u8]) {
        match Arc::get_mut(&mut self.0) {
            Some(bytes) if bytes.len() == row_len(key, value) => write_row(bytes, key, value),
            _ => *self = Row::new(key, value),
        }
    }

    /// Key and value.
    fn parts(&self) -> (&[u8], &[u8]) {
        let parts = self.0.split_first_chunk::<LENGTH_BYTES>();
        let parts =
            parts.and_then(|(length, rest)| rest.split_at_checked(u16::from_le_bytes(*length).into()));
        parts.expect("a row holds its whole key")
    }

    fn has_key(&self, key: &[u8]) -> bool {
        // The value is wanted next: its lines come together with the key's.
        prefetch(self.0.as_ptr(), self.0.len());
        self.parts().0 == key
    }

    pub(crate) fn value(&self) -> &[u8] {
        self.parts().1
    }

    fn cost(&self) -> u64 {
        self.0.len() as u64 + ROW_OVERHEAD
    }
}

fn row_len(key: &[u8], value: &[u8]) -> usize {
    LENGTH_BYTES + key.len() + value.len()
}

fn write_row(bytes: &mut [u8], key: &[u8], value: &[u8]) {
    let (length, rest) = bytes.split_at_mut(LENGTH_BYTES);
    let (front, back) = rest.split_at_mut(key.len());
    length.copy_from_slice(&(key.len() as u16).to_le_bytes());
    front.copy_from_slice(key);
    back.copy_from_slice(value);
}

#[derive(Debug)]
struct Kept {
    row: Row,
    tag: u32,
    /// The last removal that the key was compared with: the lower half of its number.
    removals: u32,
    /// The sequence number from which on views see the row, above one bit: asked for since the sweep last
    /// came by.
    stamp: u64,
}

impl Kept {
    fn new(row: Row, tag: u32, sequence: u64, removals: u64) -> Kept {
        Kept { row, tag, removals: removals as u32, stamp: sequence << 1 }
    }

    fn sequence(&self) -> u64 {
        self.stamp >> 1
    }

    fn ask_for(&mut self) -> Row {
        self.stamp |= REFERENCED;
        self.row.clone()
    }

    /// Whether the row is still there after all removals.
    #[inline]
    fn is_left(&mut self, removals: &Removals) -> bool {
        let begun = removals.begun();
        self.removals == begun as u32 || self.compare(removals, begun)
    }

    #[cold]
    fn compare(&mut self, removals: &Removals, begun: u64) -> bool {
        let removed = removals.cover(widened(self.removals, begun), self.row.parts().0);
        if !removed {
            self.removals = begun as u32;
        }
        !removed
    }
}

#[derive(Debug)]
struct Bucket {
    rows: SmallVec<[Kept; 1]>,
    /// The sequence number of the last write of one of the bucket's keys, its lower half.
    written: u32,
    /// Writes that have begun and not ended.
    writes: u32,
    /// The latest first.
    ghosts: [u16; GHOSTS],
}

impl Bucket {
    fn new(sequence: u64) -> Bucket {
        Bucket { rows: SmallVec::new(), written: sequence as u32, writes: 0, ghosts: [0; GHOSTS] }
    }

    fn find(&self, tag: u32, key: &[u8]) -> Option<usize> {
        self.rows.iter().position(|kept| kept.tag == tag && kept.row.has_key(key))
    }

    /// The row of a key, unless it was removed with a range.
    fn find_left(&mut self, tag: u32, key: &[u8], removals: &Removals) -> Option<&mut Kept> {
        let index = self.find(tag, key)?;
        let kept = self.rows.get_mut(index)?;
        kept.is_left(removals).then_some(kept)
    }

    /// Whether this key was missed before, not long ago.
    fn remember(&mut self, ghost: u16) -> bool {
        if self.ghosts.contains(&ghost) {
            return true;
        }
        self.ghosts.rotate_right(1);
        self.ghosts[0] = ghost;
        false
    }

    /// One step of the clock over the bucket's rows. Returns the bytes it made free.
    fn sweep(&mut self, removals: &Removals) -> u64 {
        let mut freed = 0;
        self.rows.retain_mut(|kept| {
            let stays = kept.stamp & REFERENCED != 0 && kept.is_left(removals);
            kept.stamp &= !REFERENCED;
            if !stays {
                freed += kept.row.cost();
            }
            stays
        });
        freed
    }
}

/// One cache line, with the entry of its first row.
#[repr(align(64))]
pub(super) struct LockedBucket(Mutex<Bucket>);

/// What a reader finds.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// The value is that of this moment, or of the view.
    Hit(Row),
    /// Ask the engine, and offer what it says.
    Miss(AsOf),
    /// Ask the engine: a write of this key may be under way, or the row is newer than the view.
    Bypass,
}

/// The moment a value is read at: all writes up to a sequence number and all removals up to a number can be
/// seen, and perhaps more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsOf {
    pub(crate) sequence: u64,
    pub(crate) removals: u64,
}

/// What the leader changes with each batch lies apart from what every reader reads.
#[repr(align(64))]
struct Applied(AtomicU64);

/// The table of all rows.
pub(crate) struct RowTable {
    buckets: Box<[LockedBucket]>,
    budget: AtomicU64,
    bytes: AtomicU64,
    /// The bucket that the next sweep begins with.
    hand: AtomicU64,
    removals: Removals,
    /// The sequence number of the last batch.
    applied: Applied,
}

impl RowTable {
    /// A table for about `budget` bytes of keys, values and what they cost beside, before an engine at a
    /// sequence number.
    pub(crate) fn new(budget: u64, sequence: u64) -> RowTable {
        let buckets = (budget / BYTES_PER_BUCKET).max(1);
        RowTable {
            buckets: (0..buckets).map(|_| LockedBucket(Mutex::new(Bucket::new(sequence)))).collect(),
            budget: AtomicU64::new(budget),
            bytes: AtomicU64::new(0),
            hand: AtomicU64::new(0),
            removals: Removals::new(),
            applied: Applied(AtomicU64::new(sequence)),
        }
    }

    /// To be asked before a view is taken that shall find rows here.
    pub(crate) fn removals(&self) -> &Removals {
        &self.removals
    }

    /// Bytes that rows take, and how many they may.
    pub(crate) fn usage(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.budget())
    }

    fn budget(&self) -> u64 {
        self.budget.load(Ordering::Relaxed)
    }

    /// Changes what rows may take, and pushes out at once what is too much. Buckets stay as many as they are:
    /// with a larger budget each has more rows.
    pub(crate) fn set_budget(&self, bytes: u64) {
        /// The hand takes away first that a row was asked for, and the row when it comes by again.
        const ROUNDS: usize = 2;
        self.budget.store(bytes, Ordering::Relaxed);
        for _ in 0..(ROUNDS * self.buckets.len()).div_ceil(SWEEP_MAX) {
            self.make_room();
        }
    }

    /// Finds the newest version of a key.
    pub(crate) fn lookup(&self, hash: u64, key: &[u8]) -> Lookup {
        let mut bucket = self.bucket(hash).lock();
        if bucket.writes > 0 {
            return Lookup::Bypass;
        }
        match bucket.find_left(tag(hash), key, &self.removals) {
            Some(kept) => Lookup::Hit(kept.ask_for()),
            None => Lookup::Miss(AsOf { sequence: self.written(&bucket), removals: self.removals.ended() }),
        }
    }

    /// Finds the version of a key that a view sees.
    pub(crate) fn lookup_at(&self, hash: u64, key: &[u8], view: AsOf) -> Lookup {
        let mut bucket = self.bucket(hash).lock();
        if bucket.writes > 0 {
            return Lookup::Bypass;
        }
        match bucket.find_left(tag(hash), key, &self.removals) {
            Some(kept) if kept.sequence() <= view.sequence => Lookup::Hit(kept.ask_for()),
            Some(_) => Lookup::Bypass,
            None => Lookup::Miss(view),
        }
    }

    /// Takes in what the engine answered after the lookup that said as of when: at once while there is room
    /// if it `enters`, and otherwise when it is missed again, which is worth pushing something else out.
    pub(crate) fn fill(&self, hash: u64, key: &[u8], value: &[u8], as_of: AsOf, enters: bool) {
        if !may_keep(key, value) {
            return;
        }
        let bucket = self.bucket(hash);
        {
            let mut bucket = bucket.lock();
            let written = self.written(&bucket);
            if bucket.writes > 0 || written > as_of.sequence {
                return;
            }
            let removals = self.removals.begun();
            if removals != as_of.removals && self.removals.cover(as_of.removals, key) {
                return;
            }
            let known = bucket.remember(ghost(hash));
            let wanted = known || (enters && self.has_room(key, value));
            if !wanted {
                return;
            }
            // Another reader was quicker, or it was removed.
            if let Some(index) = bucket.find(tag(hash), key) {
                self.remove(&mut bucket, index);
            }
            self.add(&mut bucket, Kept::new(Row::new(key, value), tag(hash), written, removals));
        }
        self.make_room();
    }

    /// The sequence number of the newest write of a key, or a later one; `None` while one is under way.
    pub(crate) fn newest_write(&self, hash: u64) -> Option<u64> {
        let bucket = self.bucket(hash).lock();
        (bucket.writes == 0).then(|| self.written(&bucket))
    }

    /// The bucket of this key is wanted soon.
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch(std::ptr::from_ref(self.bucket(hash)).cast(), size_of::<LockedBucket>());
    }

    /// A write of this key begins: until its end nobody finds the key here.
    pub(crate) fn begin_write(&self, hash: u64) {
        self.bucket(hash).lock().writes += 1;
    }

    /// The batch that was begun is in the engine, up to this sequence number: to be said before the ends of
    /// its writes.
    pub(crate) fn applied(&self, sequence: u64) {
        self.applied.0.store(sequence, Ordering::Relaxed);
    }

    /// The write of this key is over, with this value, or without one when the key is gone; `sequence` is
    /// that of the batch, none when nothing was written. Called in the order of the writes; several of one
    /// key in a batch leave the last value. What was asked for lately, as by whoever changes it, enters while
    /// there is room; what is new does not.
    pub(crate) fn end_write(&self, hash: u64, key: &[u8], value: Option<&[u8]>, sequence: Option<u64>) {
        let mut bucket = self.bucket(hash).lock();
        bucket.writes = bucket.writes.checked_sub(1).expect("a write that ends has begun");
        if let Some(sequence) = sequence {
            bucket.written = sequence as u32;
        }
        let known = bucket.ghosts.contains(&ghost(hash));
        let earlier = bucket.find(tag(hash), key);
        let written = value.filter(|value| may_keep(key, value)).zip(sequence);
        let removals = self.removals.begun();
        match (written, earlier) {
            (Some((value, sequence)), Some(index)) => {
                let kept = bucket.rows.get_mut(index).expect("a row is where it was found");
                let before = kept.row.cost();
                kept.row.set_value(key, value);
                (kept.removals, kept.stamp) = (removals as u32, sequence << 1 | REFERENCED);
                let after = kept.row.cost();
                self.count(before, after);
                drop(bucket);
                if after > before {
                    self.make_room();
                }
            }
            (Some((value, sequence)), None) if known && self.has_room(key, value) => {
                self.add(&mut bucket, Kept::new(Row::new(key, value), tag(hash), sequence, removals));
            }
            (None, Some(index)) => self.remove(&mut bucket, index),
            (_, None) => {}
        }
    }

    /// The last write of one of the bucket's keys. When it is more than 2³² writes ago it seems later than it
    /// was.
    fn written(&self, bucket: &Bucket) -> u64 {
        widened(bucket.written, self.applied.0.load(Ordering::Relaxed))
    }

    fn bucket(&self, hash: u64) -> &Mutex<Bucket> {
        // The upper half chooses the bucket, the lower half is the tag.
        let index = ((hash >> 32) * self.buckets.len() as u64) >> 32;
        &self.buckets.get(index as usize).expect("a hash leads to a bucket").0
    }

    /// Keeps a row whose key is not in the bucket.
    fn add(&self, bucket: &mut Bucket, kept: Kept) {
        if bucket.rows.len() >= ROWS_PER_BUCKET_MAX {
            self.remove(bucket, 0);
        }
        self.count(0, kept.row.cost());
        bucket.rows.push(kept);
    }

    fn remove(&self, bucket: &mut Bucket, index: usize) {
        let gone = bucket.rows.swap_remove(index);
        self.count(gone.row.cost(), 0);
    }

    fn has_room(&self, key: &[u8], value: &[u8]) -> bool {
        self.bytes.load(Ordering::Relaxed) + cost(key, value) <= self.budget()
    }

    /// What a row costs has changed. Rows that keep their size share no cache line for it.
    fn count(&self, before: u64, after: u64) {
        if before != after {
            self.bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        }
    }

    /// Pushes out what was not asked for lately, until the budget holds again or enough has been looked at
    /// for now.
    fn make_room(&self) {
        for _ in 0..SWEEP_MAX {
            if self.bytes.load(Ordering::Relaxed) <= self.budget() {
                return;
            }
            let index = self.hand.fetch_add(1, Ordering::Relaxed) % self.buckets.len() as u64;
            let bucket = self.buckets.get(index as usize).expect("the hand goes round the buckets");
            let freed = bucket.0.lock().sweep(&self.removals);
            self.bytes.fetch_sub(freed, Ordering::Relaxed);
        }
    }
}

fn may_keep(key: &[u8], value: &[u8]) -> bool {
    key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX
}

fn cost(key: &[u8], value: &[u8]) -> u64 {
    row_len(key, value) as u64 + ROW_OVERHEAD
}

/// The largest number up to `latest` with this lower half.
const fn widened(low: u32, latest: u64) -> u64 {
    latest - (latest as u32).wrapping_sub(low) as u64
}

const fn tag(hash: u64) -> u32 {
    hash as u32
}

/// Never zero, which is an empty place.
const fn ghost(hash: u64) -> u16 {
    (hash >> 16) as u16 | 1
}
