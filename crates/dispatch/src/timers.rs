//! Wakes futures at their time, by a thread or by whom it is told to: the only clock-driven thing below
//! `heddle`, which names no runtime.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// A cheap handle on those who sleep.
#[derive(Debug, Clone)]
pub struct Timers {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// Waiting futures by their time; the number keeps equal times apart.
    waiting: BTreeMap<(Instant, u64), Waker>,
    next_number: u64,
    stopped: bool,
}

impl Timers {
    /// Starts the thread. It ends when the last handle and the last sleep are gone, or on [`Timers::stop`].
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::downgrade(&shared);
        std::thread::Builder::new().name("timers".into()).stack_size(128 << 10).spawn(move || {
            while let Some(shared) = for_thread.upgrade() {
                if !shared.run_once() {
                    break;
                }
            }
        })?;
        Ok(Timers { shared })
    }

    /// Timers that no thread looks at: somebody calls [`Timers::wake_due`].
    pub fn without_thread() -> Self {
        Timers { shared: Arc::default() }
    }

    /// Wakes whose time has come.
    pub fn wake_due(&self) {
        self.shared.queue.lock().take_due().into_iter().for_each(Waker::wake);
    }

    /// Completes at `when`; at once when that has passed.
    pub fn sleep_until(&self, when: Instant) -> Sleep {
        Sleep { timers: self.clone(), when, number: None }
    }

    /// Ends the thread; whoever sleeps is woken.
    pub fn stop(&self) {
        let mut queue = self.shared.queue.lock();
        queue.stopped = true;
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        self.shared.changed.notify_all();
        for waker in waiting.into_values() {
            waker.wake();
        }
    }
}

impl Shared {
    /// Waits for the next time to pass and wakes who waited for it. False once stopped.
    fn run_once(&self) -> bool {
        let mut queue = self.queue.lock();
        if queue.stopped {
            return false;
        }
        /// How long the thread waits when nothing is due, so that it notices that nobody holds it any more.
        const IDLE: std::time::Duration = std::time::Duration::from_secs(1);
        let now = ambient::now();
        let until =
            queue.waiting.first_key_value().map_or(now + IDLE, |((when, _), _)| *when.min(&(now + IDLE)));
        if until > now {
            self.changed.wait_until(&mut queue, until);
        }
        let due = queue.take_due();
        drop(queue);
        due.into_iter().for_each(Waker::wake);
        true
    }
}

impl Queue {
    fn take_due(&mut self) -> Vec<Waker> {
        let now = ambient::now();
        let mut due = Vec::new();
        while let Some(entry) = self.waiting.first_entry() {
            if entry.key().0 > now {
                break;
            }
            due.push(entry.remove());
        }
        due
    }
}

/// The future of [`Timers::sleep_until`].
#[derive(Debug)]
pub struct Sleep {
    timers: Timers,
    when: Instant,
    number: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if ambient::now() >= self.when {
            return Poll::Ready(());
        }
        let shared = self.timers.shared.clone();
        let mut queue = shared.queue.lock();
        if queue.stopped {
            return Poll::Ready(());
        }
        let number = *self.number.get_or_insert_with(|| {
            queue.next_number += 1;
            queue.next_number
        });
        queue.waiting.insert((self.when, number), context.waker().clone());
        let is_first = queue.waiting.first_key_value().is_some_and(|(key, _)| *key == (self.when, number));
        drop(queue);
        if is_first {
            shared.changed.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.timers.shared.queue.lock().waiting.remove(&(self.when, number));
        }
    }
}
