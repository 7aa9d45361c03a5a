//! Ends connections whose clients do not read their replies.
//!
//! Such a client costs a reply's memory and holds up nobody else, so looking for it may be slow, but it must cost nothing while
//! there is none: one thread sleeps until a send stalls, and then until the oldest stall can have lasted long enough. `began`
//! and `ended` are what streams call; they take no lock unless the thread sleeps for good.

use crate::Session;
use parking_lot::{Condvar, Mutex};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Looks are at least this part of the time-out apart: how much later than promised a connection may be ended.
const PRECISION: u32 = 10;

/// What the sweeper sees of a connection.
pub(crate) trait Stallable {
    /// Since when a send makes no progress.
    fn stalled_since(&self) -> Option<Instant>;
    /// Ends the connection. May be called again until the send has noticed.
    fn give_up(&self);
}

impl Stallable for Session {
    fn stalled_since(&self) -> Option<Instant> {
        Self::stalled_since(self)
    }

    fn give_up(&self) {
        self.give_up_sending();
    }
}

/// Sends that wait for their clients.
#[derive(Default)]
pub(crate) struct Stalls {
    current: AtomicUsize,
    /// The sweeper sleeps until a send stalls.
    asleep: AtomicBool,
    /// Whether the sweeper shall end. A leaf in the order of locks.
    stopping: Mutex<bool>,
    changed: Condvar,
}

impl Stalls {
    /// A send has filled its socket.
    pub(crate) fn began(&self) {
        // Counted before looking; the sweeper says that it sleeps before it looks at the count.
        self.current.fetch_add(1, Ordering::SeqCst);
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
        self.current.load(Ordering::Relaxed)
    }

    /// Ends [`Stalls::sweep_until_stopped`].
    pub(crate) fn stop(&self) {
        *self.stopping.lock() = true;
        self.changed.notify_one();
    }

    /// The sweeper's life. `sessions` lists all connections; `timeout` is not zero.
    pub(crate) fn sweep_until_stopped<S: Stallable>(
        &self,
        timeout: Duration,
        sessions: impl Fn() -> Vec<Arc<S>>,
    ) {
        let mut stopping = self.stopping.lock();
        while !*stopping {
            self.asleep.store(true, Ordering::SeqCst);
            if self.current.load(Ordering::SeqCst) == 0 {
                self.changed.wait(&mut stopping);
                continue;
            }
            self.asleep.store(false, Ordering::SeqCst);
            drop(stopping);
            let swept = sweep(sessions().iter().map(Deref::deref), timeout, Instant::now());
            if swept.given_up > 0 {
                tracing::info!(target: "network", connections = swept.given_up, ?timeout,
                    "clients did not read their replies; their connections are ended");
            }
            stopping = self.stopping.lock();
            if !*stopping {
                self.changed.wait_for(&mut stopping, swept.pause);
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

/// Ends what has stalled for too long.
fn sweep<'s, S: Stallable + 's>(
    sessions: impl Iterator<Item = &'s S>,
    timeout: Duration,
    now: Instant,
) -> Swept {
    let mut swept = Swept { given_up: 0, pause: timeout };
    for session in sessions {
        let Some(since) = session.stalled_since() else { continue };
        let left = timeout.saturating_sub(now.saturating_duration_since(since));
        if left.is_zero() {
            session.give_up();
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
        given_up: AtomicUsize,
    }

    impl Client {
        fn new(stalled_since: Option<Instant>) -> Arc<Self> {
            Arc::new(Self { stalled_since, given_up: AtomicUsize::new(0) })
        }
    }

    impl Stallable for Client {
        fn stalled_since(&self) -> Option<Instant> {
            self.stalled_since
        }

        fn give_up(&self) {
            self.given_up.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Looks at clients that stalled so many seconds ago (`None`: not at all); says which are ended, and when the next look is.
    fn check(stalled: &[Option<u64>], ended: &[bool], pause_secs: u64) {
        let now = Instant::now() + Duration::from_secs(1_000);
        let clients: Vec<_> =
            stalled.iter().map(|ago| Client::new(ago.map(|ago| now - Duration::from_secs(ago)))).collect();
        let swept = sweep(clients.iter().map(Deref::deref), TIMEOUT, now);
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
    fn the_sweeper_sleeps_until_a_send_stalls() {
        let stalls = Stalls::default();
        // The first stall is old enough whenever it is seen.
        let client = Client::new(Instant::now().checked_sub(Duration::from_secs(1)));
        let (looked, looks) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                stalls.sweep_until_stopped(Duration::from_millis(100), || {
                    looked.send(()).expect("the test waits for this");
                    vec![Arc::clone(&client)]
                });
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
