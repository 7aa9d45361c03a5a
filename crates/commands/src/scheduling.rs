//! Where an operation runs, how far it may read there, and when it lets others go first.
//!
//! An event loop answers what is in memory and quick; whatever would wait for the disk or compute for long
//! moves to a thread that may block, for the rest of the request. Thread models without event loops may block
//! everywhere.

use crate::client::Client;
use crate::context::BatchContext;
use crate::counters::Counter;
use crate::error::{CommandError, CommandResult};
use crate::exec::Slice;
use crate::interrupt::Interrupt;
use crate::parameters::{Parameter, Parameters};
use crate::server::ServiceContext;
use catalog::{ReadError, give_way};
use query::checkpoint;
use std::future::poll_fn;
use std::time::{Duration, Instant};
use storage::{ReadSource, ReadTier};
use wire::ErrorCode;

/// How long a walk may go on that had to read what is not in memory, before it counts as one that computes
/// for long: a lookup by an index is over by then.
const BRIEF_SLICE: Duration = Duration::from_micros(100);

/// The scheduling of one operation. Cheap to copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scheduling<'c> {
    client: &'c Client,
    parameters: &'c Parameters,
    let_others_run: fn(Instant),
    /// Since when it reads from one published state; `None` where it does not.
    view_since: Option<Instant>,
    views_too_old: &'c Counter,
}

impl<'c> Scheduling<'c> {
    pub(crate) fn new(client: &'c Client, server: &'c ServiceContext) -> Self {
        Scheduling {
            client,
            parameters: &server.parameters,
            let_others_run: server.host.let_others_run,
            view_since: None,
            views_too_old: &server.counters.views_too_old,
        }
    }

    /// The scheduling of an operation that reads from this since then.
    pub(crate) fn reading(self, source: &ReadSource, since: impl FnOnce() -> Instant) -> Self {
        let view_since = matches!(source, ReadSource::View(_)).then(since);
        Scheduling { view_since, ..self }
    }

    /// The scheduling of the operation that wants a batch.
    pub(crate) fn of_batch(context: &BatchContext<'c>) -> Self {
        Scheduling::new(context.client, context.server).reading(context.source, ambient::now)
    }

    /// The switch that ends the operation.
    pub(crate) const fn interrupt(&self) -> &'c Interrupt {
        &self.client.interrupt
    }

    /// Whether the operation may block the thread it runs on now.
    pub(crate) fn may_block(&self) -> bool {
        self.client.link.may_block()
    }

    /// How far reads may go now.
    pub(crate) fn tier(&self) -> ReadTier {
        if self.may_block() { ReadTier::Any } else { ReadTier::BlockCache }
    }

    /// Goes to a thread that may compute for long, unless the operation is on one.
    pub(crate) async fn offload(&self) {
        self.client.offload().await;
    }

    /// Goes to a thread that may block, unless the operation is on one.
    pub(crate) async fn offload_briefly(&self) {
        self.client.offload_briefly().await;
    }

    /// A slice for the walk's next steps.
    pub(crate) fn slice(&self) -> Slice {
        if !self.may_block() {
            return Slice::in_memory(self.duration(Parameter::LoopSlice));
        }
        let length = self.duration(Parameter::ScanSlice);
        let length = if self.client.link.runs_briefly() { length.min(BRIEF_SLICE) } else { length };
        Slice::lasting(length, self.let_others_run)
    }

    fn duration(&self, micros: Parameter) -> Duration {
        Duration::from_micros(self.parameters.unsigned(micros))
    }

    /// A slice is over: looks whether the operation is to end, then moves to where it may compute for long,
    /// or lets others go first there.
    ///
    /// # Errors
    /// The reason for the end.
    pub(crate) async fn end_slice(&self) -> CommandResult {
        self.interrupt().check()?;
        self.check_view()?;
        let link = &self.client.link;
        match link.may_block() && !link.runs_briefly() {
            true => give_way().await,
            false => self.offload().await,
        }
        Ok(())
    }

    /// A walk has met what is not in memory: looks whether the operation is to end, then moves to where it
    /// may block.
    ///
    /// # Errors
    /// The reason for the end.
    pub(crate) async fn leave_memory(&self) -> CommandResult {
        self.interrupt().check()?;
        self.check_view()?;
        self.offload_briefly().await;
        Ok(())
    }

    /// Ends a read that has kept the store from letting go of old versions for too long.
    fn check_view(&self) -> CommandResult {
        let Some(since) = self.view_since else { return Ok(()) };
        let limit = self.parameters.unsigned(Parameter::SecondaryReadLifetime);
        if limit == 0 || ambient::elapsed(since) < Duration::from_secs(limit) {
            return Ok(());
        }
        self.views_too_old.add(1);
        let message = format!(
            "a read of a secondary that takes longer than secondaryReadLifetimeLimitSeconds ({limit}) is \
             ended: the state of the data that it reads from is too old"
        );
        Err(CommandError::new(ErrorCode::SnapshotTooOld as i32, message))
    }

    /// Waits while memory for replies is short. To be called once, when this one has become large.
    ///
    /// # Errors
    /// The reason for the operation's end.
    pub(crate) async fn reply_room(&self) -> CommandResult {
        let link = &self.client.link;
        self.interrupt().wait_for(poll_fn(|task| link.poll_reply_room(task))).await
    }

    /// Computes something that can begin again: what takes too long for an event loop, or for a thread for
    /// what is short, does so where it may.
    ///
    /// # Errors
    /// Those of the computation.
    pub(crate) async fn compute<T>(&self, compute: impl Fn() -> CommandResult<T>) -> CommandResult<T> {
        if self.may_block() && !self.client.link.runs_briefly() {
            return compute();
        }
        let computed = {
            let _short = checkpoint::short();
            compute()
        };
        if !computed.as_ref().is_err_and(|error| checkpoint::is_not_short(error.code)) {
            return computed;
        }
        drop(computed);
        self.offload().await;
        compute()
    }

    /// In an event loop, moves to where it may take long when a slice has passed since `began`.
    pub(crate) async fn stay_within_slice(&self, began: Instant) {
        if !self.may_block() && ambient::elapsed(began) >= self.duration(Parameter::LoopSlice) {
            self.offload().await;
        }
    }

    /// Reads from memory where that is enough, and otherwise where it may block.
    ///
    /// # Errors
    /// Those of the read.
    pub(crate) async fn read<T>(
        &self,
        read: impl Fn(ReadTier) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        match read(self.tier()) {
            Err(error) if error.would_block() => {
                self.offload_briefly().await;
                read(ReadTier::Any)
            }
            result => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestClient, server};
    use dispatch::parameters::Setting;
    use pollster::block_on;
    use std::cell::Cell;

    #[test]
    fn computes_twice_only_what_a_loop_gives_up() {
        let server = server();
        let times_for = |client: &TestClient, steps: usize| {
            let computed = Cell::new(0);
            let scheduling = Scheduling::new(&client.client, &server);
            let compute = || {
                computed.set(computed.get() + 1);
                for _ in 0..steps {
                    checkpoint::pass(1)?;
                }
                Ok(scheduling.may_block())
            };
            let blocks = block_on(scheduling.compute(compute)).expect("nothing ends it");
            (computed.get(), blocks)
        };
        for (steps, in_loop) in [(10, (1, false)), (100_000, (2, true))] {
            assert_eq!(times_for(&TestClient::in_loop(&server), steps), in_loop, "{steps} steps in a loop");
            assert_eq!(times_for(&TestClient::of(&server), steps), (1, true), "{steps} steps");
        }
    }

    #[test]
    fn a_read_of_one_state_is_ended_when_it_takes_too_long() {
        let server = server();
        let client = TestClient::of(&server);
        let limit = |seconds| {
            let set = server.parameters.set(Parameter::SecondaryReadLifetime, Setting::Integer(seconds));
            set.expect("within its range");
        };
        let began = ambient::now() - Duration::from_secs(2);
        let check = |source: &ReadSource, code: Option<i32>| {
            let scheduling = Scheduling::new(&client.client, &server).reading(source, || began);
            let ended = block_on(scheduling.end_slice());
            assert_eq!(ended.err().map(|error| error.code), code);
        };
        let view = ReadSource::View(server.node.store.pinned_view());
        check(&view, None);
        limit(1);
        check(&view, Some(239));
        check(&server.node.newest, None);
        limit(0);
        check(&view, None);
        assert_eq!(server.counters.views_too_old.get(), 1);
    }
}
