//! Applying modifiers to trees: nested paths, arrays, and whatever a splice of raw bytes cannot do.

use std::collections::HashSet;

use document::{Document, DocumentBuf, Fieldwise, RawDocument, RawValue, Value, json};

use super::array_filters::ArrayFilters;
use super::modifier::{Effect, Surroundings};
use super::operators::{Operators, array_on_rename_path};
use super::path::Component;
use super::tree::{Branch, Node};
use crate::checkpoint;
use crate::error::{QueryError, code};

/// How many nulls at most stand in for array elements that were never set (MongoDB's limit).
const MAX_PADDING: usize = 1_500_000;
const CANNOT_BACKFILL_ARRAY: i32 = 34;
/// From so many fields on, those of a document are found by a table.
const MANY: usize = 64;

/// The document after all modifiers, by way of a tree of the whole document.
pub(super) fn apply(operators: &Operators, around: &mut Surroundings<'_>) -> Result<DocumentBuf, QueryError> {
    let mut tree = Value::Document(rename(operators, around)?);
    Walk { filters: &operators.filters, around }.below("", &operators.tree, &mut tree)?;
    match tree {
        Value::Document(document) => Ok(document.to_buf()),
        _ => Err(QueryError::new(code::INTERNAL_ERROR, "a document stays a document while it is updated")),
    }
}

/// The document without the fields that are renamed, whose values are kept for their new places.
fn rename(operators: &Operators, around: &mut Surroundings<'_>) -> Result<Document, QueryError> {
    let document = around.document.to_document();
    if operators.renames.is_empty() {
        return Ok(document);
    }
    let mut fields = Fieldwise::from(document);
    let mut gone = HashSet::new();
    for (source, target) in &operators.renames {
        if source.len() > 1 || target.len() > 1 {
            checkpoint::pass_bytes(around.document.as_bytes().len())?;
        }
        check_no_array("source", source, around.document)?;
        let value = match source.split_first() {
            Some((name, [])) => {
                let value = fields.get_mut(name).map(std::mem::take);
                if value.is_some() {
                    gone.insert(name.as_str());
                }
                value
            }
            Some((name, below)) => fields.get_mut(name).and_then(|inner| take(inner, below)),
            None => None,
        };
        if value.is_some() {
            check_no_array("destination", target, around.document)?;
        }
        around.renamed.push(value);
    }
    // Only the first field of a name has gone.
    let kept = fields.into_document().into_iter().filter(|(name, _)| !gone.remove(name.as_str()));
    Ok(kept.collect())
}

/// Removes the value at a path.
fn take(tree: &mut Value, path: &[String]) -> Option<Value> {
    let (name, below) = path.split_first()?;
    let Value::Document(document) = tree else {
        return None;
    };
    if below.is_empty() { document.remove(name) } else { take(document.get_mut(name)?, below) }
}

fn check_no_array(end: &str, path: &[String], document: RawDocument<'_>) -> Result<(), QueryError> {
    let mut inner = document;
    for name in path.iter().take(path.len().saturating_sub(1)) {
        match inner.get(name) {
            Some(RawValue::Array(_)) => return Err(array_on_rename_path(end, path, name, document)),
            Some(RawValue::Document(below)) => inner = below,
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// Modifiers on their way through one document.
pub(super) struct Walk<'c> {
    pub(super) filters: &'c ArrayFilters,
    pub(super) around: &'c Surroundings<'c>,
}

impl Walk<'_> {
    /// Changes an existing value.
    pub(super) fn change(&self, name: &str, node: &Node, target: &mut Value) -> Result<Effect, QueryError> {
        match node {
            Node::Leaf(modifier) => modifier.apply(name, target, self.around),
            Node::Branch(branch) => self.below(name, branch, target).map(|()| Effect::Stays),
        }
    }

    /// Makes the value of a field that does not exist; `None` leaves it so.
    pub(super) fn create(&self, name: &str, node: &Node) -> Result<Option<Value>, QueryError> {
        let branch = match node {
            Node::Leaf(modifier) => return modifier.initial(self.around),
            Node::Branch(branch) => branch,
        };
        let mut created = Document::new();
        for (component, child) in &branch.children {
            if component.is_array_wide() {
                return Err(QueryError::bad_value(format!(
                    "The path '{name}' must exist in the document in order to apply array updates."
                )));
            }
            let field = self.field_name(component)?;
            if let Some(value) = self.create(&field, child)? {
                created.push(field, value);
            }
        }
        Ok((!created.is_empty()).then_some(Value::Document(created)))
    }

    /// The name that a component has in this document.
    fn field_name(&self, component: &Component) -> Result<String, QueryError> {
        match component {
            Component::Field(name) => Ok(name.clone()),
            _ => self.around.position.map(|position| position.to_string()).ok_or_else(|| {
                QueryError::bad_value("The positional operator did not find the match needed from the query.")
            }),
        }
    }

    fn below(&self, name: &str, branch: &Branch, target: &mut Value) -> Result<(), QueryError> {
        let array_wide = branch.children.iter().any(|(component, _)| component.is_array_wide());
        match target {
            Value::Array(array) if array_wide => self.elements(name, branch, array),
            other if array_wide => Err(QueryError::bad_value(format!(
                "Cannot apply array updates to non-array element {name}: {}",
                other.with_raw(json::value_to_string)
            ))),
            _ => self.fields(name, branch, target),
        }
    }

    fn fields(&self, name: &str, branch: &Branch, target: &mut Value) -> Result<(), QueryError> {
        if let Value::Document(document) = target
            && branch.children.len() > MANY
        {
            return self.many_fields(branch, document);
        }
        for (component, node) in &branch.children {
            let field = self.field_name(component)?;
            if *component == Component::Matched {
                check_position_is_free(&field, node, branch)?;
            }
            match target {
                Value::Document(document) => self.field(document, &field, node)?,
                Value::Array(array) => self.element(name, array, &field, node)?,
                other if node.creates(self.around.is_insert) => return Err(not_viable(name, &field, other)),
                _ => {}
            }
        }
        Ok(())
    }

    /// As [`Walk::fields`] without a walk through the document for each of them.
    fn many_fields(&self, branch: &Branch, document: &mut Document) -> Result<(), QueryError> {
        let mut fields = Fieldwise::from(std::mem::take(document));
        let mut gone = HashSet::new();
        for (component, node) in &branch.children {
            checkpoint::pass(1)?;
            let name = self.field_name(component)?;
            if *component == Component::Matched {
                check_position_is_free(&name, node, branch)?;
            }
            match fields.get_mut(&name) {
                Some(value) if !gone.contains(&name) => {
                    if self.change(&name, node, value)? == Effect::Goes {
                        gone.insert(name);
                    }
                }
                _ => {
                    if let Some(value) = self.create(&name, node)? {
                        fields.push(name, value);
                    }
                }
            }
        }
        *document = fields.into_document();
        if !gone.is_empty() {
            // Only the first field of a name was touched.
            let kept = std::mem::take(document).into_iter().filter(|(name, _)| !gone.remove(name.as_str()));
            *document = kept.collect();
        }
        Ok(())
    }

    fn field(&self, document: &mut Document, name: &str, node: &Node) -> Result<(), QueryError> {
        if let Some(value) = document.get_mut(name) {
            if self.change(name, node, value)? == Effect::Goes {
                document.remove(name);
            }
        } else if let Some(value) = self.create(name, node)? {
            document.push(name, value);
        }
        Ok(())
    }

    fn element(
        &self,
        array_name: &str,
        array: &mut document::Array,
        name: &str,
        node: &Node,
    ) -> Result<(), QueryError> {
        let Some(index) = Component::index(name) else {
            if node.creates(self.around.is_insert) {
                return Err(not_viable(array_name, name, &Value::Array(std::mem::take(array))));
            }
            return Ok(());
        };
        if let Some(element) = array.get_mut(index) {
            // Removing an element would move the others: it becomes null.
            if self.change(name, node, element)? == Effect::Goes {
                *element = Value::Null;
            }
            return Ok(());
        }
        let Some(value) = self.create(name, node)? else {
            return Ok(());
        };
        if index - array.len() > MAX_PADDING {
            return Err(QueryError::new(
                CANNOT_BACKFILL_ARRAY,
                format!("can't backfill more than {MAX_PADDING} elements of an array"),
            ));
        }
        let values = array.as_mut_vec();
        values.resize(index, Value::Null);
        values.push(value);
        Ok(())
    }

    /// `$[]` and `$[name]`.
    fn elements(&self, name: &str, branch: &Branch, array: &mut [Value]) -> Result<(), QueryError> {
        for (index, element) in array.iter_mut().enumerate() {
            let mut chosen: Vec<&Node> = Vec::new();
            for (component, node) in &branch.children {
                checkpoint::pass(1)?;
                let applies = match component {
                    Component::Filtered(identifier) => self.filters.matches(identifier, element)?,
                    _ => true,
                };
                if !applies {
                    continue;
                }
                for other in &chosen {
                    if other.conflicts_with(node)? {
                        return Err(conflict(&format!("{name}.{index}")));
                    }
                }
                chosen.push(node);
            }
            for node in chosen {
                if self.change(&index.to_string(), node, element)? == Effect::Goes {
                    *element = Value::Null;
                }
            }
        }
        Ok(())
    }
}

/// `$` must not stand for a position that another modifier names.
fn check_position_is_free(position: &str, node: &Node, branch: &Branch) -> Result<(), QueryError> {
    for (component, other) in &branch.children {
        if matches!(component, Component::Field(name) if name == position) && other.conflicts_with(node)? {
            return Err(conflict(position));
        }
    }
    Ok(())
}

fn conflict(path: &str) -> QueryError {
    QueryError::new(
        code::CONFLICTING_UPDATE_OPERATORS,
        format!("Updating the path '{path}' would create a conflict at '{path}'"),
    )
}

fn not_viable(name: &str, field: &str, value: &Value) -> QueryError {
    QueryError::new(
        code::PATH_NOT_VIABLE,
        format!(
            "Cannot create field '{field}' in element {{{name}: {}}}",
            value.with_raw(json::value_to_string)
        ),
    )
}
