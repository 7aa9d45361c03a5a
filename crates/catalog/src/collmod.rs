//! `collMod`: changing a collection's options, one of its indexes, or a view.

use crate::catalog::Catalog;
use crate::change::Changes;
use crate::collection::Collection;
use crate::definition::{CollectionDefinition, IndexDefinition};
use crate::index_spec::expire_after_seconds;
use crate::keys;
use crate::options::{self, ValidationAction, ValidationLevel};
use crate::state::CatalogEntry;
use crate::{CatalogError, Namespace, OperationContext};
use document::{Document, RawDocument, RawValue};
use query::calendar::WorkCalendar;
use std::sync::Arc;
use storage::{CursorOptions, Direction, Keyspace};

impl Catalog {
    /// Applies the fields of a `collMod` command (without the command's own and the generic ones); returns
    /// the `…_old` and `…_new` fields of the reply.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `IndexNotFound`, `InvalidOptions`, `BadValue`, `CannotConvertIndexToUnique`,
    /// `Location40415` for an unknown field.
    pub async fn coll_mod(
        &self,
        context: &OperationContext<'_>,
        namespace: &Namespace,
        fields: RawDocument<'_>,
    ) -> Result<Document, CatalogError> {
        let _guard = self.begin_change(context).await?;
        match self.entry(namespace.database(), namespace.collection()) {
            None => Err(CatalogError::NamespaceNotFound(format!("ns does not exist: {namespace}"))),
            Some(CatalogEntry::View(definition)) => self.modify_view(context, &definition, fields).await,
            Some(CatalogEntry::Collection(collection)) => {
                let writers = collection.begin_change().await?;
                let _writers = writers.ok_or_else(|| {
                    CatalogError::NamespaceNotFound(format!("ns does not exist: {namespace}"))
                })?;
                modify_collection(context, &collection, fields).await
            }
        }
    }

    async fn modify_view(
        &self,
        context: &OperationContext<'_>,
        definition: &CollectionDefinition,
        fields: RawDocument<'_>,
    ) -> Result<Document, CatalogError> {
        let mut changed = definition.copy()?;
        let view = changed.options.view.as_mut().expect("a view's definition has a source");
        for element in fields.iter() {
            match (element.name(), element.value()) {
                ("viewOn", RawValue::String(view_on)) => view.view_on = view_on.to_owned(),
                ("pipeline", value) => view.pipeline = options::stages(value)?,
                (name, _) => {
                    return Err(CatalogError::InvalidOptions(format!(
                        "option not supported on a view: {name}"
                    )));
                }
            }
        }
        self.replace_view(context, definition, changed).await?;
        Ok(Document::new())
    }
}

async fn modify_collection(
    context: &OperationContext<'_>,
    collection: &Collection,
    fields: RawDocument<'_>,
) -> Result<Document, CatalogError> {
    let before = collection.definition();
    let mut definition = before.copy()?;
    let mut reply = Document::new();
    for element in fields.iter() {
        let value = element.value();
        match element.name() {
            "index" => {
                let request = document_of("index", value)?;
                modify_index(context, collection, &mut definition, request, &mut reply)?;
            }
            "validator" => {
                definition.options.validator =
                    Some(document_of("validator", value)?.to_buf()).filter(|validator| !validator.is_empty());
                definition.compile_validator()?;
            }
            "validationLevel" => definition.options.validation_level = Some(ValidationLevel::parse(value)?),
            "validationAction" => {
                definition.options.validation_action = Some(ValidationAction::parse(value)?)
            }
            "hideExpired" => modify_hiding(&mut definition, value, &mut reply)?,
            "cappedSize" | "cappedMax" => modify_capped(&mut definition, element.name(), value)?,
            "changeStreamPreAndPostImages" | "expireAfterSeconds" => {
                definition.options.other.insert(element.name(), value.to_value());
            }
            "viewOn" | "pipeline" => {
                return Err(CatalogError::InvalidOptions(format!(
                    "'{}' option not supported on a collection",
                    element.name()
                )));
            }
            unknown => {
                return Err(CatalogError::Location {
                    code: 40415,
                    message: format!("BSON field 'collMod.{unknown}' is an unknown field."),
                });
            }
        }
    }
    let mut changes = Changes::new(context);
    changes.modify(&before, &definition);
    changes.commit(&collection.store).await?;
    collection.publish(definition);
    Ok(reply)
}

fn document_of<'a>(field: &str, value: RawValue<'a>) -> Result<RawDocument<'a>, CatalogError> {
    value.as_document().ok_or_else(|| {
        CatalogError::TypeMismatch(format!(
            "BSON field 'collMod.{field}' is the wrong type '{}', expected type 'object'",
            value.kind().alias()
        ))
    })
}

fn modify_hiding(
    definition: &mut CollectionDefinition,
    value: RawValue<'_>,
    reply: &mut Document,
) -> Result<(), CatalogError> {
    let hides = value.as_bool().or_else(|| value.as_f64().map(|number| number != 0.0)).ok_or_else(|| {
        CatalogError::TypeMismatch(
            "BSON field 'collMod.hideExpired' is the wrong type, expected type 'bool'".into(),
        )
    })?;
    if hides && definition.is_capped() {
        return Err(CatalogError::InvalidOptions(
            "'hideExpired' is for collections that can have TTL indexes: not for capped ones".into(),
        ));
    }
    reply.push("hideExpired_old", std::mem::replace(&mut definition.options.hide_expired, hides));
    reply.push("hideExpired_new", hides);
    Ok(())
}

fn modify_capped(
    definition: &mut CollectionDefinition,
    name: &str,
    value: RawValue<'_>,
) -> Result<(), CatalogError> {
    let Some(limits) = &mut definition.options.capped else {
        return Err(CatalogError::InvalidOptions("Collection must be capped".into()));
    };
    let number = value.as_f64().ok_or_else(|| {
        CatalogError::TypeMismatch(format!(
            "BSON field 'collMod.{name}' is the wrong type, expected a number"
        ))
    })? as i64;
    match name {
        "cappedSize" => limits.size_bytes_max = options::capped_size(number)?,
        _ => limits.documents_max = options::capped_documents(number)?,
    }
    Ok(())
}

/// What the `index` field of `collMod` asks for.
#[derive(Default)]
struct IndexRequest {
    expire_after_seconds: Option<i64>,
    /// Taken away by `Some(None)`.
    window: Option<Option<WorkCalendar>>,
    hidden: Option<bool>,
    prepare_unique: Option<bool>,
    unique: bool,
}

fn modify_index(
    context: &OperationContext<'_>,
    collection: &Collection,
    definition: &mut CollectionDefinition,
    request: RawDocument<'_>,
    reply: &mut Document,
) -> Result<(), CatalogError> {
    let index = Arc::clone(find_index(definition, request)?);
    let wanted = parse_request(request)?;
    let mut spec = index.spec.clone();
    if let Some(seconds) = wanted.expire_after_seconds {
        check_may_expire(definition, &index)?;
        if let Some(old) = spec.expire_after_seconds.replace(seconds) {
            reply.push("expireAfterSeconds_old", old);
        }
        reply.push("expireAfterSeconds_new", seconds);
    }
    if let Some(window) = wanted.window {
        if spec.expire_after_seconds.is_none() {
            return Err(CatalogError::InvalidOptions(
                "the 'window' option is for TTL indexes: it needs 'expireAfterSeconds'".into(),
            ));
        }
        let shown = window.as_ref().map(WorkCalendar::to_value);
        if let Some(old) = std::mem::replace(&mut spec.window, window) {
            reply.push("window_old", old.to_value());
        }
        if let Some(new) = shown {
            reply.push("window_new", new);
        }
    }
    if let Some(hidden) = wanted.hidden {
        if index.id == keys::ID_INDEX {
            return Err(CatalogError::BadValue("can't hide _id index".into()));
        }
        reply.push("hidden_old", std::mem::replace(&mut spec.hidden, hidden));
        reply.push("hidden_new", hidden);
    }
    if let Some(prepare_unique) = wanted.prepare_unique {
        reply.push("prepareUnique_old", std::mem::replace(&mut spec.prepare_unique, prepare_unique));
        reply.push("prepareUnique_new", prepare_unique);
    }
    if wanted.unique && !spec.unique {
        if context.keeps_rules() && !spec.prepare_unique {
            return Err(CatalogError::InvalidOptions(
                "Cannot make index unique with 'prepareUnique=false'. Run collMod to set it first.".into(),
            ));
        }
        if context.keeps_rules() {
            check_unique(context, collection, &index)?;
        }
        spec.unique = true;
        spec.prepare_unique = false;
        reply.push("unique_new", true);
    }
    // What no creation lets in, no opening of the catalog takes either.
    spec.check_combination()?;
    definition.change_index(index.id, |index| (spec, index.state, index.multikey.clone()))
}

/// Refuses `expireAfterSeconds` for what can be no TTL index.
fn check_may_expire(definition: &CollectionDefinition, index: &IndexDefinition) -> Result<(), CatalogError> {
    let refused = |message: &str| Err(CatalogError::InvalidOptions(message.into()));
    if definition.is_capped() {
        return refused("TTL indexes are not supported for capped collections.");
    }
    if index.id == keys::ID_INDEX {
        return refused("the _id field does not support TTL indexes");
    }
    if index.spec.fields.len() > 1 {
        return refused("TTL indexes are single-field indexes, compound indexes do not support TTL");
    }
    Ok(())
}

fn parse_request(request: RawDocument<'_>) -> Result<IndexRequest, CatalogError> {
    let mut wanted = IndexRequest::default();
    let truth = |name: &str, value: RawValue<'_>| {
        value.as_bool().or_else(|| value.as_f64().map(|number| number != 0.0)).ok_or_else(|| {
            CatalogError::TypeMismatch(format!(
                "BSON field 'collMod.index.{name}' is the wrong type, expected 'bool'"
            ))
        })
    };
    for element in request.iter() {
        let value = element.value();
        match element.name() {
            "name" | "keyPattern" => {}
            "expireAfterSeconds" => {
                wanted.expire_after_seconds = Some(
                    expire_after_seconds(value)
                        .map_err(|error| CatalogError::InvalidOptions(error.to_string()))?,
                );
            }
            "window" => wanted.window = Some(WorkCalendar::parse(value, "collMod.index.window")?),
            "hidden" => wanted.hidden = Some(truth("hidden", value)?),
            "prepareUnique" => wanted.prepare_unique = Some(truth("prepareUnique", value)?),
            "unique" => {
                wanted.unique = truth("unique", value)?;
                if !wanted.unique {
                    return Err(CatalogError::BadValue("collMod does not support 'unique: false'".into()));
                }
            }
            unknown => {
                return Err(CatalogError::Location {
                    code: 40415,
                    message: format!("BSON field 'collMod.index.{unknown}' is an unknown field."),
                });
            }
        }
    }
    if wanted.expire_after_seconds.is_none()
        && wanted.window.is_none()
        && wanted.hidden.is_none()
        && wanted.prepare_unique.is_none()
        && !wanted.unique
    {
        return Err(CatalogError::InvalidOptions(
            "no expireAfterSeconds, window, hidden, unique, or prepareUnique field".into(),
        ));
    }
    Ok(wanted)
}

fn find_index<'d>(
    definition: &'d CollectionDefinition,
    request: RawDocument<'_>,
) -> Result<&'d Arc<IndexDefinition>, CatalogError> {
    let name = request.get("name").and_then(RawValue::as_str);
    let pattern = request.get("keyPattern").and_then(RawValue::as_document);
    match (name, pattern) {
        (Some(_), Some(_)) => {
            Err(CatalogError::InvalidOptions("Cannot specify both key pattern and name.".into()))
        }
        (None, None) => {
            Err(CatalogError::InvalidOptions("Must specify either index name or key pattern.".into()))
        }
        (Some(name), None) => definition.index(name).ok_or_else(|| {
            CatalogError::IndexNotFound(format!("cannot find index {name} for ns {}", definition.namespace))
        }),
        (None, Some(pattern)) => {
            let pattern = pattern.to_document();
            match definition.indexes_by_pattern(&pattern).as_slice() {
                [index] => Ok(*index),
                [] => Err(CatalogError::IndexNotFound(format!(
                    "cannot find index {} for ns {}",
                    pattern.quoted(),
                    definition.namespace
                ))),
                several => Err(CatalogError::AmbiguousIndexKeyPattern(format!(
                    "index keyPattern {} matches {} indexes, must use index name.",
                    pattern.quoted(),
                    several.len()
                ))),
            }
        }
    }
}

/// Fails when two documents have the same key; the caller keeps writers out.
fn check_unique(
    context: &OperationContext<'_>,
    collection: &Collection,
    index: &IndexDefinition,
) -> Result<(), CatalogError> {
    let options = CursorOptions { fill_cache: false, ..CursorOptions::default() };
    let range = keys::index_range(collection.id(), index.id);
    let mut cursor = context.view.cursor_with(Keyspace::Indexes, range, Direction::Forward, options)?;
    let mut previous: Option<Vec<u8>> = None;
    while let Some((key, value)) = cursor.next()? {
        let entry = keys::whole_entry(key, value)?;
        if previous.as_deref() == Some(entry.fields) {
            return Err(CatalogError::CannotConvertIndexToUnique(
                "Cannot convert the index to unique. Please resolve conflicting documents before running \
                collMod again."
                    .into(),
            ));
        }
        let kept = previous.get_or_insert_default();
        kept.clear();
        kept.extend_from_slice(entry.fields);
    }
    Ok(())
}
