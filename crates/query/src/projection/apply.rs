//! Applying a projection: one walk over the raw elements.

use document::{
    ArrayBuilder, DocumentBuilder, Element, ElementType, FieldIndex, RawArray, RawDocument, RawValue,
};

use super::ProjectionMode;
use super::array;
use super::tree::{ProjectionNode, ProjectionRule};
use crate::aggregate::rewrite::append_bounded;
use crate::checkpoint;
use crate::error::QueryError;
use crate::expression::{Expression, Variables};

/// One document on its way through the rules.
pub(super) struct DocumentProjector<'d, 'v> {
    pub(super) mode: ProjectionMode,
    pub(super) root: RawDocument<'d>,
    pub(super) variables: &'v mut Variables,
}

impl DocumentProjector<'_, '_> {
    /// Appends what the rules show of `document` to `out`.
    pub(super) fn document(
        &mut self,
        node: &ProjectionNode,
        document: RawDocument<'_>,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<(), QueryError> {
        let inclusion = self.mode == ProjectionMode::Inclusion;
        let mut missing = node.visible;
        if !inclusion || missing > 0 {
            for element in document {
                match node.find(element.name_bytes()) {
                    None if inclusion => continue,
                    None | Some(ProjectionRule::Keep) => {
                        out.append_element(element);
                    }
                    Some(ProjectionRule::Drop | ProjectionRule::FirstMatch(_)) => continue,
                    Some(ProjectionRule::Computed(_)) if inclusion => continue,
                    Some(ProjectionRule::Computed(expression)) => {
                        self.computed(element.name(), expression, out)?;
                        continue;
                    }
                    Some(ProjectionRule::Slice(section)) => array::append_section(element, *section, out),
                    Some(ProjectionRule::Nested(below)) => self.nested(below, element, out)?,
                }
                if inclusion {
                    missing -= 1;
                    if missing == 0 {
                        // Nothing further is asked for: the rest of the document is not even scanned.
                        break;
                    }
                }
            }
        }
        if node.appends { self.append_new(node, document, out) } else { Ok(()) }
    }

    fn nested(
        &mut self,
        node: &ProjectionNode,
        element: Element<'_>,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<(), QueryError> {
        match element.value() {
            RawValue::Document(document) => {
                self.document(node, document, &mut out.start_document(element.name()))
            }
            RawValue::Array(array) => self.array(node, array, &mut out.start_array(element.name())),
            _ if node.appends => {
                self.document(node, RawDocument::EMPTY, &mut out.start_document(element.name()))
            }
            _ if self.mode == ProjectionMode::Inclusion => Ok(()),
            _ => {
                out.append_element(element);
                Ok(())
            }
        }
    }

    fn array(
        &mut self,
        node: &ProjectionNode,
        array: RawArray<'_>,
        out: &mut ArrayBuilder<'_>,
    ) -> Result<(), QueryError> {
        for element in array.elements() {
            match element.value() {
                RawValue::Document(document) => self.document(node, document, &mut out.start_document())?,
                RawValue::Array(inner) => self.array(node, inner, &mut out.start_array())?,
                _ if self.mode == ProjectionMode::Inclusion => {}
                _ if node.appends => self.document(node, RawDocument::EMPTY, &mut out.start_document())?,
                _ => {
                    out.push_raw(element.kind(), element.value_bytes());
                }
            }
        }
        Ok(())
    }

    /// Appends the fields that the walk over the existing ones left out: computed ones, `$elemMatch` results,
    /// and documents that exist only for computed fields within them.
    fn append_new(
        &mut self,
        node: &ProjectionNode,
        document: RawDocument<'_>,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<(), QueryError> {
        let set_in_place = self.mode == ProjectionMode::Addition;
        let present = FieldIndex::new(document, node.len());
        for (name, rule) in node.children() {
            match rule {
                ProjectionRule::Computed(_) if set_in_place && present.contains(name) => {}
                ProjectionRule::Computed(expression) => self.computed(name, expression, out)?,
                ProjectionRule::Nested(below) if below.appends && !present.contains(name) => {
                    self.missing_document(name, below, out)?;
                }
                ProjectionRule::FirstMatch(matcher) => {
                    if let Some(RawValue::Array(array)) = present.get(name) {
                        checkpoint::pass_bytes(document.as_bytes().len())?;
                        array::append_first_match(name, matcher, (document, array), out)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn missing_document(
        &mut self,
        name: &str,
        node: &ProjectionNode,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<(), QueryError> {
        let mut bytes = Vec::new();
        let mut inner = DocumentBuilder::new(&mut bytes);
        self.document(node, RawDocument::EMPTY, &mut inner)?;
        inner.finish();
        out.append_raw(ElementType::Document, name.as_bytes(), &bytes);
        Ok(())
    }

    fn computed(
        &mut self,
        name: &str,
        expression: &Expression,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<(), QueryError> {
        match expression.evaluate(self.root, self.variables)? {
            Some(value) => append_bounded(out, name, &value),
            None => Ok(()),
        }
    }
}
