//! What the audit log is told of collections, views and indexes that come and go, by whoever makes or drops
//! them: some of them come unasked, with the first document.
//!
//! Source: MongoDB manual, "System Event Audit Messages".

use crate::context::CommandContext;
use crate::error::CommandResult;
use catalog::{CatalogEntry, Collection, Namespace, OperationContext, ViewOptions};
use dispatch::audit::AuditEvent;
use document::{Document, DocumentBuf, RawArray, RawDocument, RawValue, Value, doc};
use std::sync::Arc;

/// What there was before something was to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuditedCreation<'n> {
    namespace: (&'n str, &'n str),
    makes_database: bool,
}

impl<'n> AuditedCreation<'n> {
    /// `None` where nobody wants to know, and where nothing will be made.
    pub(crate) fn before(context: &CommandContext<'_>, namespace: (&'n str, &'n str)) -> Option<Self> {
        let (database, name) = namespace;
        let catalog = &context.server.node.catalog;
        if !context.is_audited() || catalog.entry(database, name).is_some() {
            return None;
        }
        Some(AuditedCreation { namespace, makes_database: catalog.state().entries(database).is_empty() })
    }

    /// It is made.
    pub(crate) async fn done(self, context: &CommandContext<'_>, view: Option<&ViewOptions>) {
        let (database, name) = self.namespace;
        if self.makes_database {
            context.audit(|| AuditEvent::new("createDatabase", doc! { "ns": database })).await;
        }
        let event = || AuditEvent::new("createCollection", of_namespace((database, name), view));
        context.audit(event).await;
    }
}

/// The collection of this name, made where there is none; then the audit log is told.
///
/// # Errors
/// What making a collection refuses.
pub(crate) async fn collection_or_create(
    context: &CommandContext<'_>,
    writing: &OperationContext<'_>,
    (database, name): (&str, &str),
) -> CommandResult<Arc<Collection>> {
    let audited = AuditedCreation::before(context, (database, name));
    let collection = context.server.node.catalog.collection_or_create(writing, database, name).await?;
    if let Some(creation) = audited {
        Box::pin(creation.done(context, None)).await;
    }
    Ok(collection)
}

/// `{ns}`, and what a view is made of.
fn of_namespace((database, name): (&str, &str), view: Option<&ViewOptions>) -> Document {
    let mut param = doc! { "ns": (format!("{database}.{name}")) };
    if let Some(view) = view {
        param.push("viewOn", format!("{database}.{}", view.view_on));
        param.push("pipeline", view.pipeline.iter().map(Value::from).collect::<Vec<_>>());
    }
    param
}

/// A collection or view was dropped, or was to be and is not there (`result` is that error's code then).
pub(crate) async fn dropped(
    context: &CommandContext<'_>,
    namespace: &Namespace,
    entry: Option<&CatalogEntry>,
    result: i32,
) {
    let event = || {
        let view = match entry {
            Some(CatalogEntry::View(view)) => view.options.view.as_ref(),
            _ => None,
        };
        let param = of_namespace((namespace.database(), namespace.collection()), view);
        AuditEvent::new("dropCollection", param).with_result(result)
    };
    context.audit(event).await;
}

/// A database was dropped, with these collections and views.
pub(crate) async fn database_dropped(
    context: &CommandContext<'_>,
    database: &str,
    entries: &[(Namespace, CatalogEntry)],
) {
    for (namespace, entry) in entries {
        dropped(context, namespace, Some(entry), 0).await;
    }
    context.audit(|| AuditEvent::new("dropDatabase", doc! { "ns": database })).await;
}

/// A collection has another name.
pub(crate) async fn renamed(context: &CommandContext<'_>, from: &str, to: &str) {
    context.audit(|| AuditEvent::new("renameCollection", doc! { "old": from, "new": to })).await;
}

/// How far indexes are that a command makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuditedBuild {
    Started,
    Succeeded,
    Aborted,
}

/// The indexes, of those that a command asks for, that are not there yet.
pub(crate) fn missing_indexes(
    context: &CommandContext<'_>,
    namespace: (&str, &str),
    asked_for: RawArray<'_>,
) -> Vec<DocumentBuf> {
    if !context.is_audited() {
        return Vec::new();
    }
    let known = index_names(context, namespace);
    let specs = asked_for.iter().filter_map(RawValue::as_document);
    let missing = specs.filter(|spec| !known.contains(&name_of(*spec)));
    missing.map(|spec| spec.to_buf()).collect()
}

fn name_of(spec: RawDocument<'_>) -> String {
    spec.get("name").and_then(RawValue::as_str).unwrap_or_default().to_owned()
}

/// Indexes are to be made, were made, or will not be.
pub(crate) async fn indexes(
    context: &CommandContext<'_>,
    (database, name): (&str, &str),
    specs: &[DocumentBuf],
    state: AuditedBuild,
) {
    const INDEX_BUILD_ABORTED: i32 = 276;
    for spec in specs {
        let event = || {
            let (state, result) = match state {
                AuditedBuild::Started => ("IndexBuildStarted", 0),
                AuditedBuild::Succeeded => ("IndexBuildSucceeded", 0),
                AuditedBuild::Aborted => ("IndexBuildAborted", INDEX_BUILD_ABORTED),
            };
            let param = doc! {
                "ns": (format!("{database}.{name}")), "indexName": (name_of(spec.as_raw())),
                "indexSpec": (Value::from(spec)), "indexBuildState": state,
            };
            AuditEvent::new("createIndex", param).with_result(result)
        };
        context.audit(event).await;
    }
}

/// The names of a collection's indexes; none where nobody wants to know.
pub(crate) fn index_names(context: &CommandContext<'_>, (database, name): (&str, &str)) -> Vec<String> {
    let collection = match context.is_audited() {
        true => context.server.node.catalog.collection(database, name),
        false => None,
    };
    let definition = collection.map(|collection| collection.definition());
    definition
        .iter()
        .flat_map(|definition| &definition.indexes)
        .map(|index| index.spec.name.clone())
        .collect()
}

/// Indexes were dropped: those of `before` that are not there any more.
pub(crate) async fn indexes_dropped(
    context: &CommandContext<'_>,
    (database, name): (&str, &str),
    before: &[String],
) {
    let now = index_names(context, (database, name));
    for gone in before.iter().filter(|name| !now.contains(name)) {
        let param = || doc! { "ns": (format!("{database}.{name}")), "indexName": (gone.as_str()) };
        context.audit(|| AuditEvent::new("dropIndex", param())).await;
    }
}
