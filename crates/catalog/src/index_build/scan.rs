//! The first step of a build: all documents are read, each by whoever has its part of the collection, and
//! their entries collected in sorted runs.

use super::BuildProgress;
use super::run::{EntryBuffer, FileRun, Run};
use crate::collection::Collection;
use crate::definition::IndexDefinition;
use crate::index_keys::{KeyScratch, MultikeyPaths};
use crate::{CatalogError, keys};
use document::RawDocument;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::{Cursor, CursorOptions, Direction, KeyRange, Keyspace, ReadTier, StorageError, Store};

/// Documents of one step.
const STEP_DOCUMENTS: usize = 256;
/// Bytes of documents of one step.
const STEP_BYTES: usize = 1 << 20;
/// Parts of the collection for each thread: so that none waits long for the last one.
const PARTS_PER_THREAD: u64 = 8;
/// A part of fewer documents is not worth a cursor of its own.
const DOCUMENTS_PER_PART: u64 = 4096;
/// How often the middle of a part's keys is moved towards that of its bytes.
const BISECTIONS: u32 = 20;

/// What is shared by all who scan for one build.
pub(super) struct Scan {
    pub(super) store: Store,
    pub(super) indexes: Vec<Arc<IndexDefinition>>,
    pub(super) progress: Arc<BuildProgress>,
    /// Parts that nobody has begun.
    parts: Mutex<Vec<KeyRange>>,
    /// For each index its runs so far.
    runs: Mutex<Vec<Vec<Arc<Run>>>>,
    /// Where arrays were met, for each index.
    multikey: Mutex<Vec<MultikeyPaths>>,
    /// Memory for the entries of one who scans.
    memory_bytes: usize,
    /// Whether it fails for documents that an index cannot hold, and for want of room.
    pub(super) keeps_rules: bool,
    /// What the names of files begin with; `None` where all stays in memory.
    files: Option<PathBuf>,
    next_file: AtomicU64,
}

impl Scan {
    pub(super) fn new(
        collection: &Collection,
        progress: &Arc<BuildProgress>,
        (threads, keeps_rules): (usize, bool),
    ) -> Result<Scan, CatalogError> {
        let store = collection.store.clone();
        let definition = collection.definition();
        let ids = progress.index_ids();
        let indexes: Vec<_> =
            definition.indexes.iter().filter(|index| ids.contains(&index.id)).cloned().collect();
        let files = match store.path() {
            None => None,
            Some(path) => {
                let directory = path.join(super::DIRECTORY);
                std::fs::create_dir_all(&directory).map_err(|error| super::run::unusable(&error))?;
                let first = ids.first().copied().unwrap_or_default();
                Some(directory.join(format!("{}-{first}", collection.id())))
            }
        };
        Ok(Scan {
            parts: Mutex::new(parts(collection, threads)?),
            runs: Mutex::new(vec![Vec::new(); indexes.len()]),
            multikey: Mutex::new(indexes.iter().map(|index| vec![0; index.spec.fields.len()]).collect()),
            memory_bytes: store.build_memory_bytes() / threads.max(1),
            progress: Arc::clone(progress),
            next_file: AtomicU64::new(0),
            store,
            indexes,
            keeps_rules,
            files,
        })
    }

    /// A name for a file of the build that no other one has.
    pub(super) fn new_path(&self) -> PathBuf {
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        let mut name = self.files.clone().unwrap_or_default().into_os_string();
        name.push(format!("-{number}"));
        name.into()
    }

    /// Where arrays were met, for each index, and its runs.
    pub(super) fn results(&self) -> (Vec<MultikeyPaths>, Vec<Vec<Arc<Run>>>) {
        (self.multikey.lock().clone(), std::mem::take(&mut *self.runs.lock()))
    }

    /// Waits as long as what was written costs of the I/O budget, and fails when there is no room for more.
    pub(super) fn pay(&self, bytes: u64) -> Result<(), StorageError> {
        // Who is told to stop pays no more; that it has been told is found by the next look.
        let is_going_on = || if self.progress.is_stopped() { Err(()) } else { Ok(()) };
        let _ = self.store.await_background(bytes, is_going_on);
        if self.keeps_rules { self.store.check_room() } else { Ok(()) }
    }
}

/// One who scans.
pub(super) struct Scanner {
    scan: Arc<Scan>,
    cursor: Option<Cursor>,
    scratch: KeyScratch,
    /// For each index the entries that are in no run yet.
    buffers: Vec<EntryBuffer>,
    multikey: Vec<MultikeyPaths>,
}

impl Scanner {
    pub(super) fn new(scan: &Arc<Scan>) -> Scanner {
        let buffers = scan.indexes.iter().map(|_| EntryBuffer::default()).collect();
        let multikey = scan.indexes.iter().map(|index| vec![0; index.spec.fields.len()]).collect();
        Scanner { scan: Arc::clone(scan), cursor: None, scratch: KeyScratch::default(), buffers, multikey }
    }

    /// Does all that is left to be done.
    pub(super) fn run(mut self) -> Result<(), CatalogError> {
        while self.step()? {
            if self.scan.progress.is_stopped() {
                return self.scan.progress.check_going_on();
            }
        }
        self.finish();
        Ok(())
    }

    /// Reads some documents; whether there may be more.
    pub(super) fn step(&mut self) -> Result<bool, CatalogError> {
        let Some(mut cursor) =
            self.cursor.take().map_or_else(|| self.next_part(), |cursor| Ok(Some(cursor)))?
        else {
            return Ok(false);
        };
        let (mut documents, mut bytes, mut is_over) = (0, 0, false);
        while documents < STEP_DOCUMENTS && bytes < STEP_BYTES {
            let Some((key, value)) = cursor.next()? else {
                is_over = true;
                break;
            };
            self.take(keys::behind_collection(key), value)?;
            documents += 1;
            bytes += value.len();
        }
        self.scan.progress.advance(documents as u64);
        self.cursor = (!is_over).then_some(cursor);
        self.spill_if_full()?;
        Ok(true)
    }

    fn next_part(&self) -> Result<Option<Cursor>, CatalogError> {
        let Some(range) = self.scan.parts.lock().pop() else { return Ok(None) };
        let options = CursorOptions { tier: ReadTier::Any, fill_cache: false };
        let view = self.scan.store.read_view();
        Ok(Some(view.cursor_with(Keyspace::Documents, range, Direction::Forward, options)?))
    }

    fn take(&mut self, document_key: &[u8], document: &[u8]) -> Result<(), CatalogError> {
        let document = RawDocument::trusted(document);
        let all = self.scan.indexes.iter().zip(&mut self.buffers).zip(&mut self.multikey);
        for ((index, buffer), multikey) in all {
            let mut take = |key: &[u8], value: &[u8]| buffer.push(key, value);
            match index.generator.each_entry(document, document_key, &mut self.scratch, &mut take) {
                Ok(Some(found)) => multikey.iter_mut().zip(found).for_each(|(known, more)| *known |= more),
                Ok(None) => {}
                // Whether a document that has changed since is why, nobody knows; as MongoDB does.
                Err(error) if self.scan.keeps_rules => return Err(error.into()),
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn spill_if_full(&mut self) -> Result<(), CatalogError> {
        let held: usize = self.buffers.iter().map(EntryBuffer::held_bytes).sum();
        // A step's documents may have many entries each.
        let has_place = self.buffers.iter().all(|buffer| buffer.has_place(1 << 31));
        if self.scan.files.is_none() || held < self.scan.memory_bytes && has_place {
            return Ok(());
        }
        for (position, buffer) in self.buffers.iter_mut().enumerate().filter(|(_, buffer)| !buffer.is_empty())
        {
            buffer.sort();
            let run: FileRun = buffer.spill(self.scan.new_path())?;
            let bytes = run.bytes;
            add_run(&self.scan, position, Run::File(run));
            self.scan.pay(bytes)?;
        }
        Ok(())
    }

    /// Adds what is left in memory to the runs.
    pub(super) fn finish(mut self) {
        for (position, mut buffer) in self.buffers.drain(..).enumerate() {
            if !buffer.is_empty() {
                buffer.sort();
                add_run(&self.scan, position, Run::Memory(buffer));
            }
        }
        for (known, more) in self.scan.multikey.lock().iter_mut().zip(&self.multikey) {
            known.iter_mut().zip(more).for_each(|(known, more)| *known |= more);
        }
    }
}

fn add_run(scan: &Scan, position: usize, run: Run) {
    let mut runs = scan.runs.lock();
    runs.get_mut(position).expect("each index has its runs").push(Arc::new(run));
}

/// Divides a collection into parts of about as many bytes each.
fn parts(collection: &Collection, threads: usize) -> Result<Vec<KeyRange>, CatalogError> {
    let whole = keys::document_range(collection.id());
    let most = PARTS_PER_THREAD * threads as u64;
    let wanted = (collection.document_count() / DOCUMENTS_PER_PART).min(most).max(1);
    let mut ends = Vec::new();
    for direction in [Direction::Forward, Direction::Backward] {
        let mut cursor =
            collection.store.read_view().cursor(Keyspace::Documents, whole.clone(), direction)?;
        let Some((key, _)) = cursor.next()? else { return Ok(vec![whole]) };
        ends.push(key.to_vec());
    }
    let (Some(first), Some(last)) = (ends.first(), ends.last()) else { return Ok(vec![whole]) };
    let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let keys = KeyLine { collection, common: first.get(..common).unwrap_or_default() };
    let (from, to) = (place(first, common), place(last, common));
    let mut cuts = Vec::new();
    keys.cut((from, to), wanted.next_power_of_two().ilog2(), &mut cuts);
    cuts.dedup();
    let mut parts = Vec::new();
    let mut lower = whole.lower.clone();
    for cut in cuts {
        let cut = keys.at(cut);
        parts.push(KeyRange { lower: lower.replace(cut.clone()), upper: Some(cut) });
    }
    parts.push(KeyRange { lower, upper: whole.upper });
    Ok(parts)
}

/// The eight bytes behind those that all keys have in common, as a number.
fn place(key: &[u8], common: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(key.iter().skip(common)).for_each(|(byte, of_key)| *byte = *of_key);
    u64::from_be_bytes(bytes)
}

struct KeyLine<'c> {
    collection: &'c Collection,
    common: &'c [u8],
}

impl KeyLine<'_> {
    fn at(&self, place: u64) -> Vec<u8> {
        [self.common, &place.to_be_bytes()].concat()
    }

    fn bytes(&self, from: u64, to: u64) -> u64 {
        let range = KeyRange { lower: Some(self.at(from)), upper: Some(self.at(to)) };
        self.collection.store.range_bytes(Keyspace::Documents, &range).total()
    }

    /// Adds the places that halve a range, and its halves, so many times, in order. The halves of what an
    /// estimate says are any: each document is in one part.
    fn cut(&self, (from, to): (u64, u64), times: u32, cuts: &mut Vec<u64>) {
        if times == 0 || to - from < 2 {
            return;
        }
        let all = self.bytes(from, to);
        let (mut low, mut high) = (from, to);
        for _ in 0..BISECTIONS {
            let middle = low + (high - low) / 2;
            match self.bytes(from, middle) < all / 2 {
                true => low = middle,
                false => high = middle,
            }
        }
        if high <= from || high >= to {
            return;
        }
        self.cut((from, high), times - 1, cuts);
        cuts.push(high);
        self.cut((high, to), times - 1, cuts);
    }
}
