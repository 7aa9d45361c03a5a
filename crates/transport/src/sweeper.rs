//! Ends connections whose clients do not read their replies, or do not complete the handshake of TLS.
//!
//! Such a client costs a reply's memory and holds up nobody else, so looking for it may be slow, but it must
//! cost nothing while there is none: one thread sleeps until a send stalls or a handshake begins, and then
//! until the oldest one can have lasted long enough. `began` and `ended` are what streams call; they take no
//! lock unless the thread sleeps for good.
//!
//! Many such clients hold up everybody: at the bound on unread replies ([`UnreadReplies`]) it hurries, and
//! those that have taken nothing for longest are ended first. So are those that hold up others' large
//! requests ([`LargeRequests`]) with one that does not come.

use crate::large_requests::LargeRequests;
use crate::tls::Tls;
use crate::unread::{Excess, UnreadReplies};
use parking_lot::{Condvar, Mutex};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Looks are at least this part of the time-out apart: how much later than promised a connection may be
/// ended.
const PRECISION: u32 = 10;

/// At the bound on unread replies a client that has taken nothing for so long is one that does not read.
const PATIENCE: Duration = Duration::from_secs(1);
/// One that takes little now and then is ended as well when it has held its reply for so long.
const LONGEST_READ: Duration = Duration::from_secs(10);
/// While others wait for memory a large request is to come without longer pauses than this,
const SENDER_PATIENCE: Duration = Duration::from_secs(5);
/// and within this time.
const LONGEST_SEND: Duration = Duration::from_secs(60);
/// How often it is looked whether the bounds are kept, while they are not.
const HURRIED_PAUSE: Duration = Duration::from_millis(250);
/// The pause between two looks when clients may take as long as they like.
const NO_TIMEOUT: Duration = Duration::from_secs(3600);

/// What the sweeper sees of a connection.
pub(crate) trait Stallable {
    /// Since when a send makes no progress.
    fn stalled_since(&self) -> Option<Instant>;
    /// Since when the client has been taking the reply.
    fn sending_since(&self) -> Option<Instant>;
    /// What the reply takes in memory, in bytes.
    fn reply_bytes(&self) -> u64;
    /// Since when it has received a large request that is not complete, and when the latest part came.
    fn receiving_large_since(&self) -> Option<(Instant, Instant)>;
    /// Whether [`Stallable::give_up`] was called.
    fn is_given_up(&self) -> bool;
    /// Ends the connection. May be called again until the send has noticed.
    fn give_up(&self);
    /// Since when its handshake of TLS goes on; `None` once it was abandoned.
    fn handshaking_since(&self) -> Option<Instant>;
    /// Ends the connection, whose handshake does not.
    fn abandon(&self);
}

/// How long clients may take; `None`: as long as they like.
pub(crate) struct Timeouts<'t> {
    /// For a part of a reply.
    pub(crate) send: Option<Duration>,
    /// For the handshake of TLS.
    pub(crate) handshake: Option<Duration>,
    pub(crate) tls: Option<&'t Tls>,
}

/// What is bounded over all connections.
pub(crate) struct Bounds<'b> {
    pub(crate) unread: &'b UnreadReplies,
    pub(crate) requests: &'b LargeRequests,
}

/// Sends that wait for their clients.
#[derive(Default)]
pub(crate) struct Stalls {
    current: AtomicUsize,
    handshakes: AtomicUsize,
    /// The sweeper sleeps until a send stalls.
    asleep: AtomicBool,
    /// A bound is reached, and the sweeper has not looked since.
    hurried: AtomicBool,
    /// Whether the sweeper shall end. A leaf in the order of locks.
    stopping: Mutex<bool>,
    changed: Condvar,
}

impl Stalls {
    /// A send has filled its socket.
    pub(crate) fn began(&self) {
        self.count(&self.current);
    }

    /// A client is to complete its handshake.
    pub(crate) fn handshake_began(&self) {
        self.count(&self.handshakes);
    }

    /// It has, or has gone.
    pub(crate) fn handshake_ended(&self) {
        self.handshakes.fetch_sub(1, Ordering::SeqCst);
    }

    fn count(&self, one_more: &AtomicUsize) {
        // Counted before looking; the sweeper says that it sleeps before it looks at the count.
        one_more.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            // Under the lock, so that the sweeper is not between its last look and its sleep.
            let _stopping = self.stopping.lock();
            self.changed.notify_one();
        }
    }

    /// A send is through, or has failed.
    pub(crate) fn ended(&self) {
        self.current.fetch_sub(1, Ordering::SeqCst);
    }

    /// Sends that wait at the moment.
    pub(crate) fn current(&self) -> usize {
        self.current.load(Ordering::SeqCst)
    }

    /// A bound is reached.
    pub(crate) fn hurry(&self) {
        self.hurried.store(true, Ordering::SeqCst);
        // Under the lock, so that the sweeper is not between its last look and its sleep.
        let _stopping = self.stopping.lock();
        self.changed.notify_one();
    }

    /// Ends [`Stalls::sweep_until_stopped`].
    pub(crate) fn stop(&self) {
        *self.stopping.lock() = true;
        self.changed.notify_one();
    }

    /// The sweeper's life. `sessions` lists all connections; no time-out is zero.
    pub(crate) fn sweep_until_stopped<S: Stallable>(
        &self,
        timeouts: &Timeouts<'_>,
        bounds: &Bounds<'_>,
        sessions: impl Fn() -> Vec<Arc<S>>,
    ) {
        let mut stopping = self.stopping.lock();
        while !*stopping {
            self.asleep.store(true, Ordering::SeqCst);
            let waiting = self.current.load(Ordering::SeqCst) + self.handshakes.load(Ordering::SeqCst);
            if waiting == 0 && !bounds.requests.has_waiters() {
                self.changed.wait(&mut stopping);
                continue;
            }
            self.asleep.store(false, Ordering::SeqCst);
            drop(stopping);
            let sessions = sessions();
            let now = Instant::now();
            let pause = timeouts.keep(&sessions, now);
            let pause = bounds.keep(&sessions, now).unwrap_or(pause);
            drop(sessions);
            stopping = self.stopping.lock();
            if !*stopping && !self.hurried.swap(false, Ordering::SeqCst) {
                self.changed.wait_for(&mut stopping, pause);
            }
        }
    }
}

/// What one look has found.
#[derive(Debug, PartialEq, Eq)]
struct Swept {
    given_up: usize,
    /// Nothing that stalls now, or begins to, is due before this has passed.
    pause: Duration,
}

impl Timeouts<'_> {
    /// Ends who takes too long. When to look again.
    fn keep<S: Stallable>(&self, sessions: &[Arc<S>], now: Instant) -> Duration {
        let mut pause = NO_TIMEOUT;
        if let Some(timeout) = self.send {
            let swept = sweep(sessions, (S::stalled_since, S::give_up), timeout, now);
            if swept.given_up > 0 {
                tracing::info!(target: "network", connections = swept.given_up, ?timeout,
                    "clients did not read their replies; their connections are ended");
            }
            pause = pause.min(swept.pause);
        }
        if let (Some(timeout), Some(tls)) = (self.handshake, self.tls) {
            let swept = sweep(sessions, (S::handshaking_since, S::abandon), timeout, now);
            if swept.given_up > 0 {
                tls.count_timed_out(swept.given_up as u64);
                tracing::info!(target: "network", connections = swept.given_up, ?timeout,
                    "clients did not complete the handshake of TLS in time; their connections are ended");
            }
            pause = pause.min(swept.pause);
        }
        pause
    }
}

impl Bounds<'_> {
    /// Ends who holds up others. When to look again, if that is soon.
    fn keep<S: Stallable>(&self, sessions: &[Arc<S>], now: Instant) -> Option<Duration> {
        let excess = self.unread.excess();
        if let Some(excess) = excess {
            end_slowest(sessions.iter().map(Deref::deref).collect(), excess, self.unread, now);
        }
        let others_wait = self.requests.has_waiters();
        if others_wait {
            end_slow_senders(sessions.iter().map(Deref::deref), self.requests, now);
        }
        (excess.is_some() || others_wait).then_some(HURRIED_PAUSE)
    }
}

/// Ends connections whose large request does not come, for which others wait.
fn end_slow_senders<'s, S: Stallable + 's>(
    sessions: impl Iterator<Item = &'s S>,
    requests: &LargeRequests,
    now: Instant,
) {
    let mut ended = 0;
    for session in sessions {
        let Some((since, progress)) = session.receiving_large_since() else { continue };
        let is_slow = now.saturating_duration_since(progress) >= SENDER_PATIENCE
            || now.saturating_duration_since(since) >= LONGEST_SEND;
        if is_slow && !session.is_given_up() {
            ended += 1;
            session.give_up();
        }
    }
    if ended > 0 {
        requests.count_ended(ended);
        tracing::warn!(target: "network", connections = ended,
            "clients do not send the large requests that they began, for which others wait; their \
            connections are ended");
    }
}

/// Ends connections until there is room for others' replies, those first whose clients have taken nothing for
/// longest.
fn end_slowest<S: Stallable>(mut sessions: Vec<&S>, excess: Excess, unread: &UnreadReplies, now: Instant) {
    let since = |instant: Option<Instant>| instant.map(|since| now.saturating_duration_since(since));
    sessions.retain(|session| session.stalled_since().is_some());
    sessions.sort_by_key(|session| session.stalled_since());
    let (mut freed, mut ended) = (0, 0);
    for session in sessions {
        if freed >= excess.bytes {
            break;
        }
        let is_slow = excess.urgent
            || since(session.stalled_since()) >= Some(PATIENCE)
            || since(session.sending_since()) >= Some(LONGEST_READ);
        if session.is_given_up() {
            freed += session.reply_bytes();
        } else if is_slow {
            freed += session.reply_bytes();
            ended += 1;
            session.give_up();
        }
    }
    if ended > 0 {
        unread.count_ended(ended);
        tracing::warn!(target: "network", connections = ended, bytes = freed,
            "clients leave too many replies unread; the connections of those that do not read are ended");
    }
}

/// Ends what has waited for too long: since when each does, and how it is ended.
fn sweep<S>(
    sessions: &[Arc<S>],
    (since, end): (impl Fn(&S) -> Option<Instant>, impl Fn(&S)),
    timeout: Duration,
    now: Instant,
) -> Swept {
    let mut swept = Swept { given_up: 0, pause: timeout };
    for session in sessions {
        let Some(since) = since(session) else { continue };
        let left = timeout.saturating_sub(now.saturating_duration_since(since));
        if left.is_zero() {
            end(session);
            swept.given_up += 1;
        }
        swept.pause = swept.pause.min(left);
    }
    swept.pause = swept.pause.max(timeout / PRECISION);
    swept
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    const TIMEOUT: Duration = Duration::from_secs(60);

    struct Client {
        stalled_since: Option<Instant>,
        sending_since: Option<Instant>,
        reply_bytes: u64,
        receiving: Option<(Instant, Instant)>,
        handshaking_since: Option<Instant>,
        given_up: AtomicUsize,
    }

    impl Client {
        fn new(stalled_since: Option<Instant>) -> Arc<Self> {
            Self::taking(stalled_since, stalled_since, 0)
        }

        fn taking(
            sending_since: Option<Instant>,
            stalled_since: Option<Instant>,
            reply_bytes: u64,
        ) -> Arc<Self> {
            Arc::new(Self {
                stalled_since,
                sending_since,
                reply_bytes,
                receiving: None,
                handshaking_since: None,
                given_up: AtomicUsize::new(0),
            })
        }
    }

    impl Stallable for Client {
        fn stalled_since(&self) -> Option<Instant> {
            self.stalled_since
        }

        fn sending_since(&self) -> Option<Instant> {
            self.sending_since
        }

        fn reply_bytes(&self) -> u64 {
            self.reply_bytes
        }

        fn receiving_large_since(&self) -> Option<(Instant, Instant)> {
            self.receiving
        }

        fn is_given_up(&self) -> bool {
            self.given_up.load(Ordering::SeqCst) > 0
        }

        fn give_up(&self) {
            self.given_up.fetch_add(1, Ordering::SeqCst);
        }

        fn handshaking_since(&self) -> Option<Instant> {
            self.handshaking_since.filter(|_| !self.is_given_up())
        }

        fn abandon(&self) {
            self.give_up();
        }
    }

    /// Clients that began to take 10 bytes so many seconds ago, and took a part so many seconds ago: which
    /// are ended to free `bytes`, twice over?
    fn check_slowest(clients: &[(u64, u64)], bytes: u64, urgent: bool, ended: &[usize]) {
        let now = Instant::now() + Duration::from_secs(1_000);
        let before = |secs: &u64| Some(now - Duration::from_secs(*secs));
        let taking = |(sending, stalled): &(u64, u64)| Client::taking(before(sending), before(stalled), 10);
        let mut all: Vec<_> = clients.iter().map(taking).collect();
        // Who takes no reply holds none.
        all.push(Client::taking(None, None, 0));
        let unread = UnreadReplies::new(1);
        for _ in 0..2 {
            end_slowest(all.iter().map(Deref::deref).collect(), Excess { bytes, urgent }, &unread, now);
        }
        let found: Vec<usize> = (0..all.len()).filter(|&one| all[one].is_given_up()).collect();
        assert_eq!(found, ended, "to free {bytes} of {clients:?}");
        assert_eq!(unread.figures()[3], ("connectionsEnded", ended.len() as u64), "each is counted once");
    }

    #[test]
    fn the_slowest_are_ended_first_and_only_as_many_as_needed() {
        let clients = [(3, 3), (9, 2), (5, 5), (4, 0), (2, 1)];
        check_slowest(&clients, 10, false, &[2]);
        check_slowest(&clients, 15, false, &[0, 2]);
        check_slowest(&clients, 1_000, false, &[0, 1, 2, 4]);
        check_slowest(&clients, 1_000, true, &[0, 1, 2, 3, 4]);
        check_slowest(&[(0, 0), (9, 0)], 20, false, &[]);
        check_slowest(&[(0, 0), (10, 0)], 20, false, &[1]);
    }

    #[test]
    fn large_requests_that_do_not_come_are_ended() {
        let now = Instant::now() + Duration::from_secs(1_000);
        let before = |secs: u64| now - Duration::from_secs(secs);
        let receiving = |(since, progress): (u64, u64)| Client {
            stalled_since: None,
            sending_since: None,
            reply_bytes: 0,
            receiving: Some((before(since), before(progress))),
            handshaking_since: None,
            given_up: AtomicUsize::new(0),
        };
        let clients = [(4, 4), (5, 5), (50, 1), (60, 0), (59, 4)].map(receiving);
        let requests = LargeRequests::new(1);
        for _ in 0..2 {
            end_slow_senders(clients.iter(), &requests, now);
        }
        assert_eq!(clients.map(|client| client.is_given_up()), [false, true, false, true, false]);
        assert_eq!(requests.figures()[3], ("connectionsEnded", 2), "each is counted once");
    }

    /// Looks at clients that stalled so many seconds ago (`None`: not at all); says which are ended, and when
    /// the next look is.
    fn check(stalled: &[Option<u64>], ended: &[bool], pause_secs: u64) {
        let now = Instant::now() + Duration::from_secs(1_000);
        let clients: Vec<_> =
            stalled.iter().map(|ago| Client::new(ago.map(|ago| now - Duration::from_secs(ago)))).collect();
        let swept = sweep(&clients, (Client::stalled_since, Client::give_up), TIMEOUT, now);
        let given_up: Vec<bool> =
            clients.iter().map(|client| client.given_up.load(Ordering::SeqCst) > 0).collect();
        assert_eq!(given_up, ended, "clients that stalled for {stalled:?} seconds");
        assert_eq!(swept.given_up, ended.iter().filter(|ended| **ended).count());
        assert_eq!(swept.pause, Duration::from_secs(pause_secs), "the next look after {stalled:?}");
    }

    #[test]
    fn only_long_stalls_are_ended() {
        check(&[], &[], 60);
        check(&[None, None], &[false, false], 60);
        check(&[Some(0), None, Some(59)], &[false, false, false], 6);
        check(&[Some(60), None, Some(1)], &[true, false, false], 6);
        check(&[Some(3_000), Some(20), Some(35)], &[true, false, false], 6);
        check(&[Some(20), Some(35)], &[false, false], 25);
    }

    #[test]
    fn handshakes_that_do_not_end_are_abandoned_once() {
        let now = Instant::now() + Duration::from_secs(1_000);
        let clients = [None, Some(60), Some(59)].map(|ago: Option<u64>| {
            let mut client = Client::new(None);
            let since = ago.map(|ago| now - Duration::from_secs(ago));
            Arc::get_mut(&mut client).expect("nobody else has it").handshaking_since = since;
            client
        });
        let sweep = || sweep(&clients, (Client::handshaking_since, Client::abandon), TIMEOUT, now);
        assert_eq!(sweep(), Swept { given_up: 1, pause: TIMEOUT / PRECISION });
        assert_eq!(sweep(), Swept { given_up: 0, pause: TIMEOUT / PRECISION });
        assert_eq!(clients.map(|client| client.is_given_up()), [false, true, false]);
    }

    #[test]
    fn the_sweeper_sleeps_until_a_send_stalls() {
        let stalls = Stalls::default();
        // The first stall is old enough whenever it is seen.
        let client = Client::new(Instant::now().checked_sub(Duration::from_secs(1)));
        let (looked, looks) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                stalls.sweep_until_stopped(
                    &Timeouts { send: Some(Duration::from_millis(100)), handshake: None, tls: None },
                    &Bounds { unread: &UnreadReplies::new(0), requests: &LargeRequests::new(0) },
                    || {
                        looked.send(()).expect("the test waits for this");
                        vec![Arc::clone(&client)]
                    },
                );
            });
            while !stalls.asleep.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            assert_eq!(looks.try_recv(), Err(mpsc::TryRecvError::Empty), "it looks although nothing stalls");
            stalls.began();
            looks.recv_timeout(Duration::from_secs(30)).expect("a stalled send does not wake the sweeper");
            stalls.ended();
            while !stalls.asleep.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            assert!(client.given_up.load(Ordering::SeqCst) > 0, "a client that does not read is not ended");
            stalls.began();
            while looks.try_recv().is_ok() {}
            looks.recv_timeout(Duration::from_secs(30)).expect("the second stall is not seen");
            stalls.stop();
        });
    }
}
