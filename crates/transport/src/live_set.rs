//! Who lives, and a shutdown that waits until everybody has left.
//!
//! Closing and entering exclude each other: who has entered is in the list that the shutdown tells to end,
//! and who comes later is refused. So a shutdown that has found nobody has missed nobody.

use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// See the module. `T` is who enters; `S` sums up those who have left.
pub(crate) struct LiveSet<T, S> {
    /// A leaf in the order of locks.
    members: Mutex<Members<T, S>>,
    /// Signalled when the last one leaves.
    emptied: Condvar,
    /// How many live, readable without the lock.
    count: AtomicUsize,
}

struct Members<T, S> {
    live: HashMap<u64, Arc<T>>,
    left: S,
    closed: bool,
}

impl<T, S: Default> LiveSet<T, S> {
    pub(crate) fn new() -> Self {
        let members = Members { live: HashMap::new(), left: S::default(), closed: false };
        Self { members: Mutex::new(members), emptied: Condvar::new(), count: AtomicUsize::new(0) }
    }

    /// Lets in what `make` makes, with its number, unless the set is closed or as many as `limit`
    /// live.
    pub(crate) fn enter(&self, limit: usize, make: impl FnOnce() -> (u64, T)) -> Option<Arc<T>> {
        let mut members = self.members.lock();
        if members.closed || members.live.len() >= limit {
            return None;
        }
        let (number, entering) = make();
        let entering = Arc::new(entering);
        members.live.insert(number, Arc::clone(&entering));
        self.count.store(members.live.len(), Ordering::Relaxed);
        Some(entering)
    }

    /// Lets one out; `note` adds what it did to the sum, so that it is counted in or outside and never in
    /// neither.
    pub(crate) fn leave(&self, number: u64, note: impl FnOnce(&mut S)) {
        let mut members = self.members.lock();
        note(&mut members.left);
        let leaving = members.live.remove(&number);
        self.count.store(members.live.len(), Ordering::Relaxed);
        if members.live.is_empty() {
            self.emptied.notify_all();
        }
        drop(members);
        // Perhaps the last reference: not under the lock.
        drop(leaving);
    }

    /// How many live; a snapshot without a lock.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Everybody who lives.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.members.lock().live.values().cloned().collect()
    }

    /// Shows everybody who lives and the sum of those who have left, at one moment.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&HashMap<u64, Arc<T>>, &S) -> R) -> R {
        let members = self.members.lock();
        look(&members.live, &members.left)
    }

    /// Lets nobody in from now on.
    pub(crate) fn close(&self) {
        self.members.lock().closed = true;
    }

    /// Waits until nobody lives; answers with the number that still are at the deadline.
    pub(crate) fn wait_empty(&self, deadline: Instant) -> usize {
        let mut members = self.members.lock();
        while !members.live.is_empty() {
            if self.emptied.wait_until(&mut members, deadline).timed_out() {
                break;
            }
        }
        members.live.len()
    }
}
