//! Where an operation runs, how far it may read there, and when it lets others go first.
//!
//! An event loop answers what is in memory and quick; whatever would wait for the disk or compute for long
//! moves to a thread that may block, for the rest of the request. Thread models without event loops may block
//! everywhere.

use crate::client::Client;
use crate::context::BatchContext;
use crate::error::CommandResult;
use crate::exec::Slice;
use crate::interrupt::Interrupt;
use crate::parameters::{Parameter, Parameters};
use crate::server::Server;
use catalog::{ReadError, give_way};
use query::checkpoint;
use std::future::poll_fn;
use std::time::{Duration, Instant};
use storage::ReadTier;

/// The scheduling of one operation. Cheap to copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scheduling<'c> {
    client: &'c Client,
    parameters: &'c Parameters,
    let_others_run: fn(Instant),
}

impl<'c> Scheduling<'c> {
    pub(crate) fn new(client: &'c Client, server: &'c Server) -> Self {
        let let_others_run = server.host.let_others_run;
        Scheduling { client, parameters: &server.parameters, let_others_run }
    }

    /// The scheduling of the operation that wants a batch.
    pub(crate) fn of_batch(context: &BatchContext<'c>) -> Self {
        Scheduling::new(context.client, context.server)
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

    /// Goes to a thread that may block, unless the operation is on one.
    pub(crate) async fn offload(&self) {
        self.client.offload().await;
    }

    /// A slice for the walk's next steps.
    pub(crate) fn slice(&self) -> Slice {
        match self.may_block() {
            true => Slice::lasting(self.duration(Parameter::ScanSlice), self.let_others_run),
            false => Slice::in_memory(self.duration(Parameter::LoopSlice)),
        }
    }

    fn duration(&self, micros: Parameter) -> Duration {
        Duration::from_micros(self.parameters.unsigned(micros))
    }

    /// A slice is over: looks whether the operation is to end, then moves to where it may block or lets
    /// others go first.
    ///
    /// # Errors
    /// The reason for the end.
    pub(crate) async fn end_slice(&self) -> CommandResult {
        self.interrupt().check()?;
        match self.may_block() {
            true => give_way().await,
            false => self.offload().await,
        }
        Ok(())
    }

    /// Waits while memory for replies is short. To be called once, when this one has become large.
    ///
    /// # Errors
    /// The reason for the operation's end.
    pub(crate) async fn reply_room(&self) -> CommandResult {
        let link = &self.client.link;
        self.interrupt().wait_for(poll_fn(|task| link.poll_reply_room(task))).await;
        self.interrupt().check()
    }

    /// Computes something that can begin again: what takes too long for an event loop does so where it may.
    ///
    /// # Errors
    /// Those of the computation.
    pub(crate) async fn compute<T>(&self, compute: impl Fn() -> CommandResult<T>) -> CommandResult<T> {
        if self.may_block() {
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
                self.offload().await;
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
}
