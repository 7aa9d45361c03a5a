//! Rows by key, with the protocol that keeps them true to the engine.
//!
//! ```text
//!  hash ─▶ bucket: lock │ version │ writes under way │ ghosts │ rows (tag, epoch, referenced, length ‖ key ‖ value)
//!
//!  reader   lookup ──hit──▶ value                        leader   begin_write: version + 1, one more under way
//!             └──miss──▶ engine ──▶ fill, unless the                engine writes the batch
//!                                   version has changed             end_write: new value in
//! ```
//! A row is only ever found while no write of its bucket is under way, and a value only enters when no write has
//! begun since before it was read. So a row found is what the engine would have answered at that moment, also for
//! a reader that has seen the newest write by another way: the write began before anybody could see it.
//!
//! The removal of a range does not look for its rows: it starts a new epoch, and rows of older ones are as good as gone. An odd epoch
//! means that such a removal is under way: then the engine is asked, since what it answers may be removed the moment after.

use std::sync::Arc;

use smallvec::SmallVec;

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
/// Buckets that one fill looks through for room.
const SWEEP_MAX: usize = 128;

/// A key's value as it is kept: the key's length (`u16 LE`), the key, the value.
#[derive(Clone, Debug)]
pub(crate) struct Row(Arc<[u8]>);

impl Row {
    fn new(key: &[u8], value: &[u8]) -> Row {
        let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, row_len(key, value)).collect();
        if let Some(bytes) = Arc::get_mut(&mut bytes) {
            write_row(bytes, key, value);
        }
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
        parts.unwrap_or_default()
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
    epoch: u32,
    /// Asked for since the sweep last came by.
    referenced: bool,
}

#[derive(Debug, Default)]
struct Bucket {
    rows: SmallVec<[Kept; 1]>,
    /// Changes when a write of one of the bucket's keys begins.
    version: u32,
    /// Writes that have begun and not ended.
    writes: u32,
    /// The latest first.
    ghosts: [u16; GHOSTS],
}

impl Bucket {
    fn find(&self, tag: u32, key: &[u8]) -> Option<usize> {
        self.rows.iter().position(|kept| kept.tag == tag && kept.row.has_key(key))
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
    fn sweep(&mut self, epoch: u32) -> u64 {
        let mut freed = 0;
        self.rows.retain_mut(|kept| {
            let stays = kept.epoch == epoch && kept.referenced;
            kept.referenced = false;
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
    /// The value is that of this moment.
    Hit(Row),
    /// Ask the engine, and offer what it says.
    Miss(FillTicket),
    /// Ask the engine; a write of this key may be under way.
    Bypass,
}

/// When the value that is offered was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FillTicket {
    version: u32,
    epoch: u64,
}

/// The table of all rows.
pub(crate) struct RowTable {
    buckets: Box<[LockedBucket]>,
    budget: u64,
    bytes: AtomicU64,
    /// The bucket that the next sweep begins with.
    hand: AtomicU64,
    epoch: AtomicU64,
}

impl RowTable {
    /// A table for about `budget` bytes of keys, values and what they cost beside.
    pub(crate) fn new(budget: u64) -> RowTable {
        let buckets = (budget / BYTES_PER_BUCKET).max(1);
        RowTable {
            buckets: (0..buckets).map(|_| LockedBucket(Mutex::new(Bucket::default()))).collect(),
            budget,
            bytes: AtomicU64::new(0),
            hand: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
        }
    }

    /// Bytes that rows take, and how many they may.
    pub(crate) fn usage(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.budget)
    }

    pub(crate) fn lookup(&self, hash: u64, key: &[u8]) -> Lookup {
        let epoch = self.epoch.load(Ordering::Acquire);
        let Some(bucket) = self.bucket(hash).filter(|_| !is_removing(epoch)) else { return Lookup::Bypass };
        let mut bucket = bucket.lock();
        if bucket.writes > 0 {
            return Lookup::Bypass;
        }
        let found = bucket.find(tag(hash), key).and_then(|index| bucket.rows.get_mut(index));
        if let Some(kept) = found.filter(|kept| kept.epoch == epoch as u32) {
            kept.referenced = true;
            return Lookup::Hit(kept.row.clone());
        }
        Lookup::Miss(FillTicket { version: bucket.version, epoch })
    }

    /// Takes in what the engine answered after the lookup that gave the ticket: at once while there is room if it `enters`, and
    /// otherwise when it is missed again, which is worth pushing something else out.
    pub(crate) fn fill(&self, hash: u64, key: &[u8], value: &[u8], ticket: FillTicket, enters: bool) {
        let Some(bucket) = self.bucket(hash).filter(|_| may_keep(key, value)) else { return };
        {
            let mut bucket = bucket.lock();
            if bucket.writes > 0 || bucket.version != ticket.version {
                return;
            }
            let known = bucket.remember(ghost(hash));
            let wanted = known || (enters && self.has_room(key, value));
            if !wanted {
                return;
            }
            // Another reader was quicker, or it is of an epoch before.
            if let Some(index) = bucket.find(tag(hash), key) {
                self.remove(&mut bucket, index);
            }
            self.add(&mut bucket, hash, Row::new(key, value), ticket.epoch as u32);
        }
        self.make_room();
    }

    /// A write of this key begins: until its end nobody finds the key here.
    pub(crate) fn begin_write(&self, hash: u64) {
        let Some(bucket) = self.bucket(hash) else { return };
        let mut bucket = bucket.lock();
        bucket.writes += 1;
        bucket.version = bucket.version.wrapping_add(1);
    }

    /// The write of this key is over, with this value, or without one when the key is gone or the write failed. Called in
    /// the order of the writes; several of one key in a batch leave the last value. What was asked for lately, as by whoever changes it,
    /// enters while there is room; what is new does not.
    pub(crate) fn end_write(&self, hash: u64, key: &[u8], value: Option<&[u8]>) {
        let epoch = self.epoch.load(Ordering::Relaxed) as u32;
        let Some(bucket) = self.bucket(hash) else { return };
        let mut bucket = bucket.lock();
        bucket.writes -= 1;
        let known = bucket.ghosts.contains(&ghost(hash));
        let earlier = bucket.find(tag(hash), key);
        match value.filter(|value| may_keep(key, value)) {
            Some(value) => match earlier.and_then(|index| bucket.rows.get_mut(index)) {
                Some(kept) => {
                    let before = kept.row.cost();
                    kept.row.set_value(key, value);
                    (kept.epoch, kept.referenced) = (epoch, true);
                    let after = kept.row.cost();
                    self.count(before, after);
                    drop(bucket);
                    if after > before {
                        self.make_room();
                    }
                }
                None if known && self.has_room(key, value) => {
                    self.add(&mut bucket, hash, Row::new(key, value), epoch);
                }
                None => {}
            },
            None => {
                if let Some(index) = earlier {
                    self.remove(&mut bucket, index);
                }
            }
        }
    }

    /// The removal of a range begins: every row of before is forgotten, and nobody finds anything here until it ends.
    pub(crate) fn begin_removal(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// The removal is over, or has failed.
    pub(crate) fn end_removal(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    fn bucket(&self, hash: u64) -> Option<&Mutex<Bucket>> {
        // The upper half chooses the bucket, the lower half is the tag.
        let index = ((hash >> 32) * self.buckets.len() as u64) >> 32;
        self.buckets.get(index as usize).map(|bucket| &bucket.0)
    }

    /// Keeps a row whose key is not in the bucket.
    fn add(&self, bucket: &mut Bucket, hash: u64, row: Row, epoch: u32) {
        if bucket.rows.len() >= ROWS_PER_BUCKET_MAX {
            self.remove(bucket, 0);
        }
        self.count(0, row.cost());
        bucket.rows.push(Kept { row, tag: tag(hash), epoch, referenced: false });
    }

    fn remove(&self, bucket: &mut Bucket, index: usize) {
        let gone = bucket.rows.swap_remove(index);
        self.count(gone.row.cost(), 0);
    }

    fn has_room(&self, key: &[u8], value: &[u8]) -> bool {
        self.bytes.load(Ordering::Relaxed) + cost(key, value) <= self.budget
    }

    /// What a row costs has changed. Rows that keep their size share no cache line for it.
    fn count(&self, before: u64, after: u64) {
        if before != after {
            self.bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        }
    }

    /// Pushes out what was not asked for lately, until the budget holds again or enough has been looked at for now.
    fn make_room(&self) {
        let epoch = self.epoch.load(Ordering::Relaxed) as u32;
        for _ in 0..SWEEP_MAX {
            if self.bytes.load(Ordering::Relaxed) <= self.budget {
                return;
            }
            let index = self.hand.fetch_add(1, Ordering::Relaxed) % self.buckets.len() as u64;
            let Some(bucket) = self.buckets.get(index as usize) else { return };
            let freed = bucket.0.lock().sweep(epoch);
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

const fn is_removing(epoch: u64) -> bool {
    epoch & 1 == 1
}

const fn tag(hash: u64) -> u32 {
    hash as u32
}

/// Never zero, which is an empty place.
const fn ghost(hash: u64) -> u16 {
    (hash >> 16) as u16 | 1
}
