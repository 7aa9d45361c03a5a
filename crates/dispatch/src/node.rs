//! What a server is beside its commands: the place of its documents, or the way to them.

use crate::command::Command;
use crate::error::CommandResult;
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

/// What the commands of a server work on. A node with documents has its catalog and its store here; one that
/// only passes requests on has others. It is known when the program is compiled: a command reaches it without
/// a detour.
pub trait Node: Debug + Send + Sync + Sized + 'static {
    /// What an operation reads from.
    type Source: Debug + Sync;

    /// What one operation has written on this node.
    type Receipts: Debug + Default + Send + Sync;

    /// The commands that need the node, beside those that every server has.
    fn commands() -> &'static [&'static Command<Self>];

    /// What operations read from unless they are told otherwise.
    fn source(&self) -> &Self::Source;

    /// Whether there is such a collection. Only the use of those is counted: clients may ask for any number
    /// of others.
    fn has_collection(&self, database: &str, name: &str) -> bool;

    /// Whether writes may have transaction numbers: only where a log is kept of them.
    fn takes_txn_numbers(&self) -> bool {
        false
    }

    /// Waits until all that an operation has written is as safe as `j: true` wants it.
    ///
    /// # Errors
    /// When it will not be.
    fn journaled(&self, receipts: &Self::Receipts) -> impl Future<Output = CommandResult> + Send;

    /// How long an operation has waited for its writes so far.
    fn waited(receipts: &Self::Receipts) -> Duration;
}
