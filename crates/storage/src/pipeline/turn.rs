//! Threads that serve many tasks in turns, and what they owe the commit queues.
//!
//! Such a thread polls everything that is ready, then writes what its tasks committed as one group, then
//! waits for events. Commits polled on it only enqueue; the thread remembers which stores it owes the end
//! of a turn, and pays in [`Store::turn_ended`](crate::Store::turn_ended). A thread that dies pays as well.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};

use super::group::Lead;
use crate::store::StoreInner;

thread_local! {
    static TURN: LoopTurn = const { LoopTurn { deferred: Cell::new(false), owed: RefCell::new(Vec::new()) } };
}

/// One thread's part.
struct LoopTurn {
    deferred: Cell<bool>,
    /// Stores to which the thread owes the end of its turn; one at most, outside of tests.
    owed: RefCell<Vec<Weak<StoreInner>>>,
}

impl LoopTurn {
    fn owes(&self, store: &StoreInner) -> bool {
        self.owed.borrow().iter().any(|owed| std::ptr::eq(owed.as_ptr(), store))
    }

    fn forget(&self, store: &StoreInner) -> bool {
        let mut owed = self.owed.borrow_mut();
        let place = owed.iter().position(|owed| std::ptr::eq(owed.as_ptr(), store));
        place.map(|place| owed.swap_remove(place)).is_some()
    }

    fn pay_all(&self) {
        for store in self.owed.take() {
            if let Some(store) = store.upgrade() {
                store.group.turn_ended(&*store);
            }
        }
    }
}

impl Drop for LoopTurn {
    fn drop(&mut self) {
        self.pay_all();
    }
}

/// Declares that this thread serves many tasks in turns: from now on a commit polled on it is enqueued and
/// never written or synced by the poll. The thread must call [`Store::turn_ended`](crate::Store::turn_ended)
/// after each round of polling, before it waits for events.
pub fn defer_commits() {
    TURN.with(|turn| turn.deferred.set(true));
}

/// Takes [`defer_commits`] back and pays what the thread owes. For tests, whose threads serve one thing
/// after the other.
pub fn commit_inline() {
    TURN.with(|turn| {
        turn.deferred.set(false);
        turn.pay_all();
    });
}

/// Whether [`defer_commits`] is in force on this thread.
pub fn commits_are_deferred() -> bool {
    // A thread whose locals are gone will not end another turn.
    TURN.try_with(|turn| turn.deferred.get()).unwrap_or(false)
}

/// Calls `poll` with the way of leading that suits this thread, and remembers the debt it makes.
pub(super) fn poll_deferred<T>(store: &Arc<StoreInner>, poll: impl FnOnce(Lead<'_>) -> T) -> T {
    let owed_before = TURN.with(|turn| turn.owes(store));
    let owes = Cell::new(owed_before);
    let polled = poll(Lead::AtTurnEnd(&owes));
    if owes.get() && !owed_before {
        TURN.with(|turn| turn.owed.borrow_mut().push(Arc::downgrade(store)));
    }
    polled
}

/// Forgets this thread's debt to `store`; returns whether there was one.
pub(crate) fn take_debt(store: &StoreInner) -> bool {
    TURN.try_with(|turn| turn.forget(store)).unwrap_or(false)
}
