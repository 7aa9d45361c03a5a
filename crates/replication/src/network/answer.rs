//! A promise of an answer, and who waits for it.

use crate::peers::PeerError;
use document::DocumentBuf;
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

type Reply = Result<DocumentBuf, PeerError>;

/// Kept once: by the answer, or by the time limit, whichever comes first.
#[derive(Debug)]
pub(super) struct Promise(Mutex<State>);

#[derive(Debug)]
enum State {
    Open(Option<Waker>),
    Kept(Reply),
    /// The answer was taken, or nobody waits for it.
    Over,
}

/// Who waits.
#[derive(Debug)]
pub(super) struct Waiting(Arc<Promise>);

pub(super) fn pair() -> (Arc<Promise>, Waiting) {
    let promise = Arc::new(Promise(Mutex::new(State::Open(None))));
    (Arc::clone(&promise), Waiting(promise))
}

impl Promise {
    pub(super) fn keep(&self, reply: Reply) {
        let mut state = self.0.lock();
        if let State::Open(waker) = &mut *state {
            let waker = waker.take();
            *state = State::Kept(reply);
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Whether somebody still waits.
    pub(super) fn is_open(&self) -> bool {
        matches!(*self.0.lock(), State::Open(_))
    }
}

impl Future for Waiting {
    type Output = Reply;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        let mut state = self.0.0.lock();
        match std::mem::replace(&mut *state, State::Over) {
            State::Open(_) => {
                *state = State::Open(Some(context.waker().clone()));
                Poll::Pending
            }
            State::Kept(reply) => Poll::Ready(reply),
            State::Over => unreachable!("an answer is taken once"),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        *self.0.0.lock() = State::Over;
    }
}
