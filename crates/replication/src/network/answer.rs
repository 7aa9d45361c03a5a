//! A promise of an answer, and who waits for it.

use crate::peers::PeerError;
use document::DocumentBuf;
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

type Answered = Result<DocumentBuf, PeerError>;

/// Kept once: by the answer, or by the time limit, whichever comes first.
#[derive(Debug)]
pub(super) struct Promise(Mutex<AnswerState>);

#[derive(Debug)]
enum AnswerState {
    Open(Option<Waker>),
    Kept(Answered),
    /// The answer was taken, or nobody waits for it.
    Over,
}

/// Who waits.
#[derive(Debug)]
pub(super) struct AnswerWaiter(Arc<Promise>);

pub(super) fn pair() -> (Arc<Promise>, AnswerWaiter) {
    let promise = Arc::new(Promise(Mutex::new(AnswerState::Open(None))));
    (Arc::clone(&promise), AnswerWaiter(promise))
}

impl Promise {
    pub(super) fn keep(&self, reply: Answered) {
        let mut state = self.0.lock();
        if let AnswerState::Open(waker) = &mut *state {
            let waker = waker.take();
            *state = AnswerState::Kept(reply);
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Whether somebody still waits.
    pub(super) fn is_open(&self) -> bool {
        matches!(*self.0.lock(), AnswerState::Open(_))
    }
}

impl Future for AnswerWaiter {
    type Output = Answered;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answered> {
        let mut state = self.0.0.lock();
        match std::mem::replace(&mut *state, AnswerState::Over) {
            AnswerState::Open(_) => {
                *state = AnswerState::Open(Some(context.waker().clone()));
                Poll::Pending
            }
            AnswerState::Kept(reply) => Poll::Ready(reply),
            AnswerState::Over => unreachable!("an answer is taken once"),
        }
    }
}

impl Drop for AnswerWaiter {
    fn drop(&mut self) {
        *self.0.0.lock() = AnswerState::Over;
    }
}
