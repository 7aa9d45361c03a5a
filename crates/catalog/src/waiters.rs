//! Waiting, without a thread, for something to happen in a collection.

use event_listener::Event;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

/// A count of events; the next one can be waited for.
#[derive(Debug, Default)]
pub struct Waiters {
    generation: AtomicU64,
    waiting: Event,
}

impl Waiters {
    /// How many events there were. Read it before looking for data, and wait with it when there is none.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Resolves once there were more events than `seen`. Dropping it gives up waiting.
    pub async fn after(&self, seen: u64) {
        while self.generation() <= seen {
            let next = self.waiting.listen();
            // Looked at again: an event in between has found nobody who listens.
            if self.generation() > seen {
                return;
            }
            next.await;
        }
    }

    /// Counts an event and wakes all who wait.
    pub fn notify(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.waiting.notify(usize::MAX);
    }
}

/// Gives way once: the task is polled again after others had their turn.
pub async fn give_way() {
    let mut given = false;
    poll_fn(|context| {
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
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Wake, Waker};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn an_event_wakes_and_resolves() {
        let (waiters, count) = (Waiters::default(), Arc::new(Count::default()));
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        let mut poll = |future: std::pin::Pin<&mut dyn Future<Output = ()>>| future.poll(&mut context);
        let mut arrival = pin!(waiters.after(waiters.generation()));
        assert!(poll(arrival.as_mut()).is_pending());
        assert!(poll(arrival.as_mut()).is_pending());
        waiters.notify();
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "one waiter is woken once");
        assert!(poll(arrival.as_mut()).is_ready());
        let mut abandoned = Box::pin(waiters.after(waiters.generation()));
        assert!(poll(abandoned.as_mut()).is_pending());
        drop(abandoned);
        waiters.notify();
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "who gave up is not woken");
        assert!(poll(pin!(waiters.after(0))).is_ready(), "a past event needs no waiting");
    }
}
