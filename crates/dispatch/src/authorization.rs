//! Who a connection is, and whether it may do what it asks for.
//!
//! ```text
//!   request ─▶ check_login ─▶ is_authorized: Requirement of the row × privileges of the user ─▶ command
//!                                  │ what is kept of the user is of an older generation
//!                                  └──▶ authorize: read the user anew (may go where it may block), ask again
//! ```
//! Without `--auth` a request pays one comparison.

use crate::client::Client;
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use crate::host::MemberProof;
use crate::limits::{UserConnection, UserUsage, UserUsages};
use crate::login::Login;
use crate::node::Node;
use crate::parameters::{Parameter, Parameters};
use crate::server::ServiceContext;
use crate::sessions::{LogicalSessionId, SessionOwner};
use access::{
    AccessRequest, AccessTarget, AccessUser, Action, CertificateName, FailedLogins, LoginEnds, MemberUser,
    RefusedMembers, UserName,
};
use arc_swap::ArcSwapOption;
use document::{RawDocument, RawValue};
use parking_lot::Mutex;
use query::memory::MemoryPool;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// What the server keeps of who may do what.
#[derive(Debug)]
pub struct AccessControl {
    enforced: bool,
    localhost_exception: bool,
    /// Who the other members of the set are, where they can show it.
    members: Option<MemberUser>,
    /// The certificate of this member, where others show theirs.
    member_certificate: Option<CertificateName>,
    /// Logins that failed, by address.
    pub failed_logins: FailedLogins,
    /// Other members that did not show that they are such, by address.
    pub(crate) refused_members: RefusedMembers,
    /// What each user has at once.
    pub usages: UserUsages,
}

impl AccessControl {
    /// Each key takes some milliseconds.
    pub(crate) fn new(parameters: &Parameters, members: Option<&MemberProof>) -> Self {
        let iterations = parameters.unsigned(Parameter::ScramSha256Iterations);
        let iterations = u32::try_from(iterations).unwrap_or(u32::MAX);
        let user_of = |proof: &MemberProof| match &proof.keys {
            Some(keys) => {
                let salt: [u8; MemberUser::MECHANISM.salt_length()] = ambient::random_bytes();
                keys.user(&salt, iterations)
            }
            None => MemberUser { user: Arc::new(AccessUser::of_member(None)), others: Vec::new() },
        };
        AccessControl {
            enforced: parameters.text(Parameter::Authorization) == "enabled"
                || members.is_some() && !parameters.is_on(Parameter::TransitionToAuth),
            localhost_exception: parameters.is_on(Parameter::LocalhostAuthBypass),
            members: members.map(user_of),
            member_certificate: members.and_then(|proof| proof.certificate.clone()),
            failed_logins: FailedLogins::default(),
            refused_members: RefusedMembers::default(),
            usages: UserUsages::default(),
        }
    }

    /// Who has this certificate, if that is another member.
    pub(crate) fn member_of_certificate(&self, certificate: &CertificateName) -> Option<&MemberUser> {
        let is_member = |own: &CertificateName| certificate.is_of_set_of(own);
        self.members.as_ref().filter(|_| self.member_certificate.as_ref().is_some_and(is_member))
    }

    /// Who another member logs in as.
    pub(crate) const fn members(&self) -> Option<&MemberUser> {
        self.members.as_ref()
    }

    /// Whether requests are held to privileges (`--auth`).
    #[inline]
    pub const fn is_enforced(&self) -> bool {
        self.enforced
    }
}

/// Who a connection is.
#[derive(Debug, Default)]
pub struct ClientAccess {
    /// Changed by this connection's own requests alone. Requests look at it without counting that: a counter
    /// that all connections of a user share goes from processor to processor.
    user: ArcSwapOption<LoggedIn>,
    /// A login between its first and its last message.
    pub(crate) login: Mutex<Option<Box<Login>>>,
    /// It has said that it is another member with messages of the log, and has yet to show that it is.
    wants_thread: AtomicBool,
}

/// Who is logged in, and its place among the connections of this user.
#[derive(Debug)]
struct LoggedIn {
    user: Arc<AccessUser>,
    /// `None` for members, and where nobody is held to anything.
    connection: Option<Arc<UserConnection>>,
}

impl ClientAccess {
    /// Who is logged in.
    pub fn user(&self) -> Option<Arc<AccessUser>> {
        self.user.load().as_ref().map(|logged_in| Arc::clone(&logged_in.user))
    }

    /// The name of who is logged in.
    pub fn user_name(&self) -> Option<UserName> {
        self.user.load().as_ref().map(|logged_in| logged_in.user.name.clone())
    }

    /// Whether it is this one who is logged in, or nobody where nobody is meant.
    pub fn is(&self, name: Option<&UserName>) -> bool {
        self.user.load().as_ref().map(|logged_in| &logged_in.user.name) == name
    }

    fn is_member(&self) -> bool {
        self.user.load().as_ref().is_some_and(|logged_in| logged_in.user.is_member())
    }

    /// What its user has at once.
    pub(crate) fn usage(&self) -> Option<Arc<UserUsage>> {
        self.user.load().as_ref()?.connection.as_ref().map(|connection| Arc::clone(connection.usage()))
    }

    /// What its user's sorts, groups and joins have together.
    pub(crate) fn memory_pool(&self) -> Option<Arc<MemoryPool>> {
        self.user.load().as_ref()?.connection.as_ref().map(|connection| Arc::clone(connection.memory()))
    }

    /// Nobody is logged in any more.
    pub(crate) fn log_out(&self) {
        self.user.store(None);
    }

    /// What is stored of the user now; `None`: it is logged in no more.
    fn renew(&self, current: Option<&Arc<AccessUser>>) {
        let known = self.user.load();
        let renewed = known.as_ref().zip(current).map(|(known, current)| {
            if let Some(connection) = &known.connection {
                connection.look_at(current);
            }
            Arc::new(LoggedIn { user: Arc::clone(current), connection: known.connection.clone() })
        });
        self.user.store(renewed);
    }
}

impl Client {
    /// The address of the other end; `None` for a Unix socket.
    pub fn address(&self) -> Option<IpAddr> {
        self.remote.parse::<SocketAddr>().ok().map(|remote| remote.ip().to_canonical())
    }

    /// The addresses of both ends.
    pub(crate) fn ends(&self) -> LoginEnds {
        let local = self.link.local_address().and_then(|local| local.parse::<SocketAddr>().ok());
        LoginEnds { client: self.address(), server: local.map(|local| local.ip().to_canonical()) }
    }

    /// It says that it brings another member's messages of the log, which no clients' work is to hold up:
    /// given at once where nobody has to show who he is, and else with the login.
    pub(crate) fn ask_for_thread(&self, is_enforced: bool) {
        match is_enforced && !self.access.is_member() {
            true => self.access.wants_thread.store(true, Ordering::Relaxed),
            false => self.link.give_thread(),
        }
    }

    /// Logs in. Who logs in again stays the connection that it is.
    pub(crate) fn log_in(&self, user: Arc<AccessUser>, connection: Option<UserConnection>) {
        let is_member = user.is_member();
        let known = self.access.user.load();
        let connection = connection.map(Arc::new).or_else(|| known.as_ref()?.connection.clone());
        self.access.user.store(Some(Arc::new(LoggedIn { user, connection })));
        if is_member && self.access.wants_thread.load(Ordering::Relaxed) {
            self.link.give_thread();
        }
    }

    /// Whether the other end is on this machine.
    fn is_local(&self) -> bool {
        const UNIX_SOCKET: &str = "anonymous unix socket";
        self.address().is_some_and(|address| address.is_loopback()) || self.remote == UNIX_SOCKET
    }
}

/// Whoever is on this machine may make the first user.
fn is_excepted<N: Node>(server: &ServiceContext<N>, client: &Client) -> bool {
    server.access.localhost_exception && client.is_local() && !server.node.has_users()
}

/// Refuses who is not logged in, before anything is done for it.
pub(crate) fn check_login<N: Node>(
    server: &ServiceContext<N>,
    client: &Client,
    command: &str,
    position: usize,
) -> CommandResult {
    let is_admitted = !server.access.is_enforced()
        || server.commands().requirement(position).is_open()
        || client.access.user.load().is_some()
        || is_excepted(server, client);
    if is_admitted {
        return Ok(());
    }
    if server.commands().requirement(position).is_for_members() {
        note_refused_member(server, client, "it has no key and asks as another member does");
    }
    Err(needs_login(command))
}

/// Tells, once a minute for each address, that whoever asks as another member does is not believed.
pub(crate) fn note_refused_member<N: Node>(server: &ServiceContext<N>, client: &Client, reason: &str) {
    let address = client.address().map_or_else(|| client.remote.clone(), |address| address.to_string());
    if let Some(times) = server.access.refused_members.note(&address, ambient::now()) {
        tracing::warn!(target: "ACCESS", id = 5_286_309, ctx = %client.description(),
            remote = %client.remote, times, reason, "Another member of the set is refused");
    }
}

fn needs_login(command: &str) -> CommandError {
    CommandError::new(code::UNAUTHORIZED, format!("Command {command} requires authentication"))
}

/// What a look at who asks has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authorization {
    /// It may do this.
    Granted,
    /// It may do this when it is its turn: so many operations at once are its limit.
    InTurn,
    /// The user has to be looked at anew first.
    Outdated,
}

/// Whether the request may go on.
pub(crate) fn is_authorized<N: Node>(
    context: &CommandContext<'_, N>,
    position: usize,
) -> CommandResult<Authorization> {
    if context.server.commands().requirement(position).is_open() {
        return Ok(Authorization::Granted);
    }
    let known = context.client.access.user.load();
    let Some(logged_in) = known.as_ref() else {
        return check(context, position, localhost_user());
    };
    if !logged_in.user.is_of(context.server.node.access_generation()) {
        return Ok(Authorization::Outdated);
    }
    check(context, position, &logged_in.user)
}

/// The same with what is stored of the user now.
pub(crate) async fn authorize<N: Node>(
    context: &CommandContext<'_, N>,
    position: usize,
) -> CommandResult<Authorization> {
    match look_again(context).await? {
        Some(current) => check(context, position, &current),
        None => Err(needs_login(context.command.name)),
    }
}

/// Who is logged in, with what is stored of it now. Who is gone is logged in no more.
pub(crate) async fn look_again<N: Node>(
    context: &CommandContext<'_, N>,
) -> CommandResult<Option<Arc<AccessUser>>> {
    let Some(user) = context.client.access.user() else { return Ok(None) };
    if user.is_member() {
        return Ok(Some(user));
    }
    let node = &context.server.node;
    let current = match node.known_user(&user.name) {
        Some(current) => Some(current),
        None => {
            context.offload_briefly().await;
            node.read_user(&user.name)?
        }
    };
    // One of the same name that was made later is somebody else.
    let current = current.filter(|current| current.id == user.id);
    context.client.access.renew(current.as_ref());
    Ok(current)
}

fn check<N: Node>(
    context: &CommandContext<'_, N>,
    position: usize,
    user: &AccessUser,
) -> CommandResult<Authorization> {
    let request = AccessRequest {
        database: context.database,
        command: context.body,
        sequences: context.fields.sequences(),
        user,
    };
    match context.server.commands().requirement(position).is_met(&request) {
        true if user.limits.operations.is_some() => Ok(Authorization::InTurn),
        true => Ok(Authorization::Granted),
        false => Err(unauthorized(context)),
    }
}

/// Who is not logged in and was let in nevertheless.
fn localhost_user() -> &'static AccessUser {
    static USER: OnceLock<AccessUser> = OnceLock::new();
    USER.get_or_init(AccessUser::of_localhost_exception)
}

/// The refusal, with the command as far as it may be shown.
fn unauthorized<N: Node>(context: &CommandContext<'_, N>) -> CommandError {
    let has_secrets = context.command.has_secrets;
    let command = describe(context.body, Hidden::of(has_secrets));
    let logged = match context.server.parameters.is_on(Parameter::RedactClientLogData) {
        true => describe(context.body, Hidden::Values),
        false => command.clone(),
    };
    tracing::debug!(target: "ACCESS", id = 20_436, ctx = %context.client.description(),
        db = context.database, command = logged, "Checking authorization failed");
    let message = format!("not authorized on {} to execute command {command}", context.database);
    CommandError::new(code::UNAUTHORIZED, message)
}

/// The session of a request. Who is not logged in where everybody has to be has none, though it names one.
///
/// # Errors
/// As [`CommandContext::session`].
pub(crate) fn session_in_use<N: Node>(
    server: &ServiceContext<N>,
    client: &Client,
    named: LogicalSessionId,
) -> CommandResult<Option<LogicalSessionId>> {
    let is_enforced = server.access.is_enforced();
    match client.access.user.load().as_ref() {
        Some(logged_in) => {
            named_by(Some(&logged_in.user), named, Action::ImpersonateUser, is_enforced).map(Some)
        }
        None if is_enforced => Ok(None),
        None => Ok(Some(named)),
    }
}

/// The session that a user means: its own one, unless it names another's as whoever may do `with` can, and
/// everybody where nothing is enforced.
fn named_by(
    user: Option<&AccessUser>,
    named: LogicalSessionId,
    with: Action,
    is_enforced: bool,
) -> CommandResult<LogicalSessionId> {
    let own = owner_of(user);
    if named.owner == SessionOwner::NOBODY || named.owner == own {
        return Ok(LogicalSessionId { owner: own, ..named });
    }
    match !is_enforced || user.is_some_and(|user| user.may(AccessTarget::Cluster, with)) {
        true => Ok(named),
        false => {
            let message = "Unauthorized to set user digest in LogicalSessionId";
            Err(CommandError::new(code::UNAUTHORIZED, message))
        }
    }
}

/// Whose sessions somebody's are. A user's are its own where it need not log in too: a set that goes over to
/// access control, member by member, knows what it was sent before by the same name.
fn owner_of(user: Option<&AccessUser>) -> SessionOwner {
    user.map_or(SessionOwner::NOBODY, |user| SessionOwner(user.digest))
}

impl<N: Node> CommandContext<'_, N> {
    /// Whose sessions the asker's are.
    pub fn session_owner(&self) -> SessionOwner {
        owner_of(self.client.access.user().as_deref())
    }

    /// The session that the asker means: its own one, unless it names another's, which needs `with` on the
    /// cluster.
    ///
    /// # Errors
    /// `Unauthorized`: another's, by who may not name it.
    pub fn session(&self, named: LogicalSessionId, with: Action) -> CommandResult<LogicalSessionId> {
        let user = self.client.access.user();
        named_by(user.as_deref(), named, with, self.server.access.is_enforced())
    }

    /// Whether who asks may do this; without `--auth` everybody may.
    pub fn may(&self, target: AccessTarget<'_>, action: Action) -> bool {
        self.sees(|user| user.may(target, action))
    }

    /// Whether `allows` says so of who asks; without `--auth` of everybody.
    pub fn sees(&self, allows: impl FnOnce(&AccessUser) -> bool) -> bool {
        !self.server.access.is_enforced() || self.client.access.user().is_some_and(|user| allows(&user))
    }

    /// Whether what belongs to this user is the asker's own; without `--auth` everything is.
    pub fn owns(&self, owner: Option<&UserName>) -> bool {
        !self.server.access.is_enforced() || self.client.access.is(owner)
    }

    /// The refusal of what this command asks for.
    pub fn unauthorized(&self) -> CommandError {
        unauthorized(self)
    }
}

/// A longer command is not shown to its end.
const SHOWN_BYTES: usize = 1024;

/// What is not shown of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hidden {
    Nothing,
    /// Passwords, and messages of a login.
    Secrets,
    /// All values.
    Values,
}

impl Hidden {
    const fn of(has_secrets: bool) -> Self {
        if has_secrets { Hidden::Secrets } else { Hidden::Nothing }
    }
}

/// A command as messages show it: `{ find: "c", filter: {} }`.
fn describe(command: RawDocument<'_>, hidden: Hidden) -> String {
    let mut text = String::new();
    describe_document(command, hidden, &mut text);
    if text.len() > SHOWN_BYTES {
        let end = text.floor_char_boundary(SHOWN_BYTES);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

fn describe_document(document: RawDocument<'_>, hidden: Hidden, text: &mut String) {
    if document.is_empty() {
        return text.push_str("{}");
    }
    // What is within a field that is no secret is none.
    let within = if hidden == Hidden::Values { Hidden::Values } else { Hidden::Nothing };
    for (position, element) in document.iter().enumerate() {
        if text.len() > SHOWN_BYTES {
            break;
        }
        text.push_str(if position == 0 { "{ " } else { ", " });
        text.push_str(element.name());
        text.push_str(": ");
        match hidden == Hidden::Secrets && matches!(element.name(), "pwd" | "payload") {
            true => text.push_str("\"xxx\""),
            false => describe_value(element.value(), within, text),
        }
    }
    text.push_str(" }");
}

fn describe_value(value: RawValue<'_>, hidden: Hidden, text: &mut String) {
    match value {
        RawValue::Document(document) => describe_document(document, hidden, text),
        RawValue::Array(array) if array.is_empty() => text.push_str("[]"),
        RawValue::Array(array) => {
            for (position, value) in array.iter().enumerate() {
                if text.len() > SHOWN_BYTES {
                    break;
                }
                text.push_str(if position == 0 { "[ " } else { ", " });
                describe_value(value, hidden, text);
            }
            text.push_str(" ]");
        }
        _ if hidden == Hidden::Values => text.push_str("\"###\""),
        RawValue::String(string) => {
            text.push('"');
            text.push_str(string.get(..string.floor_char_boundary(SHOWN_BYTES)).unwrap_or_default());
            text.push('"');
        }
        RawValue::Int32(number) => text.push_str(&number.to_string()),
        RawValue::Int64(number) => text.push_str(&number.to_string()),
        RawValue::Double(number) => text.push_str(&format!("{number:?}")),
        RawValue::Boolean(flag) => text.push_str(if flag { "true" } else { "false" }),
        RawValue::Null => text.push_str("null"),
        // UUIDs of sessions above all.
        RawValue::Binary { subtype: 4, bytes } if bytes.len() == 16 => {
            let id = bytes.try_into().map(uuid::Uuid::from_bytes).unwrap_or_default();
            text.push_str(&format!("UUID(\"{id}\")"));
        }
        other => {
            text.push('<');
            text.push_str(other.kind().alias());
            text.push('>');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::{array, doc};

    #[test]
    fn refusals_show_the_command_but_no_secrets() {
        let shown = |command: document::Document, hidden| describe(command.to_buf().as_raw(), hidden);
        let find = doc! { "find": "c", "filter": { "a": [1, "x"], "b": {} }, "limit": 2.0, "raw": true };
        assert_eq!(
            shown(find.clone(), Hidden::Nothing),
            "{ find: \"c\", filter: { a: [ 1, \"x\" ], b: {} }, limit: 2.0, raw: true }"
        );
        assert_eq!(
            shown(find, Hidden::Values),
            "{ find: \"###\", filter: { a: [ \"###\", \"###\" ], b: {} }, limit: \"###\", raw: \"###\" }"
        );
        let create = doc! { "createUser": "u", "pwd": "secret", "roles": (array![]) };
        assert_eq!(shown(create, Hidden::Secrets), "{ createUser: \"u\", pwd: \"xxx\", roles: [] }");
        let long = shown(doc! { "find": ("é".repeat(10_000)) }, Hidden::Nothing);
        assert!(long.len() <= SHOWN_BYTES + 3 && long.ends_with("..."), "{}", long.len());
    }
}
