//! One client connection as the rest of the server sees it.

use crate::placement::{Placement, PlacementCell};
use crate::registry::Shared;
use crate::statistics::SessionCounters;
use crate::sweeper::Stallable;
use crate::tls::{Secured, TlsFacts};
use crate::unread::RESERVED;
use crate::{Endpoint, ServiceExecutor};
use parking_lot::Mutex;
use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// What the connection loop does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Waiting for a request or the rest of one.
    Receiving = 0,
    /// The service works on a request.
    Processing = 1,
    /// A reply is on its way.
    Sending = 2,
    /// The loop has ended.
    Ended = 3,
}

/// What a session has to do with the diagnostic lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Lane {
    /// A thread model serves it.
    Off = 0,
    /// On the lane while it only monitors.
    Visitor = 1,
    /// On the lane whatever it asks.
    Resident = 2,
}

/// What can be done to a connection's socket from outside its loop.
pub(crate) trait SessionControl: Send + Sync {
    /// Shuts the read half: the loop sees end-of-file once it has read what came before.
    fn shutdown_read(&self);
    /// Shuts both halves: a blocked send fails as well.
    fn shutdown_both(&self);
    /// Whether the client has closed its side, found out without reading.
    fn peer_closed(&self) -> bool;
}

/// One client connection.
///
/// What each request reads or writes comes first, on neighbouring cache lines: with thousands of busy
/// connections each line is one to fetch from memory.
#[repr(C)]
pub struct Session {
    pub(crate) counters: SessionCounters,
    pub(crate) shared: Arc<Shared>,
    extension: OnceLock<Box<dyn Any + Send + Sync>>,
    /// What the handshake of TLS has shown.
    tls: OnceLock<Box<TlsFacts>>,
    /// What it speaks, while no stream serves it. A leaf in the order of locks.
    secured: Mutex<Option<Secured>>,
    /// What its reply counts with among those in memory.
    reply_bytes: AtomicU64,
    /// What its request counts with among the large ones in memory.
    request_bytes: AtomicU64,
    next_message_id: AtomicU32,
    /// The length of the last message that kept the pool busy for long; 0: there was none, or it has been
    /// found to be short.
    outlasting_length: AtomicU32,
    phase: AtomicU8,
    placement: PlacementCell,
    /// The thread model that serves it, as its number.
    executor: AtomicU8,
    /// On the diagnostic lane at the moment, and whether to stay.
    lane: AtomicU8,
    priority: bool,
    /// When it leaves the lane, it gets a thread of its own, whatever the model is.
    wants_thread: AtomicBool,
    /// Where the last request was executed, and so the next one may well be.
    last_placement: PlacementCell,
    ending: AtomicBool,
    /// The sweeper ended it because its client did not read.
    gave_up_sending: AtomicBool,
    id: u64,
    opened_at: Instant,
    control: Box<dyn SessionControl>,
    /// Microseconds after `opened_at`, plus one, since which the request in work waits for a thread of the
    /// pool; 0: it does not.
    offloaded_since_us: AtomicU64,
    /// How long the request in work has waited so, in microseconds.
    pool_wait_us: AtomicU64,
    /// From the acceptance to the first look, in microseconds, until the first request has taken it.
    accept_wait_us: AtomicU64,
    /// Microseconds after `opened_at`, plus one, since which its handshake of TLS goes on; 0: none does.
    handshaking_since_us: AtomicU64,
    /// Microseconds after `opened_at`, plus one, since which a send makes no progress; 0: none does.
    stalled_since_us: AtomicU64,
    /// Microseconds after `opened_at`, plus one, since which its client has been taking a reply; 0: it takes
    /// none.
    sending_since_us: AtomicU64,
    /// Microseconds after `opened_at`, plus one, since which it has received a large request; 0: it receives
    /// none.
    large_since_us: AtomicU64,
    /// The same for the latest part of it.
    large_progress_us: AtomicU64,
    peer: Endpoint,
    local: Endpoint,
}

impl Session {
    pub(crate) fn new(
        id: u64,
        peer: Endpoint,
        local: Endpoint,
        priority: bool,
        control: Box<dyn SessionControl>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            id,
            peer,
            local,
            priority,
            wants_thread: AtomicBool::new(false),
            opened_at: Instant::now(),
            control,
            phase: AtomicU8::new(Phase::Receiving as u8),
            placement: PlacementCell::new(Placement::Anywhere),
            offloaded_since_us: AtomicU64::new(0),
            pool_wait_us: AtomicU64::new(0),
            last_placement: PlacementCell::new(Placement::Home),
            outlasting_length: AtomicU32::new(0),
            executor: AtomicU8::new(ServiceExecutor::default() as u8),
            lane: AtomicU8::new(Lane::Off as u8),
            accept_wait_us: AtomicU64::new(0),
            handshaking_since_us: AtomicU64::new(0),
            stalled_since_us: AtomicU64::new(0),
            sending_since_us: AtomicU64::new(0),
            reply_bytes: AtomicU64::new(0),
            request_bytes: AtomicU64::new(0),
            large_since_us: AtomicU64::new(0),
            large_progress_us: AtomicU64::new(0),
            gave_up_sending: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            next_message_id: AtomicU32::new(0),
            extension: OnceLock::new(),
            tls: OnceLock::new(),
            secured: Mutex::new(None),
            counters: SessionCounters::default(),
            shared,
        }
    }

    /// Numbered from 1 in the order of arrival; `connectionId` in replies to `hello`.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The client's address.
    #[must_use]
    pub const fn peer(&self) -> &Endpoint {
        &self.peer
    }

    /// The address the client connected to.
    #[must_use]
    pub const fn local(&self) -> &Endpoint {
        &self.local
    }

    /// Whether the client came by the priority port or a Unix socket: it is never refused because of load.
    #[must_use]
    pub const fn is_priority(&self) -> bool {
        self.priority
    }

    /// Whether the session is on the diagnostic lane at the moment, which is never queued behind user work.
    #[must_use]
    pub fn is_on_lane(&self) -> bool {
        self.lane.load(Ordering::Relaxed) != Lane::Off as u8
    }

    /// What the handshake of TLS has shown; `None`: the session is in clear, or it is not over.
    #[must_use]
    pub fn tls(&self) -> Option<&TlsFacts> {
        self.tls.get().map(Box::as_ref)
    }

    /// The client is to complete a handshake of TLS, within a time from the first call on.
    pub(crate) fn handshake_begins(&self) {
        if self.handshaking_since_us.load(Ordering::Relaxed) == 0 {
            self.handshaking_since_us.store(self.micros_open() + 1, Ordering::Relaxed);
            self.shared.stalls.handshake_began();
        }
    }

    /// It has, speaks in clear, or has gone.
    pub(crate) fn handshake_ends(&self) {
        if self.handshaking_since_us.swap(0, Ordering::Relaxed) != 0 {
            self.shared.stalls.handshake_ended();
        }
    }

    pub(crate) fn note_tls(&self, facts: TlsFacts) {
        self.handshake_ends();
        assert!(self.tls.set(Box::new(facts)).is_ok(), "a session has one handshake");
    }

    /// What the session speaks, for the stream that serves it from now on; `None`: none has served it.
    pub(crate) fn take_secured(&self) -> Option<Secured> {
        self.secured.lock().take()
    }

    pub(crate) fn keep_secured(&self, secured: Secured) {
        *self.secured.lock() = Some(secured);
    }

    pub(crate) fn set_executor(&self, executor: ServiceExecutor) {
        self.executor.store(executor as u8, Ordering::Relaxed);
    }

    /// The thread model that serves the session.
    #[must_use]
    pub fn executor(&self) -> ServiceExecutor {
        ServiceExecutor::from_number(self.executor.load(Ordering::Relaxed))
    }

    /// Its next request and all later ones are served by a thread of its own, with no bound on the memory of
    /// large ones: what clients do must not hold them up. Only where it is on the diagnostic lane, as new
    /// connections are.
    pub fn give_thread(&self) {
        self.wants_thread.store(true, Ordering::Relaxed);
    }

    pub(crate) fn wants_thread(&self) -> bool {
        self.wants_thread.load(Ordering::Relaxed)
    }

    /// Whether its first request that is no diagnostic one takes the session off the lane.
    pub(crate) fn visits_lane(&self) -> bool {
        self.lane.load(Ordering::Relaxed) == Lane::Visitor as u8
    }

    pub(crate) fn set_lane(&self, lane: Lane) {
        self.lane.store(lane as u8, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn placement(&self) -> Placement {
        self.placement.get()
    }

    pub(crate) fn place(&self, placement: Placement) {
        self.placement.set(placement);
    }

    /// What was offloaded for one request comes home before the next; true when it had been.
    #[inline]
    pub(crate) fn come_home(&self) -> bool {
        self.placement.come_home()
    }

    /// Whether the request in work may block the thread that polls it: read the disk, compute for long.
    #[inline]
    #[must_use]
    pub fn may_block(&self) -> bool {
        self.placement() != Placement::Home
    }

    /// Whether the request in work is where only what is short shall run, although it may block there.
    #[must_use]
    pub fn runs_briefly(&self) -> bool {
        self.placement() == Placement::Brief
    }

    /// Ready when the request may compute for long. Otherwise it is moved to a thread where it may, and this
    /// is polled again there.
    pub fn poll_offload(&self, context: &mut Context<'_>) -> Poll<()> {
        self.offloaded(self.placement.poll_offload(context))
    }

    /// Ready when the request may block. Otherwise it is moved to a thread where it may for what is short,
    /// and this is polled again there.
    pub fn poll_offload_briefly(&self, context: &mut Context<'_>) -> Poll<()> {
        self.offloaded(self.placement.poll_offload_briefly(context))
    }

    fn offloaded(&self, polled: Poll<()>) -> Poll<()> {
        if polled.is_pending() {
            self.offloaded_since_us.store(self.micros_open() + 1, Ordering::Relaxed);
        } else if self.offloaded_since_us.load(Ordering::Relaxed) != 0 {
            self.arrived_on_pool();
        }
        polled
    }

    fn arrived_on_pool(&self) {
        let now = self.micros_open();
        let since = self.offloaded_since_us.swap(0, Ordering::Relaxed);
        let wait = (now + 1).saturating_sub(since);
        self.pool_wait_us.fetch_add(wait, Ordering::Relaxed);
        if let Some(admission) = self.shared.pool_admission(self.placement()) {
            admission.waited(self, Duration::from_micros(wait));
        }
    }

    /// How long the request in work has waited for a thread of the elastic pool.
    #[must_use]
    pub fn pool_wait(&self) -> Duration {
        Duration::from_micros(self.pool_wait_us.load(Ordering::Relaxed))
    }

    /// The request is executed: how long it has waited for the pools, if it was offloaded.
    pub(crate) fn take_pool_wait(&self) -> Option<Duration> {
        let placement = self.placement();
        self.last_placement.set(placement);
        placement.is_on_pool().then(|| Duration::from_micros(self.pool_wait_us.swap(0, Ordering::Relaxed)))
    }

    /// Where the request before was executed.
    pub(crate) fn last_placement(&self) -> Placement {
        self.last_placement.get()
    }

    /// What the request that was just executed on a pool tells of others: the length of its message, if it
    /// computed for long.
    pub(crate) fn note_outlasting(&self, length: Option<usize>) {
        self.outlasting_length.store(length.unwrap_or(0) as u32, Ordering::Relaxed);
    }

    /// Whether a message of this length, the next one, will compute for long, as far as the last one tells.
    pub(crate) fn foresees_pool(&self, length: usize) -> bool {
        self.outlasting_length.load(Ordering::Relaxed) as usize == length
            && self.placement() == Placement::Home
    }

    fn micros_open(&self) -> u64 {
        self.opened_at.elapsed().as_micros() as u64
    }

    /// The time from the acceptance to now; for the first request only.
    pub(crate) fn take_accept_wait(&self) -> Duration {
        if self.counters.requests.get() > 0 {
            return Duration::ZERO;
        }
        Duration::from_micros(self.accept_wait_us.swap(0, Ordering::Relaxed))
    }

    /// A thread looks at the connection for the first time.
    pub(crate) fn looked_at(&self) {
        self.accept_wait_us.store(self.micros_open(), Ordering::Relaxed);
    }

    fn instant(&self, micros: &AtomicU64) -> Option<Instant> {
        match micros.load(Ordering::Relaxed) {
            0 => None,
            since => self.opened_at.checked_add(Duration::from_micros(since - 1)),
        }
    }

    /// Counts the reply in memory with so many bytes from now on. Only the session's loop calls this.
    pub(crate) fn count_reply(&self, bytes: u64) {
        let before = self.reply_bytes.load(Ordering::Relaxed);
        if before == bytes {
            return;
        }
        self.reply_bytes.store(bytes, Ordering::Relaxed);
        if self.shared.unread.change(before, bytes) {
            self.shared.stalls.hurry();
        }
    }

    /// Whether its request counts among the large ones.
    #[inline]
    pub(crate) fn holds_large_request(&self) -> bool {
        self.request_bytes.load(Ordering::Relaxed) != 0
    }

    /// Ready when the rest of a large message may be received.
    pub(crate) fn poll_admit_request(&self, bytes: u64, context: &Context<'_>) -> Poll<()> {
        if self.shared.large_requests.poll_admit(self.id, bytes, context).is_pending() && !self.is_ending() {
            self.shared.stalls.hurry();
            return Poll::Pending;
        }
        self.request_bytes.store(bytes, Ordering::Relaxed);
        self.large_progress();
        self.large_since_us.store(self.micros_open() + 1, Ordering::Relaxed);
        Poll::Ready(())
    }

    /// A part of a large message has come.
    pub(crate) fn large_progress(&self) {
        self.large_progress_us.store(self.micros_open() + 1, Ordering::Relaxed);
    }

    /// All of a large message has come.
    pub(crate) fn large_received(&self) {
        self.large_since_us.store(0, Ordering::Relaxed);
    }

    /// A large request is answered.
    pub(crate) fn release_request(&self) {
        let bytes = self.request_bytes.swap(0, Ordering::Relaxed);
        self.large_received();
        if bytes > 0 {
            self.shared.large_requests.release(bytes);
        }
    }

    /// The session has ended.
    pub(crate) fn lets_go(&self) {
        self.handshake_ends();
        self.count_reply(0);
        self.shared.large_requests.abandon(self.id);
        self.release_request();
    }

    /// Whether others' unread replies do not concern it: operators need their answers most when memory is
    /// short.
    pub(crate) fn ignores_unread(&self) -> bool {
        self.is_priority() || self.is_on_lane() || self.is_ending()
    }

    /// Ready when another request may begin.
    pub(crate) fn poll_begin(&self, context: &Context<'_>) -> Poll<()> {
        if self.ignores_unread() || self.shared.unread.poll_begin(context).is_ready() {
            return Poll::Ready(());
        }
        self.shared.stalls.hurry();
        Poll::Pending
    }

    /// Ready when a request that waits since then may begin although memory is short.
    pub(crate) fn poll_paced(&self, since: Instant, context: &Context<'_>) -> Poll<()> {
        if self.ignores_unread() { Poll::Ready(()) } else { self.shared.unread.poll_paced(since, context) }
    }

    /// Ready when the request may go on with its reply, which has become large: while clients leave too many
    /// replies unread, most wait.
    pub fn poll_reply_room(&self, context: &Context<'_>) -> Poll<()> {
        if self.reply_bytes.load(Ordering::Relaxed) > 0 || self.ignores_unread() {
            return Poll::Ready(());
        }
        let unread = &self.shared.unread;
        if unread.poll_reserve(context).is_pending() {
            self.shared.stalls.hurry();
            return Poll::Pending;
        }
        self.reply_bytes.store(RESERVED, Ordering::Relaxed);
        Poll::Ready(())
    }

    pub(crate) fn has_given_up_sending(&self) -> bool {
        self.gave_up_sending.load(Ordering::Acquire)
    }

    /// What the loop does at the moment; a snapshot.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Receiving,
            1 => Phase::Processing,
            2 => Phase::Sending,
            _ => Phase::Ended,
        }
    }

    #[inline]
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Ends the session: what runs is answered, nothing more is read.
    pub fn end(&self) {
        self.ending.store(true, Ordering::Release);
        self.control.shutdown_read();
    }

    /// Ends the session without waiting for a client that does not take its reply.
    pub fn abort(&self) {
        self.ending.store(true, Ordering::Release);
        self.control.shutdown_both();
    }

    /// Whether [`Session::end`] or [`Session::abort`] was called.
    #[inline]
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Whether the client has closed its side. One system call: meant for operations that run long.
    #[must_use]
    pub fn peer_closed(&self) -> bool {
        self.control.peer_closed()
    }

    /// Attaches the service's own state; only the first value is kept.
    ///
    /// # Errors
    /// Gives the value back when there is one already.
    pub fn set_extension<T: Any + Send + Sync>(&self, value: T) -> Result<(), Box<dyn Any + Send + Sync>> {
        self.extension.set(Box::new(value))
    }

    /// The service's own state, if it was attached and is a `T`.
    #[inline]
    #[must_use]
    pub fn extension<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.extension.get()?.downcast_ref()
    }

    /// Requests processed so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.counters.requests.get()
    }

    /// Numbers the session's own messages. Only the session's loop calls this.
    #[inline]
    pub(crate) fn next_message_id(&self) -> i32 {
        let id = self.next_message_id.load(Ordering::Relaxed).wrapping_add(1);
        self.next_message_id.store(id, Ordering::Relaxed);
        id.cast_signed()
    }
}

impl Stallable for Session {
    fn stalled_since(&self) -> Option<Instant> {
        self.instant(&self.stalled_since_us)
    }

    fn sending_since(&self) -> Option<Instant> {
        self.instant(&self.sending_since_us)
    }

    fn reply_bytes(&self) -> u64 {
        self.reply_bytes.load(Ordering::Relaxed)
    }

    fn receiving_large_since(&self) -> Option<(Instant, Instant)> {
        Some((self.instant(&self.large_since_us)?, self.instant(&self.large_progress_us)?))
    }

    fn is_given_up(&self) -> bool {
        self.has_given_up_sending()
    }

    fn give_up(&self) {
        self.gave_up_sending.store(true, Ordering::Release);
        self.control.shutdown_both();
    }

    fn handshaking_since(&self) -> Option<Instant> {
        self.instant(&self.handshaking_since_us).filter(|_| !self.is_ending())
    }

    fn abandon(&self) {
        self.abort();
    }
}

/// A send that the socket did not take at once; over when dropped.
pub(crate) struct Stall<'s> {
    session: &'s Session,
}

impl<'s> Stall<'s> {
    /// `bytes`: what the reply takes in memory.
    pub(crate) fn begin(session: &'s Session, bytes: usize) -> Self {
        let stall = Stall { session };
        stall.progressed();
        session.sending_since_us.store(session.micros_open() + 1, Ordering::Relaxed);
        session.shared.stalls.began();
        session.count_reply(bytes as u64);
        stall
    }

    /// The client has taken a part: its time begins anew.
    pub(crate) fn progressed(&self) {
        let now = self.session.micros_open() + 1;
        self.session.stalled_since_us.store(now, Ordering::Relaxed);
    }
}

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        self.session.stalled_since_us.store(0, Ordering::Relaxed);
        self.session.sending_since_us.store(0, Ordering::Relaxed);
        // First, for those that count_reply has look whether anybody sends.
        self.session.shared.stalls.ended();
        self.session.count_reply(0);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("id", &self.id)
            .field("peer", &self.peer)
            .field("phase", &self.phase())
            .finish_non_exhaustive()
    }
}
