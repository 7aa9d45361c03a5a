//! What a command sees while it runs.

use crate::client::{Client, OperationGuard};
use crate::command::Command;
use crate::error::{CommandError, CommandResult, code};
use crate::fields::Fields;
use crate::generic::GenericArguments;
use crate::interrupt::Interrupt;
use crate::node::Node;
use crate::request::Next;
use crate::server::ServiceContext;
use document::{DocumentBuilder, RawDocument, RawValue, Timestamp};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Everything around one running command.
#[derive(Debug)]
pub struct CommandContext<'a, N: Node> {
    /// The server.
    pub server: &'a Arc<ServiceContext<N>>,
    /// Whose request it is.
    pub client: &'a Arc<Client>,
    /// The command's row of the table.
    pub command: &'static Command<N>,
    /// The name as the client wrote it: `isMaster` and `ismaster` are one command.
    pub name: &'a str,
    /// The whole command document.
    pub body: RawDocument<'a>,
    /// `$db`.
    pub database: &'a str,
    /// The command's own fields, to be taken.
    pub fields: Fields<'a>,
    /// The arguments that every command has.
    pub generic: GenericArguments<'a>,
    /// The registered operation.
    pub operation: OperationGuard<'a>,
    /// When it began.
    pub started: Instant,
    /// The client takes several replies to this request.
    pub exhaust_allowed: bool,
    /// What to run next without a request; see [`crate::request::CommandOutcome::next`].
    pub next: Option<Next>,
    /// What it reads from; decided by dispatch, and followed all the way down.
    pub source: &'a N::Source,
    /// The time of what it reads from, with read concern `snapshot`.
    pub snapshot_time: Option<Timestamp>,
    /// What it has written so far; the write concern is awaited for it when the command is done.
    pub receipts: N::Receipts,
}

impl<'a, N: Node> CommandContext<'a, N> {
    /// The switch that ends this operation.
    pub fn interrupt(&self) -> &'a Interrupt {
        &self.client.interrupt
    }

    /// Goes to a thread that may compute for long, unless the command is on one.
    pub async fn offload(&self) {
        self.client.offload().await;
    }

    /// Goes to a thread that may block, unless the command is on one.
    pub async fn offload_briefly(&self) {
        self.client.offload_briefly().await;
    }

    /// `database.collection` from the command's own field, noted for `currentOp`.
    ///
    /// # Errors
    /// `InvalidNamespace` when the field is no collection name.
    pub fn collection_namespace(&self) -> CommandResult<(&'a str, &'a str)> {
        let name = self.fields.collection_name()?;
        let refused = |message: String| Err(CommandError::new(code::INVALID_NAMESPACE, message));
        if name.is_empty() {
            return refused(format!("Invalid namespace specified '{}.'", self.database));
        }
        if name.starts_with('.') {
            return refused(format!("Collection names cannot start with '.': {name}"));
        }
        if name.contains('\0') {
            return refused("namespaces cannot have embedded null characters".to_owned());
        }
        self.operation.set_namespace(self.database, name);
        Ok((self.database, name))
    }

    /// What is left of the operation's time limit.
    pub fn time_left(&self) -> Option<Duration> {
        let deadline = self.interrupt().deadline()?;
        Some(deadline.saturating_duration_since(ambient::now()))
    }

    /// What a cursor that this command opens goes on reading from, with read concern `snapshot`.
    pub fn snapshot(&self) -> Option<(N::Source, Timestamp)> {
        Some((self.source.clone(), self.snapshot_time?))
    }

    /// Appends `atClusterTime`, with read concern `snapshot`.
    #[inline]
    pub fn append_snapshot_time(&self, reply: &mut DocumentBuilder<'_>) {
        append_snapshot_time(reply, self.snapshot_time);
    }

    /// What a cursor source sees when this command fills a batch.
    pub fn batch_context(&self, await_until: Option<Instant>) -> BatchContext<'a, N> {
        BatchContext { server: self.server, client: self.client, source: self.source, await_until }
    }
}

/// What a cursor source sees while it fills a batch.
#[derive(Debug)]
pub struct BatchContext<'a, N: Node> {
    /// The server.
    pub server: &'a Arc<ServiceContext<N>>,
    /// Whose operation wants the batch.
    pub client: &'a Client,
    /// What the batch is read from.
    pub source: &'a N::Source,
    /// How long a tailable cursor may wait for new documents.
    pub await_until: Option<Instant>,
}

/// Appends `atClusterTime`, where there is one.
#[inline]
pub(crate) fn append_snapshot_time(reply: &mut DocumentBuilder<'_>, time: Option<Timestamp>) {
    if let Some(time) = time {
        reply.append("atClusterTime", RawValue::Timestamp(time));
    }
}
