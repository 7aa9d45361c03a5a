//! Reading what was sealed.
//!
//! What a crash leaves at the end of a file in records is not read: a record that the file ends within, and
//! one of which sectors are zeros, up to [`TORN_BYTES_MAX`] before the end. All else that does not open is
//! damage.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;

use super::Keys;
use super::cipher::{FileHeader, FileKey, HEADER_BYTES, SealLayout, SealedPart, TAG_BYTES, read_header};
use super::writer::{PAGE_BYTES, RECORD_BYTES_MAX, RECORD_HEADER_BYTES, SEALED_PAGE_BYTES, record_header};

/// Pages opened at once by who reads a file from its beginning to its end, at most.
const PAGES_AT_ONCE: usize = 64;
/// Disks write so many bytes whole, or not at all.
const SECTOR_BYTES: u64 = 512;
/// So many zeros in a row are nothing that was sealed.
const ZEROS_MIN: usize = 16;
/// More than that is not torn by one crash.
const TORN_BYTES_MAX: usize = 2 << 20;
/// A buffer for pages is kept by its thread up to this size.
const KEPT_BYTES_MAX: usize = 256 << 10;

fn damaged(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

fn page_damaged(page: u64) -> io::Error {
    damaged(&format!("the seal of page {page} does not agree"))
}

/// Whether the end of a file, from `at` on, is a write of which not all sectors reached the disk.
fn is_torn(end: &[u8], at: u64) -> bool {
    let mut rest = end;
    let mut place = at;
    while !rest.is_empty() {
        let to_sector = (SECTOR_BYTES - place % SECTOR_BYTES) as usize;
        let (sector, behind) = rest.split_at(rest.len().min(to_sector));
        let is_blank = sector.iter().all(|byte| *byte == 0);
        if is_blank && (sector.len() >= ZEROS_MIN || sector.len() == end.len()) {
            return true;
        }
        place += sector.len() as u64;
        rest = behind;
    }
    false
}

/// A place for an opened byte, whether something was there before or not: RocksDB's buffers begin as they
/// come.
pub(crate) trait ByteSlot: Copy {
    const ZERO: Self;

    /// Writes as many bytes as there are slots.
    fn fill_from(slots: &mut [Self], bytes: &[u8]);
}

impl ByteSlot for u8 {
    const ZERO: Self = 0;

    fn fill_from(slots: &mut [Self], bytes: &[u8]) {
        slots.copy_from_slice(bytes);
    }
}

impl ByteSlot for MaybeUninit<u8> {
    const ZERO: Self = MaybeUninit::new(0);

    fn fill_from(slots: &mut [Self], bytes: &[u8]) {
        slots.write_copy_of_slice(bytes);
    }
}

/// A file in pages, which does not change any more.
pub(crate) struct PageFile {
    file: File,
    key: FileKey,
    bytes: u64,
    last_page: u64,
}

/// What so many bytes of a file in pages hold; `None`: no such file has so many.
fn bytes_in_pages(size: u64) -> Option<u64> {
    let body = size.checked_sub(HEADER_BYTES as u64)?;
    let (pages, rest) = (body / SEALED_PAGE_BYTES as u64, body % SEALED_PAGE_BYTES as u64);
    match rest {
        0 => (pages > 0).then_some(pages * PAGE_BYTES as u64),
        rest => Some(pages * PAGE_BYTES as u64 + rest.checked_sub(TAG_BYTES as u64)?),
    }
}

impl PageFile {
    fn new(file: File, key: FileKey) -> io::Result<PageFile> {
        let size = file.metadata()?.len();
        let bytes = bytes_in_pages(size).ok_or_else(|| damaged("the end of the file is missing"))?;
        Ok(PageFile { file, key, bytes, last_page: bytes.saturating_sub(1) / PAGE_BYTES as u64 })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where in the file these bytes are, and how many they are there.
    pub(crate) fn place(&self, offset: u64, bytes: u64) -> (u64, u64) {
        let page_bytes = PAGE_BYTES as u64;
        let (first, last) = (offset / page_bytes, (offset + bytes.max(1) - 1) / page_bytes);
        let sealed = SEALED_PAGE_BYTES as u64;
        (HEADER_BYTES as u64 + first * sealed, (last - first + 1) * sealed)
    }

    /// Reads what is there from `offset` on, as far as it fits. A page that does not open is an error, or
    /// with `blank` zeros, and that is told.
    pub(crate) fn read_at<S: ByteSlot>(
        &self,
        offset: u64,
        into: &mut [S],
        blank: Option<&mut bool>,
    ) -> io::Result<usize> {
        let wanted = (into.len() as u64).min(self.bytes.saturating_sub(offset)) as usize;
        let into = into.get_mut(..wanted).unwrap_or_default();
        if into.is_empty() && !(self.bytes == 0 && offset == 0) {
            return Ok(0);
        }
        thread_local!(static SEALED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
        SEALED.with_borrow_mut(|sealed| {
            let read = self.open_pages(offset, into, sealed, blank);
            if sealed.capacity() > KEPT_BYTES_MAX {
                *sealed = Vec::new();
            }
            read.map(|()| wanted)
        })
    }

    fn open_pages<S: ByteSlot>(
        &self,
        offset: u64,
        into: &mut [S],
        sealed: &mut Vec<u8>,
        mut blank: Option<&mut bool>,
    ) -> io::Result<()> {
        let (from, most) = self.place(offset, into.len() as u64);
        let size = HEADER_BYTES as u64 + self.bytes + (self.last_page + 1) * TAG_BYTES as u64;
        let length = most.min(size - from) as usize;
        if sealed.len() < length {
            sealed.resize(length, 0);
        }
        let pages = sealed.get_mut(..length).unwrap_or_default();
        self.file.read_exact_at(pages, from)?;
        let mut page = offset / PAGE_BYTES as u64;
        let mut skipped = (offset % PAGE_BYTES as u64) as usize;
        let mut rest = into;
        for sealed in pages.chunks_mut(SEALED_PAGE_BYTES) {
            let part = if page == self.last_page { SealedPart::LastPage } else { SealedPart::Page };
            let held = sealed.len().saturating_sub(TAG_BYTES);
            let taken = held.saturating_sub(skipped).min(rest.len());
            let (place, behind) = std::mem::take(&mut rest).split_at_mut(taken);
            match (self.key.open(part, page, sealed), &mut blank) {
                (Some(opened), _) => {
                    S::fill_from(place, opened.get(skipped..skipped + taken).unwrap_or_default());
                }
                (None, Some(is_damaged)) => {
                    **is_damaged = true;
                    place.fill(S::ZERO);
                }
                (None, None) => return Err(page_damaged(page)),
            }
            (page, skipped, rest) = (page + 1, 0, behind);
        }
        Ok(())
    }
}

/// A file in records, which may still grow.
struct RecordFile {
    reader: BufReader<File>,
    key: FileKey,
    /// Of the record that comes next, and where in the file it begins.
    number: u64,
    at: u64,
    /// What has been read of it.
    begun: Vec<u8>,
    opened: Vec<u8>,
    opened_at: usize,
    is_over: bool,
}

/// The length of the record that begins so.
fn record_length(header: &[u8], number: u64) -> Option<usize> {
    let length = u32::from_le_bytes(*header.first_chunk()?);
    let is_one = header.starts_with(&record_header(length, number));
    Some(length as usize).filter(|length| is_one && (1..=RECORD_BYTES_MAX).contains(length))
}

impl RecordFile {
    fn new(file: File, key: FileKey) -> RecordFile {
        RecordFile {
            reader: BufReader::with_capacity(64 << 10, file),
            key,
            number: 0,
            at: HEADER_BYTES as u64,
            begun: Vec::new(),
            opened: Vec::new(),
            opened_at: 0,
            is_over: false,
        }
    }

    /// Reads on until so many bytes of the record are there; whether they are.
    fn fill(&mut self, bytes: usize) -> io::Result<bool> {
        let missing = bytes.saturating_sub(self.begun.len());
        (&mut self.reader).take(missing as u64).read_to_end(&mut self.begun)?;
        Ok(self.begun.len() >= bytes)
    }

    /// Opens the next record; whether there is one.
    fn next(&mut self, blank: Option<&mut bool>) -> io::Result<bool> {
        if self.is_over || !self.fill(RECORD_HEADER_BYTES)? {
            return Ok(false);
        }
        let Some(length) = record_length(&self.begun, self.number) else { return self.fail(None, blank) };
        let whole = RECORD_HEADER_BYTES + length + TAG_BYTES;
        if !self.fill(whole)? {
            return Ok(false);
        }
        self.opened.clear();
        self.opened.extend_from_slice(self.begun.get(RECORD_HEADER_BYTES..whole).unwrap_or_default());
        if self.key.open(SealedPart::Record, self.number, &mut self.opened).is_none() {
            return self.fail(Some(length), blank);
        }
        self.opened.truncate(length);
        self.pass(whole);
        Ok(true)
    }

    fn pass(&mut self, bytes: usize) {
        self.begun.clear();
        self.opened_at = 0;
        self.number += 1;
        self.at += bytes as u64;
    }

    /// The next record, of this length if that is known, does not open.
    fn fail(&mut self, length: Option<usize>, blank: Option<&mut bool>) -> io::Result<bool> {
        let mut end = std::mem::take(&mut self.begun);
        (&mut self.reader).take(TORN_BYTES_MAX as u64 + 1).read_to_end(&mut end)?;
        self.opened.clear();
        if end.len() <= TORN_BYTES_MAX && is_torn(&end, self.at) {
            self.is_over = true;
            return Ok(false);
        }
        let (at, number) = (self.at, self.number);
        let Some(is_damaged) = blank else {
            self.is_over = true;
            return Err(damaged(&format!("the seal of record {number}, at byte {at}, does not agree")));
        };
        *is_damaged = true;
        let size = self.reader.get_ref().metadata()?.len();
        // Without its length nobody knows where the next one begins.
        let rest = (size.saturating_sub(at) as usize).min(RECORD_BYTES_MAX);
        self.is_over = length.is_none();
        let whole = length.map_or(rest, |length| RECORD_HEADER_BYTES + length + TAG_BYTES);
        self.opened.resize(length.unwrap_or(rest), 0);
        self.pass(whole);
        self.reader.seek(SeekFrom::Start(self.at))?;
        Ok(true)
    }

    /// What it holds, as the records say.
    fn count(mut self) -> io::Result<u64> {
        let size = self.reader.get_ref().metadata()?.len();
        let mut bytes = 0;
        while self.fill(RECORD_HEADER_BYTES)?
            && let Some(length) = record_length(&self.begun, self.number)
        {
            let whole = RECORD_HEADER_BYTES + length + TAG_BYTES;
            if self.at + whole as u64 > size {
                break;
            }
            bytes += length as u64;
            self.reader.seek_relative((length + TAG_BYTES) as i64)?;
            self.pass(whole);
        }
        Ok(bytes)
    }

    fn read(&mut self, into: &mut [u8], blank: Option<&mut bool>) -> io::Result<usize> {
        if self.opened_at >= self.opened.len() && !self.next(blank)? {
            return Ok(0);
        }
        let rest = self.opened.get(self.opened_at..).unwrap_or_default();
        let taken = rest.len().min(into.len());
        let (from, to) = (rest.get(..taken).unwrap_or_default(), into.get_mut(..taken).unwrap_or_default());
        to.copy_from_slice(from);
        self.opened_at += taken;
        Ok(taken)
    }
}

enum Source {
    Plain(File),
    Pages(PageFile),
    Records(RecordFile),
    /// Nothing was written to it, or it did not come to the disk.
    Nothing,
}

/// A file that is read from its beginning to its end.
pub struct VaultReader {
    source: Box<Source>,
    /// What is read next.
    at: u64,
    /// Pages that are open, and where they begin.
    opened: Vec<u8>,
    opened_from: u64,
    /// Reads zeros in the place of what does not open.
    is_lenient: bool,
    is_damaged: bool,
}

impl std::fmt::Debug for VaultReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("VaultReader").field("at", &self.at).finish_non_exhaustive()
    }
}

fn source_of(file: File, keys: Option<&Keys>) -> io::Result<Source> {
    let Some(keys) = keys else { return Ok(Source::Plain(file)) };
    let mut header = Vec::new();
    (&file).take(HEADER_BYTES as u64).read_to_end(&mut header)?;
    match read_header(&header, |number| keys.of(number)) {
        FileHeader::Sealed(SealLayout::Pages, key) => Ok(Source::Pages(PageFile::new(file, key)?)),
        FileHeader::Sealed(SealLayout::Records, key) => Ok(Source::Records(RecordFile::new(file, key))),
        FileHeader::NotWritten if is_blank(&file)? => Ok(Source::Nothing),
        FileHeader::Foreign => Err(damaged("it is not encrypted as the files of this data directory are")),
        FileHeader::NotWritten | FileHeader::Damaged => {
            Err(damaged("the seal of its header does not agree, or its key is not there"))
        }
    }
}

/// Whether nothing is behind a header that was not written.
fn is_blank(file: &File) -> io::Result<bool> {
    let mut rest = Vec::new();
    file.take(TORN_BYTES_MAX as u64 + 1).read_to_end(&mut rest)?;
    Ok(rest.len() <= TORN_BYTES_MAX && rest.iter().all(|byte| *byte == 0))
}

/// What a file holds, in bytes. One that is not encrypted holds all of its own.
pub(super) fn length_of(file: File, keys: Option<&Keys>) -> io::Result<u64> {
    let size = file.metadata()?.len();
    let Some(keys) = keys else { return Ok(size) };
    let mut header = Vec::new();
    (&file).take(HEADER_BYTES as u64).read_to_end(&mut header)?;
    match read_header(&header, |number| keys.of(number)) {
        FileHeader::Sealed(SealLayout::Pages, _) => Ok(bytes_in_pages(size).unwrap_or(0)),
        FileHeader::Sealed(SealLayout::Records, key) => RecordFile::new(file, key).count(),
        FileHeader::NotWritten => Ok(0),
        FileHeader::Foreign | FileHeader::Damaged => Ok(size),
    }
}

/// A file in pages, to be read anywhere; `None`: it is in records.
pub(super) fn page_file(file: File, keys: &Keys) -> io::Result<Option<PageFile>> {
    match source_of(file, Some(keys))? {
        Source::Pages(pages) => Ok(Some(pages)),
        _ => Ok(None),
    }
}

impl VaultReader {
    pub(super) fn new(file: File, keys: Option<&Keys>, is_lenient: bool) -> io::Result<VaultReader> {
        let (source, is_damaged) = match source_of(file, keys) {
            Err(error) if is_lenient && error.kind() == ErrorKind::InvalidData => (Source::Nothing, true),
            source => (source?, false),
        };
        let source = Box::new(source);
        Ok(VaultReader { source, at: 0, opened: Vec::new(), opened_from: 0, is_lenient, is_damaged })
    }

    /// Whether something did not open that has been read.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Goes on at this byte, or at the end.
    ///
    /// # Errors
    /// What the file system says; of damage before it as [`Read`].
    pub fn seek_to(&mut self, offset: u64) -> io::Result<()> {
        match &mut *self.source {
            Source::Plain(file) => file.seek(SeekFrom::Start(offset)).map(drop)?,
            Source::Pages(_) | Source::Nothing => {}
            Source::Records(_) => {
                // There is one way to it. Nobody goes back.
                let ahead = offset.checked_sub(self.at).ok_or(ErrorKind::Unsupported)?;
                io::copy(&mut self.by_ref().take(ahead), &mut io::sink())?;
                return Ok(());
            }
        }
        self.at = offset;
        Ok(())
    }
}

impl Read for VaultReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let blank = self.is_lenient.then_some(&mut self.is_damaged);
        let read = match &mut *self.source {
            Source::Plain(file) => file.read(into)?,
            Source::Nothing => 0,
            Source::Records(records) => records.read(into, blank)?,
            Source::Pages(pages) => {
                let is_open =
                    (self.opened_from..self.opened_from + self.opened.len() as u64).contains(&self.at);
                if !is_open && !into.is_empty() {
                    self.opened_from = self.at / PAGE_BYTES as u64 * PAGE_BYTES as u64;
                    let pages_at_once = (into.len() / PAGE_BYTES).clamp(1, PAGES_AT_ONCE);
                    self.opened.resize(pages_at_once * PAGE_BYTES, 0);
                    let read = pages.read_at(self.opened_from, &mut self.opened, blank);
                    self.opened.truncate(*read.as_ref().unwrap_or(&0));
                    read?;
                }
                let from = self.at.saturating_sub(self.opened_from) as usize;
                let rest = self.opened.get(from..).unwrap_or_default();
                let taken = rest.len().min(into.len());
                into.iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
                taken
            }
        };
        self.at += read as u64;
        Ok(read)
    }
}
