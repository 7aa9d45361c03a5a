//! The state of one accumulator of one group.

use std::cmp::Ordering;
use std::collections::VecDeque;

use document::key::GroupKey;
use document::{Fieldwise, Number, RawDocument, RawValue, Value};
use hashbrown::HashSet;

use crate::error::{QueryError, code};
use crate::expression::{Borrowed, Deviation, Evaluated, Expression, Sum, Variables, merge_into, take_count};
use crate::sort::SortPattern;

use super::ranked::{ByValue, Ranked};

/// What an accumulator computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccumulatorKind {
    Sum,
    Average,
    Minimum,
    Maximum,
    First,
    Last,
    Push,
    AddToSet,
    MergeObjects,
    Count,
    DeviationOfPopulation,
    DeviationOfSample,
    FirstN,
    LastN,
    MinimumN,
    MaximumN,
    Top,
    TopN,
    Bottom,
    BottomN,
}

/// A parsed accumulator.
#[derive(Debug)]
pub(crate) struct AccumulatorSpec {
    /// With the dollar sign, for messages.
    pub(super) name: &'static str,
    pub(super) kind: AccumulatorKind,
    pub(super) input: Expression,
    /// How many items, for the `N` accumulators.
    pub(super) count: Option<Expression>,
    /// The order of `$top` and its kin.
    pub(super) order: Option<SortPattern>,
}

/// What an accumulator has gathered, and how many bytes that takes.
#[derive(Debug)]
pub(crate) struct AccumulatorState {
    gathered: Gathered,
    bytes: usize,
}

#[derive(Debug)]
enum Gathered {
    Sum(Sum),
    Average(Sum),
    Extreme { best: Evaluated, wanted: Ordering },
    First(Option<Evaluated>),
    Last(Evaluated),
    Push(Vec<Value>),
    Set { seen: HashSet<GroupKey>, items: Vec<Value> },
    Merged(Fieldwise),
    Count(i64),
    Deviation(Deviation),
    FirstN { limit: usize, items: Vec<Value> },
    LastN { limit: usize, items: VecDeque<Value> },
    ExtremeN { descending: bool, items: Ranked<ByValue, ()> },
    Sorted(Ranked<Vec<u8>, Value>),
}

/// What an entry of a set takes in its table, beside its key.
const SET_ENTRY_BYTES: usize = 32;

impl AccumulatorSpec {
    /// The state of a new group, whose first document is `document`.
    pub(super) fn start(
        &self,
        document: RawDocument<'_>,
        variables: &mut Variables,
    ) -> Result<AccumulatorState, QueryError> {
        let limit = match &self.count {
            Some(count) => take_count(&count.evaluate(document, variables)?)?,
            None => 1,
        };
        let gathered = match self.kind {
            AccumulatorKind::Sum => Gathered::Sum(Sum::default()),
            AccumulatorKind::Average => Gathered::Average(Sum::default()),
            AccumulatorKind::Minimum => Gathered::Extreme { best: None, wanted: Ordering::Less },
            AccumulatorKind::Maximum => Gathered::Extreme { best: None, wanted: Ordering::Greater },
            AccumulatorKind::First => Gathered::First(None),
            AccumulatorKind::Last => Gathered::Last(None),
            AccumulatorKind::Push => Gathered::Push(Vec::new()),
            AccumulatorKind::AddToSet => Gathered::Set { seen: HashSet::default(), items: Vec::new() },
            AccumulatorKind::MergeObjects => Gathered::Merged(Fieldwise::default()),
            AccumulatorKind::Count => Gathered::Count(0),
            AccumulatorKind::DeviationOfPopulation | AccumulatorKind::DeviationOfSample => {
                Gathered::Deviation(Deviation::default())
            }
            AccumulatorKind::FirstN => Gathered::FirstN { limit, items: Vec::new() },
            AccumulatorKind::LastN => Gathered::LastN { limit, items: VecDeque::new() },
            AccumulatorKind::MinimumN => {
                Gathered::ExtremeN { descending: false, items: Ranked::new(limit, true) }
            }
            AccumulatorKind::MaximumN => {
                Gathered::ExtremeN { descending: true, items: Ranked::new(limit, true) }
            }
            AccumulatorKind::Top | AccumulatorKind::TopN => Gathered::Sorted(Ranked::new(limit, true)),
            AccumulatorKind::Bottom | AccumulatorKind::BottomN => Gathered::Sorted(Ranked::new(limit, false)),
        };
        Ok(AccumulatorState { gathered, bytes: 0 })
    }

    /// Takes one document of the group in.
    ///
    /// # Errors
    /// What the expression raises; 146 when the state would hold more than `most_bytes`.
    pub(super) fn add(
        &self,
        state: &mut AccumulatorState,
        document: RawDocument<'_>,
        variables: &mut Variables,
        most_bytes: usize,
    ) -> Result<(), QueryError> {
        match &mut state.gathered {
            Gathered::Sorted(ranked) => {
                let key = match &self.order {
                    Some(order) => order.key(document)?,
                    None => Vec::new(),
                };
                if ranked.wants(&key) {
                    let value = self.input.evaluate(document, variables)?.unwrap_or_default();
                    ranked.insert(key, value);
                }
                state.bytes = ranked.bytes();
            }
            Gathered::Count(count) => *count += 1,
            Gathered::First(Some(_)) => {}
            Gathered::FirstN { limit, items } if items.len() >= *limit => {}
            _ => self.input.with_value(document, variables, |value| state.take(value))??,
        }
        if state.bytes > most_bytes { Err(self.too_large(state, most_bytes)) } else { Ok(()) }
    }

    fn too_large(&self, state: &AccumulatorState, most_bytes: usize) -> QueryError {
        let (name, used) = (self.name, state.bytes);
        query_error!(
            code::EXCEEDED_MEMORY_LIMIT,
            "{name} used too much memory and cannot spill to disk. Used: {used} bytes. Memory limit: \
            {most_bytes} bytes"
        )
    }

    /// The value of a finished group.
    pub(super) fn finish(&self, state: AccumulatorState) -> Value {
        match state.gathered {
            Gathered::Sum(sum) => sum.total().into(),
            Gathered::Average(sum) => sum.mean().map_or(Value::Null, Value::from),
            Gathered::Extreme { best, .. } => best.unwrap_or_default(),
            Gathered::First(first) => first.flatten().unwrap_or_default(),
            Gathered::Last(last) => last.unwrap_or_default(),
            Gathered::Push(items) | Gathered::Set { items, .. } => Value::from(items),
            Gathered::Merged(fields) => Value::Document(fields.into_document()),
            Gathered::Count(count) => i32::try_from(count).map_or(Value::Int64(count), Value::Int32),
            Gathered::Deviation(deviation) => match self.kind {
                AccumulatorKind::DeviationOfPopulation => deviation.of_population(),
                _ => deviation.of_sample(),
            }
            .map_or(Value::Null, Value::Double),
            Gathered::FirstN { items, .. } => Value::from(items),
            Gathered::LastN { items, .. } => Value::from(Vec::from(items)),
            Gathered::ExtremeN { items, .. } => {
                Value::Array(items.into_entries().map(|(key, ())| key.value).collect())
            }
            Gathered::Sorted(ranked) => {
                let mut values = ranked.into_entries().map(|(_, value)| value);
                match self.kind {
                    AccumulatorKind::Top | AccumulatorKind::Bottom => values.next().unwrap_or_default(),
                    _ => Value::Array(values.collect()),
                }
            }
        }
    }
}

fn number(value: &Borrowed<'_>) -> Option<Number> {
    match value {
        Borrowed::Raw(found) => found.and_then(RawValue::as_number),
        Borrowed::Owned(found) => found.as_ref().and_then(Value::as_number),
    }
}

impl AccumulatorState {
    /// Bytes that the state holds, about.
    pub(super) fn bytes(&self) -> usize {
        size_of::<AccumulatorState>() + self.bytes
    }

    fn take(&mut self, value: Borrowed<'_>) -> Result<(), QueryError> {
        let bytes = &mut self.bytes;
        match &mut self.gathered {
            Gathered::Sum(sum) | Gathered::Average(sum) => {
                if let Some(number) = number(&value) {
                    sum.add(number);
                }
            }
            Gathered::Deviation(deviation) => {
                if let Some(number) = number(&value) {
                    deviation.add(number.to_f64());
                }
            }
            Gathered::Extreme { best, wanted } => {
                if is_better(&value, best, *wanted) {
                    *best = value.into_value();
                    *bytes = size(best);
                }
            }
            Gathered::First(first) => {
                let value = value.into_value();
                *bytes = size(&value);
                *first = Some(value);
            }
            Gathered::Last(last) => {
                *last = value.into_value();
                *bytes = size(last);
            }
            Gathered::Push(items) => {
                if let Some(item) = value.into_value() {
                    *bytes += item.memory_bytes();
                    items.push(item);
                }
            }
            Gathered::Set { seen, items } => {
                if let Some(item) = value.into_value() {
                    let key = GroupKey::of(&item);
                    let grown = SET_ENTRY_BYTES + key.as_bytes().len() + item.memory_bytes();
                    if seen.insert(key) {
                        *bytes += grown;
                        items.push(item);
                    }
                }
            }
            Gathered::Merged(fields) => {
                let (came, went) = merge_into(fields, value.into_value())?;
                *bytes = *bytes + came - went;
            }
            Gathered::FirstN { items, .. } => {
                let item = value.into_value().unwrap_or_default();
                *bytes += item.memory_bytes();
                items.push(item);
            }
            Gathered::LastN { limit, items } => {
                let item = value.into_value().unwrap_or_default();
                *bytes += item.memory_bytes();
                items.push_back(item);
                if items.len() > *limit
                    && let Some(gone) = items.pop_front()
                {
                    *bytes -= gone.memory_bytes();
                }
            }
            Gathered::ExtremeN { descending, items } => {
                if let Some(value) = value.into_value().filter(|item| !item.is_nullish()) {
                    let key = ByValue { value, descending: *descending };
                    if items.wants(&key) {
                        items.insert(key, ());
                        *bytes = items.bytes();
                    }
                }
            }
            // These look at the document themselves.
            Gathered::Count(_) | Gathered::Sorted(_) => {}
        }
        Ok(())
    }
}

fn is_better(value: &Borrowed<'_>, best: &Evaluated, wanted: Ordering) -> bool {
    match (value, best) {
        (Borrowed::Raw(None | Some(RawValue::Null | RawValue::Undefined)), _) => false,
        (Borrowed::Owned(None | Some(Value::Null | Value::Undefined)), _) => false,
        (_, None) => true,
        (Borrowed::Raw(Some(found)), Some(best)) => {
            best.with_raw(|best| document::compare(*found, best)) == wanted
        }
        (Borrowed::Owned(Some(found)), Some(best)) => found.compare(best) == wanted,
    }
}

fn size(value: &Evaluated) -> usize {
    value.as_ref().map_or(0, Value::memory_bytes)
}
