//! One io_uring and what the kernel works on: it owns sockets and memory until the completion has arrived.
//!
//! Every operation has an entry in a table, which holds a reference to its socket and the bytes that it
//! sends. The entry goes with the operation's last completion, whatever became of the connection meanwhile.
//! So nobody outside can free what the kernel uses, and this interface is safe.
#![expect(unsafe_code, reason = "the interface of io_uring")]

use super::buffers::{Buffers, Chunk, GROUP};
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode};
use slab::Slab;
use socket2::Socket;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Operations handed over by one system call at most; more wait in our own queue.
const SUBMISSIONS: u32 = 512;
/// Completions that the kernel may post before it has to keep them elsewhere.
const COMPLETIONS: u32 = 8192;
/// Marks completions that nobody waits for.
const IGNORED: u64 = u64::MAX;
/// How often in a row, and how long each time, an ending ring waits in vain for what the kernel still works
/// on.
const DRAIN_ROUNDS: u32 = 50;
const DRAIN_WAIT: Duration = Duration::from_millis(100);
/// Rounds after which everything is cancelled once more.
const CANCEL_EVERY: u32 = 10;

/// An operation under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OperationId(u64);

/// Whom a completion concerns.
pub(super) type Owner = u32;

/// What the kernel works on, and what it must not lose meanwhile.
enum Work {
    /// Multishot: many completions.
    Receive {
        owner: Owner,
        _socket: Arc<Socket>,
    },
    Send {
        owner: Owner,
        _socket: Arc<Socket>,
        bytes: Vec<u8>,
    },
    /// Multishot: one completion each time the descriptor is written to.
    Watch {
        descriptor: Arc<OwnedFd>,
    },
}

struct Operation {
    /// Tells operations apart that had the same place in the table.
    generation: u32,
    work: Work,
}

/// What one completion says.
#[derive(Debug)]
pub(super) enum Event {
    /// Something about receiving. `last`: the operation is over.
    Received { owner: Owner, result: Received, last: bool },
    /// The operation is over; `bytes` come back, and as many as `result` says were taken.
    Sent { owner: Owner, result: io::Result<usize>, bytes: Vec<u8> },
    /// A watched descriptor was written to.
    Woken,
}

#[derive(Debug)]
pub(super) enum Received {
    Chunk(Chunk),
    EndOfFile,
    /// No buffer was free.
    NoBuffer,
    Cancelled,
    Failed(i32),
}

/// Whether a send waits until the socket takes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It is over as soon as it was submitted: with what fits, or with `WouldBlock`.
    None,
    Waits,
}

/// What a ring counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RingCounts {
    pub(super) submissions: u64,
    pub(super) completions: u64,
    pub(super) enters: u64,
    pub(super) operations: u64,
    pub(super) buffers_held: u64,
}

/// See the module. Belongs to the thread that made it.
pub(super) struct Ring {
    uring: IoUring,
    buffers: Buffers,
    operations: Slab<Operation>,
    generation: u32,
    /// Operations that found the submission queue full.
    waiting: VecDeque<Entry>,
    /// Completions taken from the kernel; kept for its memory.
    taken: VecDeque<cqueue::Entry>,
    counts: RingCounts,
    /// Thread-bound: `SINGLE_ISSUER`.
    _thread_bound: std::marker::PhantomData<*const ()>,
}

impl Ring {
    /// A ring that has proved that it receives.
    ///
    /// # Errors
    /// The kernel has no io_uring, forbids it, is too old (before 6.0), or has no memory or descriptor left.
    pub(super) fn new() -> io::Result<Self> {
        let uring = build()?;
        let buffers = Buffers::register(&uring)?;
        let mut ring = Self {
            uring,
            buffers,
            operations: Slab::new(),
            generation: 0,
            waiting: VecDeque::new(),
            taken: VecDeque::new(),
            counts: RingCounts::default(),
            _thread_bound: std::marker::PhantomData,
        };
        ring.prove()?;
        Ok(ring)
    }

    /// Receives a byte as connections will: kernels and filters differ in more than what can be asked for.
    fn prove(&mut self) -> io::Result<()> {
        let (mut here, there) = UnixStream::pair()?;
        let id = self.receive(0, Arc::new(Socket::from(OwnedFd::from(there))));
        here.write_all(&[1])?;
        let mut proved = Err(io::ErrorKind::Unsupported.into());
        self.cancel_after_first(id, &mut proved)?;
        proved
    }

    fn cancel_after_first(&mut self, id: OperationId, proved: &mut io::Result<()>) -> io::Result<()> {
        for _ in 0..DRAIN_ROUNDS {
            self.wait_briefly()?;
            while let Some(event) = self.next_event() {
                match event {
                    Event::Received { result: Received::Chunk(chunk), .. } => {
                        self.give_back(chunk);
                        *proved = Ok(());
                        self.cancel(id);
                    }
                    Event::Received { result: Received::Failed(code), .. } => {
                        *proved = Err(io::Error::from_raw_os_error(code));
                    }
                    _ => {}
                }
            }
            if self.operations.is_empty() {
                return Ok(());
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Starts to receive whatever the socket gets, until an event says that it was the last.
    pub(super) fn receive(&mut self, owner: Owner, socket: Arc<Socket>) -> OperationId {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
        self.start(Work::Receive { owner, _socket: socket }, entry)
    }

    /// Sends what the socket takes of the bytes from `from` on; one event ends it.
    pub(super) fn send(
        &mut self,
        owner: Owner,
        socket: Arc<Socket>,
        bytes: Vec<u8>,
        from: usize,
        patience: Patience,
    ) -> OperationId {
        let part = bytes.get(from..).expect("no more was sent than there is");
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        let flags = match patience {
            Patience::None => libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
            Patience::Waits => libc::MSG_NOSIGNAL,
        };
        // The vector moves into the table, its memory stays where it is.
        let entry = opcode::Send::new(Fd(socket.as_raw_fd()), part.as_ptr(), length).flags(flags).build();
        self.start(Work::Send { owner, _socket: socket, bytes }, entry)
    }

    /// Tells, as long as the ring lives, when the descriptor becomes readable.
    pub(super) fn watch(&mut self, descriptor: Arc<OwnedFd>) {
        let entry = opcode::PollAdd::new(Fd(descriptor.as_raw_fd()), libc::POLLIN as u32).multi(true).build();
        self.start(Work::Watch { descriptor }, entry);
    }

    /// Has the operation end soon; its last event comes all the same.
    pub(super) fn cancel(&mut self, id: OperationId) {
        let entry = opcode::AsyncCancel::new(id.0).build().flags(Flags::SKIP_SUCCESS).user_data(IGNORED);
        self.push(entry);
    }

    fn start(&mut self, work: Work, entry: Entry) -> OperationId {
        self.generation = self.generation.wrapping_add(1) & 0x7fff_ffff;
        let generation = self.generation;
        let place = self.operations.insert(Operation { generation, work });
        let id = u64::from(generation) << 32 | place as u64;
        self.push(entry.user_data(id));
        OperationId(id)
    }

    fn push(&mut self, entry: Entry) {
        self.counts.submissions += 1;
        self.waiting.push_back(entry);
        self.refill();
    }

    /// Moves what waits into the submission queue, in order, as far as it has room.
    fn refill(&mut self) {
        let mut queue = self.uring.submission();
        while let Some(entry) = self.waiting.front() {
            // SAFETY: the sockets and the memory that the entry names are owned by its place in `operations`,
            // which is emptied by the operation's last completion only; the receive buffers live as long as
            // the ring. When the ring is dropped, operations still under way are waited for, or what they use
            // is leaked.
            if unsafe { queue.push(entry) }.is_err() {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// Whether the kernel has completions, or work that would make some. It may have more than it says.
    pub(super) fn has_work(&mut self) -> bool {
        !self.uring.completion().is_empty() || self.uring.submission().taskrun()
    }

    /// Hands all new operations over, and takes what is complete. `wait`: sleeps until something is.
    ///
    /// # Errors
    /// What the kernel says, except what calling again solves.
    pub(super) fn turn(&mut self, wait: bool) -> io::Result<()> {
        self.buffers.publish();
        loop {
            let full = !self.waiting.is_empty();
            self.enter(u32::from(wait && !full), None)?;
            self.refill();
            if !full || self.uring.submission().is_full() {
                break;
            }
        }
        self.take();
        Ok(())
    }

    fn wait_briefly(&mut self) -> io::Result<()> {
        self.buffers.publish();
        self.enter(1, Some(&Timespec::from(DRAIN_WAIT)))?;
        self.take();
        Ok(())
    }

    /// The only system call that moves anything.
    fn enter(&mut self, wanted: u32, timeout: Option<&Timespec>) -> io::Result<()> {
        let submitted = self.uring.submission().len() as u32;
        self.counts.enters += 1;
        let submitter = self.uring.submitter();
        let flags = EnterFlags::GETEVENTS;
        let result = match timeout {
            // SAFETY: without further argument the call reads the rings only.
            None => unsafe { submitter.enter::<libc::sigset_t>(submitted, wanted, flags.bits(), None) },
            Some(timeout) => {
                let arguments = SubmitArgs::new().timespec(timeout);
                let flags = flags | EnterFlags::EXT_ARG;
                // SAFETY: the argument is what `EXT_ARG` promises, and it outlives the call.
                unsafe { submitter.enter(submitted, wanted, flags.bits(), Some(&arguments)) }
            }
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // Interrupted, timed out, or completions must be taken first: all are over after the next
                // round.
                Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn take(&mut self) {
        let before = self.taken.len();
        self.taken.extend(self.uring.completion());
        self.counts.completions += (self.taken.len() - before) as u64;
    }

    /// The next thing that completions say, in their order.
    pub(super) fn next_event(&mut self) -> Option<Event> {
        while let Some(entry) = self.taken.pop_front() {
            if let Some(event) = self.event(&entry) {
                return Some(event);
            }
        }
        None
    }

    fn event(&mut self, entry: &cqueue::Entry) -> Option<Event> {
        let (id, result, flags) = (entry.user_data(), entry.result(), entry.flags());
        let last = !cqueue::more(flags);
        let length = usize::try_from(result).unwrap_or(0);
        let chunk = cqueue::buffer_select(flags).and_then(|buffer| self.buffers.chunk(buffer, length));
        let place = (id & u64::from(u32::MAX)) as usize;
        let known = self.operations.get(place).is_some_and(|one| u64::from(one.generation) == id >> 32);
        if id == IGNORED || !known {
            chunk.into_iter().for_each(|chunk| self.buffers.give_back(chunk));
            return None;
        }
        if let Some(Work::Receive { owner, .. }) = self.operations.get(place).map(|one| &one.work) {
            let owner = *owner;
            if last {
                self.operations.remove(place);
            }
            return Some(Event::Received { owner, result: self.received(chunk, result), last });
        }
        if !last {
            return Some(Event::Woken);
        }
        match self.operations.remove(place).work {
            Work::Send { owner, bytes, .. } => {
                let result = if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(length) };
                Some(Event::Sent { owner, result, bytes })
            }
            Work::Watch { descriptor } if result != -libc::ECANCELED => {
                self.watch(descriptor);
                Some(Event::Woken)
            }
            Work::Watch { .. } | Work::Receive { .. } => None,
        }
    }

    fn received(&mut self, chunk: Option<Chunk>, result: i32) -> Received {
        match chunk {
            Some(chunk) if chunk.len() > 0 => return Received::Chunk(chunk),
            Some(empty) => self.buffers.give_back(empty),
            None => {}
        }
        match -result {
            0 => Received::EndOfFile,
            libc::ENOBUFS => Received::NoBuffer,
            libc::ECANCELED => Received::Cancelled,
            code => Received::Failed(code),
        }
    }

    pub(super) fn bytes(&self, chunk: &Chunk) -> &[u8] {
        self.buffers.bytes(chunk)
    }

    pub(super) fn give_back(&mut self, chunk: Chunk) {
        self.buffers.give_back(chunk);
    }

    /// Buffers that the kernel may fill.
    pub(super) const fn free_buffers(&self) -> u16 {
        self.buffers.free()
    }

    pub(super) fn counts(&self) -> RingCounts {
        RingCounts {
            operations: self.operations.len() as u64,
            buffers_held: u64::from(self.buffers.held()),
            ..self.counts
        }
    }

    /// Ends all operations and waits for their completions. False: the kernel still uses what they own.
    fn drain(&mut self) -> io::Result<bool> {
        let everything = opcode::AsyncCancel2::new(CancelBuilder::any()).build().user_data(IGNORED);
        let mut in_vain = 0;
        for round in 0_u32.. {
            let before = self.operations.len();
            // Forgotten by then are the connections; what their last events bring is dropped here.
            while let Some(event) = self.next_event() {
                if let Event::Received { result: Received::Chunk(chunk), .. } = event {
                    self.buffers.give_back(chunk);
                }
            }
            if self.operations.is_empty() {
                return Ok(true);
            }
            // The kernel ends some twenty operations in one round, however many there are.
            in_vain = if self.operations.len() < before { 0 } else { in_vain + 1 };
            if in_vain > DRAIN_ROUNDS {
                break;
            }
            if round % CANCEL_EVERY == 0 {
                self.push(everything.clone());
            }
            self.wait_briefly()?;
        }
        Ok(false)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let drained = self.drain().and_then(|drained| {
            self.buffers.unregister(&self.uring)?;
            Ok(drained)
        });
        if !matches!(drained, Ok(true)) {
            tracing::error!(target: "network", result = ?drained, operations = self.operations.len(),
                "a ring ends while the kernel works for it; its memory is not given back");
            std::mem::forget(std::mem::take(&mut self.operations));
            self.buffers.leak();
        }
    }
}

/// Asks for the best ring that the kernel knows: the newest features are given up first.
fn build() -> io::Result<IoUring> {
    type Feature = fn(&mut io_uring::Builder);
    // Linux 5.18, 5.19, 6.0, 6.1.
    let features: [Feature; 4] = [
        |builder| _ = builder.setup_submit_all(),
        |builder| _ = builder.setup_coop_taskrun().setup_taskrun_flag(),
        |builder| _ = builder.setup_single_issuer(),
        |builder| _ = builder.setup_defer_taskrun(),
    ];
    let mut known = features.as_slice();
    loop {
        let mut builder = IoUring::builder();
        builder.setup_clamp().setup_cqsize(COMPLETIONS);
        known.iter().for_each(|feature| feature(&mut builder));
        match (builder.build(SUBMISSIONS), known.split_last()) {
            (Err(error), Some((_, older))) if error.raw_os_error() == Some(libc::EINVAL) => known = older,
            (result, _) => return result,
        }
    }
}
