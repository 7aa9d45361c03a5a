//! The calendar as `getCalendar` and `serverStatus` show it.

use super::{Permission, WorkId, WorkKind, permission};
use crate::server::ServiceContext;
use catalog::Collection;
use document::{Document, Value, doc};
use query::calendar::WorkCalendar;
use std::sync::Arc;
use storage::ReadTier;

/// Work with windows of its own: all of a kind, or that of an index.
struct Work {
    id: WorkId,
    /// Namespace and name of the index.
    index: Option<(String, String)>,
    calendar: Option<WorkCalendar>,
}

/// The kinds of work, and the indexes that have windows of their own, in the order of their names.
fn all_work(server: &ServiceContext, tier: ReadTier) -> Vec<Work> {
    let settings = server.node.calendar.settings(&server.node, tier);
    let of_kinds = WorkKind::ALL.into_iter().map(|kind| Work {
        id: WorkId { kind, index: None },
        index: None,
        calendar: settings.of(kind).cloned(),
    });
    let mut work: Vec<Work> = of_kinds.collect();
    let state = server.node.catalog.state();
    let mut of_indexes: Vec<Work> = state.collections().flat_map(work_of_indexes).collect();
    of_indexes.sort_by(|one, two| one.index.cmp(&two.index));
    work.append(&mut of_indexes);
    work
}

fn work_of_indexes(collection: &Arc<Collection>) -> Vec<Work> {
    let definition = collection.definition();
    let windowed = definition.indexes.iter().filter(|index| index.is_ttl() && index.spec.window.is_some());
    let work = windowed.map(|index| Work {
        id: WorkId { kind: WorkKind::Ttl, index: Some((collection.id(), index.id)) },
        index: Some((definition.namespace.to_string(), index.spec.name.clone())),
        calendar: index.spec.window.clone(),
    });
    work.collect()
}

/// What it says now.
fn state_of(server: &ServiceContext, work: &Work, moment_ms: i64) -> Document {
    let mut state = Document::new();
    let permission = permission(server, work.id.kind, work.calendar.as_ref(), (moment_ms, false));
    state.push("state", permission.name());
    let until = |state: &mut Document, until_ms: Option<i64>| {
        if let Some(until_ms) = until_ms {
            state.push("until", Value::DateTime(until_ms));
        }
    };
    match permission {
        Permission::Granted { rate, until_ms } => {
            if let Some(rate) = rate.to_document() {
                state.push("rate", rate);
            }
            until(&mut state, until_ms);
        }
        Permission::Waits { until_ms } => {
            state.push("reason", "it is outside of its window");
            until(&mut state, until_ms);
        }
        Permission::Overridden { reason } => state.push("reason", reason),
    }
    if work.id.kind == WorkKind::IndexBuilds {
        // Those that go on after a restart: nobody works on them, or the one that somebody does stands still.
        let paused = usize::from(server.node.resumed_build.is_paused());
        state.push("waitingBuilds", (server.node.catalog.waiting_index_builds().len() + paused) as i64);
    }
    state.push("overrides", server.node.calendar.overrides(work.id) as i64);
    state
}

/// `serverStatus.heddle.calendar`: for each kind of work, and for each index with windows of its own, whether
/// it goes on or waits, why, and until when.
pub(crate) fn status(server: &ServiceContext) -> Document {
    let moment_ms = server.now_ms();
    let (mut kinds, mut indexes) = (Document::new(), Vec::new());
    for work in all_work(server, ReadTier::BlockCache) {
        let state = state_of(server, &work, moment_ms);
        match &work.index {
            None => kinds.push(work.id.kind.name(), state),
            Some((namespace, index)) => {
                let mut named = doc! { "kind": (work.id.kind.name()), "ns": (namespace.as_str()),
                "index": (index.as_str()) };
                named.extend(state.iter().map(|(name, value)| (name, value.clone())));
                indexes.push(Value::Document(named));
            }
        }
    }
    kinds.push("indexes", indexes);
    kinds
}

/// `getCalendar`: windows, state, and when each is open in the time that comes.
pub(crate) fn describe(server: &ServiceContext, moment_ms: i64, to_ms: i64) -> Vec<Value> {
    let mut described = Vec::new();
    for work in all_work(server, ReadTier::Any) {
        let mut shown = doc! { "kind": (work.id.kind.name()) };
        if let Some((namespace, index)) = &work.index {
            shown.push("ns", namespace.as_str());
            shown.push("index", index.as_str());
        }
        if let Some(calendar) = &work.calendar {
            shown.push("window", calendar.to_value());
            shown.push("timezone", calendar.timezone());
        }
        let state = state_of(server, &work, moment_ms);
        shown.extend(state.iter().map(|(name, value)| (name, value.clone())));
        let spans = match &work.calendar {
            Some(calendar) if work.id.kind.waits() => calendar.spans(moment_ms, to_ms),
            _ => vec![query::calendar::OpenSpan { from_ms: moment_ms, to_ms }],
        };
        let spans = spans.into_iter().map(|span| {
            let span = doc! { "from": (Value::DateTime(span.from_ms)), "to": (Value::DateTime(span.to_ms)) };
            Value::Document(span)
        });
        shown.push("open", spans.collect::<Vec<Value>>());
        described.push(Value::Document(shown));
    }
    described
}
