//! Applying modifiers to trees: nested paths, arrays, and whatever a splice of raw bytes cannot do.

use std::borrow::Cow;
use std::collections::HashMap;

use document::quote::element;
use document::{Document, DocumentBuf, Value};

use super::array_filters::ArrayFilters;
use super::modifier::{Demand, Effect, Surroundings, check_no_array};
use super::operators::Operators;
use super::path::{FieldPlace, PathStep};
use super::rename;
use super::tree::{Branch, FEW, UpdateNode};
use crate::checkpoint;
use crate::error::{QueryError, code};

/// How many nulls at most stand in for array elements that were never set (MongoDB's limit).
const MAX_PADDING: usize = 1_500_000;
const CANNOT_BACKFILL_ARRAY: i32 = 34;

/// The document after all modifiers, by way of a tree of the whole document.
pub(super) fn apply(operators: &Operators, around: &mut Surroundings<'_>) -> Result<DocumentBuf, QueryError> {
    let mut document = around.document.to_document();
    around.renamed = rename::take_sources(&operators.renames, &mut document, around)?;
    UpdateRun { filters: &operators.filters, around }.document(None, &operators.tree, &mut document)?;
    Ok(document.to_buf())
}

/// Modifiers on their way through one document.
pub(super) struct UpdateRun<'c> {
    pub(super) filters: &'c ArrayFilters,
    pub(super) around: &'c Surroundings<'c>,
}

impl UpdateRun<'_> {
    /// Changes an existing value.
    pub(super) fn change(
        &self,
        place: &FieldPlace<'_>,
        node: &UpdateNode,
        target: &mut Value,
    ) -> Result<Effect, QueryError> {
        match node {
            UpdateNode::Leaf(modifier) => modifier.apply(place, target, self.around),
            UpdateNode::Branch(branch) => self.below(place, branch, target).map(|()| Effect::Stays),
        }
    }

    /// Makes the value of a field that does not exist; `None` leaves it so.
    pub(super) fn create(
        &self,
        place: &FieldPlace<'_>,
        node: &UpdateNode,
    ) -> Result<Option<Value>, QueryError> {
        let branch = match node {
            UpdateNode::Leaf(modifier) => return modifier.initial(place, self.around),
            UpdateNode::Branch(branch) => branch,
        };
        let mut created = Document::new();
        for (component, child) in &branch.children {
            if component.is_array_wide() {
                return Err(array_is_missing(place));
            }
            let field = self.field_name(component)?;
            if let Some(value) = self.create(&place.field(&field), child)? {
                created.push(field, value);
            }
        }
        Ok((!created.is_empty()).then_some(Value::Document(created)))
    }

    /// The name that a component has in this document.
    fn field_name<'n>(&self, component: &'n PathStep) -> Result<Cow<'n, str>, QueryError> {
        match component {
            PathStep::Field(name) => Ok(Cow::Borrowed(name)),
            _ => self.around.position.map(|position| Cow::Owned(position.to_string())).ok_or_else(|| {
                QueryError::bad_value("The positional operator did not find the match needed from the query.")
            }),
        }
    }

    fn below(&self, place: &FieldPlace<'_>, branch: &Branch, target: &mut Value) -> Result<(), QueryError> {
        let array_wide = branch.children.first().is_some_and(|(component, _)| component.is_array_wide());
        match target {
            Value::Array(array) if array_wide => self.every_element(place, branch, array.as_mut_vec()),
            other if array_wide => Err(QueryError::bad_value(format!(
                "Cannot apply array updates to non-array element {}",
                other.with_raw(|value| element(place.name, value))
            ))),
            Value::Document(document) => self.document(Some(place), branch, document),
            Value::Array(array) => self.elements(place, branch, array),
            scalar => {
                for (component, node) in &branch.children {
                    let field = self.field_name(component)?;
                    self.refuse(place, &field, &place.field(&field), node, scalar)?;
                }
                Ok(())
            }
        }
    }

    /// The fields of a document; `place` is `None` at the top.
    fn document(
        &self,
        place: Option<&FieldPlace<'_>>,
        branch: &Branch,
        document: &mut Document,
    ) -> Result<(), QueryError> {
        if branch.children.len() > FEW {
            return self.many_fields(place, branch, document);
        }
        for (component, node) in &branch.children {
            let name = self.checked_name(component, node, branch)?;
            let field = field_of(place, &name);
            if let Some(value) = document.get_mut(&name) {
                if self.change(&field, node, value)? == Effect::Goes {
                    document.remove(&name);
                }
            } else if let Some(value) = self.create(&field, node)? {
                document.push(name, value);
            }
        }
        Ok(())
    }

    /// As [`UpdateRun::document`], in one pass over the document's fields.
    fn many_fields(
        &self,
        place: Option<&FieldPlace<'_>>,
        branch: &Branch,
        document: &mut Document,
    ) -> Result<(), QueryError> {
        let mut left: HashMap<Cow<'_, str>, &UpdateNode> = HashMap::new();
        for (component, node) in &branch.children {
            checkpoint::pass(1)?;
            left.insert(self.checked_name(component, node, branch)?, node);
        }
        let mut changed = Vec::with_capacity(document.len() + left.len());
        for (name, mut value) in std::mem::take(document) {
            let effect = match left.remove(name.as_str()) {
                Some(node) => self.change(&field_of(place, &name), node, &mut value)?,
                None => Effect::Stays,
            };
            if effect == Effect::Stays {
                changed.push((name, value));
            }
        }
        for (component, node) in &branch.children {
            let name = self.field_name(component)?;
            if left.contains_key(&name)
                && let Some(value) = self.create(&field_of(place, &name), node)?
            {
                changed.push((name.into_owned(), value));
            }
        }
        *document = changed.into_iter().collect();
        Ok(())
    }

    fn checked_name<'n>(
        &self,
        component: &'n PathStep,
        node: &UpdateNode,
        branch: &Branch,
    ) -> Result<Cow<'n, str>, QueryError> {
        let name = self.field_name(component)?;
        if *component == PathStep::Matched {
            check_position_is_free(&name, node, branch)?;
        }
        Ok(name)
    }

    /// Single elements of an array.
    fn elements(
        &self,
        place: &FieldPlace<'_>,
        branch: &Branch,
        array: &mut document::Array,
    ) -> Result<(), QueryError> {
        for (component, node) in &branch.children {
            let name = self.checked_name(component, node, branch)?;
            let element = place.element(&name);
            match PathStep::index(&name) {
                Some(index) => self.element(&element, index, node, array.as_mut_vec())?,
                None => {
                    let whole = Value::Array(std::mem::take(array));
                    self.refuse(place, &name, &element, node, &whole)?;
                    if let Value::Array(whole) = whole {
                        *array = whole;
                    }
                }
            }
        }
        Ok(())
    }

    fn element(
        &self,
        place: &FieldPlace<'_>,
        index: usize,
        node: &UpdateNode,
        array: &mut Vec<Value>,
    ) -> Result<(), QueryError> {
        if let Some(element) = array.get_mut(index) {
            // Removing an element would move the others: it becomes null.
            if self.change(place, node, element)? == Effect::Goes {
                *element = Value::Null;
            }
            return Ok(());
        }
        let Some(value) = self.create(place, node)? else {
            return Ok(());
        };
        if index - array.len() > MAX_PADDING {
            bail!(CANNOT_BACKFILL_ARRAY, "can't backfill more than {MAX_PADDING} elements");
        }
        array.resize(index, Value::Null);
        array.push(value);
        Ok(())
    }

    /// `$[]` and `$[name]`.
    fn every_element(
        &self,
        place: &FieldPlace<'_>,
        branch: &Branch,
        array: &mut [Value],
    ) -> Result<(), QueryError> {
        for (index, element) in array.iter_mut().enumerate() {
            let name = index.to_string();
            let element_place = place.element(&name);
            let mut chosen: Vec<&UpdateNode> = Vec::new();
            for (component, node) in &branch.children {
                checkpoint::pass(1)?;
                let applies = match component {
                    PathStep::Filtered(identifier) => self.filters.matches(identifier, element)?,
                    _ => true,
                };
                if !applies {
                    continue;
                }
                for other in &chosen {
                    if other.conflicts_with(node)? {
                        return Err(conflict(&element_place.dotted()));
                    }
                }
                chosen.push(node);
            }
            for node in chosen {
                if self.change(&element_place, node, element)? == Effect::Goes {
                    *element = Value::Null;
                }
            }
        }
        Ok(())
    }

    /// Refuses what cannot be done because `target`, the value at `above`, has no field `first`: the refusal
    /// of the first modifier, in their order, that minds. `place` is where the walk through the modifiers
    /// below is.
    fn refuse(
        &self,
        above: &FieldPlace<'_>,
        first: &str,
        place: &FieldPlace<'_>,
        node: &UpdateNode,
        target: &Value,
    ) -> Result<(), QueryError> {
        let branch = match node {
            UpdateNode::Branch(branch) => branch,
            UpdateNode::Leaf(modifier) => {
                let element = || target.with_raw(|value| element(above.name, value));
                let message = match modifier.demand(self.around) {
                    Demand::Nothing => return Ok(()),
                    Demand::Viable => {
                        let path = place.dotted();
                        let element = element();
                        format!(
                            "Cannot use the part ({first}) of ({path}) to traverse the element \
                            ({{{element}}})"
                        )
                    }
                    Demand::Created => {
                        if modifier.is_rename() {
                            check_no_array(place, self.around)?;
                        }
                        format!("Cannot create field '{first}' in element {{{}}}", element())
                    }
                };
                return Err(QueryError::new(code::PATH_NOT_VIABLE, message));
            }
        };
        for (component, child) in &branch.children {
            if component.is_array_wide() {
                return Err(array_is_missing(place));
            }
            let field = self.field_name(component)?;
            self.refuse(above, first, &place.field(&field), child, target)?;
        }
        Ok(())
    }
}

/// The place of a field of a document, which is at no place when it is the whole document.
fn field_of<'c>(document: Option<&'c FieldPlace<'c>>, name: &'c str) -> FieldPlace<'c> {
    document.map_or_else(|| FieldPlace::top(name), |place| place.field(name))
}

fn array_is_missing(place: &FieldPlace<'_>) -> QueryError {
    QueryError::bad_value(format!(
        "The path '{}' must exist in the document in order to apply array updates.",
        place.dotted()
    ))
}

/// `$` must not stand for a position that another modifier names.
fn check_position_is_free(position: &str, node: &UpdateNode, branch: &Branch) -> Result<(), QueryError> {
    for (component, other) in &branch.children {
        if matches!(component, PathStep::Field(name) if name == position) && other.conflicts_with(node)? {
            return Err(conflict(position));
        }
    }
    Ok(())
}

fn conflict(path: &str) -> QueryError {
    query_error!(
        code::CONFLICTING_UPDATE_OPERATORS,
        "Updating the path '{path}' would create a conflict at '{path}'"
    )
}
