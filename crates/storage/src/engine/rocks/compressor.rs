//! Tables with a dictionary are compressed in one context each: RocksDB 11.8 makes one for each block.
#![expect(unsafe_code, reason = "the interface of RocksDB")]

use librocksdb_sys as ffi;
use rocksdb::{AsRawPtr, Options};

unsafe extern "C" {
    fn heddle_options_target_file_size(options: *const ffi::rocksdb_options_t) -> u64;
    fn heddle_options_keep_compression_contexts(options: *mut ffi::rocksdb_options_t);
    #[cfg(test)]
    fn heddle_kept_contexts(made: *mut u64, used: *mut u64);
}

/// Has tables that are written with these options compressed so. They are the same to whoever reads them.
///
/// # Panics
/// When RocksDB's options are not what `compressor.cc` takes them for: nothing has been opened yet.
pub(super) fn keep_contexts(options: &mut Options) {
    // SAFETY: the options are borrowed.
    let (seen, told) = unsafe {
        let raw = options.as_raw_ptr();
        (heddle_options_target_file_size(raw), ffi::rocksdb_options_get_target_file_size_base(raw))
    };
    assert_eq!(seen, told, "RocksDB's options are laid out in another way");
    // SAFETY: the options are borrowed, and laid out as `compressor.cc` takes them for.
    unsafe { heddle_options_keep_compression_contexts(options.as_raw_ptr()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::rocks::options::keyspace_options;
    use crate::keyspace::Keyspace;
    use crate::options::StorageOptions;
    use rocksdb::{Cache, CompactOptions, DB};

    /// Contexts that were made so far, and blocks that were compressed in them.
    fn counted() -> (u64, u64) {
        let (mut made, mut used) = (0, 0);
        // SAFETY: both have a place.
        unsafe { heddle_kept_contexts(&raw mut made, &raw mut used) };
        (made, used)
    }

    #[test]
    fn blocks_of_a_table_share_a_context() {
        const ROWS: u32 = 20_000;
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new_lru_cache(1 << 20);
        let mut options = keyspace_options(Keyspace::Documents, &StorageOptions::default(), &cache);
        options.create_if_missing(true);
        let rocks = DB::open(&options, directory.path()).unwrap();
        let value =
            |row: u32| format!("{{ name: 'a name of many', number: {row}, {} }}", "city: 'x', ".repeat(20));
        for row in 0..ROWS {
            rocks.put(row.to_be_bytes(), value(row)).unwrap();
        }
        rocks.flush().unwrap();
        let (made_before, used_before) = counted();
        let mut down = CompactOptions::default();
        down.set_bottommost_level_compaction(rocksdb::BottommostLevelCompaction::Force);
        rocks.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &down);
        let (made, used) = counted();
        let (made, used) = (made - made_before, used - used_before);
        // Other tests of this process may compact as well, each into a table or a few.
        assert!(used > 300, "{used} blocks of 6 MB of rows");
        assert!(made * 50 < used, "{made} contexts were made for {used} blocks");
        for row in 0..ROWS {
            assert_eq!(rocks.get(row.to_be_bytes()).unwrap().unwrap(), value(row).as_bytes());
        }
    }
}
