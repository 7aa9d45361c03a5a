//! `failCommand`: commands are held up, fail, or lose their connection.
//!
//! ```text
//!   data: { failCommands: [names] or failAllCommands, and only for: appName, threadName, namespace,
//!           then: blockConnection + blockTimeMS, and one of: closeConnection, errorCode (+ errorExtraInfo,
//!           errorLabels);
//!           or, on commands that take a write concern and run: writeConcernError (+ errorLabels) }
//! ```
//! Fields of other types are as good as missing, and unknown ones are left alone: what MongoDB's tests and
//! drivers rely on.

use super::FailPoint;
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use crate::node::Node;
use document::{Document, RawArray, RawDocument, RawValue};
use std::time::Duration;

/// The text of every error of this fail point.
const MESSAGE: &str = "Failing command via 'failCommand' failpoint";

/// Who reaches the fail point.
pub(super) struct Arrival<'a> {
    /// The command's canonical name and its others.
    name: &'static str,
    aliases: &'static [&'static str],
    /// `conn7`.
    thread: String,
    application: Option<&'a str>,
    database: &'a str,
    collection: Option<&'a str>,
}

impl<'a> Arrival<'a> {
    pub(super) fn of<N: Node>(context: &'a CommandContext<'_, N>) -> Self {
        let collection = match context.command.name {
            "getMore" => context.body.get("collection"),
            _ => context.body.first().map(|first| first.value()),
        };
        // The first hello brings the name with it.
        let application = || {
            let says_hello = matches!(context.command.name, "hello" | "isMaster");
            let client = context.body.get("client").filter(|_| says_hello)?.as_document()?;
            client.get("application")?.as_document()?.get("name")?.as_str()
        };
        Arrival {
            name: context.command.name,
            aliases: context.command.aliases,
            thread: context.client.description(),
            application: context.client.application_name().or_else(application),
            database: context.database,
            collection: collection.and_then(RawValue::as_str),
        }
    }

    /// Whether the data means this command.
    fn is_meant(&self, data: RawDocument<'_>) -> bool {
        // Whoever tests with this could not end it otherwise.
        if self.name == "configureFailPoint" || !self.is_from(data) {
            return false;
        }
        let names = data.get("failCommands").and_then(RawValue::as_array).unwrap_or(RawArray::EMPTY);
        data.get("failAllCommands").is_some()
            || names.iter().filter_map(RawValue::as_str).any(|name| self.answers_to(name))
    }

    /// Whether the data means this client and this collection.
    pub(super) fn is_from(&self, data: RawDocument<'_>) -> bool {
        let differs = |name: &str, own: Option<&str>| {
            data.get(name)
                .is_some_and(|wanted| wanted.as_str().unwrap_or_default() != own.unwrap_or_default())
        };
        let elsewhere = |wanted: RawValue<'_>| !self.is_on(wanted.as_str().unwrap_or_default());
        !differs("threadName", Some(&self.thread))
            && !differs("appName", self.application)
            && !data.get("namespace").is_some_and(elsewhere)
    }

    fn answers_to(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// Whether it works on this collection, or on this database and no collection.
    fn is_on(&self, namespace: &str) -> bool {
        match (namespace.strip_prefix(self.database), self.collection) {
            (Some(rest), Some(collection)) => rest.strip_prefix('.') == Some(collection),
            (Some(rest), None) => rest.is_empty(),
            (None, _) => false,
        }
    }
}

/// What happens to a command before it runs.
#[derive(Debug, Default, PartialEq)]
struct Fault {
    /// Wait so long first; an error when it is not said how long.
    block: Option<Result<Duration, &'static str>>,
    closes_connection: bool,
    error: Option<i32>,
    extra: Option<Document>,
    labels: Vec<String>,
}

impl Fault {
    /// `None`: this is no fault.
    fn read(data: RawDocument<'_>) -> Option<Self> {
        let is_on = |name| data.get(name).and_then(RawValue::as_bool).unwrap_or(false);
        let fault = Fault {
            block: is_on("blockConnection").then(|| read_block(data)),
            closes_connection: is_on("closeConnection"),
            error: data.get("errorCode").and_then(RawValue::as_i64_exact).map(|code| code as i32),
            extra: data.get("errorExtraInfo").and_then(RawValue::as_document).map(RawDocument::to_document),
            labels: read_labels(data),
        };
        let does_something = fault.block.is_some() || fault.closes_connection || fault.error.is_some();
        does_something.then_some(fault)
    }

    fn into_error(self) -> Option<CommandError> {
        if self.closes_connection {
            return Some(CommandError::close_connection());
        }
        let mut error = CommandError::new(self.error.filter(|code| *code != 0)?, MESSAGE);
        error.extra = self.extra.map(Box::new);
        error.labels = self.labels.into_iter().map(Into::into).collect();
        Some(error)
    }
}

fn read_block(data: RawDocument<'_>) -> Result<Duration, &'static str> {
    let milliseconds = data.get("blockTimeMS").and_then(RawValue::as_i64_exact);
    let milliseconds = milliseconds.ok_or("must specify 'blockTimeMS' when 'blockConnection' is true")?;
    u64::try_from(milliseconds).map(Duration::from_millis).map_err(|_| "'blockTimeMS' must be non-negative")
}

fn read_labels(data: RawDocument<'_>) -> Vec<String> {
    let labels = data.get("errorLabels").and_then(RawValue::as_array).unwrap_or(RawArray::EMPTY);
    labels.iter().filter_map(RawValue::as_str).map(str::to_owned).collect()
}

/// Whatever `failCommand` has for the command before it runs.
///
/// # Errors
/// The error that was ordered, or the end of the connection; kills and time limits while it is held up.
pub(crate) async fn fail_before<N: Node>(context: &CommandContext<'_, N>) -> CommandResult {
    let server = context.server;
    let fault = server.failpoints.enter(FailPoint::FailCommand, |data| {
        Fault::read(data).filter(|_| Arrival::of(context).is_meant(data))
    });
    let Some(fault) = fault else { return Ok(()) };
    tracing::info!(target: "COMMAND", id = 4_898_500, command = context.command.name, ?fault,
        "Activating 'failCommand' failpoint");
    if let Some(block) = fault.block.as_ref() {
        let block = (*block).map_err(CommandError::invalid_options)?;
        server.sleep(context.interrupt(), ambient::now() + block).await?;
    }
    fault.into_error().map_or(Ok(()), Err)
}

/// The write concern error that `failCommand` has for a command that has run, as the fields to add to its
/// reply.
pub(crate) fn fail_write_concern<N: Node>(context: &CommandContext<'_, N>) -> Option<Document> {
    if !context.command.takes_write_concern {
        return None;
    }
    context.server.failpoints.enter(FailPoint::FailCommand, |data| {
        let error = data.get("writeConcernError")?.to_value();
        if !Arrival::of(context).is_meant(data) {
            return None;
        }
        let mut fields = document::doc! { "writeConcernError": error };
        let labels: Vec<document::Value> = read_labels(data).into_iter().map(Into::into).collect();
        if !labels.is_empty() {
            fields.push("errorLabels", labels);
        }
        Some(fields)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::doc;

    fn meant(data: Document, name: &'static str) -> bool {
        let arrival = Arrival {
            name,
            aliases: if name == "isMaster" { &["ismaster"] } else { &[] },
            thread: "conn7".to_owned(),
            application: Some("tester"),
            database: "db",
            collection: Some("c"),
        };
        arrival.is_meant(data.to_buf().as_raw())
    }

    #[test]
    fn who_is_meant() {
        let names = doc! { "failCommands": ["find", "isMaster"] };
        assert!(meant(names.clone(), "find"));
        assert!(!meant(names.clone(), "insert"), "it is not named");
        assert!(meant(doc! { "failCommands": ["ismaster"] }, "isMaster"), "by its other name");
        assert!(!meant(doc! { "failCommands": ["isMaster"] }, "hello"), "another command");
        assert!(!meant(doc! { "failCommands": ["Find"] }, "find"), "names are exact");
        assert!(!meant(doc! { "failCommands": [] }, "find"));
        assert!(!meant(doc! { "failCommands": ["configureFailPoint"] }, "configureFailPoint"));
        assert!(meant(doc! { "failAllCommands": true }, "ping"));
        let only = |name: &str, value: &str| {
            let mut data = names.clone();
            data.push(name, value);
            meant(data, "find")
        };
        assert!(only("appName", "tester") && !only("appName", "other"));
        assert!(only("threadName", "conn7") && !only("threadName", "conn8"));
        assert!(only("namespace", "db.c"));
        assert!(!only("namespace", "db.cc") && !only("namespace", "d.c") && !only("namespace", "db"));
        assert!(only("somethingNew", "x"), "unknown fields are left alone");
    }

    fn fault(data: Document) -> Option<Fault> {
        Fault::read(data.to_buf().as_raw())
    }

    #[test]
    fn what_happens() {
        assert_eq!(fault(doc! {}), None, "nothing is ordered");
        assert_eq!(fault(doc! { "writeConcernError": { "code": 91 } }), None, "not before the command");
        assert_eq!(fault(doc! { "closeConnection": false, "blockConnection": false }), None);
        let error = fault(doc! { "errorCode": 91, "errorLabels": ["L"] }).and_then(Fault::into_error);
        let error = error.expect("an error");
        assert_eq!((error.code, error.labels), (91, vec!["L".into()]));
        let both = fault(doc! { "errorCode": 91, "closeConnection": true }).and_then(Fault::into_error);
        assert!(both.expect("an error").closes_connection, "the end of the connection goes first");
        let blocks = fault(doc! { "blockConnection": true, "blockTimeMS": 5 }).expect("a fault");
        assert_eq!(blocks.block, Some(Ok(Duration::from_millis(5))));
        assert!(blocks.into_error().is_none(), "it only waits");
        for endless in
            [doc! { "blockConnection": true }, doc! { "blockConnection": true, "blockTimeMS": (-1) }]
        {
            assert!(matches!(fault(endless).and_then(|fault| fault.block), Some(Err(_))));
        }
    }
}
