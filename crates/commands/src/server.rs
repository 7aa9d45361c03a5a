//! A server with documents: the node that the commands of this crate work on.

use crate::access::AccessCache;
use crate::calendar::CalendarBoard;
use crate::command::{COMMANDS, copy_operation};
use crate::error::CommandResult;
use crate::exec::Spill;
use crate::index_builds::ResumedBuild;
use crate::key_rotation::OldKeys;
use crate::parameters::Parameters;
use crate::replica_set::{SetMember, journaled, no_replica_set, refused};
use crate::ttl::TtlFigures;
use ::access::{AccessUser, UserCredentials, UserName};
use catalog::{Catalog, ChangeObserver, OperationContext, Receipts};
use dispatch::command::Command;
use dispatch::concern::{ReadConcern, WriteConcern};
use dispatch::{Node, ReadFreshness, ReplyTimes, Role};
use document::{Document, DocumentBuilder, Timestamp};
use replication::oplog::OplogObserver;
use replication::retryable::RetryTable;
use replication::set::ReplicaSet;
use std::sync::Arc;
use std::time::Duration;
use storage::{ReadSource, Store};

/// The service context of a server with documents.
pub type ServiceContext = dispatch::ServiceContext<DataNode>;

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
    pub retry_table: Option<Arc<RetryTable>>,
    /// What it is in its set, if it was started as a member of one.
    pub(crate) member: Option<SetMember>,
    /// Where sorts put what exceeds their memory.
    pub(crate) spill: Spill,
    /// What has expired here.
    pub(crate) ttl: TtlFigures,
    /// When work in the background may be done.
    pub(crate) calendar: CalendarBoard,
    /// The index build that goes on after a restart.
    pub(crate) resumed_build: ResumedBuild,
    /// What is not encrypted with the newest key yet.
    pub(crate) old_keys: OldKeys,
    /// Users and roles.
    pub(crate) access: AccessCache,
}

impl DataNode {
    /// Whether what it has comes from another member, and is applied beside its reads.
    #[inline]
    #[must_use]
    pub fn replays(&self) -> bool {
        self.member.as_ref().is_some_and(SetMember::replays)
    }
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
        self.retry_table.is_some()
    }

    fn awaits(&self, concern: Option<&WriteConcern>, database: &str) -> bool {
        match &self.member {
            None => concern.is_some_and(WriteConcern::is_journaled),
            Some(member) => member.awaits(concern, database),
        }
    }

    async fn acknowledged(
        &self,
        receipts: &Receipts,
        concern: &WriteConcern,
        database: &str,
    ) -> CommandResult {
        match &self.member {
            None => journaled(receipts, &self.store).await,
            Some(member) => member.acknowledged(receipts, concern, database).await,
        }
    }

    fn waited(receipts: &Receipts) -> Duration {
        receipts.waited()
    }

    #[inline]
    fn role(&self) -> Option<Role> {
        self.member.as_ref().map(SetMember::role)
    }

    #[inline]
    fn source_of_secondary(&self, database: &str) -> Option<ReadSource> {
        self.member.as_ref()?.source(database)
    }

    fn topology_counter(&self) -> i64 {
        self.replica_set().map_or(0, |set| set.topology().counter)
    }

    async fn topology_changed(&self, counter: i64) {
        match self.replica_set() {
            Some(set) => set.topology_changed(counter).await,
            None => std::future::pending().await,
        }
    }

    fn write_hello(&self, writable: &str, reply: &mut DocumentBuilder<'_>) {
        if let Some(member) = &self.member {
            member.write_hello(writable, reply);
        }
    }

    fn background_operations(&self) -> Vec<Document> {
        self.replica_set()
            .and_then(copy_operation)
            .into_iter()
            .chain(self.resumed_build.operation())
            .collect()
    }

    #[inline]
    fn reply_times(&self) -> Option<ReplyTimes> {
        self.member.as_ref()?.reply_times()
    }

    fn observe_cluster_time(&self, time: Timestamp) -> CommandResult {
        self.member.as_ref().map_or(Ok(()), |member| member.observe_cluster_time(time))
    }

    async fn readable(&self, concern: ReadConcern) -> CommandResult {
        match &self.member {
            Some(member) => member.readable(concern).await,
            None => Ok(()),
        }
    }

    fn snapshot(&self, at: Option<Timestamp>) -> CommandResult<(ReadSource, Timestamp)> {
        let set = self.replica_set().ok_or_else(no_replica_set)?;
        let moment = match at {
            Some(time) => set.moment_at(time),
            None => set.moment(),
        };
        let moment = moment.map_err(refused)?;
        Ok((ReadSource::Past(moment.view), moment.timestamp))
    }

    async fn between_batches(&self) {
        if let Some(set) = self.replica_set() {
            set.between_batches().await;
        }
    }

    #[inline]
    fn read_freshness(&self) -> Option<ReadFreshness> {
        let wanted = self.replica_set()?.read_freshness()?;
        Some(ReadFreshness { staleness_max: wanted.staleness_max, wait: wanted.wait })
    }

    fn staleness(&self) -> Option<Duration> {
        self.replica_set()?.staleness()
    }

    async fn fresh(&self, staleness_max: Duration) {
        if let Some(set) = self.replica_set() {
            set.fresh(staleness_max).await;
        }
    }

    #[inline]
    fn access_generation(&self) -> u64 {
        self.access.generation()
    }

    fn has_users(&self) -> bool {
        self.has_any_user()
    }

    fn known_user(&self, name: &UserName) -> Option<Arc<AccessUser>> {
        self.access.known(name)
    }

    fn read_user(&self, name: &UserName) -> CommandResult<Option<Arc<AccessUser>>> {
        self.stored_user(name)
    }

    fn read_credentials(&self, name: &UserName) -> CommandResult<Option<UserCredentials>> {
        self.stored_credentials(name)
    }

    fn login_secret(&self) -> CommandResult<Vec<u8>> {
        self.stored_secret()
    }

    fn complete(&self, concern: WriteConcern) -> WriteConcern {
        match &self.member {
            Some(member) => member.complete(concern),
            None => concern,
        }
    }
}

impl DataNode {
    /// The documents of this catalog.
    pub fn new(catalog: Arc<Catalog>, parameters: &Parameters) -> Self {
        DataNode {
            member: None,
            spill: Spill::beside_data(parameters, catalog.store()),
            store: catalog.store().clone(),
            newest: ReadSource::Latest(catalog.store().clone()),
            retry_table: None,
            ttl: TtlFigures::default(),
            calendar: CalendarBoard::default(),
            resumed_build: ResumedBuild::default(),
            old_keys: OldKeys::default(),
            access: AccessCache::default(),
            catalog,
        }
    }

    /// From now on changes are told to the log of a set, and writes may have transaction numbers.
    #[must_use]
    pub fn of_a_set(self, sessions: Arc<RetryTable>) -> Self {
        DataNode { retry_table: Some(sessions), ..self }
    }

    /// What writes for clients are given, and what the server writes for all members of its set.
    pub(crate) fn writing<'o>(&'o self, receipts: &'o Receipts) -> OperationContext<'o> {
        let observer = self.retry_table.as_ref().map(|_| &OplogObserver as &dyn ChangeObserver);
        OperationContext { observer, ..OperationContext::writing(&self.store, receipts) }
    }

    /// As a member of this set.
    #[must_use]
    pub fn member_of(self, set: ReplicaSet) -> Self {
        let node = self.of_a_set(Arc::clone(set.sessions()));
        let access = AccessCache::of_generation(set.access_changes());
        DataNode { member: Some(SetMember::new(set, node.store.clone())), access, ..node }
    }

    /// The set that the server is a member of.
    #[inline]
    pub fn replica_set(&self) -> Option<&ReplicaSet> {
        self.member.as_ref().map(|member| &member.set)
    }
}
