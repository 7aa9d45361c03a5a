//! `listCollections`: the collections and views of a database.

use super::{Command, OnSecondary, Run};
use crate::context::CommandContext;
use crate::cursors::open_fixed;
use crate::error::CommandResult;
use access::AccessTarget;
use catalog::{CollectionDefinition, Namespace};
use document::{DocumentBuf, DocumentBuilder, Value, doc};
use query::Environment;
use query::matcher::Matcher;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::IfAllowed,
    api_version_1: true,
    ..Command::new("listCollections", "Lists the collections and views of a database.", Run::Now(run))
};

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let environment = Environment::at(context.server.now_ms());
    let filter = context.fields.document("filter")?;
    let filter = filter.map(|filter| Matcher::parse(filter, &environment)).transpose()?;
    let name_only = context.fields.flexible_boolean("nameOnly")?.unwrap_or(false);
    let batch_size = context.fields.cursor_batch_size()?;
    let only_authorized = context.fields.flexible_boolean("authorizedCollections")?.unwrap_or(false);
    context.fields.ignore(&["includePendingDrops"]);
    context.fields.finish()?;
    catalog::check_database(context.database)?;
    let mut documents = Vec::new();
    for (namespace, entry) in context.server.node.catalog.state().entries(context.database) {
        let target = AccessTarget::Collection(namespace.database(), namespace.collection());
        if only_authorized && !context.sees(|user| user.privileges.allows_something(target)) {
            continue;
        }
        let described = describe(&namespace, &entry.definition());
        if filter.as_ref().map_or(Ok(true), |filter| filter.matches(described.as_raw()))? {
            documents.push(if name_only { name_of(&described) } else { described });
        }
    }
    let namespace = format!("{}.$cmd.listCollections", context.database);
    open_fixed(context, reply, &namespace, documents, batch_size)
}

fn describe(namespace: &Namespace, definition: &CollectionDefinition) -> DocumentBuf {
    let is_view = definition.options.view.is_some();
    let mut info = doc! { "readOnly": is_view };
    if !is_view {
        info.push("uuid", Value::binary(4, definition.uuid.as_bytes().to_vec()));
    }
    let mut described = doc! {
        "name": (namespace.collection()), "type": (if is_view { "view" } else { "collection" }),
        "options": (definition.options.to_document()), "info": info,
    };
    if let Some(index) =
        definition.index("_id_").filter(|_| !is_view && definition.options.clustered_index().is_none())
    {
        described.push("idIndex", index.spec.to_document());
    }
    described.to_buf()
}

/// The short form keeps name and type.
fn name_of(described: &DocumentBuf) -> DocumentBuf {
    let mut bytes = Vec::new();
    let mut short = DocumentBuilder::new(&mut bytes);
    for element in described.as_raw().iter().take(2) {
        short.append_element(element);
    }
    short.finish();
    DocumentBuf::trusted(bytes)
}
