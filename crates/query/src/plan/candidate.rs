//! One index weighed for one query: bounds, what they leave to check, and what the order is good for.

use std::borrow::Borrow;
use std::sync::Arc;

use document::key::hash64;
use document::{RawValue, Value};

use super::node_bounds::FieldView;
use super::predicate_bounds::Bounded;
use super::request::SortField;
use super::usable::is_complete_for;
use super::{FieldOrder, IndexDescription, IndexKeyPart, Interval, Intervals, NeededFields, ScanDirection};
use crate::matcher::{FieldMatch, MatchNode, Predicate};

/// An index with bounds.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) index: Arc<IndexDescription>,
    /// One for each field of the index.
    pub(crate) bounds: Vec<Intervals>,
    /// For each conjunct, whether the bounds alone guarantee it.
    pub(crate) settled: Vec<bool>,
}

/// How much intervals narrow a field down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Strength {
    /// Every key.
    All,
    /// A whole type class, or everything but something.
    Broad,
    /// A part of a type class.
    Range,
    /// Some values.
    Points,
    /// One value.
    Point,
}

/// How much these intervals narrow a field down.
pub(crate) fn strength(intervals: &Intervals) -> Strength {
    if intervals.is_all() {
        Strength::All
    } else if intervals.is_none() || intervals.as_point().is_some() {
        Strength::Point
    } else if intervals.are_points() {
        Strength::Points
    } else if intervals.as_slice().iter().any(is_broad) {
        Strength::Broad
    } else {
        Strength::Range
    }
}

fn is_broad(interval: &Interval) -> bool {
    let classes = (
        document::canonical_type(interval.from.value.kind()),
        document::canonical_type(interval.to.value.kind()),
    );
    // An interval over several classes, such as the complement of a value; a class ends where the next
    // begins.
    classes.0 != classes.1 && !is_class_end(&interval.to.value)
        || matches!(interval.from.value, Value::MinKey)
        || matches!(interval.to.value, Value::MaxKey)
}

fn is_class_end(value: &Value) -> bool {
    match value {
        Value::Document(document) => document.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Binary(binary) => binary.bytes.is_empty(),
        _ => false,
    }
}

/// The bounds that one conjunct puts on one field.
struct Offer {
    conjunct: usize,
    bounded: Bounded,
}

impl Candidate {
    /// The index with the bounds that the conjuncts give it; `None` when it cannot be used.
    pub(crate) fn build<N: Borrow<MatchNode>>(
        index: &Arc<IndexDescription>,
        conjuncts: &[N],
    ) -> Option<Self> {
        if index.hidden || index.collated || !is_complete_for(index, conjuncts) {
            return None;
        }
        Some(Self::unchecked(index, conjuncts))
    }

    /// As [`Candidate::build`] for an index that the client insists on: it may lack documents.
    pub(crate) fn unchecked<N: Borrow<MatchNode>>(index: &Arc<IndexDescription>, conjuncts: &[N]) -> Self {
        let mut candidate = Self {
            index: Arc::clone(index),
            bounds: Vec::with_capacity(index.fields.len()),
            settled: vec![false; conjuncts.len()],
        };
        // Conjuncts whose bounds are in use on multikey fields, with the field's position.
        let mut used: Vec<(usize, usize)> = Vec::new();
        for (position, field) in index.fields.iter().enumerate() {
            let mut offers = offers(field, conjuncts);
            if field.is_multikey() {
                offers.retain(|offer| {
                    used.iter().all(|(earlier, conjunct)| {
                        index.fields.get(*earlier).is_none_or(|earlier| {
                            can_combine(
                                earlier,
                                field,
                                *conjunct == offer.conjunct,
                                conjuncts,
                                offer.conjunct,
                            )
                        })
                    })
                });
                // Different conjuncts may be satisfied by different elements: only one may bound the field.
                keep_tightest(&mut offers);
                used.extend(offers.iter().map(|offer| (position, offer.conjunct)));
            }
            candidate.take(offers);
        }
        candidate
    }

    fn take(&mut self, offers: Vec<Offer>) {
        let mut parts = Vec::with_capacity(offers.len());
        for offer in offers {
            parts.push(offer.bounded.intervals);
            if offer.bounded.exact
                && let Some(settled) = self.settled.get_mut(offer.conjunct)
            {
                *settled = true;
            }
        }
        self.bounds.push(Intervals::intersection_of(parts));
    }

    /// Whether some bounds let no key through.
    pub(crate) fn is_empty(&self) -> bool {
        self.bounds.iter().any(Intervals::is_none)
    }

    /// How much the first field is narrowed down.
    pub(crate) fn leading_strength(&self) -> Strength {
        self.bounds.first().map_or(Strength::All, strength)
    }

    /// Whether nothing is left to check.
    pub(crate) fn settles_all(&self) -> bool {
        self.settled.iter().all(|settled| *settled)
    }

    /// The direction in which a scan meets documents in this order, if one does.
    pub(crate) fn direction_for(&self, sort: &[SortField]) -> Option<ScanDirection> {
        let fixed = |path: &str| {
            let mut fields = self.index.fields.iter().zip(&self.bounds);
            fields.any(|(field, bounds)| field.path.dotted() == path && is_fixed(field, bounds))
        };
        let mut direction = None;
        let mut fields = self.index.fields.iter().zip(&self.bounds);
        for wanted in sort {
            if fixed(&wanted.path) {
                continue;
            }
            let (field, bounds) = fields
                .find(|(field, bounds)| field.path.dotted() == wanted.path || !is_fixed(field, bounds))?;
            if field.path.dotted() != wanted.path || !self.orders_by(field, bounds) {
                return None;
            }
            let here = if (field.order == FieldOrder::Descending) == wanted.descending {
                ScanDirection::Forward
            } else {
                ScanDirection::Backward
            };
            if direction.is_some_and(|direction| direction != here) {
                return None;
            }
            direction = Some(here);
        }
        Some(direction.unwrap_or_default())
    }

    /// Whether the field's keys order documents as a sort does. A sort takes the lowest (or highest) element
    /// of an array, the first a full scan meets; bounds could pass over it.
    fn orders_by(&self, field: &IndexKeyPart, bounds: &Intervals) -> bool {
        if field.order == FieldOrder::Hashed || field.path.has_position() {
            return false;
        }
        let multikey_fields = self.index.fields.iter().filter(|field| field.is_multikey()).count();
        !field.is_multikey() || (bounds.is_all() && multikey_fields == 1)
    }

    /// Whether the keys hold all that is needed.
    pub(crate) fn covers(&self, needs: &NeededFields) -> bool {
        match needs {
            NeededFields::All => false,
            NeededFields::Nothing => true,
            NeededFields::Only(paths) => {
                !self.index.is_multikey()
                    && paths.iter().all(|path| {
                        let mut fields = self.index.fields.iter();
                        fields.any(|field| {
                            field.order != FieldOrder::Hashed
                                && !field.path.has_position()
                                && field.path.dotted() == path
                        })
                    })
            }
        }
    }
}

/// One key per document and one value for all: the field does not take part in the order.
fn is_fixed(field: &IndexKeyPart, bounds: &Intervals) -> bool {
    field.order != FieldOrder::Hashed && !field.is_multikey() && bounds.as_point().is_some()
}

fn offers<N: Borrow<MatchNode>>(field: &IndexKeyPart, conjuncts: &[N]) -> Vec<Offer> {
    // A number in a path means a position as well as a name; keys know only one of them.
    if field.path.has_position() {
        return Vec::new();
    }
    let view = FieldView::of(field);
    let offers = conjuncts.iter().enumerate().filter_map(|(conjunct, node)| {
        let bounded = view.bounds(node.borrow())?;
        let bounded = if field.order == FieldOrder::Hashed { hashed(&bounded)? } else { bounded };
        Some(Offer { conjunct, bounded })
    });
    offers.collect()
}

/// Points become points of their hashes; other values may share a hash.
fn hashed(bounded: &Bounded) -> Option<Bounded> {
    if bounded.intervals.is_none() {
        return Some(bounded.clone());
    }
    let points: Option<Vec<Interval>> = bounded
        .intervals
        .as_slice()
        .iter()
        .map(|interval| interval.as_point().map(|value| Interval::point(Value::Int64(hash_of(value)))))
        .collect();
    Some(Bounded::inexact(Intervals::of(points?)))
}

fn hash_of(value: &Value) -> i64 {
    match value.as_raw_scalar() {
        Some(raw) => hash64(raw),
        None => {
            let wrapper = document::Document::from_iter([("", value.clone())]).to_buf();
            hash64(wrapper.as_raw().first().map_or(RawValue::Null, |element| element.value()))
        }
    }
}

fn keep_tightest(offers: &mut Vec<Offer>) {
    let best = offers.iter().enumerate().max_by_key(|(position, offer)| {
        (strength(&offer.bounded.intervals), offer.bounded.exact, std::cmp::Reverse(*position))
    });
    if let Some(best) = best.map(|(position, _)| position) {
        offers.swap(0, best);
        offers.truncate(1);
    }
}

/// Whether bounds on two multikey fields may be used together. Where both paths go through the same array,
/// the two keys of an entry come from one element: only an `$elemMatch` on that array (or a deeper place)
/// asks for that.
fn can_combine<N: Borrow<MatchNode>>(
    earlier: &IndexKeyPart,
    field: &IndexKeyPart,
    same_conjunct: bool,
    conjuncts: &[N],
    conjunct: usize,
) -> bool {
    let shared = shared_components(earlier.path.dotted(), field.path.dotted());
    let shared_array = |components: &&usize| **components <= shared && earlier.multikey.contains(components);
    let Some(deepest) = field.multikey.iter().rfind(shared_array) else {
        return true;
    };
    let element_match = conjuncts.get(conjunct).and_then(|node| element_match_path(node.borrow()));
    same_conjunct
        && element_match.is_some_and(|path| {
            let components = path.split('.').count();
            components >= *deepest && components <= shared
        })
}

fn shared_components(left: &str, right: &str) -> usize {
    left.split('.').zip(right.split('.')).take_while(|(left, right)| left == right).count()
}

/// The path of an `$elemMatch` that tests documents.
fn element_match_path(node: &MatchNode) -> Option<&str> {
    match node {
        MatchNode::Field(FieldMatch { path, predicate: Predicate::ElementObject(_) }) => Some(path.dotted()),
        _ => None,
    }
}
