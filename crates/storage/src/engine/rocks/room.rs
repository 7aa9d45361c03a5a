//! How much room compactions may take: RocksDB asks before each one, and puts off what does not fit.
//!
//! A compaction counts with all bytes that it reads until it is done. RocksDB begins one when what it reads,
//! what those that run have read, and all tables are together no more than a maximum less a buffer. The
//! maximum is out of reach here, since RocksDB also takes a flush beyond it for an error; the buffer is what
//! is left of it beside the tables and the room of the moment.

use librocksdb_sys as ffi;
use rocksdb::{AsRawPtr, Env, Options};

/// More than any disk has, and far from where sums overflow.
const OUT_OF_REACH: u64 = 1 << 60;

unsafe extern "C" {
    fn heddle_compactions_reserved(manager: *mut ffi::rocksdb_sst_file_manager_t) -> u64;
}

/// RocksDB's account of tables and compactions, and this share of it; the database has another one.
pub(super) struct CompactionRoom(*mut ffi::rocksdb_sst_file_manager_t);

// SAFETY: the object is a shared pointer that is only read here, and the manager behind it has a lock of its
// own.
unsafe impl Send for CompactionRoom {}
// SAFETY: as above.
unsafe impl Sync for CompactionRoom {}

impl CompactionRoom {
    /// Has the database that is opened with these options keep account. Nothing is bounded before
    /// [`CompactionRoom::set`].
    ///
    /// # Panics
    /// When RocksDB's account is not what `room.cc` takes it for: nothing has been opened yet.
    pub(super) fn install(options: &mut Options) -> Result<CompactionRoom, rocksdb::Error> {
        let env = Env::new()?;
        // SAFETY: the options and the environment, which is RocksDB's own and never goes, are borrowed; the
        // options take a share of the manager, and this one is given back in `drop`.
        let room = unsafe {
            let manager = ffi::rocksdb_sst_file_manager_create(env.as_raw_ptr());
            ffi::rocksdb_options_set_sst_file_manager(options.as_raw_ptr(), manager);
            CompactionRoom(manager)
        };
        assert_eq!((room.tables(), room.taken()), (0, 0), "RocksDB's account of a new database is not empty");
        Ok(room)
    }

    /// Lets compactions take so many bytes in all from now on, those that run included.
    pub(super) fn set(&self, bytes: u64) {
        let tables = self.tables();
        // SAFETY: the manager lives as long as `self`. The buffer grows before there is a maximum.
        unsafe {
            let buffer = OUT_OF_REACH.saturating_sub(tables).saturating_sub(bytes);
            ffi::rocksdb_sst_file_manager_set_compaction_buffer_size(self.0, buffer);
            ffi::rocksdb_sst_file_manager_set_max_allowed_space_usage(self.0, OUT_OF_REACH);
        }
    }

    /// Bytes that the compactions that run read, and may take until they are done.
    pub(super) fn taken(&self) -> u64 {
        // SAFETY: the manager lives as long as `self`.
        unsafe { heddle_compactions_reserved(self.0) }
    }

    /// Bytes of all tables, those included that compactions have written so far.
    fn tables(&self) -> u64 {
        // SAFETY: the manager lives as long as `self`.
        unsafe { ffi::rocksdb_sst_file_manager_get_total_size(self.0) }
    }
}

impl Drop for CompactionRoom {
    fn drop(&mut self) {
        // SAFETY: `install` has made it, and nobody uses this share of it any more.
        unsafe { ffi::rocksdb_sst_file_manager_destroy(self.0) };
    }
}
