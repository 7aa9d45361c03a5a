//! The commands on logical sessions: they begin, stay alive, and end with their cursors and operations. A
//! session that is named without its `uid` is the asker's own.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use crate::fields::wrong_type;
use crate::node::Node;
use crate::parameters::Parameter;
use crate::sessions::{LogicalSessionId, SessionOwner, parse_owner};
use access::{Action, UserName};
use document::{DocumentBuilder, Element, RawArray, RawDocument, RawValue};
use hashbrown::HashSet;

pub(crate) const fn start<N: Node>() -> Command<N> {
    Command::diagnostic("startSession", "Begins a logical session.", Run::Now(run_start))
}

pub(crate) const fn refresh<N: Node>() -> Command<N> {
    let run = Run::<N>::Now(|context, _| {
        for session in listed(context, Action::ImpersonateUser)? {
            context.server.sessions.touch(session, context.started)?;
        }
        Ok(())
    });
    Command {
        api_version_1: true,
        ..Command::diagnostic("refreshSessions", "Keeps logical sessions alive.", run)
    }
}

pub(crate) const fn end<N: Node>() -> Command<N> {
    let run = Run::<N>::Now(|context, _| {
        context.server.end_sessions(&listed(context, Action::ImpersonateUser)?);
        Ok(())
    });
    let help = "Ends logical sessions and closes their cursors.";
    Command { api_version_1: true, ..Command::diagnostic_walk("endSessions", help, run) }
}

pub(crate) const fn kill<N: Node>() -> Command<N> {
    let run = Run::<N>::Now(|context, _| {
        let doomed: HashSet<_> = listed(context, Action::KillAnySession)?.into_iter().collect();
        context.server.kill_sessions(|session| doomed.contains(&session));
        Ok(())
    });
    Command::diagnostic_walk("killSessions", "Kills the operations and cursors of logical sessions.", run)
}

pub(crate) const fn kill_all<N: Node>() -> Command<N> {
    let run = Run::<N>::Now(|context, _| {
        let owners = owners(array(context)?, "KillAllSessionsCmd.killAllSessions")?;
        kill_matching(context, |session| owners.is_empty() || owners.contains(&session.owner));
        Ok(())
    });
    let help = "Kills the operations and cursors of all sessions of users.";
    Command::diagnostic_walk("killAllSessions", help, run)
}

pub(crate) const fn kill_all_by_pattern<N: Node>() -> Command<N> {
    let help = "Kills the operations and cursors of sessions that match a pattern.";
    Command::diagnostic_walk(
        "killAllSessionsByPattern",
        help,
        Run::Now(|context, _| kill_by_pattern(context)),
    )
}

fn run_start<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()?;
    let session = LogicalSessionId::random(context.session_owner());
    context.server.sessions.touch(session, context.started)?;
    session.append_to(&mut reply.start_document("id"));
    reply.append("timeoutMinutes", context.server.parameters.integer(Parameter::SessionTimeout) as i32);
    Ok(())
}

/// The command's own field, which is all that it has.
fn array<'a, N: Node>(context: &CommandContext<'a, N>) -> CommandResult<RawArray<'a>> {
    let (name, target) = (context.command.name, context.fields.target());
    context.fields.finish()?;
    target.as_array().ok_or_else(|| wrong_type(name, name, target.kind(), &["array"]))
}

/// The sessions that the command's own field lists: `{endSessions: [{id: UUID}, …]}`. Those of others need
/// `with` on the cluster.
fn listed<N: Node>(context: &CommandContext<'_, N>, with: Action) -> CommandResult<Vec<LogicalSessionId>> {
    let name = context.command.name;
    let parse = |value: RawValue<'_>| match value.as_document() {
        Some(document) => context.session(LogicalSessionId::parse(document, name)?, with),
        None => Err(wrong_type(name, "id", value.kind(), &["object"])),
    };
    array(context)?.iter().map(parse).collect()
}

/// A document of a list.
fn object<'a>(place: &str, name: &str, value: RawValue<'a>) -> CommandResult<RawDocument<'a>> {
    value.as_document().ok_or_else(|| wrong_type(place, name, value.kind(), &["object"]))
}

/// Whose sessions the users of a list `[{user, db}, …]` have.
fn owners(users: RawArray<'_>, place: &str) -> CommandResult<HashSet<SessionOwner>> {
    let mut owners = HashSet::new();
    for (position, user) in users.iter().enumerate() {
        let user = object(place, &position.to_string(), user)?;
        let text = |name: &str| match user.get(name) {
            Some(RawValue::String(text)) => Ok(text),
            Some(other) => Err(wrong_type(place, name, other.kind(), &["string"])),
            None => {
                let message = format!("BSON field '{place}.{name}' is missing but a required field");
                Err(CommandError::new(code::IDL_MISSING_FIELD, message))
            }
        };
        owners.insert(SessionOwner(UserName::new(text("user")?, text("db")?).digest()));
    }
    Ok(owners)
}

/// Which sessions `killAllSessionsByPattern` means.
#[derive(Debug, Default)]
struct Patterns {
    everyone: bool,
    /// By `uid`, or by their users.
    owners: HashSet<SessionOwner>,
    /// By `lsid` with the `uid`.
    sessions: HashSet<LogicalSessionId>,
    /// By `lsid` without it: of whichever user.
    ids: HashSet<[u8; 16]>,
}

/// As MongoDB's messages call the list of patterns.
const PATTERNS: &str = "KillAllSessionsByPatternCmd.killAllSessionsByPattern";

impl Patterns {
    fn add(&mut self, element: Element<'_>) -> CommandResult {
        match (element.name(), element.value()) {
            ("lsid", lsid) => {
                let lsid = object(PATTERNS, "lsid", lsid)?;
                let session = LogicalSessionId::parse(lsid, "lsid")?;
                if lsid.contains("uid") {
                    self.sessions.insert(session);
                } else {
                    self.ids.insert(session.id);
                }
            }
            ("uid", uid) => {
                self.owners.insert(parse_owner(uid, PATTERNS)?);
            }
            ("users", RawValue::Array(users)) => self.owners.extend(owners(users, PATTERNS)?),
            // Sessions do not know the roles and programs of who began them.
            _ => {}
        }
        Ok(())
    }

    fn include(&self, session: &LogicalSessionId) -> bool {
        self.everyone
            || self.owners.contains(&session.owner)
            || self.sessions.contains(session)
            || self.ids.contains(&session.id)
    }
}

fn kill_by_pattern<N: Node>(context: &CommandContext<'_, N>) -> CommandResult {
    let list = array(context)?;
    let mut patterns = Patterns { everyone: list.is_empty(), ..Patterns::default() };
    for (position, pattern) in list.iter().enumerate() {
        let pattern = object(PATTERNS, &position.to_string(), pattern)?;
        patterns.everyone |= pattern.is_empty();
        for element in pattern.iter().filter(|element| !element.value().is_nullish()) {
            patterns.add(element)?;
        }
    }
    kill_matching(context, |session| patterns.include(session));
    Ok(())
}

/// Kills those that are meant, but for the one that asks.
fn kill_matching<N: Node>(context: &CommandContext<'_, N>, is_meant: impl Fn(&LogicalSessionId) -> bool) {
    let own = context.generic.session;
    context.server.kill_sessions(|session| Some(session) != own && is_meant(&session));
}
