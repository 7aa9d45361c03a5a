//! What a command sees while it runs, on a node with documents.

use crate::error::CommandResult;
use crate::scheduling::Scheduling;
use crate::server::DataNode;
use catalog::{Catalog, OperationContext};
use storage::ReadSource;

/// Everything around one running command.
pub(crate) type CommandContext<'a> = dispatch::context::CommandContext<'a, DataNode>;

/// What a cursor source sees while it fills a batch.
pub(crate) type BatchContext<'a> = dispatch::context::BatchContext<'a, DataNode>;

/// What a command asks of the documents' node.
pub(crate) trait OnDataNode<'a> {
    /// Where it runs, and when it lets others go first.
    fn scheduling(&self) -> Scheduling<'a>;

    /// Fails where a name stood for something else at the time that is read.
    fn check_name(&self, name: &str) -> CommandResult;

    /// What the writes of this command are given, on a thread that may block. They read the latest versions.
    fn writing(&self) -> OperationContext<'_>;
}

impl<'a> OnDataNode<'a> for CommandContext<'a> {
    fn scheduling(&self) -> Scheduling<'a> {
        Scheduling::new(self.client, self.server).reading(self.source, || self.started)
    }

    fn check_name(&self, name: &str) -> CommandResult {
        check_name(&self.server.node.catalog, self.source, self.database, name)
    }

    fn writing(&self) -> OperationContext<'_> {
        let connection = self.client.id.unsigned_abs();
        OperationContext { connection, ..self.server.node.writing(&self.receipts) }
    }
}

/// Fails where a name stood for something else in what is read. Only in the past it may have.
pub(crate) fn check_name(
    catalog: &Catalog,
    source: &ReadSource,
    database: &str,
    name: &str,
) -> CommandResult {
    match source {
        ReadSource::Past(view) => Ok(catalog.check_names_of(view, database, name)?),
        _ => Ok(()),
    }
}
