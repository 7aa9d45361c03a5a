//! `dbStats`: sizes and counts of a database.

use super::coll_stats::scale;
use super::{Command, OnSecondary, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::parameters::Parameter;
use catalog::CatalogEntry;
use document::DocumentBuilder;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::IfAllowed,
    aliases: &["dbstats"],
    ..Command::new("dbStats", "Tells sizes and counts of a database.", Run::Now(run))
};

#[derive(Default)]
struct Totals {
    collections: i64,
    views: i64,
    objects: u64,
    data_bytes: u64,
    storage_bytes: u64,
    indexes: i64,
    index_bytes: u64,
}

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let scale = scale(context)?;
    let tells_free = context.fields.flexible_boolean("freeStorage")?.unwrap_or(false);
    context.fields.finish()?;
    catalog::check_database(context.database)?;
    let totals = totals(context);
    let scaled = |bytes: u64| bytes as f64 / scale as f64;
    let mean = totals.data_bytes as f64 / totals.objects.max(1) as f64;
    reply.append("db", context.database);
    reply.append("collections", totals.collections).append("views", totals.views);
    reply.append("objects", totals.objects as i64).append("avgObjSize", mean);
    // Tables are written anew and have no holes to be filled: nothing in them is free.
    let free = |name: &str, reply: &mut DocumentBuilder<'_>| {
        if tells_free {
            reply.append(name, 0.0);
        }
    };
    reply.append("dataSize", scaled(totals.data_bytes)).append("storageSize", scaled(totals.storage_bytes));
    free("freeStorageSize", reply);
    reply.append("indexes", totals.indexes).append("indexSize", scaled(totals.index_bytes));
    free("indexFreeStorageSize", reply);
    reply.append("totalSize", scaled(totals.storage_bytes + totals.index_bytes));
    free("totalFreeStorageSize", reply);
    reply.append("scaleFactor", scale);
    if let Some((used, total)) = volume(&context.server.parameters.text(Parameter::DbPath)) {
        reply.append("fsUsedSize", scaled(used)).append("fsTotalSize", scaled(total));
    }
    Ok(())
}

/// The bytes used and in all of the file system that holds this directory; `None` when there is no such
/// directory.
fn volume(directory: &str) -> Option<(u64, u64)> {
    let volume = rustix::fs::statvfs(directory).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(volume.f_frsize);
    Some((bytes(volume.f_blocks.saturating_sub(volume.f_bavail)), bytes(volume.f_blocks)))
}

fn totals(context: &CommandContext<'_>) -> Totals {
    let mut totals = Totals::default();
    for (_, entry) in context.server.node.catalog.state().entries(context.database) {
        let CatalogEntry::Collection(collection) = entry else {
            totals.views += 1;
            continue;
        };
        let figures = collection.statistics(context.source.view());
        totals.collections += 1;
        totals.objects += figures.documents;
        totals.data_bytes += figures.data_bytes;
        totals.storage_bytes += figures.storage_bytes;
        totals.indexes += figures.indexes.len() as i64;
        totals.index_bytes += figures.index_bytes();
    }
    totals
}
