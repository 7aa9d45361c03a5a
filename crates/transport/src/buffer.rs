//! The bytes received and not yet processed.

use parking_lot::Mutex;

/// What an idle connection keeps, in bytes: most requests fit, so that one system call receives one request.
const RETAINED: usize = 16 * 1024;
/// How far a buffer grows on the word of a header alone, in bytes. Beyond it, it doubles with what really came.
const TRUSTED_GROWTH: usize = 1024 * 1024;

/// A growing buffer with initialised memory: `start..end` holds received bytes, behind `end` the stream writes.
///
/// It is handed to the stream by value, so that a kernel ring may own it while a read is under way.
#[derive(Debug)]
pub struct ReceiveBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl ReceiveBuffer {
    /// An empty buffer that holds no memory yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), start: 0, end: 0 }
    }

    /// The bytes received and not consumed.
    #[inline]
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Where the stream writes next; never empty after [`ReceiveBuffer::make_room`].
    #[inline]
    pub fn unfilled_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// Notes that the stream wrote `count` bytes.
    #[inline]
    pub fn advance(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    /// Drops `count` bytes from the front.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Makes room for a message of `wanted` bytes at the front, or for a part of it when only a header vouches for the rest.
    /// Gives memory back when nothing is held.
    pub fn make_room(&mut self, wanted: usize) {
        let held = self.end - self.start;
        let useful = wanted.min(TRUSTED_GROWTH.max(held.saturating_mul(2))).max(held + 1).max(RETAINED);
        if held == 0 && self.bytes.len() > RETAINED && useful <= RETAINED {
            self.bytes = Vec::new();
        }
        if self.start + useful <= self.bytes.len() {
            return;
        }
        if useful <= self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
        } else {
            // Fresh zeroed pages cost nothing until they are written, unlike growing and clearing.
            let mut larger = vec![0; useful];
            if let Some(target) = larger.get_mut(..held) {
                target.copy_from_slice(self.filled());
            }
            self.bytes = larger;
        }
        self.start = 0;
        self.end = held;
    }

    /// Bytes of memory held.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Whether a connection may keep a reply buffer of this capacity while it is idle.
pub(crate) const fn is_small(capacity: usize) -> bool {
    capacity <= 4 * RETAINED
}

/// Large reply buffers that busy connections hand around: they keep none themselves, and growing one anew for each large reply
/// would cost more than a small query.
#[derive(Debug, Default)]
pub(crate) struct LargeBuffers {
    /// A leaf in the order of locks, held for a push or a pop.
    idle: Mutex<Vec<Vec<u8>>>,
}

impl LargeBuffers {
    const MOST_BUFFERS: usize = 16;
    const MOST_BYTES: usize = 4 * 1024 * 1024;

    /// A large buffer, or an empty one when none is idle.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.idle.lock().pop().unwrap_or_default()
    }

    /// Keeps the buffer for others unless it is huge or there are enough.
    pub(crate) fn give(&self, buffer: Vec<u8>) {
        if buffer.capacity() > Self::MOST_BYTES {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.len() < Self::MOST_BUFFERS {
            idle.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(buffer: &mut ReceiveBuffer, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            buffer.make_room(buffer.filled().len() + rest.len());
            let room = buffer.unfilled_mut();
            let count = room.len().min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            buffer.advance(count);
            rest = &rest[count..];
        }
    }

    #[test]
    fn keeps_order_and_releases_memory() {
        let data: Vec<u8> = (0..5_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let mut buffer = ReceiveBuffer::new();
        fill(&mut buffer, &data);
        assert_eq!(buffer.filled(), data, "bytes changed while the buffer grew");
        buffer.consume(4_999_990);
        assert_eq!(buffer.filled(), &data[4_999_990..], "consuming moved the rest");
        buffer.consume(10);
        buffer.make_room(16);
        assert_eq!(buffer.capacity(), RETAINED, "an idle connection keeps a large buffer");
    }

    #[test]
    fn a_header_alone_reserves_little() {
        let mut buffer = ReceiveBuffer::new();
        fill(&mut buffer, &[0; 16]);
        buffer.make_room(48_000_000);
        assert!(buffer.capacity() <= TRUSTED_GROWTH, "a header made the buffer {} bytes", buffer.capacity());
    }
}
