//! `getDefaultRWConcern` and `setDefaultRWConcern`: the concerns of commands that have none. They are a
//! document of `config.settings`, which every member has.
//!
//! Source: MongoDB manual, commands of the same names.

use super::{Command, OnSecondary, Run};
use crate::audit::collection_or_create;
use crate::context::{CommandContext, OnDataNode};
use crate::error::{CommandError, CommandResult};
use crate::fields::Fields;
use crate::replica_set::{SetMember, refused};
use crate::server::DataNode;
use catalog::{Collection, Decision, WriteError};
use dispatch::concern::{W, WriteConcern};
use document::{Document, DocumentBuilder, RawDocument, RawValue, Value, doc};
use storage::{ReadTier, ReadView};
use wire::ErrorCode;

pub(crate) static GET: Command = Command {
    admin_only: true,
    ..Command::new("getDefaultRWConcern", "Tells the default concerns of a replica set.", Run::Now(get))
};

pub(crate) static SET: Command = Command {
    admin_only: true,
    takes_write_concern: true,
    on_secondary: OnSecondary::Never,
    ..Command::new(
        "setDefaultRWConcern",
        "Changes the default concerns of a replica set.",
        Run::Later(|context, reply| Box::pin(set(context, reply))),
    )
};

/// Where the defaults are.
const DATABASE: &str = "config";
const COLLECTION: &str = "settings";
const ID: &str = "ReadWriteConcernDefaults";

/// The command is for replica sets and clusters.
const ON_STANDALONE: i32 = 51_300;

fn member<'a>(context: &CommandContext<'a>) -> CommandResult<&'a SetMember> {
    context.server.node.member.as_ref().ok_or_else(|| {
        let message = format!("'{}' is not supported on standalone nodes.", context.command.name);
        CommandError::new(ON_STANDALONE, message)
    })
}

fn get(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    member(context)?;
    context.fields.flexible_boolean("inMemory")?;
    context.fields.finish()?;
    show(&stored(&context.server.node, context.source.view())?, context, reply);
    Ok(())
}

/// Writes the defaults, those that nobody has set as well.
fn show(stored: &Document, context: &CommandContext<'_>, reply: &mut DocumentBuilder<'_>) {
    let implicit = [
        ("defaultReadConcern", doc! { "level": "local" }),
        ("defaultWriteConcern", doc! { "w": "majority", "wtimeout": 0 }),
    ];
    for (name, implicit) in &implicit {
        reply.append_value(name, stored.get(name).unwrap_or(&Value::from(implicit.clone())));
    }
    for name in ["updateOpTime", "updateWallClockTime"] {
        if let Some(value) = stored.get(name) {
            reply.append_value(name, value);
        }
    }
    let source = |name: &str| if stored.contains(name) { "global" } else { "implicit" };
    reply.append("defaultWriteConcernSource", source("defaultWriteConcern"));
    reply.append("defaultReadConcernSource", source("defaultReadConcern"));
    reply.append("localUpdateWallClockTime", RawValue::DateTime(context.server.now_ms()));
}

async fn set(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let member = member(context)?;
    let read = context.fields.document("defaultReadConcern")?;
    let write = context.fields.document("defaultWriteConcern")?;
    context.fields.finish()?;
    if read.is_none() && write.is_none() {
        return Err(CommandError::bad_value(
            "At least one of the \"defaultReadConcern\" or \"defaultWriteConcern\" fields must be present",
        ));
    }
    context.offload().await;
    let node = &context.server.node;
    let mut defaults = stored(node, node.newest.view())?;
    if let Some(read) = read {
        change_read(&mut defaults, read)?;
    }
    if let Some(write) = write {
        change_write(&mut defaults, write, member)?;
    }
    defaults.insert("updateOpTime", member.set.last_applied().timestamp);
    defaults.insert("updateWallClockTime", Value::DateTime(context.server.now_ms()));
    keep(context, &defaults).await?;
    member.set_default(write_concern(&defaults)?);
    show(&defaults, context, reply);
    Ok(())
}

fn change_read(defaults: &mut Document, concern: RawDocument<'_>) -> CommandResult {
    if concern.first().is_none() {
        defaults.remove("defaultReadConcern");
        return Ok(());
    }
    let mut fields = Fields::nested("defaultReadConcern", concern)?;
    let level = fields.string("level")?.ok_or_else(|| fields.missing("level"))?;
    fields.finish()?;
    if !matches!(level, "local" | "available" | "majority") {
        return Err(CommandError::bad_value(format!(
            "level: \"{level}\" is not suitable for the default read concern"
        )));
    }
    defaults.insert("defaultReadConcern", doc! { "level": level });
    Ok(())
}

fn change_write(defaults: &mut Document, concern: RawDocument<'_>, member: &SetMember) -> CommandResult {
    if concern.first().is_none() {
        if !defaults.contains("defaultWriteConcern") {
            return Ok(());
        }
        let message = "The global default write concern cannot be unset once it is set.";
        return Err(CommandError::new(ErrorCode::IllegalOperation as i32, message));
    }
    let concern = WriteConcern::parse(concern)?;
    let unsuitable = |what: &str| {
        Err(CommandError::bad_value(format!("{what} is not suitable for the default write concern")))
    };
    match &concern.w {
        None => return unsuitable("a write concern without 'w'"),
        Some(W::Members(0)) => return unsuitable("'w: 0'"),
        _ if concern.journal.is_some() => return unsuitable("'j'"),
        _ => {}
    }
    member.check(&concern)?;
    let mut shown = concern.to_document();
    shown.remove("provenance");
    defaults.insert("defaultWriteConcern", shown);
    Ok(())
}

/// The document of the defaults; empty where nobody has set any.
fn stored(node: &DataNode, view: &ReadView) -> CommandResult<Document> {
    let Some(collection) = node.catalog.collection(DATABASE, COLLECTION) else { return Ok(Document::new()) };
    let found = collection.get(view, RawValue::String(ID), ReadTier::Any)?;
    Ok(found.map(|bytes| RawDocument::trusted(&bytes).to_document()).unwrap_or_default())
}

/// The default write concern, where somebody has set one.
fn write_concern(defaults: &Document) -> CommandResult<Option<WriteConcern>> {
    match defaults.get("defaultWriteConcern") {
        Some(Value::Document(concern)) => WriteConcern::parse(concern.to_buf().as_raw()).map(Some),
        _ => Ok(None),
    }
}

/// Takes over the default write concern that the set has, as a new primary does.
///
/// # Errors
/// Storage errors.
pub(crate) fn load(node: &DataNode) -> CommandResult {
    if let Some(member) = &node.member {
        member.set_default(write_concern(&stored(node, node.newest.view())?)?);
    }
    Ok(())
}

async fn keep(context: &CommandContext<'_>, defaults: &Document) -> CommandResult {
    let mut whole = doc! { "_id": ID };
    whole.extend(
        defaults.iter().filter(|(name, _)| *name != "_id").map(|(name, value)| (name, value.clone())),
    );
    let writing = context.writing();
    let collection = collection_or_create(context, &writing, (DATABASE, COLLECTION)).await?;
    let key = Collection::document_key_of_id(RawValue::String(ID));
    let replace = |_: Option<RawDocument<'_>>| Ok::<_, WriteError>(Decision::Replace(whole.to_buf()));
    collection.update(&writing, &key, replace).await?;
    Ok(())
}

/// A set refuses what can never be met.
impl SetMember {
    fn check(&self, concern: &WriteConcern) -> CommandResult {
        let topology = self.set.topology();
        let copies = concern.w.as_ref().and_then(crate::replica_set::copies);
        match (&topology.config, copies) {
            (Some(config), Some(copies)) => config.check_copies(&copies).map_err(refused),
            _ => Ok(()),
        }
    }
}
