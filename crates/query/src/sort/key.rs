//! Sort keys: of the values an array offers, the lowest (ascending) or highest (descending) counts.

use document::key::KeyBuilder;
use document::{RawArray, RawDocument, RawValue};

use super::pattern::SortPattern;
use crate::error::QueryError;

/// One part of the pattern on its way through the document.
#[derive(Clone, Copy)]
enum PartValue<'d> {
    /// The value is found; a missing one counts as null.
    Found(RawValue<'d>),
    /// An array stands on the way (or at the end, when no component is left).
    At(RawArray<'d>, usize),
}

impl SortPattern {
    /// Writes the sort key of `document` into `key` (which is cleared first): comparing the bytes of two keys
    /// compares the documents.
    ///
    /// # Errors
    /// `BadValue` (2) when two fields go through different arrays.
    pub fn key_into(&self, document: RawDocument<'_>, key: &mut KeyBuilder) -> Result<(), QueryError> {
        key.clear();
        let mut walks = Vec::new();
        for (position, part) in self.parts.iter().enumerate() {
            let walk = self.step(position, 0, document);
            match walk {
                // As long as no array comes up, the key is written straight away.
                PartValue::Found(value) if walks.is_empty() => key.append(value, part.direction),
                _ if walks.is_empty() => {
                    for earlier in 0..position {
                        walks.push(self.step(earlier, 0, document));
                    }
                    walks.push(walk);
                }
                _ => walks.push(walk),
            }
        }
        if walks.is_empty() {
            return Ok(());
        }
        let mut best = None;
        self.expand(&walks, &mut best)?;
        key.clear();
        key.append_bytes(&best.unwrap_or_default());
        Ok(())
    }

    /// The sort key of `document`.
    ///
    /// # Errors
    /// As [`SortPattern::key_into`].
    pub fn key(&self, document: RawDocument<'_>) -> Result<Vec<u8>, QueryError> {
        let mut key = KeyBuilder::new();
        self.key_into(document, &mut key)?;
        Ok(key.into_parts().0)
    }

    /// Follows a part's path from component `depth` of `document` to its value or to an array.
    fn step<'d>(&self, position: usize, depth: usize, document: RawDocument<'d>) -> PartValue<'d> {
        let components = self.parts.get(position).map_or(&[][..], |part| part.path.components());
        let mut document = document;
        let mut depth = depth;
        while let Some(component) = components.get(depth) {
            depth += 1;
            match document.get(component.name()) {
                Some(RawValue::Array(array)) => return self.through(position, depth, array),
                Some(value) if depth == components.len() => return PartValue::Found(value),
                Some(RawValue::Document(inner)) => document = inner,
                _ => break,
            }
        }
        PartValue::Found(RawValue::Null)
    }

    /// A numeric component picks an element of the array where there is such an element.
    fn through<'d>(&self, position: usize, depth: usize, array: RawArray<'d>) -> PartValue<'d> {
        let components = self.parts.get(position).map_or(&[][..], |part| part.path.components());
        let picked = components.get(depth).and_then(|next| next.index()).and_then(|index| array.get(index));
        match picked {
            Some(RawValue::Array(inner)) => self.through(position, depth + 1, inner),
            Some(RawValue::Document(inner)) if depth + 1 < components.len() => {
                self.step(position, depth + 1, inner)
            }
            Some(value) if depth + 1 == components.len() => PartValue::Found(value),
            Some(_) => PartValue::Found(RawValue::Null),
            None => PartValue::At(array, depth),
        }
    }

    /// Tries each element of the array that the parts meet at, and keeps the lowest key.
    fn expand(&self, walks: &[PartValue<'_>], best: &mut Option<Vec<u8>>) -> Result<(), QueryError> {
        let met = walks.iter().find_map(|walk| match walk {
            PartValue::At(array, _) => Some(*array),
            PartValue::Found(_) => None,
        });
        let Some(array) = met else {
            self.offer(walks, best);
            return Ok(());
        };
        let address = array.as_bytes().as_ptr();
        let parallel = |walk: &PartValue<'_>| {
            matches!(walk,
            PartValue::At(other, _) if other.as_bytes().as_ptr() != address)
        };
        if walks.iter().any(parallel) {
            bail!(bad_value, "cannot sort with keys that are parallel arrays");
        }
        if array.is_empty() {
            return self.expand(&self.replace(walks, None), best);
        }
        array.iter().try_for_each(|element| self.expand(&self.replace(walks, Some(element)), best))
    }

    /// The walks after the array they stand at has offered `element`; an empty array offers nothing.
    fn replace<'d>(&self, walks: &[PartValue<'d>], element: Option<RawValue<'d>>) -> Vec<PartValue<'d>> {
        let replaced = walks.iter().enumerate().map(|(position, walk)| {
            let PartValue::At(_, depth) = *walk else {
                return *walk;
            };
            let at_end = self.parts.get(position).is_none_or(|part| part.path.len() == depth);
            match element {
                // An empty array sorts below null.
                None if at_end => PartValue::Found(RawValue::Undefined),
                Some(value) if at_end => PartValue::Found(value),
                Some(RawValue::Document(document)) => self.step(position, depth, document),
                _ => PartValue::Found(RawValue::Null),
            }
        });
        replaced.collect()
    }

    fn offer(&self, walks: &[PartValue<'_>], best: &mut Option<Vec<u8>>) {
        let mut key = KeyBuilder::new();
        for (walk, part) in walks.iter().zip(&self.parts) {
            let value = match walk {
                PartValue::Found(value) => *value,
                PartValue::At(..) => RawValue::Null,
            };
            key.append(value, part.direction);
        }
        // Descending fields are inverted in the bytes, so the lowest key is the best in either direction.
        if best.as_ref().is_none_or(|best| key.key() < best.as_slice()) {
            *best = Some(key.into_parts().0);
        }
    }
}
