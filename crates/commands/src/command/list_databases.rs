//! `listDatabases`: every database with something in it.

use super::{Command, OnSecondary, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use access::{AccessTarget, Action};
use document::{DocumentBuf, DocumentBuilder, doc_buf};
use query::Environment;
use query::matcher::Matcher;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::IfAllowed,
    admin_only: true,
    api_version_1: true,
    ..Command::new("listDatabases", "Lists databases with their sizes.", Run::Now(run))
};

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let environment = Environment::at(context.server.now_ms());
    let filter = context.fields.document("filter")?;
    let filter = filter.map(|filter| Matcher::parse(filter, &environment)).transpose()?;
    let name_only = context.fields.flexible_boolean("nameOnly")?.unwrap_or(false);
    let only_authorized = context.fields.flexible_boolean("authorizedDatabases")?.unwrap_or(false);
    context.fields.finish()?;
    let shows_all = !only_authorized && context.may(AccessTarget::Cluster, Action::ListDatabases);
    let mut total = 0;
    let mut shown = reply.start_array("databases");
    for (database, size) in sizes(context) {
        if !shows_all && !context.sees(|user| user.privileges.allows_something_in(&database)) {
            continue;
        }
        let described = describe(&database, size, name_only);
        if filter.as_ref().map_or(Ok(true), |filter| filter.matches(described.as_raw()))? {
            shown.push(&described);
            total += size;
        }
    }
    shown.finish();
    if !name_only {
        const MEGABYTE: i64 = 1 << 20;
        reply.append("totalSize", total).append("totalSizeMb", total / MEGABYTE);
    }
    Ok(())
}

/// Databases in alphabetical order and the bytes of their documents and index entries on disk, estimated.
fn sizes(context: &CommandContext<'_>) -> Vec<(String, i64)> {
    let state = context.server.node.catalog.state();
    let size = |database: &str| {
        let entries = state.entries(database);
        let collections = entries.iter().filter_map(|(_, entry)| match entry {
            catalog::CatalogEntry::Collection(collection) => Some(collection),
            catalog::CatalogEntry::View(_) => None,
        });
        collections
            .map(|collection| {
                let figures = collection.statistics(context.source.view());
                (figures.storage_bytes + figures.index_bytes()) as i64
            })
            .sum()
    };
    state
        .databases()
        .into_iter()
        .map(|name| {
            let bytes = size(&name);
            (name, bytes)
        })
        .collect()
}

fn describe(database: &str, size: i64, name_only: bool) -> DocumentBuf {
    match name_only {
        true => doc_buf! { "name": database },
        false => doc_buf! { "name": database, "sizeOnDisk": size, "empty": false },
    }
}
