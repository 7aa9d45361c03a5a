//! What RocksDB's C interface offers and the crate does not wrap: sizes that count memtables, and events.
#![expect(unsafe_code, reason = "the interface of RocksDB")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use librocksdb_sys as ffi;
use rocksdb::{AsColumnFamilyRef, AsRawPtr, ColumnFamily, DB, Options};

use super::errors::says_no_space;
use crate::engine::RangeBytes;
use crate::keyspace::Keyspace;
use crate::pipeline::turn::commits_are_deferred;

const MEMTABLES: u8 = ffi::rocksdb_size_approximation_flags_include_memtable as u8;
const TABLES: u8 = ffi::rocksdb_size_approximation_flags_include_files as u8;

/// `BackgroundErrorReason::kCompaction`.
const COMPACTION: u32 = 1;

/// An estimate of the bytes between two keys. May read the index blocks of table files.
pub(super) fn range_bytes(rocks: &DB, family: &ColumnFamily, lower: &[u8], upper: &[u8]) -> RangeBytes {
    let of = |what| approximate_bytes(rocks, family, lower, upper, what);
    RangeBytes { tables: of(TABLES), memtables: of(MEMTABLES) }
}

fn approximate_bytes(rocks: &DB, family: &ColumnFamily, lower: &[u8], upper: &[u8], what: u8) -> u64 {
    let starts = [lower.as_ptr().cast::<c_char>()];
    let ends = [upper.as_ptr().cast::<c_char>()];
    let (start_lengths, end_lengths) = ([lower.len()], [upper.len()]);
    let mut bytes = 0;
    let mut error = std::ptr::null_mut();
    // SAFETY: the database and the column family are borrowed; every array has the one element announced, and
    // all of them outlive the call.
    unsafe {
        ffi::rocksdb_approximate_sizes_cf_with_flags(
            rocks.as_raw_ptr(),
            family.inner(),
            1,
            starts.as_ptr(),
            start_lengths.as_ptr(),
            ends.as_ptr(),
            end_lengths.as_ptr(),
            what,
            &raw mut bytes,
            &raw mut error,
        );
    }
    if let Some(error) = take_text(error) {
        tracing::warn!(%error, "the size of a range of keys is not known");
    }
    bytes
}

/// Has a database that is opened with these options keep what its log holds in memory, and take no room in
/// advance.
pub(super) fn spare_disk(options: &mut Options) {
    // SAFETY: the options are borrowed.
    unsafe {
        ffi::rocksdb_options_set_avoid_flush_during_recovery(options.as_raw_ptr(), 1);
        ffi::rocksdb_options_set_allow_fallocate(options.as_raw_ptr(), 0);
    }
}

/// Sets the memtable of a column family aside and has it flushed in the background.
pub(super) fn seal(rocks: &DB, family: &ColumnFamily) -> Result<(), String> {
    let mut error = std::ptr::null_mut();
    // SAFETY: the database and the column family are borrowed; the options live until they are given back.
    unsafe {
        let options = ffi::rocksdb_flushoptions_create();
        ffi::rocksdb_flushoptions_set_wait(options, 0);
        // Otherwise it waits until no limit is near, and writers with it.
        ffi::rocksdb_flushoptions_set_allow_write_stall(options, 1);
        ffi::rocksdb_flush_cf(rocks.as_raw_ptr(), options, family.inner(), &raw mut error);
        ffi::rocksdb_flushoptions_destroy(options);
    }
    take_text(error).map_or(Ok(()), Err)
}

/// Changes options of a database that is open; it writes them to its file of options.
pub(super) fn set_options(rocks: &DB, options: &[(&str, &str)]) -> Result<(), String> {
    let text = |text: &str| CString::new(text).map_err(|error| error.to_string());
    let names = options.iter().map(|(name, _)| text(name)).collect::<Result<Vec<_>, _>>()?;
    let values = options.iter().map(|(_, value)| text(value)).collect::<Result<Vec<_>, _>>()?;
    let name_pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
    let value_pointers: Vec<_> = values.iter().map(|value| value.as_ptr()).collect();
    let count = i32::try_from(options.len()).map_err(|error| error.to_string())?;
    let mut error = std::ptr::null_mut();
    // SAFETY: the database is borrowed; both arrays have as many texts as announced.
    unsafe {
        ffi::rocksdb_set_db_options(
            rocks.as_raw_ptr(),
            count,
            name_pointers.as_ptr(),
            value_pointers.as_ptr(),
            &raw mut error,
        );
    }
    take_text(error).map_or(Ok(()), Err)
}

/// Ends compactions that were asked for, now and from now on.
pub(super) fn disable_manual_compaction(rocks: &DB) {
    // SAFETY: the database is borrowed.
    unsafe { ffi::rocksdb_disable_manual_compaction(rocks.as_raw_ptr()) };
}

/// Has a database that is opened with these options keep the CRC-32C of each table file, as it was written,
/// in its MANIFEST.
pub(super) fn checksum_tables(options: &mut Options) {
    // SAFETY: the options are borrowed and take a share of the factory, whose own handle is given back.
    unsafe {
        let factory = ffi::rocksdb_file_checksum_gen_crc32c_factory_create();
        ffi::rocksdb_options_set_file_checksum_gen_factory(options.as_raw_ptr(), factory);
        ffi::rocksdb_file_checksum_gen_factory_destroy(factory);
    }
}

/// Bounds the blocks that wait in memory until a table's dictionary is made of them.
pub(super) fn bound_dictionary_buffer(options: &mut Options, bytes: u64) {
    // SAFETY: the options are borrowed.
    unsafe {
        ffi::rocksdb_options_set_bottommost_compression_options_max_dict_buffer_bytes(
            options.as_raw_ptr(),
            bytes,
            1,
        );
    }
}

/// Reads every block of every table; what RocksDB says of the first that is damaged.
pub(super) fn verify_checksums(rocks: &DB) -> Result<(), String> {
    let mut error = std::ptr::null_mut();
    // SAFETY: the database is borrowed.
    unsafe { ffi::rocksdb_verify_checksum(rocks.as_raw_ptr(), &raw mut error) };
    take_text(error).map_or(Ok(()), Err)
}

/// What RocksDB has told from its own threads.
#[derive(Debug, Default)]
pub(super) struct Events {
    flushes: AtomicU64,
    /// Memtables sealed, in the order of `Keyspace::ALL`.
    seals: [AtomicU64; Keyspace::ALL.len()],
    /// Those that a thread with deferred commits sealed: an event loop.
    seals_on_loops: AtomicU64,
    /// A compaction has found the disk full.
    starved: AtomicBool,
    /// A flush or a write has, and RocksDB refuses writes until it has recovered.
    halted: AtomicBool,
}

// RocksDB's threads tell them at once, and the last one frees them.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Events>();
};

impl Events {
    /// Has the database that is opened with these options tell its events.
    pub(super) fn listen(options: &mut Options) -> Arc<Events> {
        let events = Arc::new(Events::default());
        let state = Arc::into_raw(Arc::clone(&events)).cast_mut().cast::<c_void>();
        // SAFETY: `state` is a share of `events` that `forget` gives back. The listener passes to the options
        // and, by reference counting, to the database. None of the functions unwinds.
        unsafe {
            let listener = ffi::rocksdb_eventlistener_create(
                state,
                Some(forget),
                Some(flush_begins),
                Some(flush_completed),
                Some(compaction_begins),
                Some(compaction_completed),
                Some(subcompaction),
                Some(subcompaction),
                Some(file_ingested),
                Some(background_error),
                Some(stall_conditions_changed),
                Some(memtable_sealed),
            );
            ffi::rocksdb_options_add_eventlistener(options.as_raw_ptr(), listener);
        }
        events
    }

    /// Memtables written to table files.
    pub(super) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Memtables sealed, in the order of [`Keyspace::ALL`].
    pub(super) fn seals(&self) -> [u64; Keyspace::ALL.len()] {
        self.seals.each_ref().map(|seals| seals.load(Ordering::Relaxed))
    }

    /// Those that an event loop sealed in its own write.
    pub(super) fn seals_on_loops(&self) -> u64 {
        self.seals_on_loops.load(Ordering::Relaxed)
    }

    /// Whether a compaction has found the disk full since the last call.
    pub(super) fn take_starved(&self) -> bool {
        self.starved.load(Ordering::Relaxed) && self.starved.swap(false, Ordering::Relaxed)
    }

    /// Whether RocksDB has begun to refuse writes for want of room since the last call.
    pub(super) fn take_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire) && self.halted.swap(false, Ordering::AcqRel)
    }
}

unsafe extern "C" fn forget(state: *mut c_void) {
    // SAFETY: `listen` has made the pointer from an `Arc`, and RocksDB calls this once.
    drop(unsafe { Arc::from_raw(state.cast::<Events>()) });
}

unsafe extern "C" fn flush_completed(
    state: *mut c_void,
    _database: *mut ffi::rocksdb_t,
    _flush: *const ffi::rocksdb_flushjobinfo_t,
) {
    // SAFETY: the listener holds its share of the events until `forget`.
    let events = unsafe { &*state.cast::<Events>() };
    events.flushes.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn background_error(
    state: *mut c_void,
    reason: u32,
    status: *mut ffi::rocksdb_status_ptr_t,
) {
    let mut text = std::ptr::null_mut();
    // SAFETY: the listener holds its share of the events until `forget`; the status is valid during this
    // call.
    let events = unsafe {
        ffi::rocksdb_status_ptr_get_error(status, &raw mut text);
        &*state.cast::<Events>()
    };
    let Some(text) = take_text(text) else { return };
    if !says_no_space(&text) {
        tracing::error!(error = text, "the storage engine reports an error in the background");
    } else if reason == COMPACTION {
        events.starved.store(true, Ordering::Relaxed);
    } else {
        events.halted.store(true, Ordering::Release);
    }
}

// RocksDB's wrapper calls every function without looking whether there is one.

extern "C" fn flush_begins(
    _state: *mut c_void,
    _database: *mut ffi::rocksdb_t,
    _flush: *const ffi::rocksdb_flushjobinfo_t,
) {
}

extern "C" fn compaction_begins(
    _state: *mut c_void,
    _database: *mut ffi::rocksdb_t,
    _compaction: *const ffi::rocksdb_compactionjobinfo_t,
) {
}

extern "C" fn compaction_completed(
    _state: *mut c_void,
    _database: *mut ffi::rocksdb_t,
    _compaction: *const ffi::rocksdb_compactionjobinfo_t,
) {
}

extern "C" fn subcompaction(_state: *mut c_void, _part: *const ffi::rocksdb_subcompactionjobinfo_t) {}

extern "C" fn file_ingested(
    _state: *mut c_void,
    _database: *mut ffi::rocksdb_t,
    _file: *const ffi::rocksdb_externalfileingestioninfo_t,
) {
}

extern "C" fn stall_conditions_changed(_state: *mut c_void, _stall: *const ffi::rocksdb_writestallinfo_t) {}

unsafe extern "C" fn memtable_sealed(state: *mut c_void, memtable: *const ffi::rocksdb_memtableinfo_t) {
    let mut length = 0;
    // SAFETY: the listener holds its share of the events until `forget`; the name is valid during this call.
    let (events, name) = unsafe {
        let name = ffi::rocksdb_memtableinfo_cf_name(memtable, &raw mut length);
        (&*state.cast::<Events>(), std::slice::from_raw_parts(name.cast::<u8>(), length))
    };
    let keyspace = Keyspace::ALL.iter().position(|keyspace| keyspace.name().as_bytes() == name);
    if let Some(seals) = keyspace.and_then(|keyspace| events.seals.get(keyspace)) {
        seals.fetch_add(1, Ordering::Relaxed);
    }
    // RocksDB tells it on the thread that has sealed.
    if commits_are_deferred() {
        events.seals_on_loops.fetch_add(1, Ordering::Relaxed);
    }
}

/// Takes over an error text of RocksDB's.
fn take_text(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: RocksDB hands over a text that ends with a zero and that `rocksdb_free` frees.
    unsafe {
        let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
        ffi::rocksdb_free(text.cast());
        Some(owned)
    }
}
