//! What `crate::sync` is in models: parking_lot's interface over shuttle's primitives.
//!
//! Timed waits end without a call whenever the schedule likes, which is what "the time-out passes at a bad
//! moment" means.

use shuttle::rand::Rng;
use shuttle::sync::atomic::AtomicBool as Flag;
use shuttle::thread::{self, Thread};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::{Duration, Instant};

pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// Longer than any model runs.
const FAR_AWAY: Duration = Duration::from_secs(3600);

#[derive(Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

pub(crate) struct MutexGuard<'m, T> {
    mutex: &'m Mutex<T>,
    /// `None` only within a wait.
    held: Option<shuttle::sync::MutexGuard<'m, T>>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, held: Some(self.0.lock().expect("no panic under the lock")) }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("held outside waits")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("held outside waits")
    }
}

/// A waiter that a notification has been given to stays woken by it: none is lost when a time-out comes at
/// the same moment.
#[derive(Default)]
pub(crate) struct Condvar {
    /// Never locked across a scheduling point.
    waiters: StdMutex<VecDeque<Arc<Waiter>>>,
}

struct Waiter {
    thread: Thread,
    notified: Flag,
}

pub(crate) struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub(crate) fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn enqueue(&self) -> Arc<Waiter> {
        let waiter = Arc::new(Waiter { thread: thread::current(), notified: Flag::new(false) });
        self.waiters.lock().expect("no panic").push_back(Arc::clone(&waiter));
        waiter
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let waiter = self.enqueue();
        guard.held = None;
        while !waiter.notified.load(Ordering::SeqCst) {
            thread::park();
        }
        guard.held = guard.mutex.lock().held;
    }

    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _timeout: Duration) -> WaitTimeoutResult {
        let waiter = self.enqueue();
        guard.held = None;
        let mut timed_out = false;
        while !timed_out && !waiter.notified.load(Ordering::SeqCst) {
            if shuttle::rand::thread_rng().gen_bool(0.3) {
                let mut waiters = self.waiters.lock().expect("no panic");
                let known = waiters.len();
                waiters.retain(|other| !Arc::ptr_eq(other, &waiter));
                // Gone already: the notification came first.
                timed_out = waiters.len() < known;
            } else {
                thread::yield_now();
            }
        }
        guard.held = guard.mutex.lock().held;
        WaitTimeoutResult(timed_out)
    }

    /// A deadline that is far away never passes.
    pub(crate) fn wait_until<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        let left = deadline.saturating_duration_since(Instant::now());
        if left < FAR_AWAY {
            return self.wait_for(guard, left);
        }
        self.wait(guard);
        WaitTimeoutResult(false)
    }

    pub(crate) fn notify_one(&self) {
        let waiter = self.waiters.lock().expect("no panic").pop_front();
        if let Some(waiter) = waiter {
            waiter.notified.store(true, Ordering::SeqCst);
            waiter.thread.unpark();
        }
    }

    pub(crate) fn notify_all(&self) {
        let waiters = std::mem::take(&mut *self.waiters.lock().expect("no panic"));
        for waiter in waiters {
            waiter.notified.store(true, Ordering::SeqCst);
            waiter.thread.unpark();
        }
    }
}

/// The standard library's conveniences for thread-local cells, over shuttle's keys.
pub(crate) struct LocalCell<T: 'static>(pub(crate) &'static shuttle::thread::LocalKey<RefCell<T>>);

impl<T> LocalCell<T> {
    pub(crate) fn with_borrow<R>(&'static self, body: impl FnOnce(&T) -> R) -> R {
        self.0.with(|cell| body(&cell.borrow()))
    }

    pub(crate) fn with_borrow_mut<R>(&'static self, body: impl FnOnce(&mut T) -> R) -> R {
        self.0.with(|cell| body(&mut cell.borrow_mut()))
    }
}

macro_rules! model_thread_local {
    (static $name:ident: RefCell<$type:ty> = const { $init:expr };) => {
        static $name: crate::sync::LocalCell<$type> = {
            shuttle::thread_local! { static KEY: RefCell<$type> = const { $init }; }
            crate::sync::LocalCell(&KEY)
        };
    };
}
pub(crate) use model_thread_local as thread_local;
