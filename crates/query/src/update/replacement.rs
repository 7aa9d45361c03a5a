//! Replacement documents: everything changes but `_id`.

use document::quote::element;
use document::{DocumentBuf, DocumentBuilder, RawDocument};

use super::{EmptyTimestamps, id};
use crate::error::{QueryError, code};

/// Checks a replacement document: none of its top-level fields may begin with a dollar sign.
pub(super) fn parse(
    replacement: RawDocument<'_>,
    timestamps: EmptyTimestamps,
) -> Result<DocumentBuf, QueryError> {
    let mut has_id = false;
    for name in replacement.iter().map(|element| element.name()) {
        if name.starts_with('$') {
            return Err(id::dollar_prefixed(name, name));
        }
        if name == "_id" && std::mem::replace(&mut has_id, true) {
            return Err(id::given_twice());
        }
    }
    let stamped = match timestamps {
        EmptyTimestamps::Replaced => replacement.with_current_timestamps(),
        EmptyTimestamps::Kept => None,
    };
    Ok(stamped.unwrap_or_else(|| replacement.to_buf()))
}

/// The replacement with the `_id` of `document` in front.
pub(super) fn apply(
    document: RawDocument<'_>,
    replacement: RawDocument<'_>,
) -> Result<DocumentBuf, QueryError> {
    let (old, new) = (document.element(b"_id"), replacement.element(b"_id"));
    if let Some(new) = new.filter(|new| old.is_none_or(|old| old.raw() != new.raw())) {
        id::check(new.value())?;
    }
    if let (Some(old), Some(new)) = (old, new)
        && document::compare(old.value(), new.value()).is_ne()
    {
        bail!(
            code::IMMUTABLE_FIELD,
            "After applying the update, the (immutable) field '_id' was found to have been altered to {}",
            element("_id", new.value())
        );
    }
    let Some(id) = old.or(new) else {
        return Ok(replacement.to_buf());
    };
    let mut bytes = Vec::with_capacity(replacement.as_bytes().len() + id.raw().len());
    let mut builder = DocumentBuilder::new(&mut bytes);
    builder.append_element(id);
    for element in replacement.iter().filter(|element| element.name_bytes() != b"_id") {
        builder.append_element(element);
    }
    builder.finish();
    Ok(DocumentBuf::trusted(bytes))
}
