//! The choice among indexes.

use std::cmp::Reverse;
use std::sync::Arc;

use document::{ElementType, RawDocument, Value};

use super::candidate::{Candidate, Strength, strength};
use super::conjuncts::conjuncts;
use super::request::hinted;
use super::{
    Access, Hint, IndexBounds, IndexDescription, IndexScan, Intervals, Plan, PlanRequest, ScanDirection,
};
use crate::checkpoint;
use crate::error::QueryError;
use crate::matcher::{ComparisonOperator, FieldMatch, MatchNode, Matcher, Predicate};

const MIN_MAX_WITHOUT_HINT: i32 = 51_173;
const INCOMPATIBLE_MIN_MAX: i32 = 51_174;
const MIN_NOT_BEFORE_MAX: i32 = 51_175;

/// What decides between candidates; the greatest wins. The rules are in the manual of [`crate::plan`].
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'c> {
    single_document: bool,
    equality_prefix: usize,
    next: Strength,
    sort_provided: bool,
    covered: bool,
    settled: usize,
    fewer_fields: Reverse<usize>,
    name: Reverse<&'c str>,
}

/// Chooses how to run a query.
///
/// # Errors
/// The hint names no index, or `min` and `max` do not fit it.
pub fn plan(request: &PlanRequest<'_>) -> Result<Plan, QueryError> {
    let keys_given = request.min.is_some() || request.max.is_some();
    match request.hint {
        Some(Hint::Natural(_)) if !keys_given && request.no_table_scan => {
            return Err(no_plan("hint $natural is not allowed, because 'notablescan' is enabled"));
        }
        Some(Hint::Natural(direction)) if !keys_given => return Ok(natural(request, *direction)),
        Some(hint @ (Hint::Name(_) | Hint::Pattern(_))) => {
            let index = hinted(hint, request.indexes)?;
            return if keys_given { key_range(request, index) } else { Ok(forced(request, index)) };
        }
        _ if keys_given => {
            let message = "When using min()/max() a hint of which index to use must be provided";
            return Err(QueryError::new(MIN_MAX_WITHOUT_HINT, message));
        }
        _ => {}
    }
    if let Some(plan) = id_lookup(request) {
        return Ok(plan);
    }
    unhinted(request)
}

fn clustered<'r>(request: &PlanRequest<'r>) -> Option<&'r Arc<IndexDescription>> {
    request.indexes.iter().find(|index| index.clustered)
}

/// The shortest way for the commonest filter, `{_id: value}`.
fn id_lookup(request: &PlanRequest<'_>) -> Option<Plan> {
    let MatchNode::Field(FieldMatch { path, predicate: Predicate::Compare(comparison) }) =
        request.matcher.root()
    else {
        return None;
    };
    let operand = comparison.operand.raw();
    let plain = comparison.operator == ComparisonOperator::Equal
        && !matches!(operand.kind(), ElementType::Array | ElementType::Null);
    let applies = plain && path.dotted() == "_id" && clustered(request).is_some();
    applies.then(|| Plan {
        access: Access::IdLookup { id: operand.to_value() },
        residual: None,
        sort_provided: true,
    })
}

fn unhinted(request: &PlanRequest<'_>) -> Result<Plan, QueryError> {
    let conditions = conjuncts(request.matcher.root());
    if conditions.iter().any(is_impossible) {
        return Ok(empty());
    }
    let candidates: Vec<Candidate> =
        request.indexes.iter().filter_map(|index| Candidate::build(index, &conditions)).collect();
    if candidates.iter().any(Candidate::is_empty) {
        return Ok(empty());
    }
    let best = candidates
        .iter()
        .filter(|candidate| is_worthwhile(candidate, request))
        .max_by(|left, right| rank(left, request).cmp(&rank(right, request)));
    if let Some(best) = best
        && best.leading_strength() >= Strength::Points
    {
        return Ok(of_candidate(best, request, &conditions));
    }
    if let Some(plan) = union(request, &conditions, best)? {
        return Ok(plan);
    }
    match best {
        Some(best) => Ok(of_candidate(best, request, &conditions)),
        None if request.no_table_scan => {
            Err(no_plan("No indexed plans available, and running with 'notablescan'"))
        }
        None => Ok(natural(request, ScanDirection::Forward)),
    }
}

/// Nothing runs the query.
fn no_plan(reason: &str) -> QueryError {
    let message = format!("error processing query: planner returned error :: caused by :: {reason}");
    QueryError::new(crate::error::code::NO_QUERY_EXECUTION_PLANS, message)
}

fn is_impossible(node: &MatchNode) -> bool {
    matches!(
        node,
        MatchNode::Always(false) | MatchNode::Field(FieldMatch { predicate: Predicate::Nothing, .. })
    )
}

fn empty() -> Plan {
    Plan { access: Access::Empty, residual: None, sort_provided: true }
}

/// An index is worth its scan when it narrows the choice, gives the order asked for, or leaves documents out
/// that cannot match.
fn is_worthwhile(candidate: &Candidate, request: &PlanRequest<'_>) -> bool {
    let leading = candidate.leading_strength();
    leading > Strength::All
        || (!request.sort.is_empty() && candidate.direction_for(request.sort).is_some())
        || (candidate.index.is_incomplete() && !request.matcher.is_everything())
}

fn rank<'c>(candidate: &'c Candidate, request: &PlanRequest<'_>) -> Rank<'c> {
    let equality_prefix =
        candidate.bounds.iter().take_while(|bounds| strength(bounds) >= Strength::Points).count();
    let all_points = candidate.bounds.iter().all(|bounds| bounds.as_point().is_some());
    let sort_provided = !request.sort.is_empty() && candidate.direction_for(request.sort).is_some();
    Rank {
        single_document: all_points && candidate.index.unique,
        equality_prefix,
        next: candidate.bounds.get(equality_prefix).map_or(Strength::All, strength),
        sort_provided,
        covered: candidate.index.clustered || (candidate.settles_all() && candidate.covers(request.needs)),
        settled: candidate.settled.iter().filter(|settled| **settled).count(),
        fewer_fields: Reverse(candidate.index.fields.len()),
        name: Reverse(&candidate.index.name),
    }
}

/// What the bounds leave to check.
fn residual(settled: &[bool], conditions: &[MatchNode]) -> Option<Matcher> {
    let open: Vec<MatchNode> = conditions
        .iter()
        .zip(settled)
        .filter(|(_, settled)| !**settled)
        .map(|(condition, _)| condition.clone())
        .collect();
    (!open.is_empty()).then(|| Matcher::from_node(MatchNode::all(open)))
}

fn of_candidate(candidate: &Candidate, request: &PlanRequest<'_>, conditions: &[MatchNode]) -> Plan {
    let direction = candidate.direction_for(request.sort);
    let residual = residual(&candidate.settled, conditions);
    let covered = residual.is_none() && candidate.covers(request.needs);
    Plan {
        access: access(candidate, direction.unwrap_or_default(), covered),
        residual,
        sort_provided: direction.is_some(),
    }
}

fn access(candidate: &Candidate, direction: ScanDirection, covered: bool) -> Access {
    if !candidate.index.clustered {
        return Access::IndexScan(IndexScan {
            index: Arc::clone(&candidate.index),
            bounds: IndexBounds::Fields(candidate.bounds.clone()),
            direction,
            covered,
            deduplicate: candidate.index.is_multikey(),
            distinct_fields: None,
        });
    }
    let ids = candidate.bounds.first().filter(|ids| !ids.is_all());
    match ids.and_then(Intervals::as_point) {
        Some(id) => Access::IdLookup { id: id.clone() },
        None => Access::CollectionScan { direction, ids: ids.cloned() },
    }
}

/// A scan of the collection; where it is clustered by `_id`, that order may be the one asked for.
fn natural(request: &PlanRequest<'_>, direction: ScanDirection) -> Plan {
    Plan {
        access: Access::CollectionScan { direction, ids: None },
        residual: (!request.matcher.is_everything()).then(|| request.matcher.clone()),
        sort_provided: request.sort.is_empty(),
    }
}

/// The index the client insists on: with bounds where they fit, else all of it.
fn forced(request: &PlanRequest<'_>, index: &Arc<IndexDescription>) -> Plan {
    let conditions = conjuncts(request.matcher.root());
    let candidate = Candidate::unchecked(index, &conditions);
    if candidate.is_empty() || conditions.iter().any(is_impossible) {
        return empty();
    }
    of_candidate(&candidate, request, &conditions)
}

/// How many disjunctions are looked at for one whose every branch has an index.
const MOST_DISJUNCTIONS: usize = 16;
/// For how many branches, times the conditions beside the disjunction, those are considered in the choice of
/// each branch's index.
const MOST_CONSIDERED: usize = 100_000;

/// A disjunction whose every branch has an index.
///
/// # Errors
/// The operation's end: there may be thousands of branches.
fn union(
    request: &PlanRequest<'_>,
    conditions: &[MatchNode],
    rival: Option<&Candidate>,
) -> Result<Option<Plan>, QueryError> {
    // An index that gives the order beats a union that must be sorted.
    let rival_orders =
        rival.is_some_and(|rival| !request.sort.is_empty() && rival.direction_for(request.sort).is_some());
    if rival_orders {
        return Ok(None);
    }
    let disjunctions = conditions.iter().enumerate().filter_map(|(position, condition)| match condition {
        MatchNode::Or(children) => Some((position, children)),
        _ => None,
    });
    for (position, children) in disjunctions.take(MOST_DISJUNCTIONS) {
        let others = conditions.iter().enumerate().filter(|(other, _)| *other != position);
        let mut others: Vec<&MatchNode> = others.map(|(_, other)| other).collect();
        let mut exact = others.is_empty();
        if others.len().saturating_mul(children.len()) > MOST_CONSIDERED {
            others.clear();
        }
        if let Some(branches) = branches(request, children, &others, &mut exact)? {
            return Ok(Some(Plan {
                access: if branches.is_empty() { Access::Empty } else { Access::Union(branches) },
                residual: (!exact).then(|| request.matcher.clone()),
                sort_provided: request.sort.is_empty(),
            }));
        }
    }
    Ok(None)
}

/// How each branch of a disjunction is read; `None` when one of them has no index.
fn branches(
    request: &PlanRequest<'_>,
    children: &[MatchNode],
    others: &[&MatchNode],
    exact: &mut bool,
) -> Result<Option<Vec<Access>>, QueryError> {
    let mut branches = Vec::with_capacity(children.len());
    for child in children {
        checkpoint::pass((1 + others.len()) * (1 + request.indexes.len()))?;
        let Some(branch) = branch(request, child, others) else { return Ok(None) };
        *exact &= branch.exact;
        branches.extend(branch.access);
    }
    Ok(Some(branches))
}

struct Branch {
    /// `None`: the branch matches nothing.
    access: Option<Access>,
    exact: bool,
}

fn branch(request: &PlanRequest<'_>, child: &MatchNode, others: &[&MatchNode]) -> Option<Branch> {
    let own = conjuncts(child);
    let conditions: Vec<&MatchNode> = own.iter().chain(others.iter().copied()).collect();
    if conditions.iter().any(|condition| is_impossible(condition)) {
        return Some(Branch { access: None, exact: true });
    }
    let candidates: Vec<Candidate> =
        request.indexes.iter().filter_map(|index| Candidate::build(index, &conditions)).collect();
    if candidates.iter().any(Candidate::is_empty) {
        return Some(Branch { access: None, exact: true });
    }
    let best = candidates
        .iter()
        .filter(|candidate| candidate.leading_strength() > Strength::All)
        .max_by(|left, right| rank(left, request).cmp(&rank(right, request)))?;
    Some(Branch {
        access: Some(access(best, ScanDirection::Forward, false)),
        exact: best.settled.iter().take(own.len()).all(|settled| *settled),
    })
}

/// A scan between the keys of `min` and `max`.
fn key_range(request: &PlanRequest<'_>, index: &Arc<IndexDescription>) -> Result<Plan, QueryError> {
    let from = request.min.map(|key| key_values(key, index)).transpose()?;
    let to = request.max.map(|key| key_values(key, index)).transpose()?;
    if let (Some(from), Some(to)) = (&from, &to)
        && !comes_before(from, to, index)
    {
        let message = "The value provided for min() does not come before the value provided for max().";
        return Err(QueryError::new(MIN_NOT_BEFORE_MAX, message));
    }
    let everything = vec![Intervals::all(); index.fields.len()];
    let order = Candidate { index: Arc::clone(index), bounds: everything, settled: Vec::new() };
    let direction = order.direction_for(request.sort);
    let residual = (!request.matcher.is_everything()).then(|| request.matcher.clone());
    let covered = residual.is_none() && order.covers(request.needs);
    Ok(Plan {
        access: Access::IndexScan(IndexScan {
            index: Arc::clone(index),
            bounds: IndexBounds::Keys { from, to },
            direction: direction.unwrap_or_default(),
            covered,
            deduplicate: index.is_multikey(),
            distinct_fields: None,
        }),
        residual,
        sort_provided: direction.is_some(),
    })
}

fn key_values(key: RawDocument<'_>, index: &IndexDescription) -> Result<Vec<Value>, QueryError> {
    let names = key.iter().map(|element| element.name()).collect::<Vec<_>>();
    let wanted = index.fields.iter().map(|field| field.path.dotted()).collect::<Vec<_>>();
    if names != wanted {
        let message = "The index chosen is not compatible with min/max";
        return Err(QueryError::new(INCOMPATIBLE_MIN_MAX, message));
    }
    Ok(key.iter().map(|element| element.value().to_value()).collect())
}

fn comes_before(from: &[Value], to: &[Value], index: &IndexDescription) -> bool {
    let orderings = from.iter().zip(to).zip(&index.fields).map(|((from, to), field)| {
        let ordering = from.compare(to);
        if field.order == super::FieldOrder::Descending { ordering.reverse() } else { ordering }
    });
    orderings.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then).is_lt()
}

/// A scan that meets each value of `path` once, for `distinct`; `None` when no index gives one, and the
/// values must be collected from the documents of an ordinary [`plan`].
pub fn plan_distinct(request: &PlanRequest<'_>, path: &str) -> Option<Plan> {
    if request.min.is_some() || request.max.is_some() || matches!(request.hint, Some(Hint::Natural(_))) {
        return None;
    }
    let wanted = request.hint.map(|hint| hinted(hint, request.indexes)).transpose().ok()?;
    let conditions = conjuncts(request.matcher.root());
    let leads = |index: &IndexDescription| {
        let first = index.fields.first().filter(|field| field.path.dotted() == path);
        first.is_some_and(|field| field.order != super::FieldOrder::Hashed)
            && !index.is_multikey()
            && !index.clustered
            && wanted.is_none_or(|wanted| wanted.name == index.name)
    };
    let candidates = request
        .indexes
        .iter()
        .filter(|index| leads(index))
        .filter_map(|index| Candidate::build(index, &conditions))
        .filter(|candidate| candidate.settles_all() && !candidate.is_empty());
    let best = candidates.max_by(|left, right| rank(left, request).cmp(&rank(right, request)))?;
    Some(Plan {
        access: Access::IndexScan(IndexScan {
            index: best.index,
            bounds: IndexBounds::Fields(best.bounds),
            direction: ScanDirection::Forward,
            covered: true,
            deduplicate: false,
            distinct_fields: Some(1),
        }),
        residual: None,
        sort_provided: request.sort.is_empty(),
    })
}
