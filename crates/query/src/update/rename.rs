//! The first half of `$rename`: values leave the places where they are.

use std::collections::HashMap;

use document::quote::element;
use document::{Document, Value};

use super::modifier::{Surroundings, array_on_rename_path};
use super::path::PathStep;
use crate::error::{QueryError, code};

/// Takes the values at these paths out of the document; `None` for paths that do not exist.
pub(super) fn take_sources(
    sources: &[Vec<String>],
    document: &mut Document,
    around: &Surroundings<'_>,
) -> Result<Vec<Option<Value>>, QueryError> {
    let mut taking = Taking { taken: vec![None; sources.len()], around };
    let mut sources: Vec<RenameSource<'_>> =
        sources.iter().enumerate().map(|(number, path)| RenameSource { path, number }).collect();
    sources.sort_by_key(|source| source.path);
    if !sources.is_empty() {
        taking.fields(document, &sources, 0)?;
    }
    Ok(taking.taken)
}

struct RenameSource<'s> {
    path: &'s [String],
    number: usize,
}

impl<'s> RenameSource<'s> {
    fn name(&self, depth: usize) -> &'s str {
        self.path.get(depth).map_or("", String::as_str)
    }

    fn ends_at(&self, depth: usize) -> bool {
        depth + 1 == self.path.len()
    }

    /// The value at `depth` has no fields, or is an array and the next name no position.
    fn not_viable(&self, depth: usize, value: &Value) -> QueryError {
        let name = self.name(depth);
        let message = format!(
            "cannot use the part ({name} of {}) to traverse the element ({{{}}})",
            self.path.join("."),
            value.with_raw(|value| element(name, value))
        );
        QueryError::new(code::PATH_NOT_VIABLE, message)
    }
}

struct Taking<'t> {
    taken: Vec<Option<Value>>,
    around: &'t Surroundings<'t>,
}

impl Taking<'_> {
    /// Looks at each field once, however many are to be taken. The sources are sorted.
    fn fields(
        &mut self,
        document: &mut Document,
        sources: &[RenameSource<'_>],
        depth: usize,
    ) -> Result<(), QueryError> {
        let groups = sources.chunk_by(|left, right| left.name(depth) == right.name(depth));
        let named = groups.filter_map(|group| Some((group.first()?.name(depth), group)));
        let mut groups: HashMap<&str, &[RenameSource<'_>]> = named.collect();
        let mut kept = Vec::with_capacity(document.len());
        for (name, mut value) in std::mem::take(document) {
            match groups.remove(name.as_str()) {
                Some([source]) if source.ends_at(depth) => {
                    if let Some(place) = self.taken.get_mut(source.number) {
                        *place = Some(value);
                    }
                    continue;
                }
                Some(group) => self.below(&mut value, group, depth)?,
                None => {}
            }
            kept.push((name, value));
        }
        *document = kept.into_iter().collect();
        Ok(())
    }

    fn below(
        &mut self,
        value: &mut Value,
        sources: &[RenameSource<'_>],
        depth: usize,
    ) -> Result<(), QueryError> {
        if let Value::Document(document) = value {
            return self.fields(document, sources, depth + 1);
        }
        for source in sources {
            if let Some(array) = array_above(value, source, depth)? {
                return Err(array_on_rename_path("source", &source.path.join("."), array, self.around));
            }
        }
        Ok(())
    }
}

/// The name of the innermost array above a source that exists below `value`, which is what the path names at
/// `depth`.
fn array_above<'s>(
    mut value: &Value,
    source: &RenameSource<'s>,
    mut depth: usize,
) -> Result<Option<&'s str>, QueryError> {
    let mut innermost = None;
    while !source.ends_at(depth) {
        let next = source.name(depth + 1);
        let below = match value {
            Value::Document(document) => document.get(next),
            Value::Array(array) => {
                innermost = Some(source.name(depth));
                let index = PathStep::index(next).ok_or_else(|| source.not_viable(depth, value))?;
                array.get(index)
            }
            _ => return Err(source.not_viable(depth, value)),
        };
        let Some(below) = below else { return Ok(None) };
        (value, depth) = (below, depth + 1);
    }
    Ok(innermost)
}
