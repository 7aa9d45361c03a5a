//! The oplog in parts of about equal size, each with its figures: what is trimmed at once, without reading
//! it.

use crate::entry::LogIndex;
use document::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

/// A part of the oplog takes this share of it.
const SEGMENTS: u64 = 100;
const SEGMENT_BYTES_MIN: u64 = 4 << 10;
const SEGMENT_BYTES_MAX: u64 = 256 << 20;

/// A part of the oplog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Segment {
    /// Its last entry. It begins behind the one before it.
    pub(super) last: LogIndex,
    /// Operations in it.
    pub(super) documents: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Of the last operation up to its end.
    pub(super) timestamp: Timestamp,
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// What is beyond so many bytes may go,
    pub(super) size_bytes: u64,
    /// once it is so old.
    pub(super) retention: Option<Duration>,
}

impl Limits {
    /// A segment ends when it has so many bytes.
    pub(super) fn segment_bytes(self) -> u64 {
        (self.size_bytes / SEGMENTS).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
    }
}

/// All parts: the last one is open.
#[derive(Debug, Default)]
pub(super) struct Segments {
    pub(super) closed: VecDeque<Segment>,
    /// Its `last` is that of the log.
    pub(super) open: Segment,
}

impl Segments {
    /// The figures of the whole log.
    pub(super) fn total(&self) -> (u64, u64) {
        let all = self.closed.iter().chain([&self.open]);
        all.fold((0, 0), |(documents, bytes), next| (documents + next.documents, bytes + next.bytes))
    }

    /// Ends the open segment, if it is large enough.
    pub(super) fn close(&mut self, bytes_min: u64) -> Option<Segment> {
        if self.open.bytes < bytes_min {
            return None;
        }
        let closed = self.open;
        self.closed.push_back(closed);
        self.open = Segment { documents: 0, bytes: 0, ..closed };
        Some(closed)
    }

    /// The last entries are gone, from this index on, with so many operations: segments that end behind it
    /// are open again.
    pub(super) fn truncate(&mut self, from: LogIndex, documents: u64, bytes: u64) {
        while let Some(reopened) = self.closed.pop_back_if(|segment| segment.last >= from) {
            self.open.documents += reopened.documents;
            self.open.bytes += reopened.bytes;
        }
        self.open.documents -= documents;
        self.open.bytes -= bytes;
        self.open.last = from - 1;
        // That of an operation that is gone would keep the segment for too long at most.
    }

    /// The last entry that may go by size and age, at the end of a segment that ends at `through` or before.
    pub(super) fn trim_through(&self, limits: Limits, through: LogIndex, wall: Duration) -> Option<LogIndex> {
        let (_, mut bytes) = self.total();
        let is_old = |segment: &Segment| {
            let age = wall.saturating_sub(Duration::from_secs(u64::from(segment.timestamp.time)));
            limits.retention.is_none_or(|retention| age > retention)
        };
        let mut last = None;
        for segment in self.closed.iter().take_while(|segment| segment.last <= through && is_old(segment)) {
            bytes -= segment.bytes;
            if bytes < limits.size_bytes {
                break;
            }
            last = Some(segment.last);
        }
        last
    }

    /// The figures of the segments that end at `through` or before, and where the next one begins.
    pub(super) fn whole_through(&self, through: LogIndex) -> Segment {
        let whole = self.closed.iter().take_while(|segment| segment.last <= through);
        whole.fold(Segment::default(), |sum, next| Segment {
            documents: sum.documents + next.documents,
            bytes: sum.bytes + next.bytes,
            ..*next
        })
    }

    /// The first entries are gone, up to this index; beside whole segments so many operations of the next
    /// one, whose new figures are the result where it is closed.
    pub(super) fn trim(&mut self, through: LogIndex, documents: u64, bytes: u64) -> Option<Segment> {
        while self.closed.pop_front_if(|segment| segment.last <= through).is_some() {}
        let is_closed = !self.closed.is_empty();
        let next = self.closed.front_mut().unwrap_or(&mut self.open);
        next.documents -= documents;
        next.bytes -= bytes;
        (is_closed && documents > 0).then_some(*next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(sizes: &[u64]) -> Segments {
        let mut segments = Segments::default();
        for (place, size) in sizes.iter().enumerate() {
            let last = (place as u64 + 1) * 10;
            let timestamp = Timestamp { time: 100 * (place as u32 + 1), increment: 1 };
            segments.open = Segment { last, documents: 10, bytes: *size, timestamp };
            if place + 1 < sizes.len() {
                segments.close(1).expect("a segment");
            }
        }
        segments
    }

    #[track_caller]
    fn check(
        sizes: &[u64],
        size_bytes: u64,
        age: Option<u64>,
        through: LogIndex,
        expected: Option<LogIndex>,
    ) {
        let limits = Limits { size_bytes, retention: age.map(Duration::from_secs) };
        let found = segments(sizes).trim_through(limits, through, Duration::from_secs(1_000));
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_too_much_and_old_enough_goes() {
        check(&[5, 5, 5, 5], 10, None, 99, Some(20));
        check(&[5, 5, 5, 5], 11, None, 99, Some(10));
        check(&[5, 5, 5, 5], 20, None, 99, None);
        check(&[5, 5, 5, 5], 0, None, 99, Some(30));
        check(&[5, 5, 5, 5], 0, None, 29, Some(20));
        check(&[5, 5, 5, 5], 0, Some(850), 99, Some(10));
        check(&[5, 5, 5, 5], 0, Some(950), 99, None);
    }

    #[test]
    fn segments_open_again_when_their_end_is_cut_off() {
        let mut cut = segments(&[5, 5, 5, 3]);
        cut.truncate(16, 25, 10);
        assert_eq!((cut.closed.len(), cut.total()), (1, (15, 8)));
        assert_eq!((cut.open.last, cut.open.documents), (15, 5));
    }

    #[test]
    fn a_part_of_a_segment_is_trimmed() {
        let mut trimmed = segments(&[5, 5, 5]);
        assert_eq!((trimmed.whole_through(14).last, trimmed.whole_through(9).last), (10, 0));
        assert_eq!(trimmed.trim(14, 4, 2).expect("a closed segment is smaller").documents, 6);
        assert_eq!(trimmed.total(), (16, 8));
        assert_eq!(trimmed.trim(25, 5, 2), None);
        assert_eq!(trimmed.total(), (5, 3));
    }
}
