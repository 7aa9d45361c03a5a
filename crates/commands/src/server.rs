//! A server with documents: the node that the commands of this crate work on.

use crate::command::COMMANDS;
use crate::error::{CommandError, CommandResult};
use crate::exec::Spill;
use crate::parameters::Parameters;
use catalog::{Catalog, ChangeObserver, OperationContext, Receipts, WriteError};
use dispatch::Node;
use dispatch::command::Command;
use dispatch::concern::WriteConcern;
use replication::oplog::OplogObserver;
use replication::retryable::SessionTable;
use std::sync::Arc;
use std::time::Duration;
use storage::{ReadSource, Store};

/// A server with documents.
pub type Server = dispatch::Server<DataNode>;

/// The documents of a server, and what reading them shares.
#[derive(Debug)]
pub struct DataNode {
    /// Databases, collections and indexes.
    pub catalog: Arc<Catalog>,
    /// The store below the catalog.
    pub store: Store,
    /// What operations read from unless they are told otherwise.
    pub newest: ReadSource,
    /// Retryable writes; where there are none, no log is kept of changes either.
    pub session_table: Option<Arc<SessionTable>>,
    /// Where sorts put what exceeds their memory.
    pub(crate) spill: Spill,
}

impl Node for DataNode {
    type Source = ReadSource;
    type Receipts = Receipts;

    fn commands() -> &'static [&'static Command<Self>] {
        COMMANDS
    }

    fn source(&self) -> &ReadSource {
        &self.newest
    }

    fn has_collection(&self, database: &str, name: &str) -> bool {
        self.catalog.entry(database, name).is_some()
    }

    fn takes_txn_numbers(&self) -> bool {
        self.session_table.is_some()
    }

    async fn acknowledged(
        &self,
        receipts: &Receipts,
        _concern: &WriteConcern,
        _database: &str,
    ) -> CommandResult {
        receipts.journaled(&self.store).await.map_err(|error| CommandError::from(WriteError::from(error)))
    }

    fn waited(receipts: &Receipts) -> Duration {
        receipts.waited()
    }
}

impl DataNode {
    /// The documents of this catalog.
    pub fn new(catalog: Arc<Catalog>, parameters: &Parameters) -> Self {
        DataNode {
            spill: Spill::beside_data(parameters, catalog.store()),
            store: catalog.store().clone(),
            newest: ReadSource::Latest(catalog.store().clone()),
            session_table: None,
            catalog,
        }
    }

    /// From now on changes are told to the log of a set, and writes may have transaction numbers.
    #[must_use]
    pub fn of_a_set(self, sessions: Arc<SessionTable>) -> Self {
        DataNode { session_table: Some(sessions), ..self }
    }

    /// What writes for clients are given, and what the server writes for all members of its set.
    pub(crate) fn writing<'o>(&'o self, receipts: &'o Receipts) -> OperationContext<'o> {
        let observer = self.session_table.as_ref().map(|_| &OplogObserver as &dyn ChangeObserver);
        OperationContext { observer, ..OperationContext::writing(&self.store, receipts) }
    }
}
