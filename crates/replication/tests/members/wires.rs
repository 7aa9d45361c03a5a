//! What members have sent and asked, until the world takes it on its way.

use document::DocumentBuf;
use replication::{Answer, Delay, PeerError, Peers};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

/// Where an answer is put when it comes. Members are polled after whatever happens to them: nobody is woken.
pub(crate) type Slot = Arc<Mutex<Option<Result<DocumentBuf, PeerError>>>>;

/// A question to another member.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) from: usize,
    pub(crate) host: String,
    pub(crate) command: DocumentBuf,
    pub(crate) limit: Duration,
    pub(crate) slot: Slot,
}

#[derive(Debug, Default)]
pub(crate) struct Wires {
    pub(crate) sent: Mutex<Vec<(usize, String, DocumentBuf)>>,
    pub(crate) asked: Mutex<Vec<Question>>,
    /// Who pauses, for how long, and where it is told that it is over.
    pub(crate) pauses: Mutex<Vec<(usize, Duration, Arc<AtomicBool>)>>,
}

/// A member's way to the others.
#[derive(Debug)]
pub(crate) struct Line(pub(crate) Arc<Wires>, pub(crate) usize);

impl Peers for Line {
    fn send(&self, host: &str, envelope: DocumentBuf) {
        self.0.sent.lock().unwrap().push((self.1, host.to_owned(), envelope));
    }

    fn ask(&self, host: &str, command: DocumentBuf, limit: Duration) -> Answer {
        let slot = Slot::default();
        let (from, host) = (self.1, host.to_owned());
        let question = Question { from, host, command, limit, slot: Arc::clone(&slot) };
        self.0.asked.lock().unwrap().push(question);
        Box::pin(Waiting(slot))
    }

    fn pause(&self, time: Duration) -> Delay {
        let is_over = Arc::new(AtomicBool::new(false));
        self.0.pauses.lock().unwrap().push((self.1, time, Arc::clone(&is_over)));
        Box::pin(poll_fn(
            move |_| if is_over.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending },
        ))
    }
}

struct Waiting(Slot);

impl Future for Waiting {
    type Output = Result<DocumentBuf, PeerError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.lock().unwrap().take().map_or(Poll::Pending, Poll::Ready)
    }
}
