//! Applying modifiers to raw bytes: untouched top-level fields are copied, touched ones are made anew.

use document::{DocumentBuf, DocumentBuilder, Element};

use super::array_filters::ArrayFilters;
use super::modifier::{Effect, Spliced, Surroundings};
use super::path::{FieldPlace, PathStep};
use super::tree::{Branch, UpdateNode};
use super::walk::UpdateRun;
use crate::error::QueryError;

/// How many touched fields this way can keep account of.
pub(super) const MAX_FIELDS: usize = u64::BITS as usize;

/// Room for a changed value without growing the buffer.
const SPARE_BYTES: usize = 64;

/// A piece of the document that is copied as it is; left out, fields would be lost.
fn untouched(source: &[u8], from: usize, to: usize) -> &[u8] {
    source
        .get(from..to)
        .unwrap_or_else(|| panic!("no bytes {from} to {to} in a document of {}", source.len()))
}

/// The document after the modifiers of `tree`, which has no `$rename`.
pub(super) fn apply(
    tree: &Branch,
    filters: &ArrayFilters,
    around: &Surroundings<'_>,
) -> Result<DocumentBuf, QueryError> {
    let source = around.document.as_bytes();
    let mut splice =
        Splice { bytes: Vec::with_capacity(source.len() + SPARE_BYTES), walk: UpdateRun { filters, around } };
    DocumentBuilder::new(&mut splice.bytes).suspend();
    let mut seen = 0_u64;
    let mut offset = HEADER_BYTES;
    // Untouched elements are copied in one piece, which begins here.
    let mut copy_from = HEADER_BYTES;
    for element in around.document {
        let end = offset + element.raw().len();
        if let Some((position, name, node)) = find(tree, element)
            && seen & (1 << position) == 0
        {
            seen |= 1 << position;
            splice.bytes.extend_from_slice(untouched(source, copy_from, offset));
            splice.touched(name, node, element)?;
            copy_from = end;
            if seen.count_ones() as usize == tree.children.len() {
                // Nothing further is touched: the rest goes along unread, but for the terminator.
                offset = source.len().saturating_sub(1);
                break;
            }
        }
        offset = end;
    }
    splice.bytes.extend_from_slice(untouched(source, copy_from, offset));
    for (position, (component, node)) in tree.children.iter().enumerate() {
        if seen & (1 << position) != 0 {
            continue;
        }
        if let PathStep::Field(name) = component
            && let Some(value) = splice.walk.create(&FieldPlace::top(name), node)?
        {
            let mut builder = DocumentBuilder::resume(&mut splice.bytes, 0);
            builder.append_value(name, &value);
            builder.suspend();
        }
    }
    DocumentBuilder::resume(&mut splice.bytes, 0).finish();
    Ok(DocumentBuf::trusted(splice.bytes))
}

/// A document's length field.
const HEADER_BYTES: usize = 4;

fn find<'t>(tree: &'t Branch, element: Element<'_>) -> Option<(usize, &'t str, &'t UpdateNode)> {
    tree.children.iter().enumerate().find_map(|(position, (component, node))| match component {
        PathStep::Field(name) if name.as_bytes() == element.name_bytes() => {
            Some((position, name.as_str(), node))
        }
        _ => None,
    })
}

struct Splice<'c> {
    bytes: Vec<u8>,
    walk: UpdateRun<'c>,
}

impl Splice<'_> {
    /// Writes what a modifier makes of one field.
    fn touched(&mut self, name: &str, node: &UpdateNode, element: Element<'_>) -> Result<(), QueryError> {
        let mut builder = DocumentBuilder::resume(&mut self.bytes, 0);
        let result = write(&mut builder, &self.walk, name, node, element);
        builder.suspend();
        result
    }
}

fn write(
    builder: &mut DocumentBuilder<'_>,
    walk: &UpdateRun<'_>,
    name: &str,
    node: &UpdateNode,
    element: Element<'_>,
) -> Result<(), QueryError> {
    if let UpdateNode::Leaf(modifier) = node
        && let Some(spliced) = modifier.splice(name, element.value(), walk.around)?
    {
        match spliced {
            Spliced::Keep => builder.append_element(element),
            Spliced::Remove => builder,
            Spliced::Write(value) => builder.append(name, value),
        };
        return Ok(());
    }
    let mut value = element.value().to_value();
    if walk.change(&FieldPlace::top(name), node, &mut value)? == Effect::Stays {
        builder.append_value(name, &value);
    }
    Ok(())
}
