//! The records of RocksDB's logs, the journal and the MANIFEST, read past what is damaged.
//!
//! ```text
//!  block of 32 KiB:  record │ record │ … │ fewer than 7 bytes: zeros
//!  record:           check u32 LE │ length u16 LE │ kind u8 │ bytes        kind 1: whole; 2, 3, 4:
//!                                                                          parts of a long one
//!  check:            CRC-32C of kind and bytes, turned right by 15, plus 0xa282ead8
//! ```
//! RocksDB's reader takes the first record that is cut for the end of the log. This one tells what is behind.

use std::io::{self, Read, Write};

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
const MASK: u32 = 0xa282_ead8;

const WHOLE: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

/// What comes next in a log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LogItem {
    /// A record.
    Record(Vec<u8>),
    /// Bytes that are none.
    Damaged(DamagedBytes),
}

/// A part of a log that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DamagedBytes {
    /// Where in the file it begins and ends.
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) defect: &'static str,
    /// The file ends within a record: so a write ends during which the machine or the process did.
    pub(super) is_cut: bool,
}

/// Reads a log from its beginning.
pub(super) struct LogReader<R> {
    file: R,
    block: Vec<u8>,
    /// Where in the file the block begins, and how far in it one is.
    begin: u64,
    at: usize,
    /// The first part of a record, and where it began.
    parts: Option<(u64, Vec<u8>)>,
}

impl<R: Read> LogReader<R> {
    pub(super) fn new(file: R) -> Self {
        LogReader { file, block: Vec::new(), begin: 0, at: 0, parts: None }
    }

    pub(super) fn file(&self) -> &R {
        &self.file
    }

    fn place(&self) -> u64 {
        self.begin + self.at as u64
    }

    fn fill(&mut self) -> io::Result<bool> {
        self.begin += self.block.len() as u64;
        self.at = 0;
        self.block.clear();
        (&mut self.file).take(BLOCK_BYTES as u64).read_to_end(&mut self.block)?;
        Ok(!self.block.is_empty())
    }

    /// The next record or damage; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<LogItem>> {
        loop {
            let rest = self.block.get(self.at..).unwrap_or_default();
            if rest.is_empty() && !self.fill()? {
                return Ok(self.end());
            }
            let from = self.place();
            match self.step() {
                Step::On => {}
                Step::Record(record) => return Ok(Some(LogItem::Record(record))),
                Step::Passed(defect) => {
                    let damaged = DamagedBytes { from, to: self.place(), defect, is_cut: false };
                    return Ok(Some(LogItem::Damaged(damaged)));
                }
                Step::Damaged(defect, is_cut) => {
                    // No length can be trusted: the next block begins with a record or a part of one.
                    self.at = self.block.len();
                    let from = self.parts.take().map_or(from, |(begun, _)| begun);
                    let damaged = DamagedBytes { from, to: self.place(), defect, is_cut };
                    return Ok(Some(LogItem::Damaged(damaged)));
                }
            }
        }
    }

    fn end(&mut self) -> Option<LogItem> {
        let (from, _) = self.parts.take()?;
        let defect = "the file ends within a record";
        Some(LogItem::Damaged(DamagedBytes { from, to: self.place(), defect, is_cut: true }))
    }

    /// Takes one record or part of one, or what is left of a block.
    fn step(&mut self) -> Step {
        let is_last_block = self.block.len() < BLOCK_BYTES;
        let rest = self.block.get(self.at..).unwrap_or_default();
        let Some((header, behind)) = rest.split_at_checked(HEADER_BYTES) else {
            let is_blank = rest.iter().all(|byte| *byte == 0);
            self.at = self.block.len();
            return match (is_last_block, is_blank) {
                (false, true) => Step::On,
                (true, _) => Step::Damaged("the file ends within a record", true),
                (false, false) => Step::Damaged("there is something between two blocks", false),
            };
        };
        let &[c0, c1, c2, c3, l0, l1, kind] = header else {
            unreachable!("a header has {HEADER_BYTES} bytes")
        };
        let length = usize::from(u16::from_le_bytes([l0, l1]));
        let Some(bytes) = behind.get(..length) else {
            let defect = "a record is longer than there is";
            return Step::Damaged(defect, is_last_block);
        };
        let check = crc32c::crc32c_append(crc32c::crc32c(&[kind]), bytes);
        if u32::from_le_bytes([c0, c1, c2, c3]) != check.rotate_right(15).wrapping_add(MASK) {
            return Step::Damaged("the checksum of a record does not agree", false);
        }
        let from = self.begin + self.at as u64;
        self.at += HEADER_BYTES + length;
        match (kind, self.parts.take()) {
            (WHOLE, None) => Step::Record(bytes.to_vec()),
            (FIRST, None) => {
                self.parts = Some((from, bytes.to_vec()));
                Step::On
            }
            (MIDDLE, Some((begun, mut parts))) => {
                parts.extend_from_slice(bytes);
                self.parts = Some((begun, parts));
                Step::On
            }
            (LAST, Some((_, mut parts))) => {
                parts.extend_from_slice(bytes);
                Step::Record(parts)
            }
            (MIDDLE | LAST, None) => Step::Passed("a record has no beginning"),
            (_, parts) => {
                self.parts = parts;
                Step::Damaged("a record has no end, or is of no kind that is known", false)
            }
        }
    }
}

enum Step {
    On,
    /// What is behind it can be read.
    Passed(&'static str),
    Record(Vec<u8>),
    Damaged(&'static str, bool),
}

/// Writes records as [`LogReader`] reads them.
pub(super) struct LogWriter<W> {
    file: W,
    at: usize,
}

impl<W: Write> LogWriter<W> {
    pub(super) fn new(file: W) -> Self {
        LogWriter { file, at: 0 }
    }

    /// Goes on behind so many bytes of a log.
    pub(super) fn behind(bytes: u64, file: W) -> Self {
        LogWriter { file, at: (bytes % BLOCK_BYTES as u64) as usize }
    }

    pub(super) fn add(&mut self, record: &[u8]) -> io::Result<()> {
        let mut rest = record;
        let mut is_first = true;
        loop {
            let left = BLOCK_BYTES - self.at;
            if left < HEADER_BYTES {
                self.file.write_all([0; HEADER_BYTES].get(..left).unwrap_or_default())?;
                self.at = 0;
                continue;
            }
            let (part, behind) = rest.split_at(rest.len().min(left - HEADER_BYTES));
            let kind = match (is_first, behind.is_empty()) {
                (true, true) => WHOLE,
                (true, false) => FIRST,
                (false, false) => MIDDLE,
                (false, true) => LAST,
            };
            let check = crc32c::crc32c_append(crc32c::crc32c(&[kind]), part);
            let length = u16::try_from(part.len()).expect("a part fits a block");
            self.file.write_all(&check.rotate_right(15).wrapping_add(MASK).to_le_bytes())?;
            self.file.write_all(&length.to_le_bytes())?;
            self.file.write_all(&[kind])?;
            self.file.write_all(part)?;
            self.at += HEADER_BYTES + part.len();
            (rest, is_first) = (behind, false);
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    pub(super) fn into_inner(self) -> W {
        self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(lengths: &[usize]) -> (Vec<u8>, Vec<Vec<u8>>) {
        let records: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(at, length)| vec![at as u8 + 1; *length]).collect();
        let mut writer = LogWriter::new(Vec::new());
        records.iter().for_each(|record| writer.add(record).unwrap());
        (writer.into_inner(), records)
    }

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, Vec<DamagedBytes>) {
        let mut reader = LogReader::new(bytes);
        let (mut records, mut damaged) = (Vec::new(), Vec::new());
        while let Some(item) = reader.next().unwrap() {
            match item {
                LogItem::Record(record) => records.push(record),
                LogItem::Damaged(part) => damaged.push(part),
            }
        }
        (records, damaged)
    }

    const LENGTHS: [usize; 6] = [100, 0, BLOCK_BYTES - 130, 3 * BLOCK_BYTES, 9, 2 * BLOCK_BYTES];

    #[test]
    fn records_come_back() {
        let (bytes, records) = write(&LENGTHS);
        assert_eq!(read(&bytes), (records, Vec::new()));
        assert_eq!(read(&[]), (Vec::new(), Vec::new()));
    }

    #[test]
    fn every_flipped_byte_is_found_and_what_is_behind_it_is_read() {
        let (bytes, records) = write(&LENGTHS);
        for at in (0..bytes.len()).step_by(61).chain(0..300) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            let (found, damaged) = read(&flipped);
            assert!(!damaged.is_empty(), "byte {at}");
            assert!(found.iter().all(|record| records.contains(record)), "byte {at} makes up a record");
            if at < BLOCK_BYTES {
                assert!(found.last() == records.last(), "byte {at}: what is behind is read");
            }
        }
    }

    #[test]
    fn a_log_that_ends_within_a_record_is_cut() {
        let (bytes, _) = write(&[100, 100]);
        let (found, damaged) = read(&bytes[..bytes.len() - 1]);
        assert_eq!(found.len(), 1);
        assert!(matches!(damaged.as_slice(), [DamagedBytes { is_cut: true, from: 107, .. }]), "{damaged:?}");
    }
}
