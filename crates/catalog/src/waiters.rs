//! Waiting, without a thread, for something to happen in a collection.

use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// A count of events and those who wait for the next one.
#[derive(Debug, Default)]
pub struct Waiters {
    generation: AtomicU64,
    /// Wakers of pending [`Arrival`]s, by their tickets. A leaf in the lock order.
    waiting: Mutex<Vec<(u64, Waker)>>,
    tickets: AtomicU64,
}

impl Waiters {
    /// Nobody waits, nothing has happened.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// How many events there were. Read it before looking for data, and wait with it when there is none.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Resolves once there were more events than `seen`. Dropping it gives up waiting.
    pub fn after(self: &Arc<Self>, seen: u64) -> Arrival {
        Arrival { waiters: Arc::clone(self), seen, ticket: self.tickets.fetch_add(1, Ordering::Relaxed) }
    }

    /// Counts an event and wakes all who wait.
    pub fn notify(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for (_, waker) in waiting {
            waker.wake();
        }
    }
}

/// Waits for an event; see [`Waiters::after`].
#[derive(Debug)]
#[must_use = "waiting happens when the future is polled"]
pub struct Arrival {
    waiters: Arc<Waiters>,
    seen: u64,
    ticket: u64,
}

impl Future for Arrival {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.waiters.generation() > self.seen {
            return Poll::Ready(());
        }
        let mut waiting = self.waiters.waiting.lock();
        // Checked again under the lock: an event between the first check and here has found no waker.
        if self.waiters.generation() > self.seen {
            return Poll::Ready(());
        }
        match waiting.iter_mut().find(|(ticket, _)| *ticket == self.ticket) {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => waiting.push((self.ticket, context.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.waiters.waiting.lock().retain(|(ticket, _)| *ticket != self.ticket);
    }
}

/// Gives way once: the task is polled again after others had their turn.
pub async fn give_way() {
    let mut given = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn an_event_wakes_and_resolves() {
        let (waiters, count) = (Waiters::new(), Arc::new(Count::default()));
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        let mut arrival = waiters.after(waiters.generation());
        assert!(Pin::new(&mut arrival).poll(&mut context).is_pending());
        assert!(Pin::new(&mut arrival).poll(&mut context).is_pending());
        waiters.notify();
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "one waiter is woken once");
        assert!(Pin::new(&mut arrival).poll(&mut context).is_ready());
        let abandoned = waiters.after(waiters.generation());
        drop(abandoned);
        waiters.notify();
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "who gave up is not woken");
        assert!(
            Pin::new(&mut waiters.after(0)).poll(&mut context).is_ready(),
            "a past event needs no waiting"
        );
    }
}
