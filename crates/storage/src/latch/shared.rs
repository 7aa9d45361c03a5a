//! A read/write latch: shared by those who write documents of a collection, exclusive for those who
//! change the collection itself.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use slab::Slab;

use crate::sync::{Mutex, MutexGuard};

struct SharedWaiter {
    exclusive: bool,
    granted: bool,
    waker: Waker,
}

#[derive(Default)]
struct SharedState {
    /// Granted shared holds.
    sharers: usize,
    /// Whether the exclusive hold is granted.
    exclusive: bool,
    waiters: Slab<SharedWaiter>,
    /// Waiters not granted yet, oldest first.
    queue: VecDeque<usize>,
}

struct Inner {
    state: Mutex<SharedState>,
}

/// An asynchronous read/write latch, fair in both directions: once an exclusive request waits, later
/// shared ones queue behind it. Clones are the same latch.
#[derive(Clone)]
pub struct SharedLatch {
    inner: Arc<Inner>,
}

impl Default for SharedLatch {
    fn default() -> SharedLatch {
        SharedLatch::new()
    }
}

impl SharedLatch {
    /// A latch nobody holds.
    pub fn new() -> SharedLatch {
        SharedLatch { inner: Arc::new(Inner { state: Mutex::new(SharedState::default()) }) }
    }

    /// Takes a shared hold.
    pub async fn shared(&self) -> SharedGuard {
        SharedGuard { hold: self.request(false).await }
    }

    /// Takes the exclusive hold.
    pub async fn exclusive(&self) -> ExclusiveGuard {
        ExclusiveGuard { hold: self.request(true).await }
    }

    /// Takes a shared hold when that needs no waiting.
    pub fn try_shared(&self) -> Option<SharedGuard> {
        let granted = self.inner.state.lock().try_take(false);
        granted.then(|| SharedGuard { hold: self.hold(false) })
    }

    /// Takes the exclusive hold when that needs no waiting.
    pub fn try_exclusive(&self) -> Option<ExclusiveGuard> {
        let granted = self.inner.state.lock().try_take(true);
        granted.then(|| ExclusiveGuard { hold: self.hold(true) })
    }

    fn request(&self, exclusive: bool) -> SharedRequest {
        SharedRequest { latch: self.clone(), exclusive, ticket: None }
    }

    fn hold(&self, exclusive: bool) -> Hold {
        Hold { latch: self.clone(), exclusive }
    }

    fn release(&self, mut state: MutexGuard<'_, SharedState>, exclusive: bool) {
        if exclusive {
            assert!(state.exclusive && state.sharers == 0, "a latch is let go that nobody holds alone");
            state.exclusive = false;
        } else {
            assert!(state.sharers > 0 && !state.exclusive, "a latch is let go that nobody shares");
            state.sharers -= 1;
        }
        self.grant_and_wake(state);
    }

    fn grant_and_wake(&self, mut state: MutexGuard<'_, SharedState>) {
        if state.queue.is_empty() {
            return;
        }
        let wakers = state.grant();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl SharedState {
    fn compatible(&self, exclusive: bool) -> bool {
        !self.exclusive && (!exclusive || self.sharers == 0)
    }

    fn take(&mut self, exclusive: bool) {
        if exclusive {
            self.exclusive = true;
        } else {
            self.sharers += 1;
        }
    }

    fn try_take(&mut self, exclusive: bool) -> bool {
        let granted = self.queue.is_empty() && self.compatible(exclusive);
        if granted {
            self.take(exclusive);
        }
        granted
    }

    /// Grants to the oldest waiters as long as their requests go together.
    fn grant(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(oldest) = self.queue.front().copied() {
            let exclusive = self.waiters.get(oldest).expect("what is in the queue waits").exclusive;
            if !self.compatible(exclusive) {
                break;
            }
            self.take(exclusive);
            self.queue.pop_front();
            let waiter = self.waiters.get_mut(oldest).expect("what is in the queue waits");
            waiter.granted = true;
            wakers.push(waiter.waker.clone());
        }
        wakers
    }
}

struct SharedRequest {
    latch: SharedLatch,
    exclusive: bool,
    ticket: Option<usize>,
}

impl Future for SharedRequest {
    type Output = Hold;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Hold> {
        let this = &mut *self;
        let mut state = this.latch.inner.state.lock();
        let Some(ticket) = this.ticket else {
            if state.try_take(this.exclusive) {
                return Poll::Ready(this.latch.hold(this.exclusive));
            }
            let waiter =
                SharedWaiter { exclusive: this.exclusive, granted: false, waker: context.waker().clone() };
            let ticket = state.waiters.insert(waiter);
            state.queue.push_back(ticket);
            this.ticket = Some(ticket);
            return Poll::Pending;
        };
        let waiter = state.waiters.get_mut(ticket).expect("a request keeps its place while it waits");
        if waiter.granted {
            state.waiters.remove(ticket);
            this.ticket = None;
            return Poll::Ready(this.latch.hold(this.exclusive));
        }
        waiter.waker.clone_from(context.waker());
        Poll::Pending
    }
}

impl Drop for SharedRequest {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let mut state = self.latch.inner.state.lock();
        let waiter = state.waiters.remove(ticket);
        if waiter.granted {
            self.latch.release(state, waiter.exclusive);
        } else {
            state.queue.retain(|queued| *queued != ticket);
            // An exclusive request that leaves may have held up shared ones behind it.
            self.latch.grant_and_wake(state);
        }
    }
}

struct Hold {
    latch: SharedLatch,
    exclusive: bool,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.latch.release(self.latch.inner.state.lock(), self.exclusive);
    }
}

/// A shared hold of a [`SharedLatch`].
#[must_use = "the hold is released when the guard is dropped"]
pub struct SharedGuard {
    #[expect(dead_code, reason = "held for its drop")]
    hold: Hold,
}

/// The exclusive hold of a [`SharedLatch`].
#[must_use = "the hold is released when the guard is dropped"]
pub struct ExclusiveGuard {
    #[expect(dead_code, reason = "held for its drop")]
    hold: Hold,
}
