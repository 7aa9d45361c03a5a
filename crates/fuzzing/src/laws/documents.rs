//! Any bytes as a document: what parses reads back after writing, and keys order as values do.

use std::ops::ControlFlow;

use document::key::{KeyBuilder, SortOrder, decode, encode_value};
use document::path::LeafArray;
use document::{FieldPath, RawDocument, RawValue, compare, compare_documents, json};

use super::{HOLDS, Met, REFUSED};
use crate::generate;
use crate::source::Source;

pub(super) fn check(bytes: &[u8], met: &mut Met) {
    check_bytes(bytes, met);
    let mut source = Source::new(bytes);
    let document = generate::stored(&mut source).to_buf();
    let nearly = generate::mutated(&mut source, document.as_bytes());
    check_bytes(&nearly, met);
}

fn check_bytes(bytes: &[u8], met: &mut Met) {
    read_everything(RawDocument::trusted(bytes));
    let directions = [SortOrder::Ascending, SortOrder::Descending];
    let _ = decode(bytes, bytes, &directions);
    let Ok(document) = RawDocument::parse(bytes) else { return met.note(REFUSED) };
    read_everything(document);
    let written = document.to_document().to_buf();
    assert!(RawDocument::parse(written.as_bytes()).is_ok(), "what was written parses");
    assert!(compare_documents(written.as_raw(), document).is_eq(), "what was written reads back");
    check_keys(document);
    met.note(HOLDS);
}

fn read_everything(document: RawDocument<'_>) {
    for element in document {
        let value = element.value();
        let _ = (element.name(), value.as_i64_exact(), value.as_f64(), value.to_value());
        match value {
            RawValue::Document(inner) | RawValue::JavaScriptWithScope { scope: inner, .. } => {
                read_everything(inner);
            }
            RawValue::Array(inner) => read_everything(inner.as_document()),
            _ => {}
        }
    }
    for path in ["a", "a.b", "a.0", "0.0"].into_iter().flat_map(FieldPath::parse) {
        let _ = path.visit(document, LeafArray::ElementsAndWhole, |_| ControlFlow::Continue(()));
        let _ = path.get(document);
    }
    let _ = json::to_string(document);
}

/// The first values pairwise: enough to see any disorder.
fn check_keys(document: RawDocument<'_>) {
    const COMPARED: usize = 8;
    let values: Vec<RawValue<'_>> = document.iter().take(COMPARED).map(|element| element.value()).collect();
    let keys: Vec<Vec<u8>> = values
        .iter()
        .map(|&value| {
            let mut key = Vec::new();
            encode_value(&mut key, value);
            key
        })
        .collect();
    for (left, left_key) in values.iter().zip(&keys) {
        for (right, right_key) in values.iter().zip(&keys) {
            assert_eq!(compare(*left, *right), left_key.cmp(right_key), "{left:?} and {right:?}");
        }
        let descending = [SortOrder::Descending];
        let mut builder = KeyBuilder::new();
        builder.append(*left, SortOrder::Descending);
        let decoded = decode(builder.key(), builder.type_bits(), &descending).expect("a key just written");
        let mut again = KeyBuilder::new();
        decoded.iter().for_each(|value| again.append_owned(value, SortOrder::Descending));
        let (key, again_key) = ((builder.key(), builder.type_bits()), (again.key(), again.type_bits()));
        assert_eq!(again_key, key, "{left:?} comes back");
    }
}
