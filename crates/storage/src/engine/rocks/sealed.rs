//! RocksDB's files in a data directory that is encrypted: its file system calls what is here.
#![expect(unsafe_code, reason = "the interface of RocksDB")]

use std::ffi::{OsStr, c_void};
use std::io::{ErrorKind, Read};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use librocksdb_sys as ffi;
use rocksdb::{AsRawPtr, Options};
use rustix::fs::{Advice, fadvise};

use crate::vault::{PageFile, SealLayout, Sealer, Vault, VaultReader};

/// What the file system gets, as in `sealed.cc`.
#[repr(C)]
struct SealCalls {
    vault: *const c_void,
    forget: unsafe extern "C" fn(*const c_void),
    open: unsafe extern "C" fn(*const c_void, *const u8, usize, *mut *mut c_void) -> i64,
    read: unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> i64,
    close: unsafe extern "C" fn(*mut c_void),
    length: unsafe extern "C" fn(*const c_void, *const u8, usize) -> i64,
    open_pages: unsafe extern "C" fn(*const c_void, *const u8, usize, *mut *mut c_void) -> i64,
    read_at: unsafe extern "C" fn(*const c_void, u64, *mut MaybeUninit<u8>, usize) -> i64,
    page_bytes: unsafe extern "C" fn(*const c_void) -> i64,
    advise: unsafe extern "C" fn(*const c_void, i32, u64, u64),
    close_pages: unsafe extern "C" fn(*mut c_void),
    begin: unsafe extern "C" fn(*const c_void, bool, *mut *const u8, *mut usize) -> *mut c_void,
    append: unsafe extern "C" fn(*mut c_void, *const u8, usize, *mut *const u8, *mut usize) -> bool,
    finish: unsafe extern "C" fn(*mut c_void, *mut *const u8, *mut usize),
    give_up: unsafe extern "C" fn(*mut c_void),
    drop: unsafe extern "C" fn(*mut c_void),
}

unsafe extern "C" {
    fn heddle_sealed_env_create(calls: *const SealCalls) -> *mut ffi::rocksdb_env_t;
}

/// How databases of one data directory reach their files. It must outlive them.
pub(super) struct EngineFiles {
    vault: Vault,
    /// `None`: RocksDB's own.
    environment: Option<SealedEnvironment>,
}

struct SealedEnvironment(*mut ffi::rocksdb_env_t);

// SAFETY: RocksDB's environments are made to be used by many threads, and this one is only handed out.
unsafe impl Send for SealedEnvironment {}
// SAFETY: as above.
unsafe impl Sync for SealedEnvironment {}

impl Drop for SealedEnvironment {
    fn drop(&mut self) {
        // SAFETY: `EngineFiles::of` has made it, and no database uses it any more.
        unsafe { ffi::rocksdb_env_destroy(self.0) };
    }
}

impl EngineFiles {
    pub(super) fn of(vault: &Vault) -> EngineFiles {
        let environment = vault.is_on().then(|| {
            let calls = SealCalls {
                vault: Arc::into_raw(Arc::new(vault.clone())).cast(),
                forget,
                open,
                read,
                close,
                length,
                open_pages,
                read_at,
                page_bytes,
                advise,
                close_pages,
                begin,
                append,
                finish,
                give_up,
                drop: drop_sealer,
            };
            // SAFETY: the calls are copied; each is what `sealed.cc` takes it for, and none of them unwinds.
            SealedEnvironment(unsafe { heddle_sealed_env_create(&raw const calls) })
        });
        EngineFiles { vault: vault.clone(), environment }
    }

    pub(super) fn vault(&self) -> &Vault {
        &self.vault
    }

    /// Has what is opened or written with these options use them.
    pub(super) fn install(&self, options: &mut Options) {
        if let Some(environment) = &self.environment {
            // SAFETY: the options are borrowed, and whoever uses them keeps `self` for as long.
            unsafe { ffi::rocksdb_options_set_env(options.as_raw_ptr(), environment.0) };
        }
    }

    /// Makes sure that a database which was opened so has not written in the clear.
    ///
    /// # Panics
    /// When RocksDB's environment is not what `sealed.cc` takes it for.
    pub(super) fn check_opened(&self, engine: &Path) {
        if self.vault.is_on() {
            let current = self.vault.read(&engine.join("CURRENT"));
            assert!(current.is_ok(), "RocksDB does not use the file system it was given: {current:?}");
        }
    }
}

/// What RocksDB's threads use together must be made for it, and what one makes another one may end.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    const fn is_sent<T: Send>() {}
    is_shared::<Vault>();
    is_shared::<AnywhereFile>();
    is_sent::<VaultReader>();
    is_sent::<Writing>();
};

/// What `sealed.cc` makes an error of.
fn code(error: &std::io::Error) -> i64 {
    const DAMAGED: i64 = -1;
    /// `EIO`.
    const OTHER: i32 = 5;
    match error.kind() {
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof => DAMAGED,
        _ => -1 - i64::from(error.raw_os_error().unwrap_or(OTHER)),
    }
}

/// # Safety
/// The bytes are there during the call.
unsafe fn path<'p>(bytes: *const u8, length: usize) -> &'p Path {
    // SAFETY: as the caller says.
    Path::new(OsStr::from_bytes(unsafe { std::slice::from_raw_parts(bytes, length) }))
}

unsafe extern "C" fn forget(vault: *const c_void) {
    // SAFETY: `EngineFiles::of` has made it from an `Arc`, and the file system calls this once.
    drop(unsafe { Arc::from_raw(vault.cast::<Vault>()) });
}

unsafe extern "C" fn open(
    vault: *const c_void,
    bytes: *const u8,
    length: usize,
    reader: *mut *mut c_void,
) -> i64 {
    // SAFETY: the file system holds its share of the vault until `forget`; the path is there during the call.
    let (vault, path) = unsafe { (&*vault.cast::<Vault>(), path(bytes, length)) };
    match vault.open(path) {
        Err(error) => code(&error),
        Ok(opened) => {
            // SAFETY: the caller has a place for it, and gives it back with `close`.
            unsafe { *reader = Box::into_raw(Box::new(opened)).cast() };
            0
        }
    }
}

unsafe extern "C" fn read(reader: *mut c_void, into: *mut u8, bytes: usize) -> i64 {
    if bytes == 0 {
        return 0;
    }
    // SAFETY: `open` has made the reader, which one thread uses at a time; so many bytes have a place, which
    // `sealed.cc` has filled with zeros and nobody else uses during the call.
    let (reader, into) =
        unsafe { (&mut *reader.cast::<VaultReader>(), std::slice::from_raw_parts_mut(into, bytes)) };
    loop {
        match reader.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read.map_or_else(|error| code(&error), |read| read as i64),
        }
    }
}

unsafe extern "C" fn close(reader: *mut c_void) {
    // SAFETY: `open` has made it, and nobody uses it any more.
    drop(unsafe { Box::from_raw(reader.cast::<VaultReader>()) });
}

unsafe extern "C" fn length(vault: *const c_void, bytes: *const u8, count: usize) -> i64 {
    // SAFETY: as in `open`.
    let (vault, path) = unsafe { (&*vault.cast::<Vault>(), path(bytes, count)) };
    vault.length(path).map_or_else(|error| code(&error), |length| length as i64)
}

/// A file that is read anywhere. One in records is read whole: at each start RocksDB opens `CURRENT` so, to
/// know whether it can.
enum AnywhereFile {
    Pages(PageFile),
    Whole(Vec<u8>),
}

unsafe extern "C" fn open_pages(
    vault: *const c_void,
    bytes: *const u8,
    length: usize,
    pages: *mut *mut c_void,
) -> i64 {
    // SAFETY: as in `open`.
    let (vault, path) = unsafe { (&*vault.cast::<Vault>(), path(bytes, length)) };
    let opened = match vault.page_file(path) {
        Ok(Some(pages)) => Ok(AnywhereFile::Pages(pages)),
        Ok(None) => vault.read(path).map(AnywhereFile::Whole),
        Err(error) => Err(error),
    };
    match opened {
        Err(error) => code(&error),
        Ok(opened) => {
            // SAFETY: the caller has a place for it, and gives it back with `close_pages`.
            unsafe { *pages = Box::into_raw(Box::new(opened)).cast() };
            0
        }
    }
}

unsafe extern "C" fn read_at(
    pages: *const c_void,
    offset: u64,
    into: *mut MaybeUninit<u8>,
    bytes: usize,
) -> i64 {
    if bytes == 0 {
        return 0;
    }
    // SAFETY: `open_pages` has made the file, which is only read; so many bytes have a place, and nobody else
    // uses it during the call. RocksDB has written nothing to it yet.
    let (file, into) =
        unsafe { (&*pages.cast::<AnywhereFile>(), std::slice::from_raw_parts_mut(into, bytes)) };
    match file {
        AnywhereFile::Pages(pages) => {
            pages.read_at(offset, into, None).map_or_else(|error| code(&error), |read| read as i64)
        }
        AnywhereFile::Whole(whole) => {
            let rest = whole.get(offset as usize..).unwrap_or_default();
            into.iter_mut().zip(rest).for_each(|(place, byte)| _ = place.write(*byte));
            rest.len().min(into.len()) as i64
        }
    }
}

unsafe extern "C" fn page_bytes(pages: *const c_void) -> i64 {
    // SAFETY: `open_pages` has made the file.
    match unsafe { &*pages.cast::<AnywhereFile>() } {
        AnywhereFile::Pages(pages) => pages.bytes() as i64,
        AnywhereFile::Whole(whole) => whole.len() as i64,
    }
}

unsafe extern "C" fn advise(pages: *const c_void, advice: i32, offset: u64, bytes: u64) {
    // SAFETY: `open_pages` has made the file.
    let AnywhereFile::Pages(pages) = (unsafe { &*pages.cast::<AnywhereFile>() }) else { return };
    let advice = match advice {
        1 => Advice::Random,
        2 => Advice::Sequential,
        3 => Advice::WillNeed,
        4 => Advice::DontNeed,
        _ => Advice::Normal,
    };
    let (from, length) = match bytes {
        // All of it.
        0 => (0, 0),
        bytes => pages.place(offset, bytes),
    };
    // Advice that is not taken costs nothing but time.
    let _ = fadvise(pages.file(), from, std::num::NonZero::new(length), advice);
}

unsafe extern "C" fn close_pages(pages: *mut c_void) {
    // SAFETY: `open_pages` has made it, and nobody uses it any more.
    drop(unsafe { Box::from_raw(pages.cast::<AnywhereFile>()) });
}

/// What is written, and the last bytes that were given out.
struct Writing {
    sealer: Sealer,
    header: Vec<u8>,
}

unsafe extern "C" fn begin(
    vault: *const c_void,
    in_pages: bool,
    out: *mut *const u8,
    length: *mut usize,
) -> *mut c_void {
    // SAFETY: as in `open`.
    let vault = unsafe { &*vault.cast::<Vault>() };
    let layout = if in_pages { SealLayout::Pages } else { SealLayout::Records };
    let (sealer, header) = vault.sealer(layout).expect("the file system is made for a vault with keys");
    let writing = Box::new(Writing { sealer, header: header.to_vec() });
    // SAFETY: the caller has places for both, and uses the bytes before it gives the writer back.
    unsafe {
        *out = writing.header.as_ptr();
        *length = writing.header.len();
    }
    Box::into_raw(writing).cast()
}

unsafe extern "C" fn append(
    writing: *mut c_void,
    bytes: *const u8,
    count: usize,
    out: *mut *const u8,
    length: *mut usize,
) -> bool {
    // SAFETY: `begin` has made it, and one thread writes at a time; the bytes are there during the call.
    let (writing, bytes) = unsafe {
        let bytes = if count == 0 { &[] } else { std::slice::from_raw_parts(bytes, count) };
        (&mut *writing.cast::<Writing>(), bytes)
    };
    let Some(sealed) = writing.sealer.append(bytes) else { return false };
    // SAFETY: the caller has places for both, and uses the bytes before its next call.
    unsafe {
        *out = sealed.as_ptr();
        *length = sealed.len();
    }
    true
}

unsafe extern "C" fn finish(writing: *mut c_void, out: *mut *const u8, length: *mut usize) {
    // SAFETY: as in `append`.
    let sealed = unsafe { &mut *writing.cast::<Writing>() }.sealer.finish();
    // SAFETY: as in `append`.
    unsafe {
        *out = sealed.as_ptr();
        *length = sealed.len();
    }
}

unsafe extern "C" fn give_up(writing: *mut c_void) {
    // SAFETY: as in `append`.
    unsafe { &mut *writing.cast::<Writing>() }.sealer.give_up();
}

unsafe extern "C" fn drop_sealer(writing: *mut c_void) {
    // SAFETY: `begin` has made it, and nobody uses it any more.
    drop(unsafe { Box::from_raw(writing.cast::<Writing>()) });
}
