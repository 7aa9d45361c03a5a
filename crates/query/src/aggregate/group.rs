//! `$group` and `$sortByCount`.
//!
//! Groups are found by the order-preserving encoding of their keys, so that numerically equal keys of
//! different types are one group. When the groups exceed the memory limit and there is a place to spill to,
//! no further group is begun: documents of groups in memory are still accumulated while these do not grow
//! much, all others are sorted by their key outside memory and grouped afterwards, one group at a time. A
//! group that may not grow goes on from where it stood when its documents come back.

use std::sync::Arc;

use document::key::{encode_owned, encode_value};
use document::{Document, DocumentBuf, DocumentBuilder, ElementType, RawDocument, RawValue, Value, doc_buf};
use hashbrown::HashMap;

use crate::checkpoint;
use crate::environment::Environment;
use crate::error::{QueryError, code};
use crate::expression::{Borrowed, Dependencies, Expression, ParseScope, Variables};
use crate::memory::MemoryPart;
use crate::sort::{SortLimits, SortPattern, Sorter};

use super::accumulator::{AccumulatorSpec, AccumulatorState};
use super::chain::{Downstream, Flow, Pause, Stage, YieldPolicy};
use super::rewrite::{append_bounded, check_size};
use super::{PipelineContext, StagePlan, accumulator_parse};

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
        bail!(15947, "a group's fields must be specified in an object");
    };
    let scope = ParseScope::new(environment);
    let (mut id, mut fields) = (None, Vec::new());
    for element in spec.iter() {
        if element.name() != "_id" {
            fields.push(accumulator_parse::parse(element, &scope)?);
        } else if id.replace(parse_id(element.value(), &scope)?).is_some() {
            bail!(15948, "a group's _id may only be specified once");
        }
    }
    let id = id.ok_or_else(|| QueryError::new(15955, "a group specification must include an _id"))?;
    Ok(vec![StagePlan::Group(Arc::new(GroupSpec { id, fields }))])
}

/// Parses what is grouped by. Of an object of one field that field is the key, and a key that is missing is
/// null; of several fields the missing ones are left out.
fn parse_id(id: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let RawValue::Document(object) = id else { return Expression::parse(id, scope) };
    if object.first().is_some_and(|first| first.name().starts_with('$')) {
        return Expression::parse(id, scope);
    }
    if object.iter().any(|field| field.value().is_number() || field.kind() == ElementType::Boolean) {
        bail!(17390, "$group does not support inclusion-style expressions");
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
        RawValue::String(_) => bail!(
            40148,
            "the sortByCount field must be defined as a $-prefixed path or an expression inside an object"
        ),
        RawValue::Document(document)
            if document.first().is_some_and(|first| first.name().starts_with('$')) => {}
        RawValue::Document(_) => bail!(
            40147,
            "the sortByCount field must be defined as a $-prefixed path or an expression inside an object"
        ),
        _ => bail!(40149, "the sortByCount field must be specified as a string or as an object"),
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
pub(super) struct GroupState {
    id: Value,
    states: Vec<AccumulatorState>,
    /// What key and states hold, about.
    bytes: usize,
    /// Documents of this group were put aside; so are all that come later, until those are taken in.
    continues: bool,
}

impl GroupState {
    pub(super) fn start(
        id: Value,
        fields: &[(String, AccumulatorSpec)],
        first: RawDocument<'_>,
        variables: &mut Variables,
    ) -> Result<Self, QueryError> {
        let states = fields
            .iter()
            .map(|(_, accumulator)| accumulator.start(first, variables))
            .collect::<Result<Vec<_>, _>>()?;
        let bytes =
            GROUP_BYTES + id.memory_bytes() + states.iter().map(AccumulatorState::bytes).sum::<usize>();
        Ok(Self { id, states, bytes, continues: false })
    }

    /// Takes a document in.
    ///
    /// # Errors
    /// What the expressions raise; 146 when an accumulator holds more than it may.
    pub(super) fn add(
        &mut self,
        fields: &[(String, AccumulatorSpec)],
        document: RawDocument<'_>,
        variables: &mut Variables,
        context: &PipelineContext,
    ) -> Result<(), QueryError> {
        checkpoint::pass(1)?;
        for ((_, accumulator), state) in fields.iter().zip(&mut self.states) {
            let before = state.bytes();
            accumulator.add(state, document, variables, context.accumulator_bytes)?;
            self.bytes = self.bytes + state.bytes() - before;
        }
        Ok(())
    }

    /// Refuses a group that alone takes more than a stage may: there is nothing of it that could be put
    /// aside.
    pub(super) fn check(&self, context: &PipelineContext) -> Result<(), QueryError> {
        if self.bytes <= context.memory_bytes {
            return Ok(());
        }
        Err(query_error!(
            code::EXCEEDED_MEMORY_LIMIT,
            "the accumulators of one group used too much memory and cannot spill to disk. Used: {} bytes. \
            Memory limit: {} bytes",
            self.bytes,
            context.memory_bytes
        ))
    }

    /// The same group under another name.
    pub(super) fn named(self, id: Value) -> Self {
        Self { id, ..self }
    }

    pub(super) fn finish(self, fields: &[(String, AccumulatorSpec)]) -> Result<DocumentBuf, QueryError> {
        let mut bytes = Vec::with_capacity(128);
        let mut out = DocumentBuilder::new(&mut bytes);
        append_bounded(&mut out, "_id", &self.id)?;
        for ((name, accumulator), state) in fields.iter().zip(self.states) {
            append_bounded(&mut out, name, &accumulator.finish(state))?;
        }
        out.finish();
        check_size(DocumentBuf::trusted(bytes))
    }
}

/// What a group takes besides its key and what its accumulators hold.
const GROUP_BYTES: usize = 128;

pub(super) struct GroupStage {
    spec: Arc<GroupSpec>,
    context: PipelineContext,
    variables: Variables,
    phase: GroupPhase,
    table: HashMap<Box<[u8]>, usize>,
    groups: Vec<GroupState>,
    held: MemoryPart,
    /// Documents put aside, to be sorted by group key.
    spilled: Option<Sorter>,
    /// The groups of documents put aside as far as they had come before, by group key.
    begun: HashMap<Box<[u8]>, GroupState>,
    key: Vec<u8>,
}

enum GroupPhase {
    Reading,
    Writing {
        groups: std::vec::IntoIter<GroupState>,
    },
    /// Grouping what was spilled.
    Merging {
        sorter: Box<Sorter>,
        current: Option<(Box<[u8]>, GroupState)>,
    },
    Done,
}

impl GroupStage {
    pub(super) fn new(spec: &Arc<GroupSpec>, context: &PipelineContext) -> Self {
        Self {
            spec: Arc::clone(spec),
            context: context.clone(),
            variables: Variables::new(),
            phase: GroupPhase::Reading,
            table: HashMap::default(),
            groups: Vec::new(),
            held: context.memory.part(),
            spilled: None,
            begun: HashMap::default(),
            key: Vec::new(),
        }
    }

    fn add(&mut self, raw: RawDocument<'_>) -> Result<Flow, QueryError> {
        let Self { spec, context, variables, table, groups, held, key, .. } = self;
        key.clear();
        // The key of a group already known needs no owned value.
        let owned = spec.id.with_value(raw, variables, |value| match value {
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
        let known = table.get(key.as_slice()).and_then(|position| groups.get_mut(*position));
        let is_new = known.is_none();
        if let Some(group) = known {
            // Groups that are there already may grow a little longer than new ones may begin: most
            // accumulators keep their size.
            group.continues |= held.is_over(context.memory_bytes + context.memory_bytes / 8);
            if !group.continues {
                let before = group.bytes;
                group.add(&spec.fields, raw, variables, context)?;
                if group.bytes != before {
                    held.set(held.bytes() + group.bytes - before);
                }
                return Ok(Flow::More);
            }
        }
        // Earlier documents of a new group may have been put aside, also when there is room again:
        // accumulators shrink, and so does what others hold.
        if !is_new || self.spilled.is_some() || held.is_over(context.memory_bytes) {
            return self.spill(raw);
        }
        let id = match owned {
            Some(id) => id,
            None => spec.id.evaluate(raw, variables)?.unwrap_or_default(),
        };
        let mut group = GroupState::start(id, &spec.fields, raw, variables)?;
        group.add(&spec.fields, raw, variables, context)?;
        held.set(held.bytes() + key.len() + group.bytes);
        table.insert(key.as_slice().into(), groups.len());
        groups.push(group);
        Ok(Flow::More)
    }

    fn spill(&mut self, document: RawDocument<'_>) -> Result<Flow, QueryError> {
        let sorter = match &mut self.spilled {
            Some(sorter) => sorter,
            None => {
                let Some(spill) = &self.context.spill else {
                    bail!(
                        code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                        "Exceeded memory limit for $group, but didn't allow external sort. Pass \
                        allowDiskUse:true to opt in."
                    );
                };
                let limits = SortLimits { documents: None, memory_bytes: self.context.memory_bytes };
                let spill = Some(Arc::clone(spill));
                self.spilled.insert(Sorter::new(Arc::default(), limits, spill, &self.context.memory))
            }
        };
        sorter.push_keyed(&self.key, document)
    }

    /// Goes on with what was spilled: the records of a group stand together. The next group, or that the
    /// slice is over.
    fn next_merged(&mut self, policy: &mut dyn YieldPolicy) -> Result<Merged, QueryError> {
        let GroupPhase::Merging { sorter, current } = &mut self.phase else {
            // Taken for the end, the groups that were spilled would be missing from the answer.
            panic!("spilled groups are merged in another phase");
        };
        if sorter.resume(policy)? != Pause::End {
            return Ok(Merged::Sliced);
        }
        let (spec, variables, context) = (&self.spec, &mut self.variables, &self.context);
        loop {
            let Some((key, document)) = sorter.next_keyed()? else {
                return Ok(current.take().map_or(Merged::End, |(_, group)| Merged::Group(group)));
            };
            let document = document.as_raw();
            let done = current.take_if(|(known, _)| **known != *key);
            let (_, group) = match current {
                Some(current) => current,
                None => current.insert(match self.begun.remove_entry(&*key) {
                    Some(begun) => begun,
                    None => {
                        let id = spec.id.evaluate(document, variables)?.unwrap_or_default();
                        (key.into(), GroupState::start(id, &spec.fields, document, variables)?)
                    }
                }),
            };
            group.add(&spec.fields, document, variables, context)?;
            group.check(context)?;
            if let Some((_, group)) = done {
                return Ok(Merged::Group(group));
            }
            if policy.should_yield() {
                return Ok(Merged::Sliced);
            }
        }
    }

    fn give_merged(
        &mut self,
        policy: &mut dyn YieldPolicy,
        out: &mut Downstream<'_>,
    ) -> Result<Pause, QueryError> {
        loop {
            match self.next_merged(policy)? {
                Merged::Group(group) => {
                    if out.give(group.finish(&self.spec.fields)?.as_raw())? == Flow::Pause {
                        return Ok(Pause::Stopped);
                    }
                }
                Merged::Sliced => return Ok(Pause::Sliced),
                Merged::End => return Ok(Pause::End),
            }
        }
    }
}

/// What comes of the spilled records.
enum Merged {
    Group(GroupState),
    Sliced,
    End,
}

impl Stage for GroupStage {
    fn take(&mut self, document: RawDocument<'_>, _: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        self.add(document)
    }

    fn end(&mut self) -> Result<(), QueryError> {
        let mut groups: Vec<Option<GroupState>> =
            std::mem::take(&mut self.groups).into_iter().map(Some).collect();
        for (key, position) in std::mem::take(&mut self.table) {
            let begun = groups.get_mut(position).and_then(|group| group.take_if(|group| group.continues));
            if let Some(group) = begun {
                self.begun.insert(key, group);
            }
        }
        let done: Vec<GroupState> = groups.into_iter().flatten().collect();
        self.phase = GroupPhase::Writing { groups: done.into_iter() };
        Ok(())
    }

    fn holds(&self) -> bool {
        match self.phase {
            GroupPhase::Reading => self.spilled.as_ref().is_some_and(Sorter::holds),
            GroupPhase::Writing { .. } | GroupPhase::Merging { .. } => true,
            GroupPhase::Done => false,
        }
    }

    fn resume(
        &mut self,
        policy: &mut dyn YieldPolicy,
        out: &mut Downstream<'_>,
    ) -> Result<Pause, QueryError> {
        match &mut self.phase {
            GroupPhase::Reading => {
                return self.spilled.as_mut().map_or(Ok(Pause::End), |sorter| sorter.resume(policy));
            }
            GroupPhase::Writing { groups } => {
                let fields = &self.spec.fields;
                let mut next = || groups.next().map(|group| group.finish(fields)).transpose();
                let pause = out.give_all(policy, &mut next)?;
                if pause != Pause::End {
                    return Ok(pause);
                }
                // The others have been handed on.
                self.held.set(self.begun.iter().map(|(key, group)| key.len() + group.bytes).sum());
                self.phase = match self.spilled.take() {
                    Some(mut sorter) => {
                        sorter.end();
                        GroupPhase::Merging { sorter: Box::new(sorter), current: None }
                    }
                    None => GroupPhase::Done,
                };
            }
            GroupPhase::Merging { .. } => {}
            GroupPhase::Done => panic!("a group that is done is asked for more"),
        }
        let pause = match self.phase {
            GroupPhase::Merging { .. } => self.give_merged(policy, out)?,
            _ => Pause::End,
        };
        if pause == Pause::End {
            self.phase = GroupPhase::Done;
            self.held.set(0);
        }
        Ok(pause)
    }
}

/// The fields of a `$bucket` without `output`: the number of documents.
pub(super) fn default_output(scope: &ParseScope<'_>) -> Result<Vec<(String, AccumulatorSpec)>, QueryError> {
    let mut output = Document::new();
    output.push("count", Value::Document(document::doc! { "$sum": 1 }));
    parse_fields(output.to_buf().as_raw(), scope)
}
