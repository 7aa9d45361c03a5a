//! Where the transport and the commands meet.

use crate::allocator;
use commands::ServiceContext;
use dispatch::client::Client;
use dispatch::dispatch;
use dispatch::host::{ClientLink, PeerCertificate};
use dispatch::parameters::Parameter;
use dispatch::request::{CommandRequest, Next};
use dispatch::spans::{SlowOperation, Span, SpanTimes};
use document::RawDocument;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use transport::{NextRequest, Replies, RequestMessage, RequestTimes, Service, Session};
use wire::{
    CommandMessage, MessageRef, OpCode, OpMsg, OpMsgFlags, OpQuery, ReplyBuilder, WireError, peek_command,
};

/// Answers requests with commands.
#[derive(Debug)]
pub(crate) struct CommandService {
    server: Arc<ServiceContext>,
}

/// The way back from a connection of the commands to its session.
#[derive(Debug)]
struct SessionLink(Weak<Session>);

impl ClientLink for SessionLink {
    fn close(&self) {
        if let Some(session) = self.0.upgrade() {
            session.end();
        }
    }

    fn is_gone(&self) -> bool {
        self.0.upgrade().is_none_or(|session| session.peer_closed())
    }

    fn may_block(&self) -> bool {
        self.0.upgrade().is_none_or(|session| session.may_block())
    }

    fn runs_briefly(&self) -> bool {
        self.0.upgrade().is_some_and(|session| session.runs_briefly())
    }

    fn poll_offload(&self, context: &mut Context<'_>) -> Poll<()> {
        self.0.upgrade().map_or(Poll::Ready(()), |session| session.poll_offload(context))
    }

    fn poll_offload_briefly(&self, context: &mut Context<'_>) -> Poll<()> {
        self.0.upgrade().map_or(Poll::Ready(()), |session| session.poll_offload_briefly(context))
    }

    fn poll_reply_room(&self, context: &mut Context<'_>) -> Poll<()> {
        self.0.upgrade().map_or(Poll::Ready(()), |session| session.poll_reply_room(context))
    }

    fn local_address(&self) -> Option<String> {
        self.0.upgrade().map(|session| session.local().to_string())
    }

    fn give_thread(&self) {
        if let Some(session) = self.0.upgrade() {
            session.give_thread();
        }
    }

    fn certificate(&self) -> PeerCertificate {
        let session = self.0.upgrade();
        let Some(facts) = session.as_ref().and_then(|session| session.tls()) else {
            return PeerCertificate::InClear;
        };
        let name = facts.client_certificate.as_deref().and_then(access::certificate_name);
        name.map_or(PeerCertificate::Missing, PeerCertificate::Subject)
    }

    fn offload_wait(&self) -> Duration {
        self.0.upgrade().map_or(Duration::ZERO, |session| session.pool_wait())
    }
}

/// What the service keeps of a session.
#[derive(Debug)]
struct Attachment {
    client: Arc<Client>,
    slow: SlowSlot,
}

/// The last command of a connection, if it was slow, until its reply is sent. A connection runs one command
/// at a time.
#[derive(Debug, Default)]
struct SlowSlot {
    /// Looked at after every command; the lock is taken for slow ones only.
    is_filled: AtomicBool,
    operation: Mutex<Option<Box<SlowOperation>>>,
}

impl SlowSlot {
    fn put(&self, slow: Option<Box<SlowOperation>>) {
        if slow.is_some() {
            *self.operation.lock() = slow;
            self.is_filled.store(true, Ordering::Release);
        }
    }

    fn log(&self, send: Duration) {
        if !self.is_filled.load(Ordering::Acquire) {
            return;
        }
        self.is_filled.store(false, Ordering::Relaxed);
        let operation = self.operation.lock().take();
        if let Some(operation) = operation {
            operation.log(send);
        }
    }
}

impl CommandService {
    /// A service over this server.
    pub(crate) const fn new(server: Arc<ServiceContext>) -> Self {
        CommandService { server }
    }

    fn log_connections(&self) -> bool {
        !self.server.parameters.is_on(Parameter::Quiet)
    }

    async fn run(
        &self,
        attachment: &Attachment,
        request: &RequestMessage<'_>,
        mut reply: ReplyBuilder,
    ) -> Replies {
        let parsed = match Parsed::read(request.message()) {
            Ok(parsed) => parsed,
            Err(error) => return refuse(reply, &error),
        };
        let body = parsed.body();
        let client = &attachment.client;
        let command = CommandRequest {
            body,
            sequences: parsed.sequences(),
            wants_no_reply: !request.expects_reply(),
            exhaust_allowed: request.exhaust_allowed(),
            legacy_database: parsed.legacy_database(),
            times: span_times(request.times()),
            began: Some(request.received_at()),
            overload: request.overload().map(|overload| overload.base_backoff),
            bytes: request.message().bytes().len(),
        };
        let outcome = dispatch(&self.server, client, command, reply.buffer_mut()).await;
        attachment.slow.put(outcome.slow);
        if outcome.closes_connection {
            return Replies::none().then_close();
        }
        if outcome.sends_nothing {
            return Replies::none();
        }
        let message = reply.finish();
        let replies = match outcome.next {
            None => Replies::one(message),
            Some(Next::Same) => Replies::exhaust(message, NextRequest::Same),
            Some(Next::Command(next)) => {
                let next = CommandMessage::new(next.as_raw()).flags(OpMsgFlags::EXHAUST_ALLOWED).finish(0);
                Replies::exhaust(message, NextRequest::New(next))
            }
        };
        let replies = if is_handshake(body) { replies.uncompressed() } else { replies };
        if outcome.refused_under_overload { replies.as_refused() } else { replies }
    }
}

/// What the transport knows of a request's time when the service gets it.
fn span_times(times: &RequestTimes) -> SpanTimes {
    SpanTimes::default()
        .with(Span::AcceptWait, times.accept_wait)
        .with(Span::Receive, times.receive)
        .with(Span::Queue, times.queue)
}

/// A handshake is never compressed.
fn is_handshake(body: RawDocument<'_>) -> bool {
    body.first().is_some_and(|element| matches!(element.name_bytes(), b"hello" | b"isMaster" | b"ismaster"))
}

/// Bytes that are no request: an error, or the end when the rest cannot be trusted.
fn refuse(reply: ReplyBuilder, error: &WireError) -> Replies {
    tracing::info!(target: "network", id = 22_988, %error, "Malformed request");
    if error.is_fatal() {
        return Replies::none().then_close();
    }
    Replies::one(ReplyBuilder::wire_error(Vec::new(), reply.format(), error))
}

/// A request in one of the two forms.
enum Parsed<'m> {
    Msg(OpMsg<'m>),
    Query(OpQuery<'m>),
}

impl<'m> Parsed<'m> {
    fn read(message: MessageRef<'m>) -> Result<Self, WireError> {
        match message.header().opcode {
            OpCode::Query => OpQuery::parse(message).map(Parsed::Query),
            _ => OpMsg::parse(message).map(Parsed::Msg),
        }
    }

    const fn body(&self) -> RawDocument<'m> {
        match self {
            Parsed::Msg(message) => message.body,
            Parsed::Query(query) => query.command,
        }
    }

    fn sequences(&self) -> &[wire::DocumentSequence<'m>] {
        match self {
            Parsed::Msg(message) => &message.sequences,
            Parsed::Query(_) => &[],
        }
    }

    const fn legacy_database(&self) -> Option<&'m str> {
        match self {
            Parsed::Msg(_) => None,
            Parsed::Query(query) => Some(query.database),
        }
    }
}

impl Service for CommandService {
    fn opened(&self, session: &Arc<Session>) {
        let id = i64::try_from(session.id()).unwrap_or(i64::MAX);
        let link = SessionLink(Arc::downgrade(session));
        let client = Arc::new(Client::new(id, session.peer().to_string(), Arc::new(link)));
        self.server.opened(Arc::clone(&client));
        if self.log_connections() {
            tracing::info!(target: "network", id = 22_943, ctx = "listener", remote = %client.remote,
                connection_id = id, "Connection accepted");
        }
        let attached = session.set_extension(Attachment { client, slow: SlowSlot::default() });
        assert!(attached.is_ok(), "session {id} is opened twice");
    }

    fn is_diagnostic(&self, message: MessageRef<'_>) -> bool {
        peek_command(message).is_some_and(|body| self.server.commands().is_diagnostic(body))
    }

    fn may_reply_large(&self, message: MessageRef<'_>) -> bool {
        peek_command(message).is_some_and(|body| self.server.commands().may_reply_large(body))
    }

    fn loop_started(&self) {
        storage::defer_commits();
    }

    fn turn_ended(&self) {
        self.server.node.store.turn_ended();
    }

    fn takes_short_turns(&self) -> bool {
        self.server.node.replays()
    }

    fn thread_rests(&self) {
        allocator::give_back_of_thread();
    }

    fn finished(&self, session: &Arc<Session>, times: &RequestTimes) {
        if let Some(attachment) = session.extension::<Attachment>() {
            attachment.slow.log(times.send);
        }
    }

    async fn call(&self, session: &Arc<Session>, mut request: RequestMessage<'_>) -> Replies {
        let reply = request.reply();
        let attachment = session.extension::<Attachment>().expect("a session is opened before it is served");
        self.run(attachment, &request, reply).await
    }

    fn closed(&self, session: &Arc<Session>) {
        let attachment = session.extension::<Attachment>().expect("a session is opened before it is closed");
        let client = &attachment.client;
        self.server.closed(client);
        // The reply of a slow command that could not be sent.
        attachment.slow.log(Duration::ZERO);
        if self.log_connections() {
            tracing::info!(target: "network", id = 22_944, ctx = %client.description(),
                remote = %client.remote,
                connection_id = client.id, "Connection ended");
        }
    }
}
