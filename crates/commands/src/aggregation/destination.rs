//! The collection that `$out` and `$merge` write.

use crate::error::{CommandError, CommandResult};
use crate::write::not_on_a_view;
use catalog::{Catalog, CatalogEntry, Collection, Namespace};
use query::aggregate::Destination;
use std::sync::Arc;

/// The databases that belong to the server.
const INTERNAL_DATABASES: [&str; 3] = ["admin", "config", "local"];

/// The codes of refusals, which differ by stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct DestinationCodes {
    pub(super) stage: &'static str,
    pub(super) internal_database: i32,
    pub(super) special_collection: i32,
}

/// The namespace a stage writes, checked.
///
/// # Errors
/// Databases and collections of the server itself, names that cannot be, views.
pub(super) fn namespace(
    catalog: &Catalog,
    database: &str,
    destination: &Destination,
    codes: DestinationCodes,
) -> CommandResult<(Namespace, Option<Arc<Collection>>)> {
    let stage = codes.stage;
    let database = destination.database.as_deref().unwrap_or(database);
    let namespace = Namespace::new(database, &destination.collection);
    namespace.check_creatable().map_err(|error| match namespace.is_system() {
        true => CommandError::new(
            codes.special_collection,
            format!("Cannot {stage} to special collection: {}", namespace.collection()),
        ),
        false => error.into(),
    })?;
    if INTERNAL_DATABASES.contains(&database) {
        let message = format!("Cannot {stage} to internal database: {database}");
        return Err(CommandError::new(codes.internal_database, message));
    }
    match catalog.entry(database, namespace.collection()) {
        Some(CatalogEntry::View(_)) => Err(not_on_a_view(database, namespace.collection())),
        Some(CatalogEntry::Collection(collection)) => Ok((namespace, Some(collection))),
        None => Ok((namespace, None)),
    }
}
