//! `$group` and `$sortByCount`.
//!
//! Groups are found by the order-preserving encoding of their keys, so that numerically equal keys of different types are one
//! group. When the groups exceed the memory limit and there is a place to spill to, no further group is begun: documents of
//! groups in memory are still accumulated, all others are sorted by their key outside memory and grouped afterwards, one group
//! at a time.

use std::sync::Arc;

use document::key::{encode_owned, encode_value};
use document::{Document, DocumentBuf, DocumentBuilder, ElementType, RawDocument, RawValue, Value, doc_buf};
use rustc_hash::FxHashMap;

use crate::environment::Environment;
use crate::error::{QueryError, code};
use crate::expression::{Borrowed, Dependencies, Expression, ParseScope, Variables};
use crate::sort::{SortLimits, SortPattern, Sorted, Sorter};

use super::accumulator::{AccumulatorSpec, State, approximate_size};
use super::rewrite::check_size;
use super::{PipelineContext, Stage, StagePlan, Step, accumulator_parse};

/// A parsed `$group`.
#[derive(Debug)]
pub(crate) struct GroupSpec {
    id: Expression,
    fields: Vec<(String, AccumulatorSpec)>,
}

impl GroupSpec {
    pub(super) fn new(id: Expression, fields: Vec<(String, AccumulatorSpec)>) -> Self {
        Self { id, fields }
    }

    pub(super) fn dependencies(&self, found: &mut Dependencies) {
        self.id.dependencies(found);
        for (_, accumulator) in &self.fields {
            accumulator.input.dependencies(found);
            accumulator.count.iter().for_each(|count| count.dependencies(found));
            let order = accumulator.order.iter().flat_map(SortPattern::parts);
            order.for_each(|part| found.add(part.path.as_str()));
        }
    }
}

pub(super) fn parse(operand: RawValue<'_>, environment: &Environment) -> Result<Vec<StagePlan>, QueryError> {
    let RawValue::Document(spec) = operand else {
        return Err(QueryError::new(15947, "a group's fields must be specified in an object"));
    };
    let scope = ParseScope::new(environment);
    let (mut id, mut fields) = (None, Vec::new());
    for element in spec.iter() {
        if element.name() != "_id" {
            fields.push(accumulator_parse::parse(element, &scope)?);
        } else if id.replace(parse_id(element.value(), &scope)?).is_some() {
            return Err(QueryError::new(15948, "a group's _id may only be specified once"));
        }
    }
    let id = id.ok_or_else(|| QueryError::new(15955, "a group specification must include an _id"))?;
    Ok(vec![StagePlan::Group(Arc::new(GroupSpec { id, fields }))])
}

/// Parses what is grouped by. Of an object of one field that field is the key, and a key that is missing is null; of several fields
/// the missing ones are left out.
fn parse_id(id: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let RawValue::Document(object) = id else { return Expression::parse(id, scope) };
    if object.first().is_some_and(|first| first.name().starts_with('$')) {
        return Expression::parse(id, scope);
    }
    if object.iter().any(|field| field.value().is_number() || field.kind() == ElementType::Boolean) {
        return Err(QueryError::new(17390, "$group does not support inclusion-style expressions"));
    }
    let parsed = Expression::parse(id, scope)?;
    Ok(if object.iter().nth(1).is_some() { parsed } else { parsed.with_null_fields() })
}

/// Parses the accumulators of `output` of `$bucket`.
pub(super) fn parse_fields(
    spec: RawDocument<'_>,
    scope: &ParseScope<'_>,
) -> Result<Vec<(String, AccumulatorSpec)>, QueryError> {
    spec.iter()
        .filter(|element| element.name() != "_id")
        .map(|element| accumulator_parse::parse(element, scope))
        .collect()
}

pub(super) fn parse_sort_by_count(
    operand: RawValue<'_>,
    environment: &Environment,
) -> Result<Vec<StagePlan>, QueryError> {
    match operand {
        RawValue::String(text) if text.starts_with('$') => {}
        RawValue::String(_) => {
            return Err(QueryError::new(
                40148,
                "the sortByCount field must be defined as a $-prefixed path or an expression inside an object",
            ));
        }
        RawValue::Document(document)
            if document.first().is_some_and(|first| first.name().starts_with('$')) => {}
        RawValue::Document(_) => {
            return Err(QueryError::new(
                40147,
                "the sortByCount field must be defined as a $-prefixed path or an expression inside an object",
            ));
        }
        _ => {
            return Err(QueryError::new(
                40149,
                "the sortByCount field must be specified as a string or as an object",
            ));
        }
    }
    let scope = ParseScope::new(environment);
    let id = Expression::parse(operand, &scope)?;
    let fields = parse_fields(doc_buf! { "count": { "$sum": 1 } }.as_raw(), &scope)?;
    let pattern = SortPattern::parse(doc_buf! { "count": -1 }.as_raw())?;
    Ok(vec![
        StagePlan::Group(Arc::new(GroupSpec { id, fields })),
        StagePlan::Sort { pattern: Arc::new(pattern), limit: None },
    ])
}

/// One group and the states of its accumulators.
pub(super) struct Group {
    id: Value,
    states: Vec<State>,
}

impl Group {
    pub(super) fn start(
        id: Value,
        fields: &[(String, AccumulatorSpec)],
        first: RawDocument<'_>,
        variables: &mut Variables,
    ) -> Result<Self, QueryError> {
        let states = fields
            .iter()
            .map(|(_, accumulator)| accumulator.start(first, variables))
            .collect::<Result<_, _>>()?;
        Ok(Self { id, states })
    }

    /// Takes a document in; returns by how many bytes the group has grown.
    pub(super) fn add(
        &mut self,
        fields: &[(String, AccumulatorSpec)],
        document: RawDocument<'_>,
        variables: &mut Variables,
    ) -> Result<usize, QueryError> {
        let mut grown = 0;
        for ((_, accumulator), state) in fields.iter().zip(&mut self.states) {
            grown += accumulator.add(state, document, variables)?;
        }
        Ok(grown)
    }

    pub(super) fn finish(self, fields: &[(String, AccumulatorSpec)]) -> Result<DocumentBuf, QueryError> {
        let mut bytes = Vec::with_capacity(128);
        let mut out = DocumentBuilder::new(&mut bytes);
        out.append_value("_id", &self.id);
        for ((name, accumulator), state) in fields.iter().zip(self.states) {
            out.append_value(name, &accumulator.finish(state));
        }
        out.finish();
        check_size(DocumentBuf::trusted(bytes))
    }
}

/// What a group takes besides its key and what its accumulators hold.
const GROUP_BYTES: usize = 128;
const STATE_BYTES: usize = 64;

pub(super) struct GroupStage {
    input: Box<dyn Stage>,
    spec: Arc<GroupSpec>,
    context: PipelineContext,
    variables: Variables,
    phase: Phase,
    table: FxHashMap<Box<[u8]>, usize>,
    groups: Vec<Group>,
    bytes: usize,
    /// Documents whose groups are not in memory, to be sorted by group key.
    spilled: Option<Sorter>,
    key: Vec<u8>,
}

enum Phase {
    Reading,
    Writing {
        groups: std::vec::IntoIter<Group>,
    },
    /// Grouping what was spilled; a document that begins the next group is kept for it.
    Merging {
        sorted: Sorted,
        ahead: Option<DocumentBuf>,
    },
    Done,
}

impl GroupStage {
    pub(super) fn new(input: Box<dyn Stage>, spec: &Arc<GroupSpec>, context: &PipelineContext) -> Self {
        Self {
            input,
            spec: Arc::clone(spec),
            context: context.clone(),
            variables: Variables::new(),
            phase: Phase::Reading,
            table: FxHashMap::default(),
            groups: Vec::new(),
            bytes: 0,
            spilled: None,
            key: Vec::new(),
        }
    }

    fn take(&mut self, document: &DocumentBuf) -> Result<(), QueryError> {
        let raw = document.as_raw();
        let spec = Arc::clone(&self.spec);
        let key = &mut self.key;
        key.clear();
        // The key of a group already known needs no owned value.
        let owned = spec.id.with_value(raw, &mut self.variables, |value| match value {
            Borrowed::Raw(found) => {
                encode_value(key, found.unwrap_or(RawValue::Null));
                None
            }
            Borrowed::Owned(value) => {
                let value = value.unwrap_or_default();
                encode_owned(key, &value);
                Some(value)
            }
        })?;
        if let Some(position) = self.table.get(self.key.as_slice()).copied() {
            if let Some(group) = self.groups.get_mut(position) {
                self.bytes += group.add(&spec.fields, raw, &mut self.variables)?;
            }
            return Ok(());
        }
        if self.bytes > self.context.memory_bytes {
            return self.spill(raw);
        }
        let id = match owned {
            Some(id) => id,
            None => spec.id.evaluate(raw, &mut self.variables)?.unwrap_or_default(),
        };
        self.bytes += self.key.len() + GROUP_BYTES + STATE_BYTES * spec.fields.len() + approximate_size(&id);
        let mut group = Group::start(id, &spec.fields, raw, &mut self.variables)?;
        self.bytes += group.add(&spec.fields, raw, &mut self.variables)?;
        self.table.insert(self.key.as_slice().into(), self.groups.len());
        self.groups.push(group);
        Ok(())
    }

    fn spill(&mut self, document: RawDocument<'_>) -> Result<(), QueryError> {
        let sorter = match &mut self.spilled {
            Some(sorter) => sorter,
            None => {
                let Some(spill) = &self.context.spill else {
                    return Err(QueryError::new(
                        code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                        "Exceeded memory limit for $group, but didn't allow external sort. Pass allowDiskUse:true to opt in.",
                    ));
                };
                let pattern = Arc::new(SortPattern::parse(doc_buf! { "key": 1 }.as_raw())?);
                let limits = SortLimits { documents: None, memory_bytes: self.context.memory_bytes };
                self.spilled.insert(Sorter::new(pattern, limits, Some(spill.runs()?)))
            }
        };
        let mut bytes = Vec::with_capacity(document.as_bytes().len() + self.key.len() + 32);
        let mut record = DocumentBuilder::new(&mut bytes);
        record.append("key", RawValue::Binary { subtype: 0, bytes: &self.key });
        record.append("document", document);
        record.finish();
        sorter.push_owned(DocumentBuf::trusted(bytes))
    }

    /// Reads all input; `false` when the input yielded.
    fn read(&mut self) -> Result<bool, QueryError> {
        loop {
            match self.input.next()? {
                Step::Document(document) => self.take(&document)?,
                Step::Yield => return Ok(false),
                Step::End => break,
            }
        }
        self.table = FxHashMap::default();
        self.phase = Phase::Writing { groups: std::mem::take(&mut self.groups).into_iter() };
        Ok(true)
    }

    /// Builds the next group of what was spilled: its records stand together.
    fn next_merged(&mut self) -> Result<Option<DocumentBuf>, QueryError> {
        let Phase::Merging { sorted, ahead } = &mut self.phase else { return Ok(None) };
        let first = match ahead.take() {
            Some(first) => first,
            None => match sorted.next()? {
                Some(first) => first,
                None => return Ok(None),
            },
        };
        let (key, document) = split(&first);
        let id = self.spec.id.evaluate(document, &mut self.variables)?.unwrap_or_default();
        let mut group = Group::start(id, &self.spec.fields, document, &mut self.variables)?;
        group.add(&self.spec.fields, document, &mut self.variables)?;
        while let Some(record) = sorted.next()? {
            let (next_key, document) = split(&record);
            if next_key != key {
                *ahead = Some(record);
                break;
            }
            group.add(&self.spec.fields, document, &mut self.variables)?;
        }
        group.finish(&self.spec.fields).map(Some)
    }
}

/// The key and the document of a spilled record.
fn split(record: &DocumentBuf) -> (&[u8], RawDocument<'_>) {
    let key = match record.as_raw().get("key") {
        Some(RawValue::Binary { bytes, .. }) => bytes,
        _ => &[],
    };
    let document = match record.as_raw().get("document") {
        Some(RawValue::Document(document)) => document,
        _ => RawDocument::EMPTY,
    };
    (key, document)
}

impl Stage for GroupStage {
    fn next(&mut self) -> Result<Step, QueryError> {
        loop {
            match &mut self.phase {
                Phase::Reading => {
                    if !self.read()? {
                        return Ok(Step::Yield);
                    }
                }
                Phase::Writing { groups } => match groups.next() {
                    Some(group) => return group.finish(&self.spec.fields).map(Step::Document),
                    None => {
                        self.phase = match self.spilled.take() {
                            Some(sorter) => Phase::Merging { sorted: sorter.finish()?, ahead: None },
                            None => Phase::Done,
                        };
                    }
                },
                Phase::Merging { .. } => {
                    if let Some(document) = self.next_merged()? {
                        return Ok(Step::Document(document));
                    }
                    self.phase = Phase::Done;
                }
                Phase::Done => return Ok(Step::End),
            }
        }
    }
}

/// The fields of a `$bucket` without `output`: the number of documents.
pub(super) fn default_output(scope: &ParseScope<'_>) -> Result<Vec<(String, AccumulatorSpec)>, QueryError> {
    let mut output = Document::new();
    output.push("count", Value::Document(document::doc! { "$sum": 1 }));
    parse_fields(output.to_buf().as_raw(), scope)
}
