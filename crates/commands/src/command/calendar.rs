//! `setCalendar` and `getCalendar`: when work in the background may be done, and how fast.
//!
//! `{ setCalendar: 1, ttl: { start: "22:00", stop: "06:00", timezone: "Europe/Berlin" } }` sets the windows
//! of the kinds of work that it names and leaves the others; null or `[]` takes them away. Windows are those
//! of the option `window` of TTL indexes.

use super::{Command, OnSecondary, Run};
use crate::audit::collection_or_create;
use crate::calendar::{DOCUMENT_ID, WorkKind, describe, parse_kind, settings_namespace, stored_calendar};
use crate::context::{CommandContext, OnDataNode};
use crate::error::CommandResult;
use catalog::{Collection, Decision, WriteError};
use document::{Document, DocumentBuilder, RawDocument, RawValue, Value};
use storage::ReadTier;

pub(crate) static GET: Command = Command {
    admin_only: true,
    ..Command::new("getCalendar", "Tells when background work may be done, and what waits.", Run::Now(get))
};

pub(crate) static SET: Command = Command {
    admin_only: true,
    takes_write_concern: true,
    on_secondary: OnSecondary::Never,
    ..Command::new(
        "setCalendar",
        "Sets when background work may be done, and how fast.",
        Run::Later(|context, reply| Box::pin(set(context, reply))),
    )
};

/// How far `getCalendar` looks ahead when it is not told.
const HOURS: i64 = 48;
/// A year with a leap day.
const HOURS_MAX: i64 = 366 * 24;
const MS_PER_HOUR: i64 = 3_600_000;

fn get(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let hours = context.fields.integer_at_least("hours", 1)?.unwrap_or(HOURS).min(HOURS_MAX);
    context.fields.finish()?;
    let now_ms = context.server.now_ms();
    let to_ms = now_ms + hours * MS_PER_HOUR;
    reply.append("localTime", RawValue::DateTime(now_ms));
    reply.append("until", RawValue::DateTime(to_ms));
    reply.append_value("work", &Value::from(describe(context.server, now_ms, to_ms)));
    Ok(())
}

async fn set(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let mut changes = Vec::new();
    for kind in WorkKind::ALL {
        if let Some(value) = context.fields.any(kind.name()) {
            changes.push((kind, parse_kind(kind, value)?));
        }
    }
    context.fields.finish()?;
    context.offload().await;
    let node = &context.server.node;
    let stored = stored_calendar(node, node.newest.view(), ReadTier::Any)?.as_raw().to_document();
    let mut calendar = Document::from_iter([("_id", DOCUMENT_ID)]);
    calendar
        .extend(stored.iter().filter(|(name, _)| *name != "_id").map(|(name, value)| (name, value.clone())));
    for (kind, windows) in changes {
        match windows {
            Some(windows) => drop(calendar.insert(kind.name(), windows.to_value())),
            None => drop(calendar.remove(kind.name())),
        }
    }
    keep(context, &calendar).await?;
    calendar.remove("_id");
    tracing::info!(target: "STORAGE", id = 8_800_100, calendar = ?calendar, "The calendar was set");
    reply.append_value("calendar", &Value::Document(calendar));
    Ok(())
}

async fn keep(context: &CommandContext<'_>, calendar: &Document) -> CommandResult {
    let writing = context.writing();
    let (database, name) = settings_namespace();
    let collection = collection_or_create(context, &writing, (database, name)).await?;
    let key = Collection::document_key_of_id(RawValue::String(DOCUMENT_ID));
    let replace = |_: Option<RawDocument<'_>>| Ok::<_, WriteError>(Decision::Replace(calendar.to_buf()));
    collection.update(&writing, &key, replace).await?;
    Ok(())
}
