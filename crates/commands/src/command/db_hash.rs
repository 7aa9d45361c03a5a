//! `dbHash`: whether two members have the same documents.
//!
//! Source: MongoDB manual, "dbHash".

use super::{Command, Run};
use crate::context::{CommandContext, OnDataNode};
use crate::error::{CommandError, CommandResult};
use crate::exec::{Executor, Query, Verdict, run_all};
use catalog::{CatalogEntry, Collection};
use document::{DocumentBuilder, RawValue};
use md5::{Digest, Md5};
use std::sync::Arc;
use storage::ReadSource;

pub(crate) static COMMAND: Command = Command {
    aliases: &["dbhash"],
    ..Command::new(
        "dbHash",
        "Tells a hash of the documents of each collection of a database.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let wanted = match context.fields.array("collections")? {
        None => Vec::new(),
        Some(names) => names
            .iter()
            .map(|name| {
                name.as_str().ok_or_else(|| CommandError::bad_value("collections entries have to be strings"))
            })
            .collect::<CommandResult<Vec<_>>>()?,
    };
    context.fields.finish()?;
    catalog::check_database(context.database)?;
    // All of it at one moment.
    let moment = ReadSource::View(context.source.moment());
    let mut collections: Vec<(String, Arc<Collection>)> = Vec::new();
    for (namespace, entry) in context.server.node.catalog.state().entries(context.database) {
        let name = namespace.collection();
        if let CatalogEntry::Collection(collection) = entry
            && (wanted.is_empty() || wanted.contains(&name))
            && name != "system.profile"
        {
            collections.push((name.to_owned(), Arc::clone(&collection)));
        }
    }
    collections.sort_by(|(one, _), (other, _)| one.cmp(other));
    reply.append("host", super::host_info::host_name().as_str());
    let mut all = Md5::new();
    let mut hashes = reply.start_document("collections");
    for (name, collection) in &collections {
        let hash = hash(context, collection, &moment).await?;
        all.update(&hash);
        hashes.append(name, hash.as_str());
    }
    hashes.finish();
    let mut capped = reply.start_array("capped");
    for (name, _) in collections.iter().filter(|(_, collection)| collection.is_capped()) {
        capped.push(name.as_str());
    }
    capped.finish();
    let mut uuids = reply.start_document("uuids");
    for (name, collection) in &collections {
        let uuid = collection.uuid();
        uuids.append(name, RawValue::Binary { subtype: 4, bytes: uuid.as_bytes() });
    }
    uuids.finish();
    reply.append("md5", hex(all).as_str());
    reply.append("timeMillis", ambient::elapsed(context.started).as_millis() as i32);
    Ok(())
}

/// The documents in the order of their keys; of a capped collection in that of their coming.
async fn hash(
    context: &CommandContext<'_>,
    collection: &Arc<Collection>,
    moment: &ReadSource,
) -> CommandResult<String> {
    let mut documents = Md5::new();
    let mut executor = Executor::open(moment, collection, Query::default())?;
    run_all(&mut executor, context.scheduling(), |located| {
        documents.update(located.document.as_bytes());
        Ok(Verdict::Take)
    })
    .await?;
    Ok(hex(documents))
}

fn hex(hash: Md5) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
