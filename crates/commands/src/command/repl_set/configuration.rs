//! `replSetInitiate`, `replSetReconfig`, `replSetGetConfig`: who belongs to the set.

use super::*;
use dispatch::audit::AuditEvent;
use document::{Document, RawDocument, Value, doc};
use replication::set::ReplSetConfig;

pub(crate) static INITIATE: Command = waiting(
    "replSetInitiate",
    "Begins a replica set with this configuration.",
    Run::Later(|context, reply| Box::pin(initiate(context, reply))),
);

pub(crate) static RECONFIG: Command = waiting(
    "replSetReconfig",
    "Gives the replica set another configuration.",
    Run::Later(|context, _| Box::pin(reconfigure(context))),
);

pub(crate) static GET_CONFIG: Command =
    diagnostic("replSetGetConfig", "Tells the configuration of the replica set.", Run::Now(get_config));

async fn initiate(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let Some(set) = context.server.node.replica_set() else {
        let message = "This node was not started with replication enabled.";
        return Err(CommandError::new(ErrorCode::NoReplicationEnabled as i32, message));
    };
    let given = context.fields.target().as_document().filter(|given| given.first().is_some());
    context.fields.finish()?;
    if set.topology().config.is_some() {
        return Err(CommandError::new(ErrorCode::AlreadyInitialized as i32, "already initialized"));
    }
    let config = match given {
        Some(given) if given.contains("version") => given.to_document(),
        Some(given) => with_version(given),
        None => {
            let own = set.own_hosts().first().map_or("", String::as_str);
            reply.append("info2", "no configuration specified. Using a default configuration for the set");
            reply.append("me", own);
            doc! { "_id": (set.set_name()), "version": 1, "members": [{ "_id": 0, "host": own }] }
        }
    };
    let config = ReplSetConfig::parse(config.to_buf().as_raw()).map_err(refused)?;
    tracing::info!(target: "REPL", id = 21_356, set = %config.set_name, members = config.members.len(),
        "replSetInitiate admin command received from client");
    asked(context, set.initiate(config)).await
}

/// The first version need not be told.
fn with_version(given: RawDocument<'_>) -> Document {
    let mut config = given.to_document();
    config.push("version", 1);
    config
}

async fn reconfigure(context: &mut CommandContext<'_>) -> CommandResult {
    let set = set_of(context)?;
    let RawValue::Document(given) = context.fields.target() else {
        return Err(CommandError::bad_value("no configuration specified"));
    };
    let force = context.fields.flexible_boolean("force")?.unwrap_or(false);
    context.fields.finish()?;
    if set.topology().config.is_none() {
        let message = "Node not yet initialized; use the replSetInitiate command";
        return Err(not_initiated(message));
    }
    if !force && !set.is_writable() {
        let message = format!(
            "New config is rejected: replSetReconfig should only be run on a writable PRIMARY. Current \
            state {};",
            set.topology().state.name()
        );
        return Err(CommandError::new(ErrorCode::NotWritablePrimary as i32, message));
    }
    let config = ReplSetConfig::parse(given).map_err(refused)?;
    tracing::info!(target: "REPL", id = 21_351, version = config.version, force,
        "replSetReconfig admin command received from client");
    let old = set.topology().config.as_ref().map(|config| config.to_document());
    let new = config.to_document();
    asked(context, set.reconfigure(config, force)).await?;
    context.audit(|| AuditEvent::new("replSetReconfig", doc! { "old": old, "new": new })).await;
    Ok(())
}

fn get_config(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let set = set_of(context)?;
    let status = context.fields.flexible_boolean("commitmentStatus")?.unwrap_or(false);
    context.fields.ignore_rest();
    let topology = set.topology();
    let Some(config) = &topology.config else {
        return Err(not_initiated("no replset config has been received"));
    };
    if status && !set.is_writable() {
        let message = "commitmentStatus is only supported on primary.";
        return Err(CommandError::new(ErrorCode::NotWritablePrimary as i32, message));
    }
    reply.append_value("config", &Value::from(config.to_document()));
    if status {
        // What is told is applied, and what is applied is on a majority.
        reply.append("commitmentStatus", true);
    }
    Ok(())
}
