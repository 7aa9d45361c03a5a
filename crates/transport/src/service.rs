//! The seam between the transport and what answers requests.

use crate::Session;
use crate::overload::Overload;
use crate::timing::RequestTimes;
use std::sync::Arc;
use std::time::Instant;
use wire::{Message, MessageRef, ReplyBuilder};

/// Answers requests. The transport knows nothing of what they mean.
pub trait Service: Send + Sync + 'static {
    /// A client has connected; comes before its first request.
    fn opened(&self, _session: &Arc<Session>) {}

    /// Answers one request. A session has one request at a time. The future suspends only where it waits for
    /// something, so that a thread model may poll it wherever it likes.
    fn call(
        &self,
        session: &Arc<Session>,
        request: RequestMessage<'_>,
    ) -> impl Future<Output = Replies> + Send;

    /// The connection has ended; comes once after [`Service::opened`], also after errors and panics.
    fn closed(&self, _session: &Arc<Session>) {}

    /// Whether the diagnostic lane may answer this request: one that is quick, never blocks, and that
    /// monitors and operators send. A peek at the message, which may still be malformed.
    fn is_diagnostic(&self, _message: MessageRef<'_>) -> bool {
        false
    }

    /// Whether the reply to this request may be large. Asked only while clients leave too many replies
    /// unread: then such requests wait.
    fn may_reply_large(&self, _message: MessageRef<'_>) -> bool {
        true
    }

    /// Comes once on each thread that must never block, before it polls anything.
    fn loop_started(&self) {}

    /// Comes on the threads of [`Service::loop_started`] whenever everything that was ready has been polled:
    /// work that many requests share is done here once for all of them.
    fn turn_ended(&self) {}

    /// Asked with each [`Service::turn_ended`]: whether loops take short turns at the processors for now,
    /// because much else computes there. They wake sooner then, and change places more often.
    fn takes_short_turns(&self) -> bool {
        false
    }

    /// Comes on a thread, whether it may block or not, that has had nothing to do for a while: it may give
    /// back memory that it keeps for what comes next.
    fn thread_rests(&self) {}

    /// The reply is with the kernel (or none was wanted): where the request's time went.
    fn finished(&self, _session: &Arc<Session>, _times: &RequestTimes) {}
}

/// One request as it came, decompressed and with its frame checked; its contents are not.
#[derive(Debug)]
pub struct RequestMessage<'m> {
    message: MessageRef<'m>,
    reply_buffer: Vec<u8>,
    times: RequestTimes,
    received_at: Instant,
    overload: Option<Overload>,
}

impl<'m> RequestMessage<'m> {
    pub(crate) const fn new(
        message: MessageRef<'m>,
        reply_buffer: Vec<u8>,
        times: RequestTimes,
        received_at: Instant,
        overload: Option<Overload>,
    ) -> Self {
        Self { message, reply_buffer, times, received_at, overload }
    }

    /// Where the request's time went until now.
    #[must_use]
    pub const fn times(&self) -> &RequestTimes {
        &self.times
    }

    /// When processing began: just now, by a clock that was read already.
    #[must_use]
    pub const fn received_at(&self) -> Instant {
        self.received_at
    }

    /// Set when the server is overloaded and this request is to be refused if its client understands that.
    #[must_use]
    pub const fn overload(&self) -> Option<Overload> {
        self.overload
    }

    /// The message: an OP_MSG or an OP_QUERY.
    #[inline]
    #[must_use]
    pub const fn message(&self) -> MessageRef<'m> {
        self.message
    }

    /// Whether the client waits for a reply.
    #[inline]
    #[must_use]
    pub fn expects_reply(&self) -> bool {
        self.message.expects_reply()
    }

    /// Whether the client takes several replies.
    #[inline]
    #[must_use]
    pub fn exhaust_allowed(&self) -> bool {
        self.message.exhaust_allowed()
    }

    /// Begins the reply in the connection's own buffer and in the format that the request asks for.
    #[inline]
    #[must_use]
    pub fn reply(&mut self) -> ReplyBuilder {
        ReplyBuilder::new(std::mem::take(&mut self.reply_buffer), self.message.reply_format())
    }
}

/// What follows an exhaust reply.
#[derive(Debug)]
pub enum NextRequest {
    /// The service is called with the same request again.
    Same,
    /// The service is called with this request, as if the client had sent it.
    New(Message),
}

/// A service's answer to one request.
#[derive(Debug)]
pub struct Replies {
    pub(crate) kind: ReplyKind,
    pub(crate) compress: bool,
    pub(crate) close: bool,
    pub(crate) refused: bool,
}

#[derive(Debug)]
pub(crate) enum ReplyKind {
    None,
    One(Message),
    Exhaust(Message, NextRequest),
}

impl Replies {
    /// No reply: the client wants none.
    #[must_use]
    pub const fn none() -> Self {
        Self { kind: ReplyKind::None, compress: true, close: false, refused: false }
    }

    /// One reply. It is dropped when the client wants none.
    #[inline]
    #[must_use]
    pub const fn one(reply: Message) -> Self {
        Self { kind: ReplyKind::One(reply), compress: true, close: false, refused: false }
    }

    /// A reply that others follow without further requests: it is sent with `moreToCome`, then the service is
    /// called again. When the client did not allow this, it is sent as the only one.
    #[must_use]
    pub const fn exhaust(reply: Message, next: NextRequest) -> Self {
        Self { kind: ReplyKind::Exhaust(reply, next), compress: true, close: false, refused: false }
    }

    /// The reply goes out uncompressed even when the request was compressed: handshakes and secrets.
    #[must_use]
    pub const fn uncompressed(mut self) -> Self {
        self.compress = false;
        self
    }

    /// The request was refused as [`RequestMessage::overload`] wants.
    #[must_use]
    pub const fn as_refused(mut self) -> Self {
        self.refused = true;
        self
    }

    /// The connection is closed once the reply was sent.
    #[must_use]
    pub const fn then_close(mut self) -> Self {
        self.close = true;
        self
    }
}
