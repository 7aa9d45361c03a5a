//! All values that a path leads to, arrays on the way included.

use super::{Component, FieldPath};
use crate::{ElementType, RawArray, RawDocument, RawValue};
use std::ops::ControlFlow;

/// What to do with an array at the path's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafArray {
    /// Report the array (operators about arrays themselves, such as `$size`).
    Whole,
    /// Report each element, then the array (comparison operators).
    ElementsAndWhole,
    /// Report each element only (distinct values, keys of an index); an empty array reports nothing.
    Elements,
}

/// Where a reported value was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At the path's end.
    Leaf,
    /// An element of the array at the path's end.
    ElementOfLeaf,
    /// The array at the path's end, after its elements.
    WholeLeaf,
    /// Nothing: a document on the way lacks the field, or a scalar stands where a document would be needed.
    Missing,
    /// Nothing: an array on the way has an element that is not a document. Filters ignore it; index keys do
    /// not.
    MissingInArray,
    /// Nothing: an array on the way has no elements. Filters ignore it; index keys do not.
    EmptyArray,
}

/// One report of [`FieldPath::visit`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found<'a> {
    /// The value; `None` where nothing is.
    pub value: Option<RawValue<'a>>,
    /// Where it was found.
    pub place: Place,
    /// The position in the outermost array whose elements were tried, which the positional operator `$`
    /// means.
    pub array_index: Option<usize>,
}

type Flow = ControlFlow<()>;

impl FieldPath {
    /// Reports every value the path leads to until `report` breaks. Arrays on the way are entered: each of
    /// their documents is tried with the rest of the path, and where the next name is a number, the element
    /// at that index, too. An element so indexed is reported as it is, even when it is an array at the path's
    /// end.
    pub fn visit<'a, F: FnMut(Found<'a>) -> Flow>(
        &self,
        document: RawDocument<'a>,
        leaf: LeafArray,
        mut report: F,
    ) -> Flow {
        Visit { leaf, report: &mut report, array_index: None }.document(document, self.components())
    }

    /// Whether any report satisfies `predicate`.
    pub fn any<'a>(
        &self,
        document: RawDocument<'a>,
        leaf: LeafArray,
        mut predicate: impl FnMut(Found<'a>) -> bool,
    ) -> bool {
        self.visit(document, leaf, |found| {
            if predicate(found) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .is_break()
    }
}

struct Visit<'v, F> {
    leaf: LeafArray,
    report: &'v mut F,
    array_index: Option<usize>,
}

impl<'a, F: FnMut(Found<'a>) -> Flow> Visit<'_, F> {
    fn tell(&mut self, value: Option<RawValue<'a>>, place: Place) -> Flow {
        (self.report)(Found { value, place, array_index: self.array_index })
    }

    fn document(&mut self, document: RawDocument<'a>, path: &[Component]) -> Flow {
        let (first, others) = path.split_first().expect("a path goes on into a document");
        let Some(element) = document.element(first.name().as_bytes()) else {
            return self.tell(None, Place::Missing);
        };
        match element.kind() {
            ElementType::Document if !others.is_empty() => {
                self.document(RawDocument::trusted(element.value_bytes()), others)
            }
            ElementType::Array => {
                let array = RawArray::from_document(RawDocument::trusted(element.value_bytes()));
                if others.is_empty() { self.leaf_array(array) } else { self.array(array, others) }
            }
            _ if others.is_empty() => self.tell(Some(element.value()), Place::Leaf),
            _ => self.tell(None, Place::Missing),
        }
    }

    fn leaf_array(&mut self, array: RawArray<'a>) -> Flow {
        if self.leaf == LeafArray::Whole {
            return self.tell(Some(RawValue::Array(array)), Place::Leaf);
        }
        for (index, value) in array.iter().enumerate() {
            self.inside(index, |visit| visit.tell(Some(value), Place::ElementOfLeaf))?;
        }
        match self.leaf {
            LeafArray::Elements => Flow::Continue(()),
            _ => self.tell(Some(RawValue::Array(array)), Place::WholeLeaf),
        }
    }

    /// An array with more of the path to come.
    fn array(&mut self, array: RawArray<'a>, path: &[Component]) -> Flow {
        let (first, others) = path.split_first().expect("a path goes on behind an array in its middle");
        let mut empty = true;
        for (index, element) in array.elements().enumerate() {
            empty = false;
            let indexed = first.index() == Some(index);
            self.inside(index, |visit| {
                if element.kind() == ElementType::Document {
                    let document = RawDocument::trusted(element.value_bytes());
                    visit.document(document, path)?;
                } else if !indexed {
                    visit.tell(None, Place::MissingInArray)?;
                }
                if indexed { visit.indexed(element.value(), others) } else { Flow::Continue(()) }
            })?;
        }
        if empty { self.tell(None, Place::EmptyArray) } else { Flow::Continue(()) }
    }

    /// The element that the path names by its index.
    fn indexed(&mut self, value: RawValue<'a>, others: &[Component]) -> Flow {
        match value {
            value if others.is_empty() => self.tell(Some(value), Place::Leaf),
            RawValue::Document(document) => self.document(document, others),
            RawValue::Array(array) => self.array(array, others),
            _ => self.tell(None, Place::MissingInArray),
        }
    }

    /// Notes the position while an element of an array is tried, unless it is an inner array's.
    fn inside(&mut self, index: usize, body: impl FnOnce(&mut Self) -> Flow) -> Flow {
        let outermost = self.array_index.is_none();
        if outermost {
            self.array_index = Some(index);
        }
        let flow = body(self);
        if outermost {
            self.array_index = None;
        }
        flow
    }
}
