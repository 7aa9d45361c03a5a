//! Properties of the crate as a whole: what is written reads back, and no bytes make reading panic.

use crate::generate::document;
use crate::key::{KeyBuilder, SortOrder};
use crate::path::LeafArray;
use crate::{DocumentBuf, FieldPath, RawDocument, RawValue, compare_documents, json};
use proptest::prelude::*;
use std::ops::ControlFlow;

/// Reads everything there is in every way, and returns the number of values.
fn exercise(document: RawDocument<'_>) -> usize {
    let mut values = 0;
    let mut keys = KeyBuilder::new();
    for element in document {
        values += 1;
        let value = element.value();
        keys.append(value, SortOrder::Descending);
        let _ = (element.name(), value.as_i64_exact(), value.truthy(), value.to_value());
        values += match value {
            RawValue::Document(inner) | RawValue::JavaScriptWithScope { scope: inner, .. } => exercise(inner),
            RawValue::Array(inner) => exercise(inner.as_document()),
            _ => 0,
        };
    }
    for dotted in ["a", "a.b", "a.0", "0.0"] {
        let path = FieldPath::parse(dotted).expect("a path");
        let flow = path.visit(document, LeafArray::ElementsAndWhole, |_| ControlFlow::Continue(()));
        assert!(flow.is_continue());
        let _ = path.get(document);
    }
    let _ = json::to_string(document);
    values
}

/// Checked or not, reading ends without a panic; what passes the check is read in full.
fn check_any_bytes(bytes: &[u8]) {
    exercise(RawDocument::trusted(bytes));
    if let Ok(document) = RawDocument::parse(bytes) {
        exercise(document);
        let tree = document.to_document();
        let written = tree.to_buf();
        assert!(
            RawDocument::parse(written.as_bytes()).is_ok(),
            "what was written from {bytes:?} does not parse"
        );
        assert!(
            compare_documents(written.as_raw(), document).is_eq(),
            "{bytes:?} reads otherwise after writing"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None,
        ..ProptestConfig::default() })]

    #[test]
    fn documents_come_back(document in document()) {
        let bytes = document.to_buf();
        let parsed = DocumentBuf::from_bytes(bytes.as_bytes().to_vec());
        prop_assert!(parsed.is_ok(), "{:?} does not parse: {:?}", document, parsed);
        let tree = bytes.as_raw().to_document();
        prop_assert!(tree.compare(&document).is_eq());
        let again = tree.to_buf();
        prop_assert_eq!(again.as_bytes(), bytes.as_bytes());
        let mut copied = Vec::new();
        let mut builder = crate::DocumentBuilder::new(&mut copied);
        for element in bytes.as_raw() {
            builder.append_element(element);
        }
        builder.finish();
        prop_assert_eq!(&copied[..], bytes.as_bytes());
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        check_any_bytes(&bytes);
    }

    #[test]
    fn damaged_documents(document in document(),
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4)) {
        let mut bytes = document.to_buf().into_bytes();
        let length = bytes.len();
        for (position, byte) in damage {
            bytes[position % length] = byte;
        }
        check_any_bytes(&bytes);
        bytes.truncate(length / 2);
        check_any_bytes(&bytes);
    }
}
