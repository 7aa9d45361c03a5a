//! The bytes received and not yet processed.

use parking_lot::Mutex;
use std::cell::RefCell;

/// Memory that a read is given at first, in bytes: most requests fit, so that one system call receives one
/// request.
const RETAINED: usize = 16 * 1024;
/// Up to how many received bytes are moved out of such memory, for as long as they are processed.
const MOVED: usize = 2 * 1024;
/// So many bytes behind what was received are initialised at a time.
const INITIALISED_AHEAD: usize = 256 * 1024;

/// What a thread keeps in small buffers for the connections that it serves, in bytes each way: enough for the
/// replies of a turn.
const SPARE_BYTES: usize = 512 * 1024;

thread_local! {
    /// Initialised memory of [`RETAINED`] bytes each.
    static SPARE_INPUT: RefCell<Spares> = const { RefCell::new(Spares::new()) };
    /// Empty buffers of small capacity.
    static SPARE_OUTPUT: RefCell<Spares> = const { RefCell::new(Spares::new()) };
}

/// Buffers that nobody uses at the moment.
struct Spares {
    buffers: Vec<Vec<u8>>,
    /// The sum of their capacities.
    bytes: usize,
}

impl Spares {
    const fn new() -> Self {
        Self { buffers: Vec::new(), bytes: 0 }
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let buffer = self.buffers.pop()?;
        self.bytes -= buffer.capacity();
        Some(buffer)
    }

    /// Keeps the buffer if there is room for it.
    fn keep(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() > 0 && self.bytes + buffer.capacity() <= SPARE_BYTES {
            self.bytes += buffer.capacity();
            self.buffers.push(buffer);
        }
    }
}

/// A growing buffer with initialised memory: `start..end` holds received bytes, behind `end` the stream
/// writes.
///
/// It is handed to the stream by value, so that a kernel ring may own it while a read is under way. It says
/// how much it wants to hold and takes memory only in [`ReceiveBuffer::prepare`]: small buffers come from the
/// thread that is about to read.
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    wanted: usize,
}

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl ReceiveBuffer {
    /// An empty buffer that holds no memory yet.
    pub(crate) const fn new() -> Self {
        Self { bytes: Vec::new(), start: 0, end: 0, wanted: 0 }
    }

    /// The bytes received and not consumed.
    #[inline]
    pub(crate) fn filled(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).expect("what was received lies within the buffer")
    }

    /// The same, to be changed in place.
    pub(crate) fn filled_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.end).expect("what was received lies within the buffer")
    }

    /// Where the stream writes next; never empty after [`ReceiveBuffer::prepare`].
    #[inline]
    pub(crate) fn unfilled_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.end..).expect("what was received lies within the buffer")
    }

    /// Notes that the stream wrote `count` bytes.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        let room = self.bytes.len() - self.end;
        assert!(count <= room, "a stream says that it wrote {count} bytes into {room}");
        self.end += count;
    }

    /// Appends bytes of what is wanted, which a stream had to open first.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        let total = self.filled().len() + bytes.len();
        self.wanted = self.wanted.max(total);
        let mut rest = bytes;
        while !rest.is_empty() {
            // Only where there is none: each call may make a larger buffer, and these are small pieces.
            if self.unfilled_mut().len() < rest.len() {
                self.prepare();
            }
            let room = self.unfilled_mut();
            let (now, later) = rest.split_at(room.len().min(rest.len()));
            let (target, _) = room.split_at_mut(now.len());
            target.copy_from_slice(now);
            self.advance(now.len());
            rest = later;
        }
    }

    /// Appends received bytes. What comes into an empty buffer gets no more memory than it needs: it waits to
    /// be read, as may many.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.bytes.truncate(self.end);
        // Not more is moved than was consumed since it was moved last.
        if self.start >= self.end - self.start {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        if self.bytes.is_empty() {
            self.bytes = bytes.to_vec();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
        self.end = self.bytes.len();
    }

    /// Drops `count` bytes from the front.
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        let held = self.end - self.start;
        assert!(count <= held, "{count} bytes are consumed of {held}");
        self.start += count;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Says that a message of `length` bytes is to lie at the front.
    #[inline]
    pub(crate) fn want(&mut self, length: usize) {
        self.wanted = length;
    }

    /// Makes room for a part of what is wanted at least. Gives memory back when nothing is held.
    ///
    /// The memory is taken for all that is wanted, so that no byte is moved or there twice, and initialised
    /// little by little: on the word of a header alone, only addresses are taken.
    pub(crate) fn prepare(&mut self) {
        let held = self.end - self.start;
        let useful = self.wanted.min(held + INITIALISED_AHEAD).max(held + 1).max(RETAINED);
        if held == 0 && self.bytes.len() > RETAINED && useful <= RETAINED {
            self.bytes = Vec::new();
        }
        if self.start + useful <= self.bytes.len() {
            return;
        }
        if useful <= self.bytes.capacity() {
            if self.start > 0 {
                self.bytes.copy_within(self.start..self.end, 0);
            }
            self.bytes.resize(useful.max(self.bytes.len()), 0);
        } else {
            let mut larger =
                if useful == RETAINED { spare_input() } else { Vec::with_capacity(self.wanted.max(useful)) };
            larger.resize(useful, 0);
            let (target, _) = larger.split_at_mut(held);
            target.copy_from_slice(self.filled());
            self.bytes = larger;
        }
        self.start = 0;
        self.end = held;
    }

    /// Gives the memory back when nothing is held: a connection that waits for its client needs none.
    #[inline]
    pub(crate) fn release(&mut self) {
        if self.end == 0 && !self.bytes.is_empty() {
            keep_input(std::mem::take(&mut self.bytes));
        }
    }

    /// The same bytes in no more memory than they need, for a connection that waits for another thread.
    pub(crate) fn compact(self) -> Self {
        let bytes = self.filled().to_vec();
        keep_input(self.bytes);
        Self { end: bytes.len(), start: 0, wanted: self.wanted, bytes }
    }

    /// Moves a small request out of the memory that it was read into. That serves the thread's next
    /// connection while it is in the caches, and the thousands that wait for a group of commits or for the
    /// pool lie close together.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.bytes.len() == RETAINED && self.end - self.start <= MOVED {
            *self = std::mem::take(self).compact();
        }
    }

    /// Bytes of memory held.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

fn spare_input() -> Vec<u8> {
    SPARE_INPUT.with_borrow_mut(Spares::take).unwrap_or_else(|| vec![0; RETAINED])
}

fn keep_input(bytes: Vec<u8>) {
    if bytes.len() == RETAINED {
        SPARE_INPUT.with_borrow_mut(|spares| spares.keep(bytes));
    }
}

/// An empty buffer for a small reply.
pub(crate) fn spare_output() -> Vec<u8> {
    SPARE_OUTPUT.with_borrow_mut(Spares::take).unwrap_or_default()
}

/// Takes a small reply's buffer back.
pub(crate) fn keep_output(mut buffer: Vec<u8>) {
    if is_small(buffer.capacity()) {
        buffer.clear();
        SPARE_OUTPUT.with_borrow_mut(|spares| spares.keep(buffer));
    }
}

/// Gives back the small buffers that the thread keeps.
pub(crate) fn release_spares() {
    drop(SPARE_INPUT.replace(Spares::new()));
    drop(SPARE_OUTPUT.replace(Spares::new()));
}

/// Whether a connection may keep a reply buffer of this capacity while it is idle.
pub(crate) const fn is_small(capacity: usize) -> bool {
    capacity <= 4 * RETAINED
}

/// Large reply buffers that busy connections hand around: they keep none themselves, and growing one anew for
/// each large reply would cost more than a small query.
#[derive(Debug, Default)]
pub(crate) struct LargeBuffers {
    /// A leaf in the order of locks, held for a push or a pop.
    idle: Mutex<IdleBuffers>,
}

#[derive(Debug, Default)]
struct IdleBuffers {
    buffers: Vec<Vec<u8>>,
    /// So many were always there since the last [`LargeBuffers::tidy`].
    unused: usize,
}

impl LargeBuffers {
    const MOST_BUFFERS: usize = 16;
    const MOST_BYTES: usize = 4 * 1024 * 1024;

    /// A large buffer, or an empty one when none is idle.
    pub(crate) fn take(&self) -> Vec<u8> {
        let mut idle = self.idle.lock();
        let buffer = idle.buffers.pop();
        idle.unused = idle.unused.min(idle.buffers.len());
        buffer.unwrap_or_default()
    }

    /// Keeps the buffer for others unless it is huge or there are enough.
    pub(crate) fn give(&self, buffer: Vec<u8>) {
        if buffer.capacity() > Self::MOST_BYTES {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.buffers.len() < Self::MOST_BUFFERS {
            idle.buffers.push(buffer);
        }
    }

    /// Gives back what nobody wanted since the last call.
    pub(crate) fn tidy(&self) {
        let mut idle = self.idle.lock();
        let unused: Vec<Vec<u8>> = {
            let unused = idle.unused.min(idle.buffers.len());
            idle.buffers.drain(..unused).collect()
        };
        idle.unused = idle.buffers.len();
        drop(idle);
        drop(unused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_releases_memory() {
        let data: Vec<u8> = (0..5_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let mut buffer = ReceiveBuffer::new();
        buffer.append(&data);
        assert_eq!(buffer.filled(), data, "bytes changed while the buffer grew");
        buffer.consume(4_999_990);
        assert_eq!(buffer.filled(), &data[4_999_990..], "consuming moved the rest");
        buffer.consume(10);
        buffer.want(16);
        buffer.prepare();
        assert_eq!(buffer.capacity(), RETAINED, "a connection keeps a large buffer for a small request");
        buffer.release();
        assert_eq!(buffer.capacity(), 0, "a connection that waits keeps memory");
    }

    #[test]
    fn what_is_opened_is_appended_without_moving_it_each_time() {
        let data: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
        let mut buffer = ReceiveBuffer::new();
        let mut capacities = Vec::new();
        for piece in data.chunks(16_000) {
            buffer.want(data.len());
            buffer.extend(piece);
            capacities.push(buffer.capacity());
        }
        assert_eq!(buffer.filled(), data);
        capacities.dedup();
        assert!(capacities.len() <= 4, "the buffer grew to {capacities:?}");
        assert!(buffer.capacity() <= 2 * data.len(), "it takes {} bytes", buffer.capacity());
    }

    #[test]
    fn a_header_alone_takes_little_memory() {
        let mut buffer = ReceiveBuffer::new();
        buffer.append(&[0; 16]);
        buffer.want(48_000_000);
        buffer.prepare();
        assert_eq!(buffer.bytes.len(), 16 + INITIALISED_AHEAD, "a header had so many bytes written");
    }

    #[test]
    fn a_large_message_is_never_there_twice() {
        let length = 48_000_000;
        let mut buffer = ReceiveBuffer::new();
        buffer.append(&[1; 1_000]);
        buffer.consume(300);
        let mut memory = std::collections::BTreeSet::new();
        while buffer.filled().len() < length {
            buffer.want(length);
            buffer.prepare();
            memory.insert(buffer.bytes.as_ptr());
            let (held, room) = (buffer.filled().len(), buffer.unfilled_mut().len());
            assert!((1..=INITIALISED_AHEAD).contains(&room), "{room} bytes are initialised behind {held}");
            buffer.unfilled_mut().fill(2);
            buffer.advance(room.min(300_007));
        }
        assert_eq!((memory.len(), buffer.capacity()), (1, length), "buffers, and the size of the last one");
        assert_eq!(buffer.filled().len(), length, "it reads into the next message");
        assert_eq!(buffer.filled().iter().map(|byte| u64::from(*byte)).sum::<u64>(), 2 * length as u64 - 700);
        buffer.append(&[3; 20]);
        assert_eq!(buffer.filled().last(), Some(&3), "what comes behind it");
        buffer.consume(length + 20);
        buffer.want(16);
        buffer.prepare();
        assert_eq!(buffer.capacity(), RETAINED, "the next request is a small one");
    }

    #[test]
    fn what_is_sent_ahead_is_appended_without_moving_it_each_time() {
        let data: Vec<u8> = (0..4_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
        let (mut buffer, mut taken, mut capacities) = (ReceiveBuffer::new(), Vec::new(), Vec::new());
        for piece in data.chunks(1_000) {
            buffer.append(piece);
            capacities.push(buffer.capacity());
            let count = buffer.filled().len() / 400;
            taken.extend_from_slice(&buffer.filled()[..count]);
            buffer.consume(count);
        }
        taken.extend_from_slice(buffer.filled());
        assert_eq!(taken, data);
        capacities.dedup();
        assert!(capacities.len() <= 12, "the buffer grew to {capacities:?}");
        assert!(buffer.capacity() <= 1_500_000, "{} bytes for some 400,000", buffer.capacity());
    }

    #[test]
    fn what_waits_takes_no_more_memory_than_it_needs() {
        let mut buffer = ReceiveBuffer::new();
        buffer.append(b"abc");
        assert_eq!(buffer.capacity(), 3, "an appended part");
        buffer.append(b"defg");
        buffer.consume(2);
        let compact = buffer.compact();
        assert_eq!((compact.filled(), compact.capacity()), (&b"cdefg"[..], 5), "a compact buffer");
        let mut read = compact;
        read.want(100);
        read.prepare();
        assert!(read.unfilled_mut().len() >= 95, "there is no room for the rest");
        assert_eq!(read.filled(), b"cdefg");
        read.consume(5);
        read.release();
        assert_eq!(spare_input().len(), RETAINED, "a spare buffer has another size");
    }

    #[test]
    fn a_small_request_leaves_its_memory_to_the_next_one() {
        let mut buffer = ReceiveBuffer::new();
        let read = |buffer: &mut ReceiveBuffer, count| {
            buffer.prepare();
            buffer.advance(count);
            buffer.settle();
            buffer.capacity()
        };
        assert_eq!(read(&mut buffer, MOVED), MOVED, "a small request");
        assert_eq!(SPARE_INPUT.with_borrow(|spares| spares.bytes), RETAINED, "nobody else has its memory");
        assert_eq!(read(&mut buffer, 1), RETAINED, "with the second part it is larger");
        buffer.consume(10);
        buffer.settle();
        assert_eq!((buffer.capacity(), buffer.filled().len()), (MOVED - 9, MOVED - 9), "what is left of it");
    }

    #[test]
    fn a_thread_keeps_the_buffers_of_a_turn_and_no_more() {
        let many = SPARE_BYTES / 2048;
        let taken = |buffers: Vec<Vec<u8>>| {
            buffers.into_iter().for_each(keep_output);
            SPARE_OUTPUT.with_borrow(|spares| (spares.buffers.len(), spares.bytes))
        };
        let kept = taken((0..2 * many).map(|_| Vec::with_capacity(2048)).collect());
        assert_eq!(kept, (many, SPARE_BYTES), "small buffers");
        assert_eq!(
            taken((0..many).map(|_| spare_output()).collect()),
            (many, SPARE_BYTES),
            "taken and kept again"
        );
        drop(spare_output());
        assert_eq!(
            taken(vec![Vec::with_capacity(large_capacity()), Vec::new()]),
            (many - 1, SPARE_BYTES - 2048)
        );
    }

    #[test]
    fn large_buffers_that_nobody_wants_are_given_back() {
        let buffers = LargeBuffers::default();
        let kept = || buffers.idle.lock().buffers.len();
        (0..5).for_each(|_| buffers.give(Vec::with_capacity(large_capacity())));
        buffers.tidy();
        assert_eq!(kept(), 5, "they have just come");
        let used: Vec<_> = (0..3).map(|_| buffers.take()).collect();
        used.into_iter().for_each(|buffer| buffers.give(buffer));
        buffers.tidy();
        assert_eq!(kept(), 3, "two were not wanted");
        buffers.tidy();
        assert_eq!(kept(), 0, "none was wanted");
    }

    #[test]
    fn a_thread_that_rests_keeps_no_buffers() {
        keep_output(Vec::with_capacity(1_000));
        keep_input(spare_input());
        release_spares();
        assert_eq!(SPARE_INPUT.with_borrow(|spares| spares.bytes), 0);
        assert_eq!(spare_output().capacity(), 0);
    }

    fn large_capacity() -> usize {
        (1..).map(|kib| kib << 10).find(|&capacity| !is_small(capacity)).expect("some buffer is large")
    }
}
