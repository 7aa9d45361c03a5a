//! Any bytes as a document: reading never panics, what parses reads back after writing, and keys order as
//! values do.
#![no_main]

use document::key::{SortOrder, KeyBuilder, decode, encode_value};
use document::path::LeafArray;
use document::{FieldPath, RawDocument, RawValue, compare, compare_documents, json};
use libfuzzer_sys::fuzz_target;
use std::ops::ControlFlow;

fuzz_target!(|bytes: &[u8]| {
    read_everything(RawDocument::trusted(bytes));
    let directions = [SortOrder::Ascending, SortOrder::Descending];
    let _ = decode(bytes, bytes, &directions);
    let Ok(document) = RawDocument::parse(bytes) else { return };
    read_everything(document);
    let written = document.to_document().to_buf();
    assert!(RawDocument::parse(written.as_bytes()).is_ok(), "what was written parses");
    assert!(compare_documents(written.as_raw(), document).is_eq(), "what was written reads back");
    check_keys(document);
});

fn read_everything(document: RawDocument<'_>) {
    for element in document {
        let value = element.value();
        let _ = (element.name(), value.as_i64_exact(), value.as_f64(), value.to_value());
        match value {
            RawValue::Document(inner) | RawValue::JavaScriptWithScope { scope: inner,
                .. } => read_everything(inner),
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
        let mut builder = KeyBuilder::new();
        builder.append(*left, SortOrder::Descending);
        let decoded = decode(builder.key(), builder.type_bits(),
            &[SortOrder::Descending]).expect("a key just written");
        let mut again = KeyBuilder::new();
        decoded.iter().for_each(|value| again.append_owned(value, SortOrder::Descending));
        assert_eq!((again.key(), again.type_bits()), (builder.key(), builder.type_bits()),
            "{left:?} comes back");
    }
}
