//! Who did what: the events of the audit log.
//!
//! ```text
//!   command ─▶ AuditEvent ─▶ document ─▶ filter ─▶ line ─▶ AuditSink (heddle: a file, written by a thread)
//!                (lazily)    + who, when  (query)                  │ written
//!   reply  ◀───────────────────────────────────────────────────────┘
//! ```
//! Whoever causes an event waits, where it may block, until its line is written: what was answered is told.
//! Without an audit log a request pays one comparison.
//!
//! Source: MongoDB manual, "System Event Audit Messages" (the mongo schema of 7.0).

mod params;

use crate::client::Client;
use crate::context::CommandContext;
use crate::error::{CommandError, code};
use crate::host::AuditSink;
use crate::node::Node;
use crate::parameters::Parameter;
use crate::server::ServiceContext;
use crate::time_text::utc_text;
use document::json::JsonValue;
use document::{Document, RawDocument, RawValue, Value, doc};
use query::matcher::Matcher;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use uuid::Uuid;

/// What happened, without who caused it and when.
#[derive(Debug)]
pub struct AuditEvent {
    /// `atype`.
    kind: &'static str,
    param: Document,
    /// The code of the error that it ended with; 0 for none.
    result: i32,
}

impl AuditEvent {
    /// Something of this kind that was done.
    pub const fn new(kind: &'static str, param: Document) -> Self {
        AuditEvent { kind, param, result: 0 }
    }

    /// The same with the code of the error that it ended with.
    #[must_use]
    pub fn with_result(self, result: i32) -> Self {
        AuditEvent { result, ..self }
    }
}

/// The audit log of a server: which events it takes, and where their lines go.
#[derive(Debug)]
pub struct AuditLog {
    sink: Arc<dyn AuditSink>,
    filter: Matcher,
    /// `uuid` of what no connection has caused.
    own: Uuid,
}

impl AuditLog {
    /// A log of the events that pass the filter.
    pub fn new(sink: Arc<dyn AuditSink>, filter: Matcher) -> Self {
        AuditLog { sink, filter, own: ambient::uuid() }
    }

    /// Writes an event that no client has caused. May block.
    pub fn record_own(&self, event: &AuditEvent) {
        if let Some(line) = self.line(None, event) {
            self.sink.write(&line);
        }
    }

    /// Takes an event of a connection that has ended: nobody can wait for its line.
    pub(crate) fn queue(&self, client: &Client, event: &AuditEvent) {
        if let Some(line) = self.line(Some(client), event) {
            self.sink.queue(&line);
        }
    }

    /// Moves the file aside and begins a new one, whose first line tells of it. May block.
    ///
    /// # Errors
    /// The sentence to tell: the old file goes on.
    pub fn rotate(&self, client: Option<&Client>) -> Result<(), String> {
        let Some(aside) = self.sink.rotate()? else { return Ok(()) };
        let status = doc! { "status": "OK", "rotatedLogPath": aside, "errors": (Vec::<Value>::new()) };
        let event =
            AuditEvent::new("rotateLog", doc! { "pid": (std::process::id()), "logRotationStatus": status });
        if let Some(line) = self.line(client, &event) {
            self.sink.write(&line);
        }
        Ok(())
    }

    /// The line of an event, if it passes the filter.
    fn line(&self, client: Option<&Client>, event: &AuditEvent) -> Option<String> {
        let document = self.document(client, event).to_buf();
        // A filter that cannot be evaluated loses nothing.
        let is_wanted = self.filter.matches(document.as_raw()).unwrap_or(true);
        is_wanted.then(|| line(document.as_raw()))
    }

    fn document(&self, client: Option<&Client>, event: &AuditEvent) -> Document {
        let now_ms = i64::try_from(ambient::since_epoch().as_millis()).unwrap_or(i64::MAX);
        let id = client.map_or(self.own, Client::audit_id);
        let user = client.and_then(|client| client.access.user());
        let (users, roles): (Vec<Value>, Vec<Value>) = match &user {
            None => (Vec::new(), Vec::new()),
            Some(user) => (
                vec![Value::from(user.name.to_document())],
                user.inherited.roles.iter().map(|role| role.to_document().into()).collect(),
            ),
        };
        doc! {
            "atype": (event.kind),
            "ts": (Value::DateTime(now_ms)),
            "uuid": (Value::binary(4, id.into_bytes().to_vec())),
            "local": (endpoint(client.and_then(|client| client.link.local_address()).as_deref())),
            "remote": (endpoint(client.map(|client| client.remote.as_str()))),
            "users": users,
            "roles": roles,
            "param": (event.param.clone()),
            "result": (event.result),
        }
    }
}

/// One end of a connection; nobody's for what the server does of itself.
fn endpoint(address: Option<&str>) -> Document {
    let Some(address) = address else { return doc! { "isSystemUser": true } };
    match address.parse::<SocketAddr>() {
        Ok(address) => doc! { "ip": (address.ip().to_string()), "port": (i32::from(address.port())) },
        Err(_) if address == "anonymous unix socket" => doc! { "unix": "anonymous" },
        Err(_) => doc! { "unix": address },
    }
}

/// A document as a line: relaxed extended JSON, but for the identifier and the time, which keep the forms of
/// the mongo schema.
fn line(document: RawDocument<'_>) -> String {
    let mut line = String::from("{ ");
    for (position, element) in document.iter().enumerate() {
        let name = element.name();
        let comma = if position == 0 { "" } else { ", " };
        let written = match (name, element.value()) {
            ("ts", RawValue::DateTime(moment)) => {
                write!(line, r#"{comma}"ts": {{ "$date": "{}" }}"#, utc_text(moment))
            }
            ("uuid", RawValue::Binary { subtype, .. }) => {
                // `{ "$binary": { "base64": "…", "subType": "04" } }`
                let shown = JsonValue(element.value()).to_string();
                let base64 = shown.split('"').nth(5).unwrap_or_default();
                write!(line, r#"{comma}"uuid": {{ "$binary": "{base64}", "$type": "{subtype:02x}" }}"#)
            }
            (name, value) => {
                write!(line, "{comma}{}: {}", JsonValue(RawValue::String(name)), JsonValue(value))
            }
        };
        written.expect("a text takes what is written to it");
    }
    line.push_str(" }");
    line
}

/// Writes an event of this client's where there is an audit log, and goes on when its line is written.
pub(crate) async fn record<N: Node>(
    server: &ServiceContext<N>,
    client: &Client,
    event: impl FnOnce() -> AuditEvent,
) {
    let Some(log) = &server.host.audit else { return };
    if let Some(line) = log.line(Some(client), &event()) {
        client.offload_briefly().await;
        log.sink.write(&line);
    }
}

impl<N: Node> CommandContext<'_, N> {
    /// Whether there is an audit log.
    #[inline]
    pub fn is_audited(&self) -> bool {
        self.server.host.audit.is_some()
    }

    /// Writes an event to the audit log, if there is one, and goes on when its line is written.
    pub async fn audit(&self, event: impl FnOnce() -> AuditEvent) {
        record(self.server, self.client, event).await;
    }
}

/// Tells of a request that was refused because its user may not make it.
pub(crate) async fn refused<N: Node>(
    server: &ServiceContext<N>,
    client: &Client,
    (body, legacy_database): (RawDocument<'_>, Option<&str>),
) {
    let database = body.get("$db").and_then(RawValue::as_str).or(legacy_database).unwrap_or_default();
    record(server, client, || check(server, body, database).with_result(code::UNAUTHORIZED)).await;
}

/// Tells of a request that its user may make, where that is asked for.
pub(crate) async fn allowed<N: Node>(context: &CommandContext<'_, N>, position: usize) {
    let is_open = context.server.commands().requirement(position).is_open();
    if !is_open && context.server.parameters.is_on(Parameter::AuditAuthorizationSuccess) {
        context.audit(|| check(context.server, context.body, context.database)).await;
    }
}

/// That somebody was asked whether it may do this.
fn check<N: Node>(server: &ServiceContext<N>, body: RawDocument<'_>, database: &str) -> AuditEvent {
    let first = body.first();
    let row = first.and_then(|first| server.commands().get(first.name_bytes()));
    let name = row.map_or_else(|| first.map_or("", |first| first.name()), |row| row.name);
    let has_secrets = row.is_none_or(|row| row.has_secrets);
    let namespace = match first.map(|first| first.value()) {
        Some(RawValue::String(full)) if name == "renameCollection" => full.to_owned(),
        Some(RawValue::String(collection)) if !has_secrets && row.is_some_and(|row| !row.admin_only) => {
            format!("{database}.{collection}")
        }
        _ => database.to_owned(),
    };
    let arguments = params::shown(body, has_secrets || holds_credentials(&namespace));
    AuditEvent::new("authCheck", doc! { "command": name, "ns": namespace, "args": arguments })
}

/// Whether documents of this collection are users or roles.
fn holds_credentials(namespace: &str) -> bool {
    matches!(namespace, "admin.system.users" | "admin.system.roles")
}

/// Tells of a command that has ended, where its own file does not.
pub(crate) async fn ended<N: Node>(context: &CommandContext<'_, N>, error: Option<&CommandError>) {
    let result = error.map_or(0, |error| error.code);
    // Told as a refusal.
    if result == code::UNAUTHORIZED || context.generic.help {
        return;
    }
    if let Some((kind, param)) = params::of_command(context, result) {
        context.audit(|| AuditEvent::new(kind, param).with_result(result)).await;
    }
}

/// Tells of a login that ended, well or not.
pub(crate) async fn authenticated<N: Node>(
    context: &CommandContext<'_, N>,
    (mechanism, name): (&str, &access::UserName),
    result: i32,
) {
    context.audit(|| login_ended((mechanism, name), result)).await;
}

fn login_ended((mechanism, name): (&str, &access::UserName), result: i32) -> AuditEvent {
    let (user, database) = (name.user.as_str(), name.database.as_str());
    let param = doc! { "user": user, "db": database, "mechanism": mechanism };
    AuditEvent::new("authenticate", param).with_result(result)
}

/// Somebody began to log in, and is gone.
pub(crate) fn login_abandoned(client: &Client) -> Option<AuditEvent> {
    let login = client.access.login.lock().take()?;
    Some(login_ended(login.attempt(), code::AUTHENTICATION_ABANDONED))
}

/// Somebody is logged in no more.
pub(crate) fn logged_out(reason: String, client: &Client) -> Option<AuditEvent> {
    let user = client.access.user_name()?.to_document();
    let param = doc! { "reason": reason, "initialUsers": [user], "updatedUsers": (Vec::<Value>::new()) };
    Some(AuditEvent::new("logout", param))
}

/// What a client has told of itself.
pub(crate) fn client_metadata(client: &Client, metadata: RawDocument<'_>) -> AuditEvent {
    let local = endpoint(client.link.local_address().as_deref());
    let param = doc! { "localEndpoint": local, "clientMetadata": (metadata.to_document()) };
    AuditEvent::new("clientMetadata", param)
}

#[cfg(test)]
mod tests;
