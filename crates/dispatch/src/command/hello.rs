//! `hello` and its older name `isMaster`: the handshake, and the heartbeat of monitors.
//!
//! Source: driver specifications, "MongoDB Handshake" and "Server Discovery And Monitoring".

use super::{Command, CommandFuture, Run};
use crate::audit::client_metadata;
use crate::certificate_login::{CertificateLogin, log_in};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use crate::failpoints::{FailPoint, wait_while_set};
use crate::fields::Fields;
use crate::login::{SaslStart, begin, mechanisms};
use crate::node::Node;
use crate::parameters::Parameter;
use crate::request::Next;
use access::UserName;
use document::{Document, DocumentBuf, DocumentBuilder, MAX_DOCUMENT_SIZE, RawDocument, RawValue};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};
use wire::ErrorCode;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        api_version_1: true,
        accepts_op_query: true,
        ..Command::diagnostic(
            "hello",
            "Tells what this server is and can; the handshake of drivers.",
            Run::Later(start),
        )
    }
}

pub(crate) const fn is_master<N: Node>() -> Command<N> {
    Command {
        aliases: &["ismaster"],
        accepts_op_query: true,
        ..Command::diagnostic("isMaster", "The older name of hello.", Run::Later(start))
    }
}

/// Says that another member of the set will send its consensus messages on this connection.
const FOR_MEMBER: &str = "_heddleMember";
/// The longest application name, in bytes.
const APPLICATION_NAME_MAX: usize = 128;
/// The longest client description, in bytes.
const CLIENT_METADATA_MAX: usize = 512;

/// What is asked of this hello.
#[derive(Debug, Default)]
struct Ask {
    hello_ok: bool,
    /// Until when to wait for something else than what the client knows by this counter.
    awaited: Option<(Instant, i64)>,
    streams: bool,
}

fn start<'a, N: Node>(
    context: &'a mut CommandContext<'_, N>,
    reply: &'a mut DocumentBuilder<'_>,
) -> CommandFuture<'a> {
    Box::pin(run(context, reply))
}

async fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let first = context.client.first_hello();
    if let Some(metadata) = note_client(context, first)?
        && context.is_audited()
    {
        Box::pin(context.audit(|| client_metadata(context.client, metadata))).await;
    }
    if context.fields.any("backpressure").is_some_and(backs_off) {
        context.client.set_backs_off();
    }
    if context.fields.any(FOR_MEMBER).is_some() {
        context.client.ask_for_thread(context.server.access.is_enforced());
    }
    let login = take_login(context)?;
    let compression = negotiate(context)?;
    let ask = read_topology_version(context)?;
    if context.server.failpoints.is_set(FailPoint::WaitInHello) {
        Box::pin(wait_while_set(context, FailPoint::WaitInHello, None, || false)).await?;
    }
    if let Some(awaited) = ask.awaited {
        wait(context, awaited).await?;
    }
    // Before what it counts is read: at worst the next one is answered once too often.
    let counter = context.server.node.topology_counter();
    write(context, (&ask, counter), compression, reply);
    if login.asked_for.is_some() || login.speculative.is_some() {
        Box::pin(write_login(context, login, reply)).await?;
    }
    if ask.streams {
        context.next = Some(Next::Command(next_hello(context, counter)));
    }
    Ok(())
}

/// What a hello asks about logging in.
#[derive(Debug)]
struct LoginAsk<'a> {
    /// `saslSupportedMechs`: whose mechanisms are asked for.
    asked_for: Option<UserName>,
    /// `speculativeAuthenticate`: the first message of a login.
    speculative: Option<Speculation<'a>>,
}

/// A login that begins in the handshake.
#[derive(Debug)]
enum Speculation<'a> {
    Sasl(SaslStart<'a>),
    Certificate(CertificateLogin<'a>),
}

impl<'a> Speculation<'a> {
    fn take(asked: RawDocument<'a>, database: &'a str) -> CommandResult<Self> {
        let is_certificate = asked.first().is_some_and(|first| first.name() == "authenticate");
        match is_certificate {
            true => CertificateLogin::take(&mut Fields::nested("authenticate", asked)?, database, true)
                .map(Speculation::Certificate),
            false => SaslStart::take(&mut Fields::nested("saslStart", asked)?, database, true)
                .map(Speculation::Sasl),
        }
    }
}

fn take_login<'a, N: Node>(context: &mut CommandContext<'a, N>) -> CommandResult<LoginAsk<'a>> {
    let mut login = LoginAsk { asked_for: None, speculative: None };
    if let Some(asked_for) = context.fields.string("saslSupportedMechs")? {
        context.server.counters.mechanisms_asked.add(1);
        let Some((database, user)) = asked_for.split_once('.') else {
            return Err(CommandError::bad_value(format!(
                "UserName must contain a '.' separated database.user pair: {asked_for}"
            )));
        };
        login.asked_for = Some(UserName::new(user, database));
    }
    if let Some(speculative) = context.fields.document("speculativeAuthenticate")? {
        // What cannot be begun so is passed over: the client then begins in the usual way.
        login.speculative = Speculation::take(speculative, context.database).ok();
    }
    Ok(login)
}

/// The users are read, where that may block.
async fn write_login<N: Node>(
    context: &CommandContext<'_, N>,
    login: LoginAsk<'_>,
    reply: &mut DocumentBuilder<'_>,
) -> CommandResult {
    context.offload_briefly().await;
    if let Some(name) = &login.asked_for {
        let mut known = reply.start_array("saslSupportedMechs");
        for mechanism in mechanisms(context, name)? {
            known.push(mechanism);
        }
    }
    if let Some(speculative) = login.speculative {
        let mut begun = Vec::new();
        let mut answer = DocumentBuilder::new(&mut begun);
        let outcome = match speculative {
            Speculation::Sasl(start) => begin(context, start, &mut answer).await,
            Speculation::Certificate(login) => log_in(context, &login, &mut answer).await,
        };
        if outcome.is_ok() {
            answer.finish();
            reply.append("speculativeAuthenticate", RawDocument::trusted(&begun));
        }
    }
    Ok(())
}

/// Whether the client backs off when it is told of an overload. Drivers say `true`, or the version of the
/// rules they follow.
fn backs_off(said: RawValue<'_>) -> bool {
    match said {
        RawValue::Boolean(flag) => flag,
        RawValue::String(version) => !version.is_empty(),
        other => other.is_number(),
    }
}

/// Checks and keeps `client: {application, driver, os, platform}`.
fn note_client<'a, N: Node>(
    context: &mut CommandContext<'a, N>,
    first: bool,
) -> CommandResult<Option<RawDocument<'a>>> {
    let Some(client) = context.fields.document("client")? else { return Ok(None) };
    if !first || context.client.client_metadata().is_some() {
        return Err(CommandError::new(
            ErrorCode::ClientMetadataCannotBeMutated as i32,
            "The client metadata document may only be sent in the first hello",
        ));
    }
    check_client(client)?;
    context.client.set_client_metadata(client);
    if !context.server.parameters.is_on(Parameter::Quiet) {
        let application = context.client.application_name().unwrap_or_default();
        tracing::info!(target: "NETWORK", id = 51_800, ctx = %context.client.description(),
            remote = %context.client.remote, client = ?client, application, "client metadata");
    }
    Ok(Some(client))
}

fn check_client(client: RawDocument<'_>) -> CommandResult {
    if client.as_bytes().len() > CLIENT_METADATA_MAX {
        return Err(CommandError::new(
            ErrorCode::ClientMetadataDocumentTooLarge as i32,
            format!("The client metadata document must be less then or equal to {CLIENT_METADATA_MAX} bytes"),
        ));
    }
    let text = |place: &[&str]| {
        let mut value = Some(RawValue::Document(client));
        for name in place {
            value = value?.as_document()?.get(name);
        }
        value?.as_str()
    };
    for place in [["driver", "name"], ["driver", "version"], ["os", "type"]] {
        if text(&place).is_none() {
            return Err(CommandError::new(
                ErrorCode::ClientMetadataMissingField as i32,
                format!("Missing required field '{}' in the client metadata document", place.join(".")),
            ));
        }
    }
    if text(&["application", "name"]).is_some_and(|name| name.len() > APPLICATION_NAME_MAX) {
        return Err(CommandError::new(
            ErrorCode::ClientMetadataAppNameTooLarge as i32,
            format!("The 'application.name' field must be at most {APPLICATION_NAME_MAX} bytes"),
        ));
    }
    Ok(())
}

/// The compressors that both sides know, in the client's order. `None` when the client asked for none.
fn negotiate<N: Node>(context: &mut CommandContext<'_, N>) -> CommandResult<Option<Vec<String>>> {
    let Some(offered) = context.fields.array("compression")? else { return Ok(None) };
    let known = context.server.parameters.text(Parameter::Compressors);
    let agreed: Vec<String> = offered
        .iter()
        .filter_map(RawValue::as_str)
        .filter(|name| known.split(',').any(|known| known.trim() == *name))
        .map(str::to_owned)
        .collect();
    Ok(Some(agreed))
}

/// `topologyVersion` and `maxAwaitTimeMS` turn a hello into a wait for changes.
fn read_topology_version<N: Node>(context: &mut CommandContext<'_, N>) -> CommandResult<Ask> {
    let hello_ok = context.fields.flexible_boolean("helloOk")?.unwrap_or(false);
    let version = context.fields.document("topologyVersion")?;
    let await_ms = context.fields.integer_at_least("maxAwaitTimeMS", 0)?;
    context.fields.ignore_rest();
    let (version, await_ms) = match (version, await_ms) {
        (None, None) => return Ok(Ask { hello_ok, ..Ask::default() }),
        (Some(version), Some(await_ms)) => (version, await_ms),
        (Some(_), None) => {
            return Err(CommandError::new(
                31_368,
                "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'",
            ));
        }
        (None, Some(_)) => {
            return Err(CommandError::new(
                31_373,
                "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'",
            ));
        }
    };
    let Some(RawValue::ObjectId(process)) = version.get("processId") else {
        let message = "BSON field 'TopologyVersion.processId' is missing but a required field";
        return Err(CommandError::new(crate::error::code::IDL_MISSING_FIELD, message));
    };
    let Some(RawValue::Int64(counter)) = version.get("counter") else {
        let message = "BSON field 'TopologyVersion.counter' is missing but a required field";
        return Err(CommandError::new(crate::error::code::IDL_MISSING_FIELD, message));
    };
    if counter < 0 {
        return Err(CommandError::new(31_372, "topologyVersion must have a non-negative counter"));
    }
    let same_process = process == context.server.process_id;
    let current = context.server.node.topology_counter();
    if same_process && counter > current {
        return Err(CommandError::new(
            31_382,
            format!(
                "Received a topology version with counter: {counter} which is greater than the server \
                topology version counter: {current}"
            ),
        ));
    }
    let until = context.started.checked_add(Duration::from_millis(await_ms.unsigned_abs()));
    let awaited = until.filter(|_| same_process && counter == current).map(|until| (until, counter));
    Ok(Ask { hello_ok, awaited, streams: context.exhaust_allowed })
}

/// Waits until there is something else to tell than what the client knows. A standalone's topology never
/// changes while it runs.
async fn wait<N: Node>(context: &CommandContext<'_, N>, (until, counter): (Instant, i64)) -> CommandResult {
    if context.server.is_shutting_down() {
        return Ok(());
    }
    let mut is_over = context.server.sleep_until(until);
    let mut changed = pin!(context.server.node.topology_changed(counter));
    let awaited = poll_fn(|task| match changed.as_mut().poll(task) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => Pin::new(&mut is_over).poll(task),
    });
    context.interrupt().wait_for(awaited).await
}

fn write<N: Node>(
    context: &CommandContext<'_, N>,
    (ask, counter): (&Ask, i64),
    compression: Option<Vec<String>>,
    reply: &mut DocumentBuilder<'_>,
) {
    let server = context.server;
    if ask.hello_ok {
        reply.append("helloOk", true);
    }
    let writable = if context.command.name == "hello" { "isWritablePrimary" } else { "ismaster" };
    let is_member = server.node.role().is_some();
    if !is_member {
        reply.append(writable, true);
    }
    let mut version = reply.start_document("topologyVersion");
    version.append("processId", server.process_id).append("counter", counter);
    version.finish();
    if is_member {
        server.node.write_hello(writable, reply);
    }
    reply.append("maxBsonObjectSize", MAX_DOCUMENT_SIZE as i32);
    reply.append("maxMessageSizeBytes", wire::MAX_MESSAGE_SIZE as i32);
    reply.append("maxWriteBatchSize", wire::MAX_WRITE_BATCH_SIZE as i32);
    reply.append("localTime", RawValue::DateTime(server.now_ms()));
    reply.append("logicalSessionTimeoutMinutes", server.parameters.integer(Parameter::SessionTimeout) as i32);
    reply.append("connectionId", context.client.id as i32);
    reply.append("minWireVersion", wire::MIN_WIRE_VERSION).append("maxWireVersion", wire::MAX_WIRE_VERSION);
    reply.append("readOnly", false);
    if let Some(agreed) = compression {
        let mut names = reply.start_array("compression");
        for name in &agreed {
            names.push(name);
        }
    }
}

/// The request that the next streamed reply answers: this one without what only the first may carry.
fn next_hello<N: Node>(context: &CommandContext<'_, N>, counter: i64) -> DocumentBuf {
    let only_once = ["client", "compression", "speculativeAuthenticate", "saslSupportedMechs"];
    let fields = context.body.iter().filter(|element| !only_once.contains(&element.name()));
    let mut next: Document = fields.map(|element| (element.name(), element.value().to_value())).collect();
    let version = document::doc! { "processId": (context.server.process_id), "counter": counter };
    next.insert("topologyVersion", version);
    if next.get("$db").is_none() {
        next.push("$db", context.database);
    }
    next.to_buf()
}
