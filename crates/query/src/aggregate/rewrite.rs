//! Copying a document with one field replaced: only the documents on the way to the field are rewritten.

use document::{Document, DocumentBuf, DocumentBuilder, RawDocument, RawValue, Value};

use crate::error::QueryError;
use crate::expression::Path;
use crate::expression::limits::check_string;

/// Writes the new field, or nothing to remove it.
pub(crate) type Write<'w> = &'w mut dyn FnMut(&mut DocumentBuilder<'_>, &str);

/// `document` with the field at `path` written by `write`: in place when it exists, otherwise at the end.
/// What stands on the way and is not a document gives way to one.
pub(crate) fn with_field(document: RawDocument<'_>, path: &Path, write: Write<'_>) -> DocumentBuf {
    let mut bytes = Vec::with_capacity(document.as_bytes().len() + 64);
    write_with_field(&mut bytes, document, path, write);
    DocumentBuf::trusted(bytes)
}

/// As [`with_field`], into an empty buffer.
pub(crate) fn write_with_field(
    bytes: &mut Vec<u8>,
    document: RawDocument<'_>,
    path: &Path,
    write: Write<'_>,
) {
    let mut out = DocumentBuilder::new(bytes);
    copy(document, path.components(), write, &mut out);
    out.finish();
}

fn copy(document: RawDocument<'_>, components: &[String], write: Write<'_>, out: &mut DocumentBuilder<'_>) {
    let (name, rest) = components.split_first().expect("a path is never empty");
    let Some(element) = document.element(name.as_bytes()) else {
        out.append_all(document);
        return match rest.is_empty() {
            true => write(out, name),
            false => copy(RawDocument::EMPTY, rest, write, &mut out.start_document(name)),
        };
    };
    // What stands around the field is copied in two pieces, unread.
    let all = document.iter().rest();
    let (before, from) = all.split_at(element.raw().as_ptr().addr() - all.as_ptr().addr());
    let (_, behind) = from.split_at(element.raw().len());
    out.append_encoded(before);
    if rest.is_empty() {
        write(out, name);
    } else {
        let below = match element.value() {
            RawValue::Document(below) => below,
            _ => RawDocument::EMPTY,
        };
        copy(below, rest, write, &mut out.start_document(name));
    }
    // Without the terminator.
    out.append_encoded(behind.split_last().map_or(behind, |(_, behind)| behind));
}

/// Refuses a document that no stage may hand to the next one. Between stages documents may be larger than a
/// client could be sent, as in MongoDB.
///
/// # Errors
/// 13548.
pub(crate) fn check_size(document: DocumentBuf) -> Result<DocumentBuf, QueryError> {
    check_string(document.len())?;
    Ok(document)
}

/// Appends a computed field to a document that is being made, and stops as soon as that is too large:
/// expressions may compute values that are larger than a document, and many of them.
///
/// # Errors
/// As [`check_size`].
pub(crate) fn append_bounded(
    out: &mut DocumentBuilder<'_>,
    name: &str,
    value: &Value,
) -> Result<(), QueryError> {
    out.append_value(name, value);
    check_string(out.len())
}

/// What `value`, an object, is as bytes.
///
/// # Errors
/// As [`check_size`].
pub(crate) fn to_bounded(object: &Document) -> Result<DocumentBuf, QueryError> {
    check_size(object.to_buf())
}
