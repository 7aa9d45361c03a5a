//! Parsing what `$addFields` adds.

use std::collections::BTreeSet;

use document::{RawDocument, RawValue};

use super::parse::{is_operator, join};
use super::tree::{ProjectionNode, ProjectionRule};
use super::{Projection, ProjectionMode};
use crate::environment::Environment;
use crate::error::QueryError;
use crate::expression::{Expression, ParseScope, check_path};

/// The paths that an addition names, so that none is named twice or lies within another.
struct NamedPaths<'s> {
    /// By their components: a path stands directly before those that lie within it.
    seen: BTreeSet<Vec<String>>,
    spec: RawDocument<'s>,
}

pub(super) fn parse(spec: RawDocument<'_>, environment: &Environment) -> Result<Projection, QueryError> {
    if spec.is_empty() {
        bail!(40177, "specification must have at least one field");
    }
    let mut paths = NamedPaths { seen: BTreeSet::new(), spec };
    for element in spec {
        check_path(element.name())?;
        paths.check(element.name(), element.value())?;
    }
    let mut root = ProjectionNode::default();
    let scope = ParseScope::new(environment);
    for element in spec {
        add(&mut root, element.name(), element.value(), &scope)?;
    }
    Ok(Projection { mode: ProjectionMode::Addition, root, positional: None })
}

/// The object's fields are named one by one, unless it is a value or a call.
fn fields_of(value: RawValue<'_>) -> Option<RawDocument<'_>> {
    let document = value.as_document()?;
    (!document.is_empty() && !is_operator(document)).then_some(document)
}

fn add(
    root: &mut ProjectionNode,
    path: &str,
    value: RawValue<'_>,
    scope: &ParseScope<'_>,
) -> Result<(), QueryError> {
    match fields_of(value) {
        Some(fields) => fields
            .iter()
            .try_for_each(|below| add(root, &join(path, below.name()), below.value(), &scope.deeper()?)),
        None => root.insert(path, ProjectionRule::Computed(Expression::parse(value, scope)?)),
    }
}

impl NamedPaths<'_> {
    fn check(&mut self, path: &str, value: RawValue<'_>) -> Result<(), QueryError> {
        let Some(fields) = fields_of(value) else { return self.name(path) };
        for below in fields.iter() {
            let name = below.name();
            if name.starts_with('$') {
                bail!(
                    40181,
                    "an expression specification must contain exactly one field, the name of the expression. \
                         Found {} fields in {}, while parsing object {}",
                    fields.iter().count(),
                    fields.quoted(),
                    self.spec.quoted()
                );
            }
            if name.contains('.') {
                bail!(40183, "cannot use dotted field name '{name}' in a sub object: {}", self.spec.quoted());
            }
            self.check(&join(path, name), below.value())?;
        }
        Ok(())
    }

    fn name(&mut self, path: &str) -> Result<(), QueryError> {
        let components: Vec<String> = path.split('.').map(str::to_owned).collect();
        let within = |outer: &[String], inner: &[String]| inner.starts_with(outer);
        let before = self.seen.range(..=components.clone()).next_back();
        let after = self.seen.range(components.clone()..).next();
        let other = before
            .filter(|before| within(before, &components))
            .or_else(|| after.filter(|after| within(&components, after)));
        if let Some(other) = other {
            bail!(
                40176,
                "specification contains two conflicting paths. Cannot specify both '{path}' and '{}': {}",
                other.join("."),
                self.spec.quoted()
            );
        }
        self.seen.insert(components);
        Ok(())
    }
}
