//! What arrives and what goes back, independent of the message form.

use crate::spans::{SlowOperation, SpanTimes};
use document::{DocumentBuf, RawDocument};
use std::time::{Duration, Instant};

/// One request: the body of an OP_MSG or the command in an OP_QUERY.
#[derive(Debug, Clone, Copy)]
pub struct CommandRequest<'m> {
    /// The command document.
    pub body: RawDocument<'m>,
    /// The document sequences of an OP_MSG.
    pub sequences: &'m [wire::DocumentSequence<'m>],
    /// The client expects no answer (`moreToCome`).
    pub wants_no_reply: bool,
    /// The client takes several replies to one request.
    pub exhaust_allowed: bool,
    /// The database, when an OP_QUERY names it; an OP_MSG has it in `$db`.
    pub legacy_database: Option<&'m str>,
    /// What the spans in front of this crate took.
    pub times: SpanTimes,
    /// When the work on the request began; `None` when nobody has looked at the clock.
    pub began: Option<Instant>,
    /// The server is overloaded: a user command of a client that said `backpressure` is refused, and told to
    /// wait at least this long before it tries again.
    pub overload: Option<Duration>,
    /// The length of the whole message.
    pub bytes: usize,
}

impl<'m> CommandRequest<'m> {
    /// A request of this body alone.
    pub fn new(body: RawDocument<'m>) -> Self {
        CommandRequest {
            body,
            sequences: &[],
            wants_no_reply: false,
            exhaust_allowed: false,
            legacy_database: None,
            times: SpanTimes::default(),
            began: None,
            overload: None,
            bytes: body.as_bytes().len(),
        }
    }
}

/// What a connection runs without having been asked for it.
#[derive(Debug)]
pub enum Next {
    /// The same request again.
    Same,
    /// This command.
    Command(DocumentBuf),
}

/// What the connection does after a command.
#[derive(Debug, Default)]
pub struct CommandOutcome {
    /// Close the connection without sending the reply.
    pub closes_connection: bool,
    /// Send no reply: the client wants none.
    pub sends_nothing: bool,
    /// Run this next without waiting for a request, and mark the reply with `moreToCome` (exhaust).
    pub next: Option<Next>,
    /// The command was refused as [`CommandRequest::overload`] wants.
    pub refused_under_overload: bool,
    /// To be logged when the reply has been sent.
    pub slow: Option<Box<SlowOperation>>,
}
