//! `currentOp`: what runs now. The connections are the registry of operations.
//!
//! Source: MongoDB manual, "currentOp" and "$currentOp".

use super::{Command, Run};
use crate::client::{Client, OperationReport};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::narrow;
use crate::node::Node;
use crate::server::ServiceContext;
use crate::utc_text;
use access::UserName;
use document::{DocumentBuf, DocumentBuilder};
use query::{Environment, matcher::Matcher};

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        admin_only: true,
        ..Command::diagnostic_walk("currentOp", "Tells the operations that run now.", Run::Now(run))
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let all = context.fields.flexible_boolean("$all")?.unwrap_or(false);
    let only_own = context.fields.flexible_boolean("$ownOps")?.unwrap_or(false);
    context.fields.ignore(&["$truncateOps"]);
    // What is left is a filter on the operations.
    let mut filter = Vec::new();
    let mut builder = DocumentBuilder::new(&mut filter);
    for element in context.fields.rest() {
        builder.append_element(*element);
    }
    builder.finish();
    context.fields.ignore_rest();
    let filter = DocumentBuf::trusted(filter);
    let matcher = Matcher::parse(filter.as_raw(), &Environment::default())?;
    let mut array = reply.start_array("inprog");
    let whose = if only_own { Whose::of(context) } else { Whose::All };
    let idle = if all { idle_cursors(context.server, &whose) } else { Vec::new() };
    for operation in operations(context.server, all, &whose).into_iter().chain(idle) {
        if matcher.matches(operation.as_raw())? {
            array.push(&operation);
        }
    }
    Ok(())
}

/// Whose operations are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// Everybody's, and the server's.
    All,
    /// Those of connections that are logged in as this one, or as nobody.
    One(Option<UserName>),
}

impl Whose {
    /// Those of who asks; without `--auth` everybody's.
    pub fn of<N: Node>(context: &CommandContext<'_, N>) -> Self {
        match context.server.access.is_enforced() {
            true => Whose::One(context.client.access.user_name()),
            false => Whose::All,
        }
    }

    fn includes(&self, owner: Option<&UserName>) -> bool {
        match self {
            Whose::All => true,
            Whose::One(name) => name.as_ref() == owner,
        }
    }
}

/// The operations as documents; with `all`, idle connections too.
pub fn operations<N: Node>(server: &ServiceContext<N>, all: bool, whose: &Whose) -> Vec<DocumentBuf> {
    let mut clients = server.clients();
    clients.sort_by_key(|client| client.id);
    let host = super::host_info::host_name();
    let mut documents = Vec::new();
    for client in clients {
        let operation = client.operation();
        let is_told = whose.includes(client.access.user_name().as_ref());
        if !is_told || operation.is_none() && !all {
            continue;
        }
        let mut bytes = Vec::new();
        write(&mut DocumentBuilder::new(&mut bytes), server, &host, &client, operation.as_ref());
        documents.push(DocumentBuf::trusted(bytes));
    }
    let background = match whose {
        Whose::All => server.node.background_operations(),
        Whose::One(_) => Vec::new(),
    };
    for operation in background {
        let mut bytes = Vec::new();
        let mut document = DocumentBuilder::new(&mut bytes);
        document.append("type", "op").append("host", host.as_str());
        document.append_all(operation.to_buf().as_raw());
        document.finish();
        documents.push(DocumentBuf::trusted(bytes));
    }
    documents
}

/// Cursors that nobody uses now, as `$currentOp` with `idleCursors` tells them.
pub fn idle_cursors<N: Node>(server: &ServiceContext<N>, whose: &Whose) -> Vec<DocumentBuf> {
    let host = super::host_info::host_name();
    let told = server.cursors.idle().into_iter().filter(|view| whose.includes(view.owner.as_ref()));
    let views = told.map(|view| {
        let mut bytes = Vec::new();
        let mut document = DocumentBuilder::new(&mut bytes);
        document
            .append("type", "idleCursor")
            .append("host", host.as_str())
            .append("ns", view.namespace.as_str());
        if let Some(session) = view.session {
            session.append_whole_to(&mut document.start_document("lsid"));
        }
        let mut cursor = document.start_document("cursor");
        cursor.append("cursorId", view.id).append("nDocsReturned", view.returned as i64);
        cursor.append("noCursorTimeout", view.no_timeout).append("tailable", view.tailable);
        cursor.append("originatingCommand", &view.originating_command);
        cursor.finish();
        document.finish();
        DocumentBuf::trusted(bytes)
    });
    views.collect()
}

/// The kind of an operation as `op` names it.
fn kind(command: &str) -> &'static str {
    match command {
        "find" => "query",
        "insert" => "insert",
        "update" => "update",
        "delete" => "remove",
        "getMore" => "getmore",
        _ => "command",
    }
}

fn write<N: Node>(
    document: &mut DocumentBuilder<'_>,
    server: &ServiceContext<N>,
    host: &str,
    client: &Client,
    operation: Option<&OperationReport>,
) {
    document.append("type", "op").append("host", host).append("desc", client.description().as_str());
    document.append("connectionId", client.id as i32).append("client", client.remote.as_str());
    if let Some(name) = client.application_name() {
        document.append("appName", name);
    }
    if let Some(metadata) = client.client_metadata() {
        document.append("clientMetadata", metadata);
    }
    document.append("active", operation.is_some());
    if let Some(name) = client.access.user_name() {
        document.start_array("effectiveUsers").push(&name.to_document().to_buf());
    }
    let Some(operation) = operation else { return };
    let took = ambient::elapsed(operation.started);
    let began_ms = server.now_ms() - i64::try_from(took.as_millis()).unwrap_or(0);
    document.append("currentOpTime", utc_text(began_ms).as_str());
    document.append_value("opid", &narrow(operation.id));
    if let Some(session) = operation.session {
        session.append_whole_to(&mut document.start_document("lsid"));
    }
    document
        .append("secs_running", took.as_secs() as i64)
        .append("microsecs_running", took.as_micros() as i64);
    document.append("op", kind(operation.command_name));
    let command_collection = format!("{}.$cmd", operation.database);
    document.append("ns", operation.namespace.as_deref().unwrap_or(&command_collection));
    match &operation.command {
        Some(command) => document.append("command", command),
        None => document
            .append_value("command", &document::doc! { "$truncated": (operation.command_name) }.into()),
    };
    if let Some(message) = &operation.message {
        document.append("msg", message.as_str());
    }
    if let Some((done, total)) = operation.progress {
        document.append_value(
            "progress",
            &document::doc! { "done": (done as i64), "total": (total as i64) }.into(),
        );
    }
    if let Some(name) = operation.fail_point {
        document.append("failpointMsg", name);
    }
    document.append("numYields", 0);
    if operation.is_killed {
        document.append("killPending", true);
    }
}
