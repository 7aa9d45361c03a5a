//! What a command sees while it runs.

use crate::command::CommandEntry;
use crate::connection::{Connection, OperationGuard};
use crate::error::{CommandError, CommandResult, code};
use crate::fields::Fields;
use crate::generic::GenericArguments;
use crate::interrupt::Interrupt;
use crate::request::Next;
use crate::server::Server;
use crate::turns::Turns;
use catalog::{OperationContext, Receipts};
use document::RawDocument;
use std::sync::Arc;
use std::time::{Duration, Instant};
use storage::ReadSource;

/// Everything around one running command.
#[derive(Debug)]
pub struct CommandContext<'a> {
    /// The server.
    pub server: &'a Arc<Server>,
    /// Whose request it is.
    pub connection: &'a Arc<Connection>,
    /// The command's row of the table.
    pub entry: &'static CommandEntry,
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
    /// What to run next without a request; see [`crate::Outcome::next`].
    pub next: Option<Next>,
    /// What it reads from; decided by dispatch, and followed all the way down.
    pub source: &'a ReadSource,
    /// What it has written so far; the write concern is awaited for it when the command is done.
    pub receipts: Receipts,
}

impl<'a> CommandContext<'a> {
    /// The switch that ends this operation.
    pub fn interrupt(&self) -> &'a Interrupt {
        &self.connection.interrupt
    }

    /// Where it runs, and when it lets others go first.
    pub fn turns(&self) -> Turns<'a> {
        Turns::new(self.connection, self.server)
    }

    /// What the writes of this command are given, on a thread that may block. They read the latest versions.
    pub fn writing(&self) -> OperationContext<'_> {
        OperationContext::writing(&self.server.store, &self.receipts)
    }

    /// Goes to a thread that may block, unless the command is on one.
    pub async fn offload(&self) {
        self.turns().offload().await;
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

    /// What a cursor source sees when this command fills a batch.
    pub fn batch_context(&self, await_until: Option<Instant>) -> BatchContext<'a> {
        BatchContext { server: self.server, source: self.source, turns: self.turns(), await_until }
    }
}

/// What a cursor source sees while it fills a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchContext<'a> {
    /// The server.
    pub server: &'a Arc<Server>,
    /// What the batch is read from.
    pub source: &'a ReadSource,
    /// The turns of the operation that wants the batch.
    pub turns: Turns<'a>,
    /// How long a tailable cursor may wait for new documents.
    pub await_until: Option<Instant>,
}
