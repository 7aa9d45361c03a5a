//! What a server is beside its commands: the place of its documents, or the way to them.

use crate::command::Command;
use crate::concern::{ReadConcern, WriteConcern};
use crate::error::{CommandError, CommandResult};
use crate::freshness::ReadFreshness;
use crate::role::{ReplyTimes, Role};
use access::{AccessUser, UserCredentials, UserName};
use document::{Document, DocumentBuilder, Timestamp};
use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// What the commands of a server work on. A node with documents has its catalog and its store here; one that
/// only passes requests on has others. It is known when the program is compiled: a command reaches it without
/// a detour.
pub trait Node: Debug + Send + Sync + Sized + 'static {
    /// What an operation reads from.
    type Source: Debug + Clone + Send + Sync;

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

    /// Whether there is something to wait for after a command that takes a write concern, on this database;
    /// `None` when it was given none.
    fn awaits(&self, concern: Option<&WriteConcern>, _database: &str) -> bool {
        concern.is_some_and(WriteConcern::is_journaled)
    }

    /// Waits until all that an operation has written is as safe as its write concern wants it.
    ///
    /// # Errors
    /// When it will not be.
    fn acknowledged(
        &self,
        receipts: &Self::Receipts,
        concern: &WriteConcern,
        database: &str,
    ) -> impl Future<Output = CommandResult> + Send;

    /// How long an operation has waited for its writes so far.
    fn waited(receipts: &Self::Receipts) -> Duration;

    /// What this server is in its replica set; `None` for one that was not started as a member, of which
    /// nothing below is asked.
    #[inline]
    fn role(&self) -> Option<Role> {
        None
    }

    /// What a read of this database is to be read from instead of [`Node::source`]: of a secondary, the last
    /// whole batch.
    #[inline]
    fn source_of_secondary(&self, _database: &str) -> Option<Self::Source> {
        None
    }

    /// `topologyVersion.counter`: grows whenever `hello` has something new to tell.
    fn topology_counter(&self) -> i64 {
        0
    }

    /// Waits until the counter is greater than this.
    fn topology_changed(&self, _counter: i64) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Writes what `hello` tells of a member of a set; `writable` is how it calls whether it takes writes.
    fn write_hello(&self, _writable: &str, _reply: &mut DocumentBuilder<'_>) {}

    /// What it does beside the operations of its clients, as `currentOp` tells it of each.
    fn background_operations(&self) -> Vec<Document> {
        Vec::new()
    }

    /// The times that a reply tells.
    #[inline]
    fn reply_times(&self) -> Option<ReplyTimes> {
        None
    }

    /// Somebody has heard of this time.
    ///
    /// # Errors
    /// A time that is too far from that of the clock.
    fn observe_cluster_time(&self, _time: Timestamp) -> CommandResult {
        Ok(())
    }

    /// Waits until the data are as new as a read concern wants them.
    ///
    /// # Errors
    /// When they will not be here.
    fn readable(&self, _concern: ReadConcern) -> impl Future<Output = CommandResult> + Send {
        std::future::ready(Ok(()))
    }

    /// What a read of read concern `snapshot` reads from: the data as of a time up to which they are
    /// [readable](Node::readable), or now; and which time that is. May block where a time is given.
    ///
    /// # Errors
    /// When that is not to be had.
    fn snapshot(&self, _at: Option<Timestamp>) -> CommandResult<(Self::Source, Timestamp)> {
        Err(CommandError::internal("a server alone has refused read concern snapshot before"))
    }

    /// Waits while a secondary applies a batch, which no reader needs to.
    fn between_batches(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// How fresh the data are to be for reads that do not say so.
    #[inline]
    fn read_freshness(&self) -> Option<ReadFreshness> {
        None
    }

    /// How old the data may be; `None` where that is not known.
    fn staleness(&self) -> Option<Duration> {
        None
    }

    /// Waits until the data are not older.
    fn fresh(&self, _staleness_max: Duration) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Changes whenever a user or a role may have changed, so that what is kept of them is asked for anew.
    #[inline]
    fn access_generation(&self) -> u64 {
        0
    }

    /// Whether there is any user: without one, whoever is on this machine may make the first one.
    fn has_users(&self) -> bool {
        false
    }

    /// A user, if what is kept of it is of this generation; without reading the disk.
    fn known_user(&self, _name: &UserName) -> Option<Arc<AccessUser>> {
        None
    }

    /// A user as it is stored now. May block.
    ///
    /// # Errors
    /// Storage errors.
    fn read_user(&self, _name: &UserName) -> CommandResult<Option<Arc<AccessUser>>> {
        Ok(None)
    }

    /// What checks the passwords of a user as it is stored now, and nothing else of it. May block.
    ///
    /// # Errors
    /// Storage errors.
    fn read_credentials(&self, name: &UserName) -> CommandResult<Option<UserCredentials>> {
        Ok(self.read_user(name)?.map(|user| user.credentials().clone()))
    }

    /// What gives users that do not exist their salts: a secret of the deployment. May block.
    ///
    /// # Errors
    /// Storage errors.
    fn login_secret(&self) -> CommandResult<Vec<u8>> {
        Ok(Vec::new())
    }

    /// The write concern with what it does not say.
    fn complete(&self, concern: WriteConcern) -> WriteConcern {
        concern
    }
}
