//! Where the transport and the commands meet.

use commands::host::ClientLink;
use commands::parameters::Parameter;
use commands::{Connection, Server, dispatch};
use document::RawDocument;
use std::sync::{Arc, Weak};
use transport::{NextRequest, Replies, Request, Service, Session};
use wire::{
    CommandMessage, Compressor, MessageRef, OpCode, OpMsg, OpMsgFlags, OpQuery, ReplyBuilder, WireError,
};

/// Answers requests with commands.
#[derive(Debug)]
pub(crate) struct CommandService {
    server: Arc<Server>,
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
}

impl CommandService {
    /// A service over this server.
    pub(crate) const fn new(server: Arc<Server>) -> Self {
        CommandService { server }
    }

    fn log_connections(&self) -> bool {
        !self.server.parameters.is_on(Parameter::Quiet)
    }

    async fn run(
        &self,
        session: &Session,
        connection: &Arc<Connection>,
        request: &Request<'_>,
        mut reply: ReplyBuilder,
    ) -> Replies {
        let parsed = match Parsed::read(request.message()) {
            Ok(parsed) => parsed,
            Err(error) => return refuse(reply, &error),
        };
        let body = parsed.body();
        let command = commands::Request {
            body,
            sequences: parsed.sequences(),
            wants_no_reply: !request.expects_reply(),
            exhaust_allowed: request.exhaust_allowed(),
            legacy_database: parsed.legacy_database(),
            bytes: request.message().bytes().len(),
            ..commands::Request::new(body)
        };
        let outcome = dispatch(&self.server, connection, command, reply.buffer_mut()).await;
        if outcome.closes_connection {
            return Replies::none().then_close();
        }
        if outcome.sends_nothing {
            return Replies::none();
        }
        let is_handshake = is_handshake(body);
        if is_handshake {
            let agreed: Vec<Compressor> =
                connection.compressors().iter().filter_map(|name| Compressor::from_name(name)).collect();
            session.set_compressors(&agreed);
        }
        let message = reply.finish();
        let replies = match outcome.next {
            None => Replies::one(message),
            Some(next) => {
                let next = CommandMessage::new(next.as_raw()).flags(OpMsgFlags::EXHAUST_ALLOWED).finish(0);
                Replies::exhaust(message, NextRequest::New(next))
            }
        };
        if is_handshake { replies.uncompressed() } else { replies }
    }
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
        let connection = Arc::new(Connection::new(id, session.peer().to_string(), Arc::new(link)));
        self.server.opened(Arc::clone(&connection));
        if self.log_connections() {
            tracing::info!(target: "network", id = 22_943, ctx = "listener", remote = %connection.remote,
                connection_id = id, "Connection accepted");
        }
        // A session is opened once, so that there is nothing to replace.
        let _ = session.set_extension(connection);
    }

    async fn call(&self, session: &Arc<Session>, mut request: Request<'_>) -> Replies {
        let reply = request.reply();
        match session.extension::<Arc<Connection>>() {
            Some(connection) => self.run(session, connection, &request, reply).await,
            None => Replies::none().then_close(),
        }
    }

    fn closed(&self, session: &Arc<Session>) {
        let Some(connection) = session.extension::<Arc<Connection>>() else { return };
        self.server.closed(connection);
        if self.log_connections() {
            tracing::info!(target: "network", id = 22_944, ctx = %connection.description(), remote = %connection.remote,
                connection_id = connection.id, "Connection ended");
        }
    }
}
