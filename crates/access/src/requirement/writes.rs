//! Commands on documents and collections that need more than one action on one collection.

use super::{AccessRequest, is_true, pipeline, requirement_of, values};
use crate::action::Action;
use crate::resource::AccessTarget;
use document::{RawDocument, RawValue};

/// `bypassDocumentValidation` needs an action of its own.
fn validates_or_may_not(request: &AccessRequest<'_>) -> bool {
    !request.is_set("bypassDocumentValidation")
        || request.may_with_collection(Action::BypassDocumentValidation)
}

/// `insert`.
pub(super) fn insert(request: &AccessRequest<'_>) -> bool {
    request.may_with_collection(Action::Insert) && validates_or_may_not(request)
}

/// `update`: statements with `upsert` insert as well.
pub(super) fn update(request: &AccessRequest<'_>) -> bool {
    request.may_with_collection(Action::Update)
        && validates_or_may_not(request)
        && (request.may_with_collection(Action::Insert)
            || !request.listed("updates").any(|statement| values(statement, "upsert").any(is_true)))
}

/// `findAndModify`.
pub(super) fn find_and_modify(request: &AccessRequest<'_>) -> bool {
    let changes = match request.is_set("remove") {
        true => Action::Remove,
        false => Action::Update,
    };
    request.may_with_collection(Action::Find)
        && request.may_with_collection(changes)
        && (!request.is_set("upsert") || request.may_with_collection(Action::Insert))
        && validates_or_may_not(request)
}

/// `create`: who may insert may make a plain collection. A view needs what its pipeline reads.
pub(super) fn create(request: &AccessRequest<'_>) -> bool {
    let is_plain = !request.is_set("capped") && request.values("viewOn").next().is_none();
    (request.may_with_collection(Action::CreateCollection)
        || is_plain && request.may_with_collection(Action::Insert))
        && may_define_view(request)
}

/// `collMod`: a view's new pipeline needs what it reads.
pub(super) fn coll_mod(request: &AccessRequest<'_>) -> bool {
    request.may_with_collection(Action::CollMod) && may_define_view(request)
}

/// Whoever defines a view must be allowed to read all that it reads: others will read it through the view.
fn may_define_view(request: &AccessRequest<'_>) -> bool {
    let sources = request.values("viewOn").filter_map(RawValue::as_str);
    sources.into_iter().all(|source| {
        let target = AccessTarget::Collection(request.database, source);
        let pipelines = request.values("pipeline").filter_map(RawValue::as_array);
        request.may(target, Action::Find)
            && pipelines.into_iter().all(|stages| pipeline::allows(request, stages, source))
    }) && (request.values("viewOn").next().is_some() || request.values("pipeline").next().is_none())
}

/// `dataSize` names its collection with the database.
pub(super) fn data_size(request: &AccessRequest<'_>) -> bool {
    let (database, name) = request.collection().split_once('.').unwrap_or((request.database, ""));
    request.may(AccessTarget::Collection(database, name), Action::Find)
}

/// `renameCollection`.
pub(super) fn rename(request: &AccessRequest<'_>) -> bool {
    let from = request.collection().split_once('.').unwrap_or_default();
    let mut targets = request.values("to").filter_map(RawValue::as_str).peekable();
    let drops = request.is_set("dropTarget");
    targets.peek().is_none()
        || targets.all(|to| {
            let to = to.split_once('.').unwrap_or_default();
            may_rename(request, from, to, drops)
        })
}

/// Within a database `renameCollectionSameDB` is enough for who may do all the same by copying; from one to
/// another, that is what it needs.
fn may_rename(
    request: &AccessRequest<'_>,
    (from_database, from): (&str, &str),
    (to_database, to): (&str, &str),
    drops: bool,
) -> bool {
    let (source, target) =
        (AccessTarget::Collection(from_database, from), AccessTarget::Collection(to_database, to));
    let may = |target, actions: &[Action]| actions.iter().all(|action| request.may(target, *action));
    if drops && !request.may(target, Action::DropCollection) {
        return false;
    }
    if from_database == to_database {
        let has_action = request.may(AccessTarget::Database(from_database), Action::RenameCollectionSameDb);
        // Not to be read under another name what cannot be read under its own.
        let can_read_both = request.may(source, Action::Find) || !request.may(target, Action::Find);
        let is_system = from.starts_with("system.") || to.starts_with("system.");
        if has_action && can_read_both && !is_system {
            return true;
        }
    }
    may(source, &[Action::Find, Action::DropCollection])
        && may(target, &[Action::Insert, Action::CreateIndex, Action::CreateCollection])
}

/// `explain` needs what the explained command does.
pub(super) fn explain(request: &AccessRequest<'_>) -> bool {
    let Some(command) = request.command.first().and_then(|first| first.value().as_document()) else {
        return true;
    };
    let Some(name) = command.first().map(|first| first.name()) else { return true };
    match name {
        "aggregate" | "count" | "delete" | "distinct" | "find" | "findAndModify" | "update" => {}
        "findandmodify" => return explained(request, command, "findAndModify"),
        // The command will refuse it.
        _ => return true,
    }
    explained(request, command, name)
}

fn explained(request: &AccessRequest<'_>, command: RawDocument<'_>, name: &str) -> bool {
    let inner = AccessRequest { command, ..*request };
    requirement_of(name).is_some_and(|requirement| requirement.is_met(&inner))
}

/// `heddleBackup` copies everything, users included.
pub(super) fn backup(request: &AccessRequest<'_>) -> bool {
    let reads = |database, name| request.may(AccessTarget::Collection(database, name), Action::Find);
    reads("admin", "system.users")
        && reads("local", "oplog.rs")
        && request.may(AccessTarget::Database("admin"), Action::Find)
        && request.may(AccessTarget::Cluster, Action::AppendOplogNote)
}
