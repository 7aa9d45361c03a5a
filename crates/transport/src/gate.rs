//! The door of a server: who is inside, and a shutdown that waits until everybody has left.
//!
//! Closing and entering exclude each other: who has entered is in the list that the shutdown tells to end,
//! and who comes later is refused. So a shutdown that has found nobody inside has missed nobody.

use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// See the module. `T` is who enters; `S` sums up those who have left.
pub(crate) struct Gate<T, S> {
    /// A leaf in the order of locks.
    inside: Mutex<Inside<T, S>>,
    /// Signalled when the last one leaves.
    emptied: Condvar,
    /// How many are inside, readable without the lock.
    count: AtomicUsize,
}

struct Inside<T, S> {
    live: HashMap<u64, Arc<T>>,
    left: S,
    closed: bool,
}

impl<T, S: Default> Gate<T, S> {
    pub(crate) fn new() -> Self {
        let inside = Inside { live: HashMap::new(), left: S::default(), closed: false };
        Self { inside: Mutex::new(inside), emptied: Condvar::new(), count: AtomicUsize::new(0) }
    }

    /// Lets in what `make` makes, with its number, unless the gate is closed or as many as `limit` are
    /// inside.
    pub(crate) fn enter(&self, limit: usize, make: impl FnOnce() -> (u64, T)) -> Option<Arc<T>> {
        let mut inside = self.inside.lock();
        if inside.closed || inside.live.len() >= limit {
            return None;
        }
        let (number, entering) = make();
        let entering = Arc::new(entering);
        inside.live.insert(number, Arc::clone(&entering));
        self.count.store(inside.live.len(), Ordering::Relaxed);
        Some(entering)
    }

    /// Lets one out; `note` adds what it did to the sum, so that it is counted inside or outside and never in
    /// neither.
    pub(crate) fn leave(&self, number: u64, note: impl FnOnce(&mut S)) {
        let mut inside = self.inside.lock();
        note(&mut inside.left);
        let leaving = inside.live.remove(&number);
        self.count.store(inside.live.len(), Ordering::Relaxed);
        if inside.live.is_empty() {
            self.emptied.notify_all();
        }
        drop(inside);
        // Perhaps the last reference: not under the lock.
        drop(leaving);
    }

    /// How many are inside; a snapshot without a lock.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Everybody who is inside.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.inside.lock().live.values().cloned().collect()
    }

    /// Shows everybody inside and the sum of those who have left, at one moment.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&HashMap<u64, Arc<T>>, &S) -> R) -> R {
        let inside = self.inside.lock();
        look(&inside.live, &inside.left)
    }

    /// Lets nobody in from now on.
    pub(crate) fn close(&self) {
        self.inside.lock().closed = true;
    }

    /// Waits until nobody is inside; answers with the number that still are at the deadline.
    pub(crate) fn wait_empty(&self, deadline: Instant) -> usize {
        let mut inside = self.inside.lock();
        while !inside.live.is_empty() {
            if self.emptied.wait_until(&mut inside, deadline).timed_out() {
                break;
            }
        }
        inside.live.len()
    }
}
