//! The tree of modifiers: one level per path component, conflicts refused, children in the order of
//! application.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::modifier::Modifier;
use super::path::PathStep;
use crate::checkpoint;
use crate::error::{QueryError, code};

/// What happens at one place of the document.
#[derive(Debug)]
pub(super) enum UpdateNode {
    Leaf(Modifier),
    Branch(Branch),
}

/// The modifiers below one place.
#[derive(Debug, Default)]
pub(super) struct Branch {
    pub(super) children: Vec<(PathStep, UpdateNode)>,
    /// Where each child is, while many are put in. Its hash has a secret: clients choose the names.
    positions: HashMap<PathStep, usize>,
}

/// Up to so many children are looked through one by one.
pub(super) const FEW: usize = 16;

impl Branch {
    /// Puts a modifier at the end of a path.
    pub(super) fn insert(
        &mut self,
        path: &str,
        components: &[PathStep],
        modifier: Modifier,
    ) -> Result<(), QueryError> {
        self.insert_at(path, components, 0, modifier)
    }

    fn insert_at(
        &mut self,
        path: &str,
        components: &[PathStep],
        depth: usize,
        modifier: Modifier,
    ) -> Result<(), QueryError> {
        let component = components.get(depth).expect("a path is never empty");
        let is_last = depth + 1 == components.len();
        // All children are alike in this.
        if self.children.first().is_some_and(|(other, _)| other.is_array_wide() != component.is_array_wide())
        {
            return Err(conflict(path, depth));
        }
        match self.child(component) {
            Some(UpdateNode::Branch(branch)) if !is_last => {
                branch.insert_at(path, components, depth + 1, modifier)
            }
            Some(_) => Err(conflict(path, depth + 1)),
            None => {
                let node = if is_last {
                    UpdateNode::Leaf(modifier)
                } else {
                    let mut branch = Branch::default();
                    branch.insert_at(path, components, depth + 1, modifier)?;
                    UpdateNode::Branch(branch)
                };
                self.push(component.clone(), node);
                Ok(())
            }
        }
    }

    fn child(&mut self, component: &PathStep) -> Option<&mut UpdateNode> {
        let position = match self.children.len() > FEW {
            true => *self.positions.get(component)?,
            false => self.children.iter().position(|(other, _)| other == component)?,
        };
        self.children.get_mut(position).map(|(_, node)| node)
    }

    fn push(&mut self, component: PathStep, node: UpdateNode) {
        self.children.push((component, node));
        let known = self.positions.len();
        if self.children.len() > FEW {
            let new = self.children.iter().enumerate().skip(known);
            self.positions.extend(new.map(|(position, (component, _))| (component.clone(), position)));
        }
    }

    /// The path of the first modifier at or below a top-level field.
    pub(super) fn first_path(&self, name: &str) -> (String, Option<&Modifier>) {
        let mut path = name.to_owned();
        let mut node = self
            .children
            .iter()
            .find(|(component, _)| matches!(component, PathStep::Field(field) if field == name))
            .map(|(_, node)| node);
        while let Some(UpdateNode::Branch(branch)) = node {
            let first = branch.children.first();
            if let Some((PathStep::Field(field), _)) = first {
                path = format!("{path}.{field}");
            }
            node = first.map(|(_, node)| node);
        }
        match node {
            Some(UpdateNode::Leaf(modifier)) => (path, Some(modifier)),
            _ => (path, None),
        }
    }

    /// Brings all children into the order in which MongoDB applies them.
    pub(super) fn sort(&mut self) {
        self.positions = HashMap::new();
        self.children.sort_by(|(left, _), (right, _)| order(left, right));
        for (_, node) in &mut self.children {
            if let UpdateNode::Branch(branch) = node {
                branch.sort();
            }
        }
    }
}

impl UpdateNode {
    /// Whether both write to the same place or one writes below the other.
    ///
    /// # Errors
    /// The operation's end: each place of the one may have to be compared with each of the other.
    pub(super) fn conflicts_with(&self, other: &UpdateNode) -> Result<bool, QueryError> {
        let (UpdateNode::Branch(left), UpdateNode::Branch(right)) = (self, other) else {
            return Ok(true);
        };
        for (component, node) in &left.children {
            checkpoint::pass(1 + right.children.len())?;
            for (other, sibling) in &right.children {
                if (component == other || component.is_array_wide() || other.is_array_wide())
                    && node.conflicts_with(sibling)?
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// The refusal of two modifiers that meet after `depth` components of `path`.
fn conflict(path: &str, depth: usize) -> QueryError {
    let place: Vec<&str> = path.split('.').take(depth).collect();
    query_error!(
        code::CONFLICTING_UPDATE_OPERATORS,
        "Updating the path '{path}' would create a conflict at '{}'",
        place.join(".")
    )
}

/// Numbers by value and before other names, which go by their bytes.
fn order(left: &PathStep, right: &PathStep) -> Ordering {
    match (left, right) {
        (PathStep::Field(left), PathStep::Field(right)) => {
            match (PathStep::index(left), PathStep::index(right)) {
                (Some(left), Some(right)) => left.cmp(&right),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => left.cmp(right),
            }
        }
        (PathStep::Filtered(left), PathStep::Filtered(right)) => left.cmp(right),
        (PathStep::Field(_), _) => Ordering::Greater,
        (_, PathStep::Field(_)) => Ordering::Less,
        (PathStep::Every, PathStep::Filtered(_)) => Ordering::Less,
        (PathStep::Filtered(_), PathStep::Every) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}
