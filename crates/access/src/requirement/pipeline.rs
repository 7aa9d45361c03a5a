//! What the stages of a pipeline need: each names what it touches beside the collection it runs on.
//!
//! A view needs `find` on itself; what it is defined over was asked of who made it.

use super::{AccessRequest, values};
use crate::action::Action;
use crate::resource::AccessTarget;
use document::{RawArray, RawDocument, RawValue};

/// Deeper nesting is refused: the parser does, too.
const DEPTH_MAX: usize = 100;

/// `aggregate`.
pub(super) fn aggregate(request: &AccessRequest<'_>) -> bool {
    let bypasses = request.is_set("bypassDocumentValidation");
    let pipelines = request.values("pipeline").filter_map(RawValue::as_array);
    let collection = request.collection();
    pipelines.into_iter().all(|pipeline| Walk { request, bypasses }.allows(pipeline, collection, 0))
}

/// Whether a pipeline on this collection may be run, or stored as a view's.
pub(super) fn allows(request: &AccessRequest<'_>, pipeline: RawArray<'_>, collection: &str) -> bool {
    Walk { request, bypasses: false }.allows(pipeline, collection, 0)
}

struct Walk<'r, 'a> {
    request: &'r AccessRequest<'a>,
    bypasses: bool,
}

impl Walk<'_, '_> {
    fn may(&self, collection: &str, action: Action) -> bool {
        self.request.may(AccessTarget::Collection(self.request.database, collection), action)
    }

    fn allows(&self, pipeline: RawArray<'_>, collection: &str, depth: usize) -> bool {
        let stages = || pipeline.iter().filter_map(RawValue::as_document);
        // Every field of a stage counts, though a stage has one.
        let first = stages().next().and_then(RawDocument::first).map_or("", |stage| stage.name());
        let reads = match first {
            "$collStats" => self.may(collection, Action::CollStats),
            "$indexStats" => self.may(collection, Action::IndexStats),
            "$planCacheStats" => self.may(collection, Action::PlanCacheRead),
            "$changeStream" => {
                self.may(collection, Action::Find) && self.may(collection, Action::ChangeStream)
            }
            "$currentOp" | "$documents" | "$listLocalSessions" | "$listSessions" => true,
            _ => self.may(collection, Action::Find),
        };
        depth < DEPTH_MAX
            && reads
            && stages().all(|stage| {
                stage.iter().all(|stage| self.allows_stage(stage.name(), stage.value(), collection, depth))
            })
    }

    fn allows_stage(&self, name: &str, operand: RawValue<'_>, collection: &str, depth: usize) -> bool {
        match name {
            "$lookup" | "$graphLookup" => self.allows_join(operand, collection, "from", depth),
            "$unionWith" => match operand {
                RawValue::String(name) => self.may(name, Action::Find),
                operand => self.allows_join(operand, collection, "coll", depth),
            },
            "$facet" => operand.as_document().is_none_or(|facets| {
                facets.iter().filter_map(|facet| facet.value().as_array()).all(|pipeline| {
                    let mut stages = pipeline.iter().filter_map(RawValue::as_document);
                    depth < DEPTH_MAX
                        && stages.all(|stage| {
                            stage.iter().all(|stage| {
                                self.allows_stage(stage.name(), stage.value(), collection, depth + 1)
                            })
                        })
                })
            }),
            "$out" => self.allows_output(operand, &[Action::Insert, Action::Remove]),
            "$merge" => self.allows_merge(operand),
            "$currentOp" => {
                let all = operand
                    .as_document()
                    .is_some_and(|operand| values(operand, "allUsers").any(super::is_true));
                !all || self.request.may(AccessTarget::Cluster, Action::Inprog)
            }
            "$listSessions" | "$listLocalSessions" => self.allows_sessions(operand),
            _ => true,
        }
    }

    /// A stage that reads another collection, whole or by a pipeline. Without one, its pipeline brings its
    /// own documents.
    fn allows_join(&self, operand: RawValue<'_>, collection: &str, from: &'static str, depth: usize) -> bool {
        let Some(operand) = operand.as_document() else { return true };
        let mut named = values(operand, from).peekable();
        let has_none = named.peek().is_none();
        let reads_all = named.all(|from| {
            let (database, name) = place(from, self.request.database);
            self.request.may(AccessTarget::Collection(database, name), Action::Find)
        });
        let foreign = values(operand, from).find_map(|from| match from {
            RawValue::String(name) => Some(name),
            _ => None,
        });
        // `$documents` needs no collection; whatever else stands first is held to that of the command.
        let runs_on = if has_none { collection } else { foreign.unwrap_or(collection) };
        let pipelines = values(operand, "pipeline").filter_map(RawValue::as_array);
        reads_all && pipelines.into_iter().all(|pipeline| self.allows(pipeline, runs_on, depth + 1))
    }

    fn allows_output(&self, destination: RawValue<'_>, actions: &[Action]) -> bool {
        let allows = |(database, name): (&str, &str)| {
            let target = AccessTarget::Collection(database, name);
            let validated = !self.bypasses || self.request.may(target, Action::BypassDocumentValidation);
            validated && actions.iter().all(|action| self.request.may(target, *action))
        };
        allows(place(destination, self.request.database))
    }

    fn allows_merge(&self, operand: RawValue<'_>) -> bool {
        let Some(options) = operand.as_document() else {
            return self.allows_output(operand, &[Action::Insert, Action::Update]);
        };
        let said = |name, word| values(options, name).any(|value| value.as_str() == Some(word));
        let mut actions = Vec::new();
        let matched = values(options, "whenMatched").count() > 0;
        if !matched || !(said("whenMatched", "keepExisting") || said("whenMatched", "fail")) {
            actions.push(Action::Update);
        }
        if values(options, "whenNotMatched").count() == 0 || said("whenNotMatched", "insert") {
            actions.push(Action::Insert);
        }
        let mut into = values(options, "into").peekable();
        into.peek().is_some() && into.all(|into| self.allows_output(into, &actions))
    }

    fn allows_sessions(&self, operand: RawValue<'_>) -> bool {
        let Some(operand) = operand.as_document() else { return true };
        let all = values(operand, "allUsers").any(super::is_true);
        let own = |user: RawDocument<'_>| {
            let text = |name: &str| user.get(name).and_then(RawValue::as_str);
            let name = &self.request.user.name;
            text("user") == Some(&name.user) && text("db") == Some(&name.database)
        };
        let users = values(operand, "users").filter_map(RawValue::as_array);
        let mut named = users.flat_map(RawArray::iter);
        let others = named.any(|user| !user.as_document().is_some_and(own));
        !(all || others) || self.request.may(AccessTarget::Cluster, Action::ListSessions)
    }
}

/// A collection as stages name it: by name, or as `{db, coll}`.
fn place<'v>(value: RawValue<'v>, database: &'v str) -> (&'v str, &'v str) {
    match value {
        RawValue::String(name) => (database, name),
        RawValue::Document(named) => {
            let text = |name: &str| named.get(name).and_then(RawValue::as_str);
            (text("db").unwrap_or(database), text("coll").unwrap_or_default())
        }
        _ => (database, ""),
    }
}
