//! One pass over all TTL indexes, and which of them is worked on.

use crate::calendar::{self, WorkKind};
use crate::own_work::OwnWorkStep;
use crate::parameters::{Parameter, Parameters};
use crate::server::ServiceContext;
use catalog::{
    Collection, CollectionId, ExpiryError, ExpiryFigures, ExpiryStep, ExpiryWalk, IndexId, Receipts,
};
use hashbrown::{HashMap, HashSet};
use query::calendar::WorkRate;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Documents of one step at most: those of one write unit.
const UNIT_DOCUMENTS_MAX: u64 = if cfg!(test) { 64 } else { 1024 };
/// Where a rate is stated, a second's documents go in so many units: clients' commits wait for a unit, …
const UNITS_PER_SECOND: u64 = 100;
/// … but not for long for one of so few, which no rate makes smaller than what it has in a second.
const SMALL_UNIT_DOCUMENTS: u64 = 64;
/// So far behind its rate what is done may be, to be caught up with: a thread that others kept from running
/// reaches the rate all the same, and what was not done for long is no burst.
const BEHIND_MAX: Duration = Duration::from_secs(1);
/// The collection was dropped.
const QUERY_PLAN_KILLED: i32 = 175;

/// Which index of which collection; neither number is used twice.
type TtlIndexId = (CollectionId, IndexId);

/// A pass on its way.
#[derive(Debug)]
pub(super) struct Pass {
    /// What had expired then is deleted, in milliseconds since 1970: a pass ends however much expires while
    /// it runs.
    moment_ms: i64,
    began: Instant,
    sub_pass_began: Instant,
    /// Nothing is done before.
    rests_until: Instant,
    /// Those whose quantum of this round is not used up; the first one is worked on.
    round: VecDeque<TtlTask>,
    /// Those that go on in the next round.
    next_round: Vec<TtlTask>,
    /// Those that have nothing left, or have failed.
    done: HashSet<TtlIndexId>,
    /// Nothing is done before for an index without windows of its own: they share a rate. Up to then
    /// everything is paid for, also where that is past.
    kind_ready_at: Instant,
    /// Some index has rested by its rate since the sub-pass began.
    is_drawn_out: bool,
    /// The last unit came later than its rate says.
    is_behind: bool,
    deleted: u64,
    indexes: u64,
}

/// What is left to do for one index.
#[derive(Debug)]
pub(super) struct TtlTask {
    collection: Arc<Collection>,
    walk: ExpiryWalk,
    /// Nothing is done for it before, by the rate of its own windows.
    ready_at: Instant,
    /// When its quantum began, and how many documents it had deleted then.
    quantum: Option<(Instant, u64)>,
}

/// How much is deleted for one index before the next one.
#[derive(Debug, Clone, Copy)]
struct Quantum {
    documents: u64,
    time: Duration,
}

impl Quantum {
    fn of(parameters: &Parameters) -> Self {
        let is_bounded = parameters.is_on(Parameter::TtlMonitorBatchDeletes);
        let bound = |parameter| match parameters.unsigned(parameter) {
            bound @ 1.. if is_bounded => bound,
            _ => u64::MAX,
        };
        Quantum {
            documents: bound(Parameter::TtlIndexDeleteTargetDocs),
            time: Duration::from_millis(bound(Parameter::TtlIndexDeleteTargetTime)),
        }
    }
}

/// How long the pass rests after a unit that has moved so many bytes: all that runs in the background shares
/// the I/O budget. What the calendar wants beside it, only the index rests for.
fn rest_after_unit(server: &ServiceContext, moved_bytes: u64) -> Duration {
    match moved_bytes {
        0 => Duration::ZERO,
        bytes => server.node.store.background_pause(bytes),
    }
}

impl TtlTask {
    fn new(collection: Arc<Collection>, index: IndexId, moment_ms: i64) -> Self {
        let walk = ExpiryWalk::new(index, moment_ms);
        TtlTask { collection, walk, ready_at: ambient::now(), quantum: None }
    }

    /// Whether the calendar's windows for this kind of work are not its own.
    fn has_own_windows(&self) -> bool {
        let definition = self.collection.definition();
        definition.index_by_id(self.walk.index()).is_some_and(|index| index.spec.window.is_some())
    }

    /// How fast a unit may be worked off now; `None` when the index waits for a window. The one place that
    /// asks the calendar.
    fn rate_now(&self, server: &ServiceContext) -> Option<WorkRate> {
        let definition = self.collection.definition();
        let index = definition.index_by_id(self.walk.index());
        let own = index.and_then(|index| Some((self.id(), index.spec.window.as_ref()?)));
        calendar::ask(server, WorkKind::Ttl, own).rate()
    }

    fn id(&self) -> TtlIndexId {
        (self.collection.id(), self.walk.index())
    }

    /// Whether its quantum is used up.
    fn has_used(&self, bounds: Quantum) -> bool {
        self.quantum.is_some_and(|(began, before)| {
            self.walk.figures().deleted - before >= bounds.documents || ambient::elapsed(began) >= bounds.time
        })
    }

    /// One step of its walk.
    async fn step(
        &mut self,
        server: &ServiceContext,
        bounds: Quantum,
        rate: WorkRate,
    ) -> Result<ExpiryStep, ExpiryError> {
        let before = self.walk.figures();
        let (_, had) = *self.quantum.get_or_insert_with(|| (ambient::now(), before.deleted));
        let left = bounds.documents.saturating_sub(before.deleted - had).min(UNIT_DOCUMENTS_MAX);
        let left = rate.documents_per_second.map_or(left, |rate| left.min(unit_of_rate(rate)));
        let receipts = Receipts::default();
        let writing = server.node.writing(&receipts);
        // In a box: a member's thread waits in it for the others.
        let result = Box::pin(self.walk.step(&writing, &self.collection, left as usize)).await;
        let after = self.walk.figures();
        count(server, before, after);
        result
    }
}

/// As many as a second has at most: a slow rate is no burst and a long rest.
fn unit_of_rate(documents_per_second: u64) -> u64 {
    documents_per_second.min((documents_per_second / UNITS_PER_SECOND).max(SMALL_UNIT_DOCUMENTS))
}

fn count(server: &ServiceContext, before: ExpiryFigures, after: ExpiryFigures) {
    let figures = &server.node.ttl;
    figures.deleted_documents.add(after.deleted - before.deleted);
    figures.examined_keys.add(after.keys - before.keys);
    figures.examined_documents.add(after.documents - before.documents);
}

impl Pass {
    pub(super) fn begin(server: &ServiceContext) -> Self {
        let now = ambient::now();
        let mut pass = Pass {
            moment_ms: server.now_ms(),
            began: now,
            sub_pass_began: now,
            rests_until: now,
            round: VecDeque::new(),
            next_round: Vec::new(),
            done: HashSet::new(),
            kind_ready_at: now,
            is_drawn_out: false,
            is_behind: false,
            deleted: 0,
            indexes: 0,
        };
        pass.begin_sub_pass(server);
        pass
    }

    /// Looks which TTL indexes there are. Walks that have begun go on where they are. Where one of them goes
    /// slowly, those that are done are looked at again, or they would wait for it to end.
    fn begin_sub_pass(&mut self, server: &ServiceContext) {
        server.node.ttl.sub_passes.add(1);
        self.sub_pass_began = ambient::now();
        if std::mem::take(&mut self.is_drawn_out) {
            self.done.clear();
            self.moment_ms = server.now_ms();
        }
        let begun = self.round.drain(..).chain(self.next_round.drain(..));
        let mut begun: HashMap<TtlIndexId, TtlTask> = begun.map(|task| (task.id(), task)).collect();
        let state = server.node.catalog.state();
        let mut collections: Vec<&Arc<Collection>> =
            state.collections().filter(|collection| !collection.is_oplog()).collect();
        collections.sort_by_key(|collection| collection.id());
        for collection in collections {
            let definition = collection.definition();
            for index in definition.indexes.iter().filter(|index| index.is_ttl()) {
                let id = (collection.id(), index.id);
                if self.done.contains(&id) {
                    continue;
                }
                if !index.orders_dates() || definition.is_capped() {
                    self.skip(server, id, &definition.namespace.to_string(), &index.spec.name);
                    continue;
                }
                let task = begun
                    .remove(&id)
                    .unwrap_or_else(|| TtlTask::new(Arc::clone(collection), index.id, self.moment_ms));
                self.round.push_back(task);
            }
        }
    }

    fn skip(&mut self, server: &ServiceContext, id: TtlIndexId, namespace: &str, index: &str) {
        server.node.ttl.invalid_index_skips.add(1);
        self.done.insert(id);
        tracing::debug!(target: "INDEX", id = 22_541, namespace, index,
            "No document expires by an index that does not have the dates of one field in order");
    }

    /// One unit of the first index.
    pub(super) async fn step(&mut self, server: &ServiceContext) -> OwnWorkStep {
        let bounds = Quantum::of(&server.parameters);
        if self.rests_until > ambient::now() {
            return OwnWorkStep::Continues { at: self.rests_until };
        }
        let Some(mut task) = self.next_ready() else { return self.end_round(server) };
        // One that waits takes part again in the next sub-pass or pass.
        let Some(rate) = task.rate_now(server) else { return OwnWorkStep::Continues { at: ambient::now() } };
        let before = task.walk.figures();
        let began = ambient::now();
        let paid = self.ready_at(&task);
        // However late this unit begins: it follows the last one by the rate.
        let from = began.checked_sub(BEHIND_MAX).map_or(paid, |least| paid.max(least));
        let result = task.step(server, bounds, rate).await;
        let after = task.walk.figures();
        self.deleted += after.deleted - before.deleted;
        self.rests_until = ambient::now() + rest_after_unit(server, after.bytes - before.bytes);
        let micros = rate.micros_for(after.deleted - before.deleted, after.bytes - before.bytes);
        // Without a rate nothing is saved up.
        let until = if micros == 0 { began } else { from + Duration::from_micros(micros) };
        let rests = self.rest_by_rate(&mut task, until);
        self.is_behind = micros > 0 && !rests;
        match result {
            Ok(ExpiryStep::Continues) if rests => self.end_quantum(task),
            Ok(ExpiryStep::Continues) if task.has_used(bounds) => self.end_quantum(task),
            Ok(ExpiryStep::Continues) => self.round.push_front(task),
            Ok(ExpiryStep::Ended) => self.finish(&task),
            Err(error) => {
                tell_failure(server, &task, &error);
                self.finish(&task);
            }
        }
        OwnWorkStep::Continues { at: self.rests_until }
    }

    /// Whether somebody has stated a rate that is not reached.
    pub(super) const fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// When something may be done for it.
    fn ready_at(&self, task: &TtlTask) -> Instant {
        if task.has_own_windows() { task.ready_at } else { self.kind_ready_at }
    }

    /// Takes the first one of the round that does not rest.
    fn next_ready(&mut self) -> Option<TtlTask> {
        let now = ambient::now();
        let position = self.round.iter().position(|task| self.ready_at(task) <= now)?;
        self.round.remove(position)
    }

    /// Lets the index rest until then, or all that share its rate. False when that is over already.
    fn rest_by_rate(&mut self, task: &mut TtlTask, until: Instant) -> bool {
        match task.has_own_windows() {
            true => task.ready_at = until,
            false => self.kind_ready_at = until,
        }
        let rests = until > ambient::now();
        self.is_drawn_out |= rests;
        rests
    }

    /// Others come first.
    fn end_quantum(&mut self, mut task: TtlTask) {
        task.quantum = None;
        self.next_round.push(task);
    }

    fn finish(&mut self, task: &TtlTask) {
        let figures = task.walk.figures();
        self.done.insert(task.id());
        if figures.deleted > 0 {
            self.indexes += 1;
            let definition = task.collection.definition();
            let index = definition.index_by_id(task.walk.index()).map(|index| index.spec.name.as_str());
            tracing::debug!(target: "INDEX", id = 5_479_200, namespace = %definition.namespace, index,
                num_deleted = figures.deleted, keys_examined = figures.keys,
                "Deleted expired documents using index");
        }
    }

    fn end_round(&mut self, server: &ServiceContext) -> OwnWorkStep {
        if self.round.is_empty() && self.next_round.is_empty() {
            return self.end(server);
        }
        let target = Duration::from_secs(server.parameters.unsigned(Parameter::TtlMonitorSubPassTarget));
        match ambient::elapsed(self.sub_pass_began) >= target {
            true => self.begin_sub_pass(server),
            false => self.round.extend(self.next_round.drain(..)),
        }
        let ready = self.round.iter().map(|task| self.ready_at(task)).min();
        OwnWorkStep::Continues { at: ready.unwrap_or_else(ambient::now) }
    }

    fn end(&self, server: &ServiceContext) -> OwnWorkStep {
        server.node.ttl.passes.add(1);
        if self.deleted > 0 {
            tracing::info!(target: "INDEX", id = 5_479_208, num_deleted = self.deleted,
                indexes = self.indexes, duration_millis = ambient::elapsed(self.began).as_millis() as u64,
                "TTL pass deleted documents");
        }
        OwnWorkStep::Ended
    }

    /// The monitor was switched off, or this is no primary any more. What is left is found by the next pass,
    /// wherever that is.
    pub(super) fn end_early(self) {
        tracing::info!(target: "INDEX", id = 5_479_209, num_deleted = self.deleted,
            duration_millis = ambient::elapsed(self.began).as_millis() as u64, "TTL pass ended early");
    }
}

/// Says why an index has nothing deleted in this pass any more; nothing where that is as it should be.
fn tell_failure(server: &ServiceContext, task: &TtlTask, error: &ExpiryError) {
    if error.code() == QUERY_PLAN_KILLED || server.node.replays() || server.is_shutting_down() {
        return;
    }
    let definition = task.collection.definition();
    tracing::warn!(target: "INDEX", id = 5_400_703, namespace = %definition.namespace, code = error.code(),
        %error, "Error running TTL job on collection: the next pass tries again");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_worked_off_in_small_units() {
        let rates = [1, 10, 64, 100, 6_400, 10_000, 40_000];
        assert_eq!(rates.map(unit_of_rate), [1, 10, 64, 64, 64, 100, 400]);
    }
}
