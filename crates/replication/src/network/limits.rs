//! Time limits of questions, on a thread of their own: the threads that ask may be in the middle of a look-up
//! of a name, which nothing ends.

use super::answer::Promise;
use super::left_until;
use crate::peers::PeerError;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

#[derive(Debug, Default)]
pub(super) struct TimeLimits {
    state: Mutex<LimitsState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LimitsState {
    /// By deadline and number, so that no two are the same.
    watched: BTreeMap<(Instant, u64), Watched>,
    next: u64,
    stopped: bool,
}

#[derive(Debug)]
struct Watched {
    host: String,
    promise: Arc<Promise>,
}

impl TimeLimits {
    /// Answers for a member that does not do it in time.
    pub(super) fn watch(&self, deadline: Instant, host: &str, promise: &Arc<Promise>) {
        let mut state = self.state.lock();
        if state.stopped {
            drop(state);
            return promise.keep(Err(PeerError::Stopped));
        }
        state.next += 1;
        let key = (deadline, state.next);
        let is_first = state.watched.first_key_value().is_none_or(|(first, _)| key < *first);
        state.watched.insert(key, Watched { host: host.to_owned(), promise: Arc::clone(promise) });
        if is_first {
            self.changed.notify_one();
        }
    }

    pub(super) fn run(&self) {
        let mut state = self.state.lock();
        while !state.stopped {
            let now = ambient::now();
            match state.watched.first_entry() {
                None => self.changed.wait(&mut state),
                Some(first) if first.key().0 > now => {
                    let deadline = first.key().0;
                    self.changed.wait_for(&mut state, left_until(deadline));
                }
                Some(first) => {
                    let Watched { host, promise } = first.remove();
                    promise.keep(Err(PeerError::TimedOut { host }));
                }
            }
        }
        for watched in std::mem::take(&mut state.watched).into_values() {
            watched.promise.keep(Err(PeerError::Stopped));
        }
    }

    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_one();
    }
}
