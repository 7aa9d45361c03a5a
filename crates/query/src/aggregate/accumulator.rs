//! The state of one accumulator of one group.

use std::cmp::Ordering;

use document::key::GroupKey;
use document::{
    Binary, CodeWithScope, DbPointer, Document, Fieldwise, Number, RawDocument, RawValue, Regex, Value,
};
use rustc_hash::FxHashSet;

use crate::error::QueryError;
use crate::expression::{Borrowed, Deviation, Evaluated, Expression, Sum, Variables, merge_into, take_count};
use crate::sort::SortPattern;

/// What an accumulator computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
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
    pub(super) kind: Kind,
    pub(super) input: Expression,
    /// How many items, for the `N` accumulators.
    pub(super) count: Option<Expression>,
    /// The order of `$top` and its kin.
    pub(super) order: Option<SortPattern>,
}

/// An accumulator's growth is refused beyond this many bytes (`internalQueryMaxPushBytes` and its kin).
const MAX_ACCUMULATED_BYTES: usize = 100 * 1024 * 1024;
/// What a value takes besides what it holds.
const VALUE_BYTES: usize = size_of::<Value>();

/// What an accumulator has gathered.
#[derive(Debug)]
pub(crate) enum State {
    Sum(Sum),
    Average(Sum),
    Extreme { best: Evaluated, wanted: Ordering },
    First(Option<Evaluated>),
    Last(Evaluated),
    Push { items: Vec<Value>, bytes: usize },
    Set { seen: FxHashSet<GroupKey>, items: Vec<Value>, bytes: usize },
    Merged(Fieldwise),
    Count(i64),
    Deviation(Deviation),
    FirstN { limit: usize, items: Vec<Value> },
    LastN { limit: usize, items: std::collections::VecDeque<Value> },
    ExtremeN { limit: usize, items: Vec<Value>, wanted: Ordering },
    Sorted { limit: usize, items: Vec<(Vec<u8>, Value)>, lowest: bool },
}

impl AccumulatorSpec {
    /// The state of a new group, whose first document is `document`.
    pub(super) fn start(
        &self,
        document: RawDocument<'_>,
        variables: &mut Variables,
    ) -> Result<State, QueryError> {
        let limit = match &self.count {
            Some(count) => take_count(&count.evaluate(document, variables)?)?,
            None => 1,
        };
        Ok(match self.kind {
            Kind::Sum => State::Sum(Sum::default()),
            Kind::Average => State::Average(Sum::default()),
            Kind::Minimum => State::Extreme { best: None, wanted: Ordering::Less },
            Kind::Maximum => State::Extreme { best: None, wanted: Ordering::Greater },
            Kind::First => State::First(None),
            Kind::Last => State::Last(None),
            Kind::Push => State::Push { items: Vec::new(), bytes: 0 },
            Kind::AddToSet => State::Set { seen: FxHashSet::default(), items: Vec::new(), bytes: 0 },
            Kind::MergeObjects => State::Merged(Fieldwise::default()),
            Kind::Count => State::Count(0),
            Kind::DeviationOfPopulation | Kind::DeviationOfSample => State::Deviation(Deviation::default()),
            Kind::FirstN => State::FirstN { limit, items: Vec::new() },
            Kind::LastN => State::LastN { limit, items: std::collections::VecDeque::new() },
            Kind::MinimumN => State::ExtremeN { limit, items: Vec::new(), wanted: Ordering::Less },
            Kind::MaximumN => State::ExtremeN { limit, items: Vec::new(), wanted: Ordering::Greater },
            Kind::Top | Kind::TopN => State::Sorted { limit, items: Vec::new(), lowest: true },
            Kind::Bottom | Kind::BottomN => State::Sorted { limit, items: Vec::new(), lowest: false },
        })
    }

    /// Takes one document of the group in; returns by how many bytes the state has grown.
    pub(super) fn add(
        &self,
        state: &mut State,
        document: RawDocument<'_>,
        variables: &mut Variables,
    ) -> Result<usize, QueryError> {
        if let State::Sorted { limit, items, lowest } = state {
            let key = match &self.order {
                Some(order) => order.key(document)?,
                None => Vec::new(),
            };
            return insert_sorted(items, *limit, *lowest, key, || {
                Ok(self.input.evaluate(document, variables)?.unwrap_or_default())
            });
        }
        if let State::Count(count) = state {
            *count += 1;
            return Ok(0);
        }
        if matches!(state, State::First(Some(_))) {
            return Ok(0);
        }
        self.input.with_value(document, variables, |value| state.take(value))?
    }

    /// The value of a finished group.
    pub(super) fn finish(&self, state: State) -> Value {
        match state {
            State::Sum(sum) => sum.total().into(),
            State::Average(sum) => sum.mean().map_or(Value::Null, Value::from),
            State::Extreme { best, .. } => best.unwrap_or_default(),
            State::First(first) => first.flatten().unwrap_or_default(),
            State::Last(last) => last.unwrap_or_default(),
            State::Push { items, .. } | State::Set { items, .. } => Value::from(items),
            State::Merged(merged) => Value::Document(merged.into_document()),
            State::Count(count) => i32::try_from(count).map_or(Value::Int64(count), Value::Int32),
            State::Deviation(deviation) => match self.kind {
                Kind::DeviationOfPopulation => deviation.of_population(),
                _ => deviation.of_sample(),
            }
            .map_or(Value::Null, Value::Double),
            State::FirstN { items, .. } | State::ExtremeN { items, .. } => Value::from(items),
            State::LastN { items, .. } => Value::from(Vec::from(items)),
            State::Sorted { items, .. } => {
                let mut values = items.into_iter().map(|(_, value)| value);
                match self.kind {
                    Kind::Top | Kind::Bottom => values.next().unwrap_or_default(),
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

impl State {
    fn take(&mut self, value: Borrowed<'_>) -> Result<usize, QueryError> {
        match self {
            State::Sum(sum) | State::Average(sum) => {
                if let Some(number) = number(&value) {
                    sum.add(number);
                }
                Ok(0)
            }
            State::Deviation(deviation) => {
                if let Some(number) = number(&value) {
                    deviation.add(number.to_f64());
                }
                Ok(0)
            }
            State::Count(count) => {
                *count += 1;
                Ok(0)
            }
            State::Extreme { best, wanted } => Ok(take_extreme(best, *wanted, value)),
            State::First(first) => {
                let value = value.into_value();
                let grown = size(&value);
                *first = Some(value);
                Ok(grown)
            }
            State::Last(last) => {
                *last = value.into_value();
                Ok(0)
            }
            State::Push { items, bytes } => match value.into_value() {
                None => Ok(0),
                Some(item) => grow(items, bytes, item, "$push"),
            },
            State::Set { seen, items, bytes } => match value.into_value() {
                None => Ok(0),
                Some(item) => {
                    if seen.insert(GroupKey::of(&item)) {
                        grow(items, bytes, item, "$addToSet")
                    } else {
                        Ok(0)
                    }
                }
            },
            State::Merged(document) => {
                let value = value.into_value();
                let grown = size(&value);
                merge_into(document, value)?;
                Ok(grown)
            }
            State::FirstN { limit, items } => {
                if items.len() >= *limit {
                    return Ok(0);
                }
                let item = value.into_value().unwrap_or_default();
                let grown = approximate_size(&item);
                items.push(item);
                Ok(grown)
            }
            State::LastN { limit, items } => {
                let item = value.into_value().unwrap_or_default();
                let grown = approximate_size(&item);
                items.push_back(item);
                if items.len() > *limit {
                    items.pop_front();
                    return Ok(0);
                }
                Ok(grown)
            }
            State::ExtremeN { limit, items, wanted } => {
                Ok(take_extreme_n(items, *limit, *wanted, value.into_value()))
            }
            State::Sorted { .. } => Ok(0),
        }
    }
}

fn take_extreme(best: &mut Evaluated, wanted: Ordering, value: Borrowed<'_>) -> usize {
    let better = match (&value, &*best) {
        (Borrowed::Raw(None | Some(RawValue::Null | RawValue::Undefined)), _) => false,
        (Borrowed::Owned(None | Some(Value::Null | Value::Undefined)), _) => false,
        (_, None) => true,
        (Borrowed::Raw(Some(found)), Some(best)) => {
            best.with_raw(|best| document::compare(*found, best)) == wanted
        }
        (Borrowed::Owned(Some(found)), Some(best)) => found.compare(best) == wanted,
    };
    if !better {
        return 0;
    }
    let before = size(best);
    *best = value.into_value();
    size(best).saturating_sub(before)
}

fn take_extreme_n(items: &mut Vec<Value>, limit: usize, wanted: Ordering, value: Evaluated) -> usize {
    let Some(item) = value.filter(|item| !item.is_nullish()) else { return 0 };
    let place = items.partition_point(|kept| item.compare(kept) != wanted);
    if place >= limit {
        return 0;
    }
    let grown = approximate_size(&item);
    items.insert(place, item);
    if items.len() > limit {
        items.truncate(limit);
        return 0;
    }
    grown
}

/// Keeps the first `limit` documents of the order, or the last ones; equal keys keep their order of arrival.
fn insert_sorted(
    items: &mut Vec<(Vec<u8>, Value)>,
    limit: usize,
    lowest: bool,
    key: Vec<u8>,
    value: impl FnOnce() -> Result<Value, QueryError>,
) -> Result<usize, QueryError> {
    let place = items.partition_point(|(kept, _)| *kept <= key);
    if lowest && place >= limit || !lowest && items.len() >= limit && place == 0 {
        return Ok(0);
    }
    let value = value()?;
    let grown = approximate_size(&value) + key.len();
    items.insert(place, (key, value));
    if items.len() > limit {
        if lowest {
            items.truncate(limit);
        } else {
            items.remove(0);
        }
        return Ok(0);
    }
    Ok(grown)
}

fn grow(items: &mut Vec<Value>, bytes: &mut usize, item: Value, name: &str) -> Result<usize, QueryError> {
    let grown = approximate_size(&item);
    *bytes += grown;
    if *bytes > MAX_ACCUMULATED_BYTES {
        return Err(QueryError::new(
            146,
            format!(
                "{name} used too much memory and cannot spill to disk. Memory limit: {MAX_ACCUMULATED_BYTES} bytes"
            ),
        ));
    }
    items.push(item);
    Ok(grown)
}

fn size(value: &Evaluated) -> usize {
    value.as_ref().map_or(0, approximate_size)
}

/// About how many bytes a value takes in memory.
pub(super) fn approximate_size(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Symbol(text) | Value::JavaScript(text) => text.len(),
            Value::Binary(binary) => size_of::<Binary>() + binary.bytes.len(),
            Value::Regex(regex) => size_of::<Regex>() + regex.pattern.len() + regex.options.len(),
            Value::DbPointer(pointer) => size_of::<DbPointer>() + pointer.namespace.len(),
            Value::JavaScriptWithScope(scoped) => {
                size_of::<CodeWithScope>() + scoped.code.len() + fields_size(&scoped.scope)
            }
            Value::Array(items) => items.iter().map(approximate_size).sum(),
            Value::Document(document) => fields_size(document),
            _ => 0,
        }
}

fn fields_size(document: &Document) -> usize {
    document.iter().map(|(name, value)| size_of::<String>() + name.len() + approximate_size(value)).sum()
}
