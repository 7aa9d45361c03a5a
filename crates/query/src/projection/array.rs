//! The array operators of `find` projections: `$slice`, `$elemMatch`, and the positional `.$`.

use document::{DocumentBuilder, Element, RawArray, RawDocument, RawValue};

use super::tree::Section;
use crate::error::QueryError;
use crate::matcher::Matcher;

/// Appends the section of an array; any other value stays as it is.
pub(super) fn append_section(element: Element<'_>, section: Section, out: &mut DocumentBuilder<'_>) {
    let RawValue::Array(array) = element.value() else {
        out.append_element(element);
        return;
    };
    let length = array.len() as i64;
    let start = if section.skip < 0 { (length + section.skip).max(0) } else { section.skip.min(length) };
    let mut kept = out.start_array(element.name());
    for item in array.elements().skip(start as usize).take(section.limit.max(0) as usize) {
        kept.push_raw(item.kind(), item.value_bytes());
    }
}

/// Appends the first element of the array `name` that matches, alone in an array.
pub(super) fn append_first_match(
    name: &str,
    matcher: &Matcher,
    (document, array): (RawDocument<'_>, RawArray<'_>),
    out: &mut DocumentBuilder<'_>,
) -> Result<(), QueryError> {
    let found = matcher.matches_positional(document)?.and_then(|details| details.array_index);
    if let Some(element) = found.and_then(|index| array.elements().nth(index)) {
        out.start_array(name).push_raw(element.kind(), element.value_bytes());
    }
    Ok(())
}

/// Appends the document's fields, the first array on `path` cut down to the element that matched.
pub(super) fn keep_matched(
    document: RawDocument<'_>,
    path: &[String],
    index: Option<usize>,
    out: &mut DocumentBuilder<'_>,
) -> Result<(), QueryError> {
    let (name, below) = path.split_first().expect("a path is never empty");
    for element in document {
        match element.value() {
            RawValue::Document(inner) if element.name() == name && !below.is_empty() => {
                keep_matched(inner, below, index, &mut out.start_document(name))?;
            }
            RawValue::Array(array) if element.name() == name => {
                let kept = matched_element(array, index)?;
                out.start_array(name).push_raw(kept.kind(), kept.value_bytes());
            }
            _ => {
                out.append_element(element);
            }
        }
    }
    Ok(())
}

fn matched_element(array: RawArray<'_>, index: Option<usize>) -> Result<Element<'_>, QueryError> {
    let index = index.ok_or_else(|| {
        QueryError::new(51246, "positional operator '.$' couldn't find a matching element in the array")
    })?;
    let mut elements = array.elements();
    elements.nth(index).ok_or_else(|| QueryError::new(51247, "positional operator '.$' element mismatch"))
}
