//! `collStats`: sizes and counts of a collection.

use super::{Command, OnSecondary, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::write::not_on_a_view;
use catalog::{CatalogEntry, Collection, CollectionStatistics};
use dispatch::narrow;
use document::{Document, DocumentBuilder, doc};
use storage::ReadView;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::IfAllowed,
    aliases: &["collstats"],
    ..Command::new("collStats", "Tells sizes and counts of a collection.", Run::Now(run))
};

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    let scale = scale(context)?;
    context.fields.ignore(&["waitForLock", "numericOnly"]);
    context.fields.finish()?;
    let namespace = format!("{database}.{name}");
    let described = match context.server.node.catalog.entry(database, name) {
        Some(CatalogEntry::Collection(collection)) => {
            describe(context.source.view(), &namespace, &collection, scale)
        }
        Some(CatalogEntry::View(_)) => return Err(not_on_a_view(database, name)),
        None => absent(&namespace, scale),
    };
    reply.append_fields(&described);
    Ok(())
}

/// The `scale` of sizes: bytes are divided by it.
pub(crate) fn scale(context: &mut CommandContext<'_>) -> CommandResult<i64> {
    Ok(context.fields.integer_at_least("scale", 1)?.unwrap_or(1))
}

/// The fields of the reply, in MongoDB's order.
pub(crate) fn describe(view: &ReadView, namespace: &str, collection: &Collection, scale: i64) -> Document {
    let figures = collection.statistics(view);
    let definition = collection.definition();
    let scaled = |bytes: u64| narrow(bytes as i64 / scale);
    let mut described = doc! {
        "ns": namespace, "size": (scaled(figures.data_bytes)), "count": (narrow(figures.documents)),
    };
    if figures.documents > 0 {
        described.push("avgObjSize", narrow(figures.document_bytes_mean as i64));
    }
    described.extend(
        doc! { "numOrphanDocs": 0, "storageSize": (scaled(figures.storage_bytes)), "freeStorageSize": 0 },
    );
    described.push("capped", definition.is_capped());
    if let Some(limits) = definition.options.capped {
        described.push("max", narrow(limits.documents_max.unwrap_or(0)));
        described.push("maxSize", scaled(limits.size_bytes_max));
    }
    let is_clustered = definition.options.clustered_index().is_some();
    if is_clustered {
        described.push("clustered", true);
    }
    // What documents are clustered by is no index beside them.
    let shown = || figures.indexes.iter().filter(move |index| !is_clustered || index.name != "_id_");
    described.push("nindexes", shown().count() as i32);
    described.push(
        "indexBuilds",
        building(&figures).into_iter().map(Into::into).collect::<Vec<document::Value>>(),
    );
    described.push("totalIndexSize", scaled(figures.index_bytes()));
    described.push("totalSize", scaled(figures.index_bytes() + figures.storage_bytes));
    let sizes: Document = shown().map(|index| (index.name.as_str(), scaled(index.bytes))).collect();
    described.extend(doc! { "indexSizes": sizes, "scaleFactor": (scale as i32) });
    described
}

fn building(figures: &CollectionStatistics) -> Vec<&str> {
    figures.indexes.iter().filter(|index| index.building).map(|index| index.name.as_str()).collect()
}

/// As MongoDB answers for a collection that does not exist.
fn absent(namespace: &str, scale: i64) -> Document {
    doc! {
        "ns": namespace, "size": 0, "count": 0, "numOrphanDocs": 0, "storageSize": 0, "totalSize": 0,
        "nindexes": 0, "totalIndexSize": 0, "indexDetails": {}, "indexSizes": {},
        "scaleFactor": (scale as i32),
    }
}
