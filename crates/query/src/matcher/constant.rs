//! Operands of a filter, kept so that comparing with them costs no conversion.

use std::cmp::Ordering;

use document::{DocumentBuf, DocumentBuilder, RawDocument, RawValue, Value, compare};

/// An owned value that lends itself as a [`RawValue`] at once.
#[derive(Debug, Clone)]
pub struct Constant {
    held: Held,
}

#[derive(Debug, Clone)]
enum Held {
    /// Everything that is no tree.
    Scalar(Value),
    /// A document, an array or code with scope: the only field of a document.
    Tree(DocumentBuf),
}

impl Constant {
    /// Keeps a copy of `value`.
    pub fn new(value: RawValue<'_>) -> Self {
        let held = match value {
            RawValue::Document(_) | RawValue::Array(_) | RawValue::JavaScriptWithScope { .. } => {
                let mut bytes = Vec::new();
                DocumentBuilder::new(&mut bytes).append("", value);
                Held::Tree(DocumentBuf::trusted(bytes))
            }
            scalar => Held::Scalar(scalar.to_value()),
        };
        Self { held }
    }

    /// The value, borrowed.
    #[inline]
    pub fn raw(&self) -> RawValue<'_> {
        match &self.held {
            Held::Scalar(value) => value.as_raw_scalar().expect("a tree is not held as a scalar"),
            Held::Tree(wrapper) => only_field(wrapper.as_raw()),
        }
    }

    /// The value as a tree.
    pub fn to_value(&self) -> Value {
        self.raw().to_value()
    }
}

fn only_field(wrapper: RawDocument<'_>) -> RawValue<'_> {
    wrapper.first().map_or(RawValue::Null, |element| element.value())
}

impl PartialEq for Constant {
    fn eq(&self, other: &Self) -> bool {
        compare(self.raw(), other.raw()) == Ordering::Equal
    }
}
