//! What a document must be to be stored: size, depth, `_id`, validator.

use crate::WriteError;
use crate::definition::CollectionDefinition;
use crate::options::{ValidationAction, ValidationLevel};
use document::{
    DocumentBuilder, MAX_DOCUMENT_SIZE, MAX_NESTING_DEPTH, ObjectId, RawDocument, RawValue, Value,
};
use query::{Environment, checkpoint};
use std::borrow::Cow;

/// Brings `_id` to the front, adding one when there is none.
pub(crate) fn with_leading_id(document: RawDocument<'_>) -> Cow<'_, [u8]> {
    if document.first().is_some_and(|element| element.name_bytes() == b"_id") {
        return Cow::Borrowed(document.as_bytes());
    }
    let mut bytes = Vec::with_capacity(document.as_bytes().len() + 17);
    let mut builder = DocumentBuilder::new(&mut bytes);
    match document.element(b"_id") {
        Some(id) => {
            builder.append_element(id);
        }
        None => {
            builder.append("_id", RawValue::ObjectId(ObjectId::new()));
        }
    }
    let mut moved = false;
    for element in document.iter() {
        // A second one stays, to be refused.
        if moved || element.name_bytes() != b"_id" {
            builder.append_element(element);
        } else {
            moved = true;
        }
    }
    builder.finish();
    Cow::Owned(bytes)
}

/// Checks size, depth and `_id` of a document whose `_id` comes first; returns the `_id`.
pub(crate) fn check_document(document: RawDocument<'_>) -> Result<RawValue<'_>, WriteError> {
    check_extent(document)?;
    let id =
        document.get("_id").ok_or_else(|| WriteError::InvalidIdField("the document has no _id".into()))?;
    check_id(id)?;
    Ok(id)
}

/// Checks size and depth.
pub(crate) fn check_extent(document: RawDocument<'_>) -> Result<(), WriteError> {
    let size = document.as_bytes().len();
    if size > MAX_DOCUMENT_SIZE {
        return Err(WriteError::ObjectTooLarge(format!(
            "BSONObj size: {size} (0x{size:X}) is invalid. Size must be between 0 and \
            {MAX_DOCUMENT_SIZE}(16MB) First element: {}",
            document.first().map_or_else(String::new, |element| {
                document::quote::element(element.name(), element.value())
            })
        )));
    }
    // A document of n levels needs at least 7 bytes a level, so that most need no walk.
    if size > 7 * MAX_NESTING_DEPTH && document.exceeds_depth(MAX_NESTING_DEPTH) {
        return Err(WriteError::Location {
            code: 15,
            message: format!(
                "cannot insert document because it exceeds {MAX_NESTING_DEPTH} levels of nesting"
            ),
        });
    }
    Ok(())
}

pub(crate) fn check_id(id: RawValue<'_>) -> Result<(), WriteError> {
    match id {
        RawValue::Array(_) | RawValue::Regex { .. } | RawValue::Undefined => Err(WriteError::InvalidIdField(
            format!("The '_id' value cannot be of type {}", id.kind().alias()),
        )),
        RawValue::Document(_) => match dollar_prefixed(id) {
            None => Ok(()),
            Some(name) => Err(WriteError::DollarPrefixedFieldName(format!(
                "_id fields may not contain '$'-prefixed fields: {name} is not valid for storage."
            ))),
        },
        _ => Ok(()),
    }
}

/// The first field name with a dollar sign in front, however deep, but for those of references.
fn dollar_prefixed(value: RawValue<'_>) -> Option<&str> {
    const REFERENCE: [&str; 3] = ["$ref", "$id", "$db"];
    let fields = match value {
        RawValue::Document(fields) => fields,
        RawValue::Array(values) => return values.iter().find_map(dollar_prefixed),
        RawValue::JavaScriptWithScope { scope, .. } => scope,
        _ => return None,
    };
    let mut names = fields.iter().map(|field| field.name());
    let is_reference = matches!(fields.first().map(|first| first.value()), Some(RawValue::String(_)))
        && names.next() == Some("$ref")
        && names.next() == Some("$id");
    fields.iter().enumerate().find_map(|(position, field)| {
        let name = field.name();
        let belongs = is_reference && REFERENCE.get(position) == Some(&name);
        match name.starts_with('$') && !belongs {
            true => Some(name),
            false => dollar_prefixed(field.value()),
        }
    })
}

/// Refuses a document with two fields named `_id`; the first is the document's first field.
pub(crate) fn check_only_id(document: RawDocument<'_>) -> Result<(), WriteError> {
    match document.iter().skip(1).any(|element| element.name_bytes() == b"_id") {
        false => Ok(()),
        true => Err(WriteError::BadValue("can't have multiple _id fields in one document".into())),
    }
}

/// Applies the validator to a new version of a document.
pub(crate) fn check_validator(
    definition: &CollectionDefinition,
    old: Option<RawDocument<'_>>,
    new: RawDocument<'_>,
) -> Result<(), WriteError> {
    let Some(validator) = &definition.validator else { return Ok(()) };
    match (definition.options.level(), old) {
        (ValidationLevel::Off, _) => return Ok(()),
        (ValidationLevel::Moderate, Some(old)) => match validator.matches(old) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            // A document that the validator cannot be evaluated for is not valid; one that was not looked at
            // to the end may be.
            Err(error) => return Ok(checkpoint::unless_given_up(error)?),
        },
        _ => {}
    }
    if validator.matches(new)? {
        return Ok(());
    }
    let id = new.get("_id").map_or(Value::Null, RawValue::to_value);
    match definition.options.action() {
        ValidationAction::Warn => {
            tracing::warn!(
                namespace = %definition.namespace,
                id = id.quoted(),
                "document would fail validation"
            );
            Ok(())
        }
        ValidationAction::Error => {
            let rule = definition.options.validator.as_ref().expect("a validator is compiled from its rule");
            let info = query::schema::validation_details(rule.as_raw(), new, &Environment::default())?;
            Err(WriteError::DocumentValidationFailure(info))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::{Document, doc};

    #[track_caller]
    fn check(input: Document, expect: Result<&[&str], i32>) {
        let input = input.to_buf();
        let bytes = with_leading_id(input.as_raw());
        let document = RawDocument::trusted(&bytes);
        let names = check_document(document)
            .map(|_| document.iter().map(|element| element.name()).collect::<Vec<_>>());
        assert_eq!(names.map_err(|error| error.code()), expect.map(<[&str]>::to_vec));
    }

    #[test]
    fn ids() {
        check(doc! { "_id": 1, "a": 2 }, Ok(&["_id", "a"]));
        check(doc! { "a": 2, "_id": 1, "b": 3 }, Ok(&["_id", "a", "b"]));
        check(doc! { "a": 2 }, Ok(&["_id", "a"]));
        check(doc! { "_id": [1] }, Err(53));
        check(Document::from_iter([("_id", Value::Undefined)]), Err(53));
        let regex = Value::regex("a", "");
        check(Document::from_iter([("_id", regex)]), Err(53));
        check(doc! { "_id": { "$a": 1 } }, Err(52));
        check(doc! { "_id": { "a": [{ "b": { "$c": 1 } }] } }, Err(52));
        check(doc! { "_id": { "$ref": "c", "$id": 1, "$db": "d" } }, Ok(&["_id"]));
        check(doc! { "_id": { "$id": 1, "$ref": "c" } }, Err(52));
        check(doc! { "_id": { "$ref": "c", "$id": { "$a": 1 } } }, Err(52));
        check(doc! { "_id": { "a": 1 }, "$b": 2 }, Ok(&["_id", "$b"]));
    }

    #[test]
    fn one_id_only() {
        let only = |names: &[&str]| {
            let document = names.iter().map(|name| (*name, 1)).collect::<Document>().to_buf();
            check_only_id(document.as_raw()).map_err(|error| (error.code(), error.to_string()))
        };
        assert_eq!(only(&["_id", "a", "b"]), Ok(()));
        let message = "can't have multiple _id fields in one document".to_owned();
        assert_eq!(only(&["_id", "a", "_id"]), Err((2, message)));
    }

    #[test]
    fn depth() {
        let nested = |levels: usize| {
            let pad = "x".repeat(800);
            let inner = (2..levels).fold(doc! { "p": pad }, |inner, _| doc! { "a": inner });
            doc! { "_id": 1, "a": inner }
        };
        check(nested(MAX_NESTING_DEPTH), Ok(&["_id", "a"]));
        check(nested(MAX_NESTING_DEPTH + 1), Err(15));
    }
}
