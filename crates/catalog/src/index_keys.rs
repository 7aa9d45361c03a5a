//! The index entries that a document yields.
//!
//! A path that meets an array yields one key for each element. Fields whose paths meet the same array walk it
//! together; two different arrays in one index cannot be walked (`CannotIndexParallelArrays`).

use crate::index_spec::{FieldKind, IndexField, IndexSpec};
use crate::keys::write_entry_value;
use crate::{CatalogError, OperationContext, WriteError};
use document::key::{KeyBuilder, hash64};
use document::{RawArray, RawDocument, RawValue};
use query::matcher::Matcher;
use query::{Environment, QueryError};

/// For each field of an index the positions in its path at which an array was met, as a bit set.
pub type MultikeyPaths = Vec<u128>;

/// Whether an index with these paths holds several entries of one document.
pub fn is_multikey(paths: &[u128]) -> bool {
    paths.iter().any(|&positions| positions != 0)
}

/// One entry of an index, ready to be written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IndexEntryBuf {
    /// Prefix of the index, or of its notes while it is built; encoded fields, document key.
    pub(crate) key: Vec<u8>,
    /// Document key length and type bits.
    pub(crate) value: Vec<u8>,
    /// Where the document key begins.
    pub(crate) fields_end: usize,
}

impl IndexEntryBuf {
    /// Index prefix and encoded fields: what is unique in a unique index.
    pub(crate) fn fields(&self) -> &[u8] {
        self.key.get(..self.fields_end).expect("the fields of an entry lie within its key")
    }
}

/// The entries of one document in one index: sorted, without repetitions.
#[derive(Debug, Default)]
pub(crate) struct IndexEntries {
    pub(crate) entries: Vec<IndexEntryBuf>,
    pub(crate) multikey: MultikeyPaths,
}

/// Where entries are made one after the other.
#[derive(Debug, Default)]
pub(crate) struct KeyScratch {
    key: KeyBuilder,
    value: Vec<u8>,
}

/// Computes the entries of one index.
#[derive(Debug)]
pub(crate) struct KeyGenerator {
    spec: IndexSpec,
    prefix: [u8; crate::keys::INDEX_PREFIX],
    partial: Option<Matcher>,
}

/// How far one field's path has been walked.
#[derive(Clone, Copy)]
enum Walk<'d> {
    /// The component at `depth` is to be looked up in this document.
    In {
        document: RawDocument<'d>,
        depth: usize,
    },
    /// The component before `depth` led to this array.
    AtArray {
        array: RawArray<'d>,
        depth: usize,
    },
    Done(Option<RawValue<'d>>),
}

impl KeyGenerator {
    pub(crate) fn new(
        spec: &IndexSpec,
        prefix: [u8; crate::keys::INDEX_PREFIX],
    ) -> Result<Self, CatalogError> {
        let partial = match &spec.partial_filter {
            Some(filter) => Some(parse_partial_filter(filter.as_raw())?),
            None => None,
        };
        Ok(KeyGenerator { spec: spec.clone(), prefix, partial })
    }

    pub(crate) fn partial(&self) -> Option<&Matcher> {
        self.partial.as_ref()
    }

    /// Whether both documents surely yield the same entries, because no top-level field that the index looks
    /// at differs.
    pub(crate) fn ignores_change(&self, old: RawDocument<'_>, new: RawDocument<'_>) -> bool {
        self.partial.is_none()
            && self.spec.fields.iter().all(|field| {
                let name = field.path.head().as_bytes();
                match (old.element(name), new.element(name)) {
                    (Some(before), Some(after)) => before.raw() == after.raw(),
                    (None, None) => true,
                    _ => false,
                }
            })
    }

    /// All entries of a document.
    pub(crate) fn entries(
        &self,
        document: RawDocument<'_>,
        document_key: &[u8],
    ) -> Result<IndexEntries, WriteError> {
        let mut found =
            IndexEntries { entries: Vec::with_capacity(1), multikey: vec![0; self.spec.fields.len()] };
        if let Some(partial) = &self.partial
            && !partial.matches(document)?
        {
            return Ok(found);
        }
        let mut walks = vec![Walk::In { document, depth: 0 }; self.spec.fields.len()];
        self.expand(&mut walks, document_key, &mut found)?;
        if found.entries.len() > 1 {
            found.entries.sort_unstable();
            found.entries.dedup_by(|later, earlier| later.key == earlier.key);
        }
        Ok(found)
    }

    /// Hands over each entry of a document as its key behind the index's prefix and its value, once and
    /// made in `scratch`. Returns the paths where arrays were met, if any were. Of a document without arrays
    /// nothing is allocated.
    pub(crate) fn each_entry(
        &self,
        document: RawDocument<'_>,
        document_key: &[u8],
        scratch: &mut KeyScratch,
        take: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<MultikeyPaths>, WriteError> {
        if let Some(partial) = &self.partial
            && !partial.matches(document)?
        {
            return Ok(None);
        }
        scratch.key.clear();
        let mut is_missing = true;
        for (position, field) in self.spec.fields.iter().enumerate() {
            match self.advance(position, Walk::In { document, depth: 0 }) {
                Walk::Done(value) => {
                    is_missing &= value.is_none();
                    append_field(&mut scratch.key, field, value);
                }
                Walk::In { .. } | Walk::AtArray { .. } => {
                    let found = self.entries(document, document_key)?;
                    for entry in &found.entries {
                        take(entry.key.get(self.prefix.len()..).unwrap_or_default(), &entry.value);
                    }
                    return Ok(Some(found.multikey));
                }
            }
        }
        if !(self.spec.sparse && is_missing) {
            scratch.value.clear();
            write_entry_value(&mut scratch.value, document_key.len(), scratch.key.type_bits());
            scratch.key.append_bytes(document_key);
            take(scratch.key.key(), &scratch.value);
        }
        Ok(None)
    }

    /// The entries that a writer puts: see [`crate::Writer::Replication`] for what is not as it has to be.
    ///
    /// # Errors
    /// As [`KeyGenerator::entries`], for clients.
    pub(crate) fn entries_for(
        &self,
        context: &OperationContext<'_>,
        document: RawDocument<'_>,
        document_key: &[u8],
    ) -> Result<IndexEntries, WriteError> {
        match self.entries(document, document_key) {
            Err(_) if !context.keeps_rules() => {
                Ok(IndexEntries { entries: Vec::new(), multikey: vec![0; self.spec.fields.len()] })
            }
            found => found,
        }
    }

    fn expand(
        &self,
        walks: &mut [Walk<'_>],
        document_key: &[u8],
        found: &mut IndexEntries,
    ) -> Result<(), WriteError> {
        let mut shared: Option<(RawArray<'_>, usize)> = None;
        for (position, walk) in walks.iter_mut().enumerate() {
            *walk = self.advance(position, *walk);
            let Walk::AtArray { array, depth } = *walk else { continue };
            self.check_array(position, array, depth, shared)?;
            shared.get_or_insert((array, position));
            let positions = found.multikey.get_mut(position).expect("each field has its positions of arrays");
            *positions |= 1u128.checked_shl(depth as u32 - 1).unwrap_or(0);
        }
        let Some((array, _)) = shared else {
            return self.emit(walks, document_key, found);
        };
        if array.is_empty() {
            let mut inner: Vec<_> = walks
                .iter()
                .enumerate()
                .map(|(position, walk)| self.step_into_empty(position, *walk))
                .collect();
            return self.expand(&mut inner, document_key, found);
        }
        for element in array.iter() {
            let mut inner: Vec<_> = walks
                .iter()
                .enumerate()
                .map(|(position, walk)| self.step_into(position, *walk, element))
                .collect();
            self.expand(&mut inner, document_key, found)?;
        }
        Ok(())
    }

    fn check_array(
        &self,
        position: usize,
        array: RawArray<'_>,
        depth: usize,
        shared: Option<(RawArray<'_>, usize)>,
    ) -> Result<(), WriteError> {
        if self.field(position).kind == FieldKind::Hashed {
            return Err(WriteError::Location {
                code: 16766,
                message: "hashed indexes do not currently support array values".into(),
            });
        }
        match shared {
            Some((first, first_position)) if !std::ptr::eq(first.as_bytes(), array.as_bytes()) => {
                let component = self.field(position).path.component(depth - 1);
                Err(WriteError::CannotIndexParallelArrays(format!(
                    "cannot index parallel arrays [{}] [{}]",
                    component.expect("a component led to the array"),
                    self.field(first_position).path.head()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Walks until the path's end, an array or nothing.
    fn advance<'d>(&self, position: usize, walk: Walk<'d>) -> Walk<'d> {
        let Walk::In { mut document, mut depth } = walk else { return walk };
        let components = self.field(position).path.components();
        loop {
            let component = components.get(depth).expect("what is walked has not come to the path's end");
            let Some(mut value) = document.get(component.name()) else { return Walk::Done(None) };
            depth += 1;
            // A number after an array picks one element, as `a.0` does in a filter.
            while let (RawValue::Array(array), Some(index)) =
                (value, components.get(depth).and_then(|component| component.index()))
            {
                let Some(element) = array.get(index) else { break };
                value = element;
                depth += 1;
            }
            match value {
                RawValue::Array(array) => return Walk::AtArray { array, depth },
                value if depth == components.len() => return Walk::Done(Some(value)),
                RawValue::Document(inner) => document = inner,
                _ => return Walk::Done(None),
            }
        }
    }

    fn is_end(&self, position: usize, depth: usize) -> bool {
        self.field(position).path.len() == depth
    }

    fn field(&self, position: usize) -> &IndexField {
        self.spec.fields.get(position).expect("there is one walk for each field")
    }

    fn step_into<'d>(&self, position: usize, walk: Walk<'d>, element: RawValue<'d>) -> Walk<'d> {
        match walk {
            Walk::AtArray { depth, .. } if self.is_end(position, depth) => Walk::Done(Some(element)),
            Walk::AtArray { depth, .. } => match element {
                RawValue::Document(document) => Walk::In { document, depth },
                _ => Walk::Done(None),
            },
            walk => walk,
        }
    }

    fn step_into_empty<'d>(&self, position: usize, walk: Walk<'d>) -> Walk<'d> {
        match walk {
            // An empty array has a key of its own, so that `{ a: [] }` can be told from a missing field.
            Walk::AtArray { depth, .. } if self.is_end(position, depth) => {
                Walk::Done(Some(RawValue::Undefined))
            }
            Walk::AtArray { .. } => Walk::Done(None),
            walk => walk,
        }
    }

    fn emit(
        &self,
        walks: &[Walk<'_>],
        document_key: &[u8],
        found: &mut IndexEntries,
    ) -> Result<(), WriteError> {
        if self.spec.sparse && walks.iter().all(|walk| matches!(walk, Walk::Done(None))) {
            return Ok(());
        }
        let mut key = KeyBuilder::with_prefix(&self.prefix);
        for (field, walk) in self.spec.fields.iter().zip(walks) {
            let value = match walk {
                Walk::Done(value) => *value,
                Walk::In { .. } | Walk::AtArray { .. } => {
                    unreachable!("an entry is made of walks that ended")
                }
            };
            append_field(&mut key, field, value);
        }
        let (mut key, type_bits) = key.into_parts();
        let fields_end = key.len();
        key.extend_from_slice(document_key);
        let mut value = Vec::with_capacity(2 + type_bits.len());
        write_entry_value(&mut value, document_key.len(), &type_bits);
        found.entries.push(IndexEntryBuf { key, value, fields_end });
        Ok(())
    }
}

/// Appends one field; a missing one is null.
#[inline]
fn append_field(key: &mut KeyBuilder, field: &IndexField, value: Option<RawValue<'_>>) {
    let value = value.unwrap_or(RawValue::Null);
    match field.kind {
        FieldKind::Ordered(direction) => key.append(value, direction),
        FieldKind::Hashed => key.append(RawValue::Int64(hash64(value)), field.kind.direction()),
    }
}

/// Parses a partial filter and checks that it only uses what a partial index may use.
fn parse_partial_filter(filter: RawDocument<'_>) -> Result<Matcher, CatalogError> {
    check_partial_operators(filter, 0)?;
    Matcher::parse(filter, &Environment::default())
        .map_err(|QueryError { message, .. }| CatalogError::CannotCreateIndex(message))
}

fn check_partial_operators(filter: RawDocument<'_>, depth: usize) -> Result<(), CatalogError> {
    const ALLOWED: &[&str] =
        &["$and", "$or", "$eq", "$in", "$gt", "$gte", "$lt", "$lte", "$exists", "$type", "$geoWithin"];
    const DEPTH_MAX: usize = 4;
    for element in filter.iter() {
        let name = element.name();
        let unsupported = name.starts_with('$') && !ALLOWED.contains(&name);
        if unsupported || name == "$exists" && matches!(element.value(), RawValue::Boolean(false)) {
            return Err(CatalogError::CannotCreateIndex(format!(
                "Expression not supported in partial index: {}",
                filter.to_document().quoted()
            )));
        }
        match element.value() {
            RawValue::Document(inner) if is_operators(inner) => check_partial_operators(inner, depth)?,
            RawValue::Array(branches) if matches!(name, "$and" | "$or") => {
                if depth >= DEPTH_MAX {
                    return Err(CatalogError::CannotCreateIndex(
                        "partialFilterExpression is nested too deeply".into(),
                    ));
                }
                for branch in branches.iter().filter_map(RawValue::as_document) {
                    check_partial_operators(branch, depth + 1)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_operators(document: RawDocument<'_>) -> bool {
    document.first().is_some_and(|element| element.name().starts_with('$'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::key::decode;
    use document::{Document, Value, doc};

    const NULL: Value = Value::Null;

    /// The keys of `input` in an index with this specification, each as an array of values, and the multikey
    /// paths.
    #[track_caller]
    fn check(
        key: Document,
        options: Document,
        input: Document,
        expect: Result<Vec<Value>, i32>,
    ) -> MultikeyPaths {
        let mut spec = doc! { "name": "test" };
        spec.insert("key", key);
        spec.extend(options);
        let spec = IndexSpec::parse(spec.to_buf().as_raw()).expect("a good specification");
        let generator = KeyGenerator::new(&spec, [0; 8]).expect("a good filter");
        let found = generator.entries(input.to_buf().as_raw(), b"id").map_err(|error| error.code());
        let (found, multikey) = match found {
            Ok(found) => (Ok(found.entries), found.multikey),
            Err(code) => (Err(code), Vec::new()),
        };
        let values = found.map(|entries| {
            entries
                .iter()
                .map(|entry| {
                    let split = crate::keys::split_entry(&entry.key, &entry.value).expect("a whole entry");
                    assert_eq!(split.document_key, b"id");
                    Value::Array(
                        decode(split.fields, split.type_bits, &spec.directions()).expect("a key").into(),
                    )
                })
                .collect::<Vec<_>>()
        });
        assert_eq!(values, expect, "keys of {input:?}");
        multikey
    }

    fn keys(array: Document) -> Result<Vec<Value>, i32> {
        Ok(array.get("keys").and_then(Value::as_array).expect("keys").to_vec())
    }

    #[test]
    fn plain_fields() {
        check(doc! { "a": 1 }, doc! {}, doc! { "a": 5 }, keys(doc! { "keys": [[5]] }));
        check(doc! { "a": 1 }, doc! {}, doc! { "b": 5 }, keys(doc! { "keys": [[NULL]] }));
        check(doc! { "a": 1, "b": -1 }, doc! {}, doc! { "b": 5 }, keys(doc! { "keys": [[NULL, 5]] }));
        check(doc! { "a.b": 1 }, doc! {}, doc! { "a": { "b": "x" } }, keys(doc! { "keys": [["x"]] }));
        check(doc! { "a.b": 1 }, doc! {}, doc! { "a": 3 }, keys(doc! { "keys": [[NULL]] }));
    }

    #[test]
    fn arrays() {
        let paths =
            check(doc! { "a": 1 }, doc! {}, doc! { "a": [3, 1, 3] }, keys(doc! { "keys": [[1], [3]] }));
        assert_eq!(paths, [1]);
        let input = doc! { "a": [{ "b": 1, "c": 2 }, { "b": 3 }, 7] };
        let paths = check(
            doc! { "a.b": 1, "a.c": 1, "d": 1 },
            doc! {},
            input,
            keys(doc! { "keys": [[NULL, NULL, NULL], [1, 2, NULL], [3, NULL, NULL]] }),
        );
        assert_eq!(paths, [1, 1, 0]);
        let undefined = Ok(vec![Value::Array(vec![Value::Undefined].into())]);
        check(doc! { "a": 1 }, doc! {}, doc! { "a": [] }, undefined);
        check(doc! { "a.b": 1 }, doc! {}, doc! { "a": [] }, keys(doc! { "keys": [[NULL]] }));
        let paths = check(
            doc! { "a.b": 1 },
            doc! {},
            doc! { "a": [{ "b": [1, 2] }, { "b": 2 }] },
            keys(doc! { "keys": [[1], [2]] }),
        );
        assert_eq!(paths, [0b11]);
        check(doc! { "a.0": 1 }, doc! {}, doc! { "a": [8, 9] }, keys(doc! { "keys": [[8]] }));
        check(doc! { "a": 1 }, doc! {}, doc! { "a": [[1, 2], 3] }, keys(doc! { "keys": [[3], [[1, 2]]] }));
        check(doc! { "a": 1, "b": 1 }, doc! {}, doc! { "a": [1], "b": [2] }, Err(171));
    }

    #[test]
    fn sparse_partial_hashed() {
        let none = || keys(doc! { "keys": [] });
        check(doc! { "a": 1 }, doc! { "sparse": true }, doc! { "b": 1 }, none());
        check(doc! { "a": 1 }, doc! { "sparse": true }, doc! { "a": NULL }, keys(doc! { "keys": [[NULL]] }));
        let filter = || doc! { "partialFilterExpression": { "b": { "$gt": 5 } } };
        check(doc! { "a": 1 }, filter(), doc! { "a": 1, "b": 5 }, none());
        check(doc! { "a": 1 }, filter(), doc! { "a": 1, "b": 6 }, keys(doc! { "keys": [[1]] }));
        let hash = hash64(RawValue::Int32(5));
        check(
            doc! { "a": "hashed" },
            doc! {},
            doc! { "a": 5 },
            Ok(vec![Value::Array(vec![Value::Int64(hash)].into())]),
        );
        check(doc! { "a": "hashed" }, doc! {}, doc! { "a": [5] }, Err(16766));
    }
}
