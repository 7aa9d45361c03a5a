//! Operations on documents, several at once: those on one document, or of one session, in their order.
//!
//! ```text
//!  pieces in the order of the log:   a1  b1  a2  c1  b2      a, b, c: what they touch
//!  each waits for the one before it on what it touches:      a1 ─▶ a2    b1 ─▶ b2    c1
//! ```
//! One thread polls them; what they commit in a round is written as one group. Nobody sees it before the
//! batch is published, so that only the order of what touches the same counts.

use crate::oplog::{Applier, ApplyError, Operation, OplogCommand, OplogEntry, Target};
use catalog::{Catalog, Collection};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::task::Poll;
use storage::Store;

/// Pieces that are under way at the same time: about what a group of the commit queue holds.
const AT_ONCE_MAX: usize = 64;
/// Where users and roles are.
const ACCESS_DATABASE: &str = "admin";

/// What is applied by itself.
#[derive(Debug, Clone, Copy)]
enum Piece<'e> {
    Entry(&'e OplogEntry),
    /// Of an entry whose parts need not be applied one after the other.
    Part(&'e Operation),
}

/// Which piece waits for which.
#[derive(Default)]
struct ApplyPlan<'e> {
    pieces: Vec<Piece<'e>>,
    /// For each piece how many it waits for, and who waits for it.
    waits: Vec<(usize, Vec<usize>)>,
    ready: VecDeque<usize>,
}

/// The operations on documents of an entry; `None` where it is to be applied alone.
pub(super) fn parts_of(entry: &OplogEntry) -> Option<&[Operation]> {
    let parts = match &entry.operation {
        Operation::Command(OplogCommand::ApplyOps(parts)) => parts.as_slice(),
        Operation::Command(_) => return None,
        operation => std::slice::from_ref(operation),
    };
    parts.iter().all(|part| target(part).is_none_or(|target| target.uuid.is_some())).then_some(parts)
}

/// Whether users or roles may have changed: documents of the database `admin`, or anything but documents.
pub(super) fn may_change_access(entry: &OplogEntry) -> bool {
    let is_of_admin = |target: &Target| target.namespace.database() == ACCESS_DATABASE;
    match parts_of(entry) {
        Some(parts) => parts.iter().filter_map(target).any(is_of_admin),
        None => true,
    }
}

fn target(operation: &Operation) -> Option<&Target> {
    match operation {
        Operation::Insert { target, .. }
        | Operation::Update { target, .. }
        | Operation::Delete { target, .. } => Some(target),
        Operation::Command(_) | Operation::Noop(_) => None,
    }
}

/// Applies entries that [`parts_of`] has parts of, all of them or, where one fails, some.
pub(super) async fn apply_together(
    applier: &Applier<'_>,
    catalog: &Catalog,
    entries: &[OplogEntry],
) -> Result<(), ApplyError> {
    let mut plan = ApplyPlan::of(catalog, entries);
    let mut running = Vec::new();
    let mut failure = None;
    poll_fn(|context| {
        let mut has_waited = false;
        loop {
            while running.len() < AT_ONCE_MAX && failure.is_none() {
                let Some((index, piece)) = plan.next() else { break };
                let applied: Pin<Box<dyn Future<Output = Result<(), ApplyError>> + '_>> =
                    Box::pin(apply(applier, piece));
                running.push((index, applied));
            }
            if running.is_empty() {
                return Poll::Ready(());
            }
            let before = running.len();
            in_one_group(catalog.store(), || {
                running.retain_mut(|(index, piece)| match piece.as_mut().poll(context) {
                    Poll::Pending => true,
                    Poll::Ready(Ok(())) => {
                        plan.done(*index);
                        false
                    }
                    Poll::Ready(Err(error)) => {
                        failure.get_or_insert(error);
                        false
                    }
                });
            });
            let waits = running.len() == before;
            if waits && has_waited {
                return Poll::Pending;
            }
            has_waited = waits;
        }
    })
    .await;
    failure.map_or(Ok(()), Err)
}

async fn apply(applier: &Applier<'_>, piece: Piece<'_>) -> Result<(), ApplyError> {
    match piece {
        Piece::Entry(entry) => applier.apply(entry).await,
        Piece::Part(part) => applier.apply_operation(part).await,
    }
}

/// What is committed meanwhile is written at the end.
fn in_one_group(store: &Store, polls: impl FnOnce()) {
    storage::defer_commits();
    polls();
    store.turn_ended();
    storage::commit_inline();
}

impl<'e> ApplyPlan<'e> {
    fn of(catalog: &Catalog, entries: &'e [OplogEntry]) -> Self {
        let mut plan = ApplyPlan::default();
        // The last piece that touches it.
        let mut last: HashMap<u64, usize> = HashMap::new();
        for entry in entries {
            let parts = parts_of(entry).expect("an entry of documents");
            match &entry.origin {
                // Its parts note the session's progress one after the other.
                Some(origin) => {
                    let session = hash(&origin.lsid.as_bytes());
                    let touched = parts.iter().filter_map(|part| touches(catalog, part)).chain([session]);
                    plan.add(Piece::Entry(entry), touched, &mut last);
                }
                None => {
                    for part in parts {
                        plan.add(Piece::Part(part), touches(catalog, part).into_iter(), &mut last);
                    }
                }
            }
        }
        plan.ready = (0..plan.pieces.len())
            .filter(|&index| plan.waits.get(index).is_some_and(|(n, _)| *n == 0))
            .collect();
        plan
    }

    fn add(&mut self, piece: Piece<'e>, touched: impl Iterator<Item = u64>, last: &mut HashMap<u64, usize>) {
        let index = self.pieces.len();
        let mut waits = 0;
        for touched in touched {
            let before = last.insert(touched, index).filter(|before| *before != index);
            if let Some((_, dependents)) = before.and_then(|before| self.waits.get_mut(before)) {
                dependents.push(index);
                waits += 1;
            }
        }
        self.pieces.push(piece);
        self.waits.push((waits, Vec::new()));
    }

    fn next(&mut self) -> Option<(usize, Piece<'e>)> {
        let index = self.ready.pop_front()?;
        Some((index, *self.pieces.get(index)?))
    }

    fn done(&mut self, index: usize) {
        let (_, dependents) = self.waits.get_mut(index).expect("a piece of this plan");
        for dependent in std::mem::take(dependents) {
            let (waits, _) = self.waits.get_mut(dependent).expect("a piece of this plan");
            *waits -= 1;
            if *waits == 0 {
                self.ready.push_back(dependent);
            }
        }
    }
}

/// What has to be changed in the order of the log: a document, or all of a collection that has an order.
fn touches(catalog: &Catalog, operation: &Operation) -> Option<u64> {
    let target = target(operation)?;
    let object = match operation {
        Operation::Insert { document, .. } => document,
        Operation::Update { document_key, .. } | Operation::Delete { document_key, .. } => document_key,
        Operation::Command(_) | Operation::Noop(_) => return None,
    };
    let (database, name) = (target.namespace.database(), target.namespace.collection());
    let collection = catalog.collection(database, name).filter(|known| Some(known.uuid()) == target.uuid);
    let id =
        object.as_raw().get("_id").filter(|_| collection.is_some_and(|collection| !collection.is_capped()));
    Some(hash(&(target.uuid, id.map(Collection::document_key_of_id))))
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
