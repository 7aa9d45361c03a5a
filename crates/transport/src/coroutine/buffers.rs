//! Memory that the kernel receives into: a ring of buffers that it takes from the front and that come back at
//! the end.
//!
//! A [`Chunk`] is one buffer with received bytes. The kernel does not touch that buffer again before the
//! chunk was given back, and giving it back consumes the chunk.
#![expect(unsafe_code, reason = "memory shared with the kernel")]

use io_uring::IoUring;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU16, Ordering};

/// Buffers of one ring; a power of two. A chunk is held until its connection's task has run, so that as many
/// suffice as there are completions in one turn, and few of them stay in the processor's cache.
pub(super) const BUFFERS: u16 = 256;
/// Bytes in one buffer: most requests fit.
pub(super) const BUFFER_BYTES: usize = 8 * 1024;
/// From one buffer to the next. No power of two, or the first lines of all buffers would compete for the same
/// cache sets.
const STRIDE: usize = BUFFER_BYTES + 5 * 64;
/// The ring's only group of buffers.
pub(super) const GROUP: u16 = 0;

const RING_BYTES: usize = BUFFERS as usize * size_of::<BufRingEntry>();
const MEMORY_BYTES: usize = BUFFERS as usize * STRIDE;
const _: () = assert!(BUFFERS.is_power_of_two(), "the kernel masks positions");

/// Received bytes in one of the buffers. A ring's chunks never leave its thread.
#[derive(Debug)]
pub(super) struct Chunk {
    buffer: u16,
    length: u16,
}

impl Chunk {
    pub(super) const fn len(&self) -> usize {
        self.length as usize
    }
}

/// Pages of our own.
struct Mapping {
    address: NonNull<c_void>,
    bytes: usize,
    leaked: bool,
}

impl Mapping {
    fn new(bytes: usize) -> io::Result<Self> {
        // SAFETY: a new anonymous mapping at an address that the kernel chooses overlaps nothing.
        let address = unsafe {
            mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        let address = NonNull::new(address).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { address, bytes, leaked: false })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.leaked {
            return;
        }
        // SAFETY: the mapping is ours, and whoever owned it holds no reference into it any more.
        let unmapped = unsafe { munmap(self.address.as_ptr(), self.bytes) };
        if let Err(error) = unmapped {
            tracing::error!(target: "network", %error, "cannot unmap receive buffers");
        }
    }
}

/// See the module.
pub(super) struct Buffers {
    ring: Mapping,
    memory: Mapping,
    /// Where the next buffer is given back, not masked.
    tail: u16,
    /// Chunks that live.
    held: u16,
}

impl Buffers {
    /// Allocates the buffers and hands all of them to the kernel.
    ///
    /// # Errors
    /// There is no memory, or the kernel (before 5.19) knows no buffer rings.
    pub(super) fn register(uring: &IoUring) -> io::Result<Self> {
        let ring = Mapping::new(RING_BYTES)?;
        let memory = Mapping::new(MEMORY_BYTES)?;
        let mut buffers = Self { ring, memory, tail: 0, held: 0 };
        for buffer in 0..BUFFERS {
            buffers.offer(buffer);
        }
        buffers.publish();
        let address = buffers.ring.address.as_ptr() as u64;
        // SAFETY: the memory is page-aligned, as large as its number of entries demands, and lives as long as
        // the ring: whoever owns both calls `unregister` before dropping this.
        unsafe { uring.submitter().register_buf_ring_with_flags(address, BUFFERS, GROUP, 0)? };
        Ok(buffers)
    }

    /// Takes the buffers back from the kernel.
    pub(super) fn unregister(&self, uring: &IoUring) -> io::Result<()> {
        uring.submitter().unregister_buf_ring(GROUP)
    }

    /// Never frees the memory: the kernel may still write to it.
    pub(super) const fn leak(&mut self) {
        self.ring.leaked = true;
        self.memory.leaked = true;
    }

    /// Buffers that the kernel may fill.
    pub(super) const fn free(&self) -> u16 {
        BUFFERS - self.held
    }

    /// Buffers that wait for their connections.
    pub(super) const fn held(&self) -> u16 {
        self.held
    }

    /// What the kernel says it has filled; `None` when there is no such buffer.
    pub(super) fn chunk(&mut self, buffer: u16, length: usize) -> Option<Chunk> {
        if buffer >= BUFFERS || length > BUFFER_BYTES {
            return None;
        }
        self.held += 1;
        Some(Chunk { buffer, length: length as u16 })
    }

    /// The bytes received.
    pub(super) fn bytes(&self, chunk: &Chunk) -> &[u8] {
        let offset = usize::from(chunk.buffer) * STRIDE;
        // SAFETY: `chunk` checked that buffer and length lie in the mapping. The kernel wrote these bytes
        // before it posted the completion that made the chunk, and the buffer is not its own again before
        // `give_back` has consumed the chunk.
        unsafe {
            std::slice::from_raw_parts(self.memory.address.cast::<u8>().add(offset).as_ptr(), chunk.len())
        }
    }

    /// Lets the kernel fill the buffer again, after the next [`Buffers::publish`].
    #[expect(clippy::needless_pass_by_value, reason = "nobody shall read the bytes afterwards")]
    pub(super) fn give_back(&mut self, chunk: Chunk) {
        self.held -= 1;
        self.offer(chunk.buffer);
    }

    fn offer(&mut self, buffer: u16) {
        let position = usize::from(self.tail & (BUFFERS - 1));
        // SAFETY: the position is within the ring. The kernel reads an entry only between its head and the
        // published tail, and this one is outside: there are never more buffers than entries. The tail, which
        // lies in the first entry's unused field, is not among the fields written.
        unsafe {
            let address = self.memory.address.cast::<u8>().add(usize::from(buffer) * STRIDE);
            let entry = self.ring.address.cast::<BufRingEntry>().add(position).as_mut();
            entry.set_addr(address.as_ptr() as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Tells the kernel what was given back.
    pub(super) fn publish(&self) {
        // SAFETY: the ring's first entry is initialised memory, and its tail field is aligned as an atomic of
        // its size must be. Only this thread writes it; the kernel reads it.
        let tail = unsafe {
            let tail = BufRingEntry::tail(self.ring.address.cast::<BufRingEntry>().as_ptr());
            AtomicU16::from_ptr(tail.cast_mut())
        };
        tail.store(self.tail, Ordering::Release);
    }
}
