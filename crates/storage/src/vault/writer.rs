//! Sealing what is written to a file.
//!
//! ```text
//!  pages:    header │ 4,096 bytes ‖ tag ×16 │ … │ the last page: up to 4,096 bytes ‖ tag
//!  records:  header │ length u32 LE │ CRC-32C of length and number u32 LE │ bytes ‖ tag │ …
//! ```
//! A page is written when a byte comes behind it, the last one when the file is finished. Records are
//! numbered from 0 on; nothing that was written is written again.

use std::fs::File;
use std::io::{self, Write};

use super::Keys;
use super::cipher::{FileKey, HEADER_BYTES, SealLayout, SealedPart, TAG_BYTES, new_file};

pub(crate) const PAGE_BYTES: usize = 4096;
pub(super) const SEALED_PAGE_BYTES: usize = PAGE_BYTES + TAG_BYTES;
/// A longer piece becomes several records: who reads one holds it in memory.
pub(super) const RECORD_BYTES_MAX: usize = 4 << 20;
pub(super) const RECORD_HEADER_BYTES: usize = 8;

/// What is in front of a record.
pub(super) fn record_header(length: u32, number: u64) -> [u8; RECORD_HEADER_BYTES] {
    let check = crc32c::crc32c_append(crc32c::crc32c(&length.to_le_bytes()), &number.to_le_bytes());
    let mut header = [0; RECORD_HEADER_BYTES];
    let (first, second) = header.split_at_mut(size_of::<u32>());
    first.copy_from_slice(&length.to_le_bytes());
    second.copy_from_slice(&check.to_le_bytes());
    header
}

/// Turns what is appended to a file into what is written to it.
pub(crate) struct Sealer {
    key: FileKey,
    layout: SealLayout,
    /// Of the next page or record.
    number: u64,
    /// What is no whole page yet.
    waiting: Vec<u8>,
    sealed: Vec<u8>,
    is_finished: bool,
}

impl Sealer {
    /// Of a new file, which begins with the header.
    pub(super) fn new(keys: &Keys, layout: SealLayout) -> (Sealer, [u8; HEADER_BYTES]) {
        let (number, data_key) = keys.newest();
        let (header, key) = new_file(data_key, number, layout);
        let (waiting, sealed) = (Vec::new(), Vec::new());
        (Sealer { key, layout, number: 0, waiting, sealed, is_finished: false }, header)
    }

    /// What is to be written for these bytes; `None`: the file is finished.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Option<&[u8]> {
        if self.is_finished {
            return None;
        }
        self.sealed.clear();
        match self.layout {
            SealLayout::Pages => self.append_pages(bytes),
            SealLayout::Records => bytes.chunks(RECORD_BYTES_MAX).for_each(|piece| self.append_record(piece)),
        }
        Some(&self.sealed)
    }

    fn append_pages(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while self.waiting.len() + rest.len() > PAGE_BYTES {
            let (page, behind) = rest.split_at(PAGE_BYTES - self.waiting.len());
            let begin = self.sealed.len();
            self.sealed.append(&mut self.waiting);
            self.sealed.extend_from_slice(page);
            self.seal_from(begin, SealedPart::Page);
            rest = behind;
        }
        self.waiting.extend_from_slice(rest);
    }

    fn append_record(&mut self, piece: &[u8]) {
        let length = u32::try_from(piece.len()).expect("a record is short");
        self.sealed.extend_from_slice(&record_header(length, self.number));
        let begin = self.sealed.len();
        self.sealed.extend_from_slice(piece);
        self.seal_from(begin, SealedPart::Record);
    }

    fn seal_from(&mut self, begin: usize, part: SealedPart) {
        let bytes = self.sealed.get_mut(begin..).unwrap_or_default();
        let tag = self.key.seal(part, self.number, bytes);
        self.sealed.extend_from_slice(&tag);
        self.number += 1;
    }

    /// What is to be written at the end.
    pub(crate) fn finish(&mut self) -> &[u8] {
        self.sealed.clear();
        if !std::mem::replace(&mut self.is_finished, true) && self.layout == SealLayout::Pages {
            self.sealed.append(&mut self.waiting);
            self.seal_from(0, SealedPart::LastPage);
        }
        &self.sealed
    }

    /// Nothing is sealed any more: what was given out has not been written.
    pub(crate) fn give_up(&mut self) {
        self.is_finished = true;
    }
}

/// A file that is written, once and from its beginning to its end, as its [`Vault`](super::Vault) writes
/// files. One that is not [finished](VaultWriter::finish) cannot be read to its end.
pub struct VaultWriter {
    file: File,
    sealer: Option<Sealer>,
}

impl std::fmt::Debug for VaultWriter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("VaultWriter").field("file", &self.file).finish_non_exhaustive()
    }
}

impl VaultWriter {
    pub(super) fn new(mut file: File, keys: Option<&Keys>) -> io::Result<VaultWriter> {
        let Some(keys) = keys else { return Ok(VaultWriter { file, sealer: None }) };
        let (sealer, header) = Sealer::new(keys, SealLayout::Pages);
        file.write_all(&header)?;
        Ok(VaultWriter { file, sealer: Some(sealer) })
    }

    /// The file, to sync it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes the end. Nothing is synced.
    ///
    /// # Errors
    /// What the file system says.
    pub fn finish(mut self) -> io::Result<File> {
        if let Some(sealer) = &mut self.sealer {
            self.file.write_all(sealer.finish())?;
        }
        Ok(self.file)
    }
}

impl Write for VaultWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(sealer) = &mut self.sealer else { return self.file.write(bytes) };
        let ended = || io::Error::other("a write to the file has failed before");
        let written = self.file.write_all(sealer.append(bytes).ok_or_else(ended)?);
        if written.is_err() {
            sealer.give_up();
        }
        written.map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
