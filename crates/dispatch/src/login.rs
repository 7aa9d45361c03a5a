//! Logging in by SCRAM: what `saslStart`, `saslContinue` and a speculative `hello` share.
//!
//! A user that does not exist is asked for its proof as any other is, with a salt that is its own whenever it
//! is asked for, and of whichever member.
//!
//! Source: driver specification "Authentication"; RFC 5802.

use crate::audit::authenticated;
use crate::authorization::note_refused_member;
use crate::certificate_login;
use crate::context::CommandContext;
use crate::counters::LoginCounters;
use crate::error::{CommandError, CommandResult, code};
use crate::fields::Fields;
use crate::node::Node;
use crate::parameters::Parameter;
use access::{
    AccessUser, Mechanism, MemberUser, ScramCredentials, ScramFailure, ScramServer, UserCredentials, UserName,
};
use document::{Document, DocumentBuilder, RawValue, doc};
use std::sync::Arc;
use std::time::Duration;

/// A login between its first and its last message.
#[derive(Debug)]
pub(crate) struct Login {
    mechanism: Mechanism,
    name: UserName,
    /// Whether there is such a user, with this mechanism.
    exists: bool,
    server: ScramServer,
    /// The client wants no further message behind the one with the server's signature.
    skips_empty: bool,
    is_speculative: bool,
    /// The user, once the proof was right: who waits for it learns nothing of how much it may.
    proved: Option<Arc<AccessUser>>,
}

impl Login {
    /// By what somebody logs in, and who.
    pub(crate) fn attempt(&self) -> (&'static str, &UserName) {
        (self.mechanism.name(), &self.name)
    }
}

/// The one conversation that a connection has at a time.
const CONVERSATION: i32 = 1;
/// Random bytes of the server's nonce.
const NONCE_BYTES: usize = 24;

/// Looking a user up takes this long where what it costs is less, as it is by far while users are in memory:
/// a user that exists is found in a cache, one that does not in no table, and both in some microseconds.
const LOOK_UP_TIME: Duration = Duration::from_micros(250);

/// What `saslStart` asks for.
#[derive(Debug)]
pub(crate) struct SaslStart<'a> {
    mechanism: Mechanism,
    payload: &'a [u8],
    database: &'a str,
    skips_empty: bool,
    is_speculative: bool,
}

/// Why a login came to nothing, for the log.
type Reason = &'static str;

impl<'a> SaslStart<'a> {
    /// Takes the fields of `saslStart`, in a command of this database or within a `hello`.
    ///
    /// # Errors
    /// `MechanismUnavailable`; fields that cannot be.
    pub(crate) fn take(
        fields: &mut Fields<'a>,
        database: &'a str,
        is_speculative: bool,
    ) -> CommandResult<Self> {
        let mechanism = fields.string("mechanism")?.ok_or_else(|| fields.missing("mechanism"))?;
        let payload = payload(fields)?;
        let mut skips_empty = false;
        if let Some(options) = fields.document("options")? {
            let mut options = Fields::nested("saslStart.options", options)?;
            skips_empty = options.flexible_boolean("skipEmptyExchange")?.unwrap_or(false);
            options.ignore_rest();
        }
        let database = fields.string("db")?.unwrap_or(database);
        fields.ignore(&["autoAuthorize", "saslStart"]);
        fields.finish()?;
        let Some(mechanism) = Mechanism::by_name(mechanism) else {
            let message =
                format!("Received authentication for mechanism {mechanism} which is unknown or not enabled");
            return Err(CommandError::new(code::MECHANISM_UNAVAILABLE, message));
        };
        Ok(SaslStart { mechanism, payload, database, skips_empty, is_speculative })
    }
}

/// Takes a message of a conversation.
pub(crate) fn payload<'a>(fields: &mut Fields<'a>) -> CommandResult<&'a [u8]> {
    match fields.any("payload") {
        Some(RawValue::Binary { bytes, .. }) => Ok(bytes),
        Some(RawValue::String(text)) => Ok(text.as_bytes()),
        Some(other) => Err(fields.wrong_type("payload", other.kind(), &["binData", "string"])),
        None => Err(fields.missing("payload")),
    }
}

fn counters<'a, N: Node>(context: &CommandContext<'a, N>, mechanism: Mechanism) -> &'a LoginCounters {
    let counters = context.server.counters.logins.get(mechanism as usize);
    counters.expect("each mechanism has counters")
}

/// Answers the first message of a login. On a thread that may block.
///
/// # Errors
/// `AuthenticationFailed` for a message that cannot be; storage errors.
pub(crate) async fn begin<N: Node>(
    context: &CommandContext<'_, N>,
    start: SaslStart<'_>,
    reply: &mut DocumentBuilder<'_>,
) -> CommandResult {
    let SaslStart { mechanism, payload, database, skips_empty, is_speculative } = start;
    let before = context.client.access.login.lock().take();
    if let Some(before) = before {
        authenticated(context, before.attempt(), code::AUTHENTICATION_ABANDONED).await;
    }
    let counters = counters(context, mechanism);
    counters.received.add(1);
    if is_speculative {
        counters.speculative_received.add(1);
    }
    let user = match ScramServer::user_of(payload) {
        Ok(user) => user,
        Err(error) => {
            tracing::debug!(target: "ACCESS", id = 20_252, %error, "Malformed first message of a login");
            return Err(failed(context, (mechanism.name(), &UserName::new("", database)), MALFORMED).await);
        }
    };
    let name = UserName::new(user, database);
    let LookedUp { stored, invented } = look_up(context, &name)?;
    let own = stored.as_ref().and_then(|stored| stored.of(mechanism));
    let exists = own.is_some();
    if is_speculative && !exists && stored.is_some() {
        // Drivers take what a hello has begun for begun with the mechanism that they choose after it. That
        // the user has another one it has told.
        return Err(CommandError::new(code::AUTHENTICATION_FAILED, "Authentication failed."));
    }
    let credentials = own.or_else(|| invented.of(mechanism)).expect("it is invented for each mechanism");
    let nonce = ambient::random_bytes::<NONCE_BYTES>();
    let begun = ScramServer::begin(mechanism, payload, credentials.clone(), &nonce);
    let (mut server, answer) = begun.expect("the message was read before");
    if let Some(members) = context.server.access.members().filter(|_| is_member(&name, mechanism)) {
        server = server.or_by(members.others.clone());
    }
    append(reply, false, answer.as_bytes());
    let login = Login { mechanism, name, exists, server, skips_empty, is_speculative, proved: None };
    *context.client.access.login.lock() = Some(Box::new(login));
    Ok(())
}

/// A user as it is stored, or another member, which is nowhere stored: nobody who writes users makes himself
/// one.
fn read_user<N: Node>(
    context: &CommandContext<'_, N>,
    name: &UserName,
) -> CommandResult<Option<Arc<AccessUser>>> {
    match *name == MemberUser::name() {
        true => Ok(context.server.access.members().map(|members| Arc::clone(&members.user))),
        false => context.server.node.read_user(name),
    }
}

/// The same of what checks a password alone.
fn read_credentials<N: Node>(
    context: &CommandContext<'_, N>,
    name: &UserName,
) -> CommandResult<Option<UserCredentials>> {
    match *name == MemberUser::name() {
        true => Ok(context.server.access.members().map(|members| members.user.credentials().clone())),
        false => context.server.node.read_credentials(name),
    }
}

fn is_member(name: &UserName, mechanism: Mechanism) -> bool {
    mechanism == MemberUser::MECHANISM && *name == MemberUser::name()
}

/// What members call themselves in their `hello`.
const MEMBER_APPLICATION: &str = "replication";
const NOT_BETWEEN: Reason = "not between these addresses of client and server";
const NO_SUCH_USER: Reason = "no such user, or not with this mechanism";
const MALFORMED: Reason = "a message does not follow the protocol";

/// What checks the passwords of a user.
struct LookedUp {
    stored: Option<UserCredentials>,
    /// What no password meets, with each mechanism; the same whenever this user is looked up.
    invented: UserCredentials,
}

/// Looks a user up, for which it takes the same time whether it exists or not. On a thread that may block.
fn look_up<N: Node>(context: &CommandContext<'_, N>, name: &UserName) -> CommandResult<LookedUp> {
    let (server, began) = (context.server, ambient::now());
    let stored = read_credentials(context, name)?;
    let secret = server.node.login_secret()?;
    let iterations = |parameter| u32::try_from(server.parameters.integer(parameter)).unwrap_or(u32::MAX);
    let mut all = Document::new();
    for mechanism in Mechanism::ALL {
        let iterations = match mechanism {
            Mechanism::ScramSha1 => iterations(Parameter::ScramIterations),
            Mechanism::ScramSha256 => iterations(Parameter::ScramSha256Iterations),
        };
        let nobody = ScramCredentials::of_nobody(mechanism, &secret, &name.id(), iterations);
        all.push(mechanism.name(), nobody.to_document());
    }
    let invented = UserCredentials::stored(doc! { "credentials": all }.to_buf().as_raw());
    std::thread::sleep(LOOK_UP_TIME.saturating_sub(ambient::elapsed(began)));
    Ok(LookedUp { stored, invented })
}

fn append(reply: &mut DocumentBuilder<'_>, is_done: bool, payload: &[u8]) {
    reply.append("conversationId", CONVERSATION).append("done", is_done);
    reply.append("payload", RawValue::Binary { subtype: 0, bytes: payload });
}

/// Answers a later message of a login.
///
/// # Errors
/// `AuthenticationFailed`, after a while where many have failed; `ProtocolError` without a conversation.
pub(crate) async fn go_on<N: Node>(
    context: &CommandContext<'_, N>,
    (conversation, payload): (i32, &[u8]),
    reply: &mut DocumentBuilder<'_>,
) -> CommandResult {
    let login = context.client.access.login.lock().take();
    let Some(mut login) = login else {
        return Err(CommandError::new(code::PROTOCOL_ERROR, "No SASL session state found"));
    };
    if conversation != CONVERSATION {
        authenticated(context, login.attempt(), code::PROTOCOL_ERROR).await;
        return Err(CommandError::new(code::PROTOCOL_ERROR, "sasl: Mismatched conversation id"));
    }
    if let Some(user) = &login.proved {
        append(reply, true, &[]);
        return proved(context, &login, user).await;
    }
    let names_member = login.name == MemberUser::name();
    let (answer, reason) = match (login.server.finish(payload), login.exists) {
        (Err(ScramFailure::Malformed(_)), _) => (None, MALFORMED),
        (Err(_), true) if names_member => (None, "its key is another one"),
        (Err(_), true) => (None, "wrong password"),
        (_, false) if names_member => (None, "this member has no security.keyFile"),
        (_, false) => (None, NO_SUCH_USER),
        (Ok(answer), true) => match read_user(context, &login.name)? {
            None => (None, NO_SUCH_USER),
            Some(user) if !user.may_log_in(context.client.ends()) => (None, NOT_BETWEEN),
            Some(user) => (Some((answer, user)), ""),
        },
    };
    let Some((answer, user)) = answer else {
        return Err(failed(context, login.attempt(), reason).await);
    };
    append(reply, login.skips_empty, answer.as_bytes());
    if login.skips_empty {
        return proved(context, &login, &user).await;
    }
    login.proved = Some(user);
    *context.client.access.login.lock() = Some(login);
    Ok(())
}

async fn proved<N: Node>(
    context: &CommandContext<'_, N>,
    login: &Login,
    user: &Arc<AccessUser>,
) -> CommandResult {
    let (mechanism, counters) = (login.mechanism.name(), counters(context, login.mechanism));
    succeed(context, user, &Succeeded { mechanism, is_speculative: login.is_speculative, counters }).await
}

/// How somebody has logged in.
pub(crate) struct Succeeded<'a> {
    /// As clients name it.
    pub(crate) mechanism: &'static str,
    /// Begun in a `hello`.
    pub(crate) is_speculative: bool,
    /// Of the mechanism.
    pub(crate) counters: &'a LoginCounters,
}

/// The connection is this user's from now on.
///
/// # Errors
/// It is another one's; the user has as many connections as it may.
pub(crate) async fn succeed<N: Node>(
    context: &CommandContext<'_, N>,
    user: &Arc<AccessUser>,
    how: &Succeeded<'_>,
) -> CommandResult {
    if let Some(before) = context.client.access.user_name().filter(|before| *before != user.name) {
        const AUTHENTICATED_ONCE: i32 = 5_626_701;
        let message = format!(
            "Each client connection may only be authenticated once. Previously authenticated as: {before}"
        );
        return Err(CommandError::new(AUTHENTICATED_ONCE, message));
    }
    let is_counted = context.server.access.is_enforced() && !user.is_member();
    let connection = match is_counted && context.client.access.user_name().is_none() {
        true => match context.server.access.usages.connect(user) {
            Ok(connection) => Some(connection),
            Err(error) => {
                authenticated(context, (how.mechanism, &user.name), error.code).await;
                return Err(error);
            }
        },
        false => None,
    };
    context.client.log_in(Arc::clone(user), connection);
    how.counters.successful.add(1);
    if how.is_speculative {
        how.counters.speculative_successful.add(1);
    }
    if !context.server.parameters.is_on(Parameter::Quiet) {
        tracing::info!(target: "ACCESS", id = 5_286_306, ctx = %context.client.description(),
            remote = %context.client.remote, mechanism = how.mechanism, user = %user.name,
            speculative = how.is_speculative, "Successfully authenticated");
    }
    authenticated(context, (how.mechanism, &user.name), 0).await;
    Ok(())
}

/// Counts and tells a failure, and gives its error after the wait that it costs.
pub(crate) async fn failed<N: Node>(
    context: &CommandContext<'_, N>,
    (mechanism, name): (&'static str, &UserName),
    reason: Reason,
) -> CommandError {
    authenticated(context, (mechanism, name), code::AUTHENTICATION_FAILED).await;
    let client = context.client;
    let address = client.address().map_or_else(|| client.remote.clone(), |address| address.to_string());
    let now = ambient::now();
    let penalty = context.server.access.failed_logins.note(&address, now);
    // With a certificate it has another name, and says in its hello what it is.
    let is_member_by_certificate =
        mechanism == certificate_login::MECHANISM && client.application_name() == Some(MEMBER_APPLICATION);
    if *name == MemberUser::name() || is_member_by_certificate {
        note_refused_member(context.server, client, reason);
    } else if penalty.wait.is_zero() {
        tracing::info!(target: "ACCESS", id = 5_286_307, ctx = %client.description(),
            remote = %client.remote, mechanism, user = %name, reason,
            "Failed to authenticate");
    }
    if let Some(failures) = penalty.storm {
        tracing::warn!(target: "ACCESS", id = 5_286_308, address, failures,
            "Many logins fail from one address: their answers wait, and single ones are told no more");
    }
    if !penalty.wait.is_zero()
        && let Err(interrupted) = context.server.sleep(context.interrupt(), now + penalty.wait).await
    {
        return interrupted;
    }
    CommandError::new(code::AUTHENTICATION_FAILED, "Authentication failed.")
}

/// The mechanisms by which a user can log in. One that does not exist has those that it would be made with.
/// On a thread that may block.
///
/// # Errors
/// Storage errors.
pub(crate) fn mechanisms<N: Node>(
    context: &CommandContext<'_, N>,
    name: &UserName,
) -> CommandResult<Vec<&'static str>> {
    let LookedUp { stored, invented } = look_up(context, name)?;
    Ok(stored.unwrap_or(invented).mechanisms().map(Mechanism::name).collect())
}
