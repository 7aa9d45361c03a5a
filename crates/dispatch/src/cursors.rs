//! Open cursors: who owns them, who uses them now, and when they end.

use crate::client::Client;
use crate::context::{BatchContext, CommandContext};
use crate::error::{CommandError, CommandResult, code};
use crate::node::Node;
use crate::sessions::LogicalSessionId;
use access::UserName;
use document::{ArrayBuilder, DocumentBuf, DocumentBuilder, ElementType, RawArray, RawDocument, Timestamp};
use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use crate::batch::{Batch, BatchEnd, check_size};

/// A boxed future of a cursor.
pub type BatchFuture<'a> = Pin<Box<dyn Future<Output = CommandResult<BatchEnd>> + Send + 'a>>;

/// What gives a cursor its documents. `find`, `aggregate` and the list commands put their suspended state
/// here.
pub trait BatchProducer<N: Node>: Send {
    /// Whether batches may begin in an event loop: the source then reads no further than its turns allow.
    /// Others fill their batches where they may block.
    fn begins_inline(&self) -> bool {
        false
    }

    /// Appends documents until the batch is full, the source is exhausted or (tailable) has nothing more for
    /// now. A document that [`Batch::push`] refuses is kept for the next batch.
    fn fill<'a>(&'a mut self, context: &'a BatchContext<'a, N>, batch: &'a mut Batch<'_>) -> BatchFuture<'a>;
}

/// A source over documents that are all known: the list commands.
#[derive(Debug)]
pub struct FixedDocuments {
    documents: std::iter::Peekable<std::vec::IntoIter<DocumentBuf>>,
}

impl FixedDocuments {
    /// A source of these documents.
    pub fn new(documents: Vec<DocumentBuf>) -> Self {
        FixedDocuments { documents: documents.into_iter().peekable() }
    }

    /// Appends what fits.
    pub fn fill_now(&mut self, batch: &mut Batch<'_>) -> BatchEnd {
        while let Some(document) = self.documents.peek() {
            if !batch.push(document.as_raw()) {
                return BatchEnd::More;
            }
            self.documents.next();
        }
        BatchEnd::Exhausted
    }
}

impl<N: Node> BatchProducer<N> for FixedDocuments {
    fn fill<'a>(
        &'a mut self,
        _context: &'a BatchContext<'a, N>,
        batch: &'a mut Batch<'_>,
    ) -> BatchFuture<'a> {
        let end = self.fill_now(batch);
        Box::pin(std::future::ready(Ok(end)))
    }
}

/// A source that ended because of what happened to its collection.
#[derive(Debug)]
struct Failed(CommandError);

impl<N: Node> BatchProducer<N> for Failed {
    fn begins_inline(&self) -> bool {
        true
    }

    fn fill<'a>(
        &'a mut self,
        _context: &'a BatchContext<'a, N>,
        _batch: &'a mut Batch<'_>,
    ) -> BatchFuture<'a> {
        Box::pin(std::future::ready(Err(self.0.clone())))
    }
}

/// Appends `cursor: {id, ns, firstBatch}` over documents that are all known, and keeps a cursor for what does
/// not fit.
///
/// # Errors
/// Those of [`BatchProducer::fill`]: none here.
pub fn open_fixed<N: Node>(
    context: &CommandContext<'_, N>,
    reply: &mut DocumentBuilder<'_>,
    namespace: &str,
    documents: Vec<DocumentBuf>,
    batch_size: Option<usize>,
) -> CommandResult {
    let mut source = FixedDocuments::new(documents);
    // The cursor's number stands in front of the batch and is known behind it.
    let mut bytes = Vec::new();
    let mut batch = Batch::new(ArrayBuilder::new(&mut bytes), batch_size.unwrap_or(usize::MAX));
    let end = source.fill_now(&mut batch);
    drop(batch);
    let id = match end {
        BatchEnd::Exhausted => 0,
        BatchEnd::More => {
            let session = context.generic.session;
            let mut cursor = ClientCursor::new(namespace, session, context.body, Box::new(source));
            cursor.owner = context.client.access.user_name();
            context.server.cursors.open(cursor)
        }
    };
    let mut cursor = reply.start_document("cursor");
    cursor.append("id", id).append("ns", namespace);
    cursor.append("firstBatch", RawArray::from_document(RawDocument::trusted(&bytes)));
    Ok(())
}

/// An open cursor and what is known of it.
pub struct ClientCursor<N: Node> {
    /// `database.collection`, as replies name it.
    pub namespace: String,
    /// The owning session.
    pub session: Option<LogicalSessionId>,
    /// Who opened it, if anybody was logged in.
    pub owner: Option<UserName>,
    /// Never closed for idleness.
    pub no_timeout: bool,
    /// Waits for documents that come later (capped collections).
    pub tailable: bool,
    /// A `getMore` waits a while when there is nothing new.
    pub await_data: bool,
    /// The command that opened it, for `currentOp`.
    pub originating_command: DocumentBuf,
    /// Documents returned so far.
    pub returned: u64,
    /// Batches returned so far.
    pub batches: u64,
    /// When it was opened.
    pub created: Instant,
    /// What is left of the time limit (`maxTimeMS`) of the command that opened it, for all batches together.
    pub time_left: Option<Duration>,
    /// What all its batches are read from, and of which time that is: read concern `snapshot`.
    pub snapshot: Option<(N::Source, Timestamp)>,
    /// Where the documents come from.
    pub source: Box<dyn BatchProducer<N>>,
}

impl<N: Node> ClientCursor<N> {
    /// A cursor over `source`, opened by this command.
    pub fn new(
        namespace: impl Into<String>,
        session: Option<LogicalSessionId>,
        originating_command: RawDocument<'_>,
        source: Box<dyn BatchProducer<N>>,
    ) -> Self {
        /// A longer command is not kept.
        const KEPT_COMMAND_BYTES: usize = 4096;
        let kept = originating_command.as_bytes().len() <= KEPT_COMMAND_BYTES;
        ClientCursor {
            namespace: namespace.into(),
            session,
            owner: None,
            no_timeout: false,
            tailable: false,
            await_data: false,
            originating_command: if kept { originating_command.to_buf() } else { DocumentBuf::default() },
            returned: 0,
            batches: 1,
            created: ambient::now(),
            time_left: None,
            snapshot: None,
            source,
        }
    }
}

impl<N: Node> std::fmt::Debug for ClientCursor<N> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ClientCursor").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// What `currentOp {idleCursors: true}` and `killCursors` see of a cursor.
#[derive(Debug, Clone)]
pub struct CursorReport {
    /// The cursor's number.
    pub id: i64,
    /// `database.collection`.
    pub namespace: String,
    /// The owning session.
    pub session: Option<LogicalSessionId>,
    /// Who opened it.
    pub owner: Option<UserName>,
    /// Waits for later documents.
    pub tailable: bool,
    /// Never closed for idleness.
    pub no_timeout: bool,
    /// Documents returned so far.
    pub returned: u64,
    /// The command that opened it.
    pub originating_command: DocumentBuf,
    /// When it was opened.
    pub created: Instant,
}

#[derive(Debug)]
enum Entry<N: Node> {
    Idle {
        cursor: Box<ClientCursor<N>>,
        last_use: Instant,
    },
    Pinned {
        session: Option<LogicalSessionId>,
        namespace: String,
        owner: Option<UserName>,
        doom: Option<Doom>,
        user: Option<Arc<Client>>,
    },
}

/// What awaits a cursor that is in use.
#[derive(Debug, Clone)]
enum Doom {
    /// Somebody killed it.
    Killed,
    /// Its collection is gone.
    Failed(CommandError),
}

const SHARDS: usize = 16;

/// All open cursors.
#[derive(Debug)]
pub struct Cursors<N: Node> {
    /// Each guards its share of the cursors. A cursor in use is taken out, so that nothing waits for it here.
    shards: [Mutex<HashMap<i64, Entry<N>>>; SHARDS],
    opened: AtomicU64,
    timed_out: AtomicU64,
}

/// Figures for `serverStatus.metrics.cursor`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CursorFigures {
    /// Opened since the start.
    pub opened: u64,
    /// Closed for idleness since the start.
    pub timed_out: u64,
    /// Open now.
    pub open: u64,
    /// In use now.
    pub pinned: u64,
    /// Open now, without time-out.
    pub no_timeout: u64,
}

impl<N: Node> Default for Cursors<N> {
    fn default() -> Self {
        Cursors {
            shards: std::array::from_fn(|_| Mutex::default()),
            opened: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
        }
    }
}

impl<N: Node> Cursors<N> {
    #[expect(clippy::indexing_slicing, reason = "the remainder is below the number of shards")]
    fn shard(&self, id: i64) -> &Mutex<HashMap<i64, Entry<N>>> {
        &self.shards[id.unsigned_abs() as usize % SHARDS]
    }

    /// Registers a cursor and returns its number.
    pub fn open(&self, cursor: ClientCursor<N>) -> i64 {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let mut cursor = Some(Box::new(cursor));
        loop {
            let id = random_id();
            let mut shard = self.shard(id).lock();
            if let hashbrown::hash_map::Entry::Vacant(vacant) = shard.entry(id)
                && let Some(cursor) = cursor.take()
            {
                vacant.insert(Entry::Idle { cursor, last_use: ambient::now() });
                return id;
            }
        }
    }

    /// Takes a cursor for a `getMore`.
    ///
    /// # Errors
    /// `CursorNotFound`, `CursorInUse`, `Unauthorized` for another namespace, 50736–50738 for another
    /// session.
    pub fn pin(
        &self,
        id: i64,
        namespace: &str,
        session: Option<LogicalSessionId>,
    ) -> CommandResult<PinnedCursor<'_, N>> {
        let mut shard = self.shard(id).lock();
        let Some(entry) = shard.get_mut(&id) else { return Err(not_found(id)) };
        let Entry::Idle { cursor, .. } = entry else {
            let message = format!("cursor id {id} is already in use");
            return Err(CommandError::new(wire::ErrorCode::CursorInUse as i32, message));
        };
        if cursor.namespace != namespace {
            let message = format!(
                "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace \
                {}",
                cursor.namespace
            );
            return Err(CommandError::new(code::UNAUTHORIZED, message));
        }
        check_session(id, cursor.session, session)?;
        let (session, namespace, owner) = (cursor.session, cursor.namespace.clone(), cursor.owner.clone());
        let pinned = Entry::Pinned { session, namespace, owner, doom: None, user: None };
        match std::mem::replace(entry, pinned) {
            Entry::Idle { cursor, .. } => Ok(PinnedCursor { cursors: self, id, cursor: Some(cursor) }),
            Entry::Pinned { .. } => unreachable!("cursor {id} was idle under the same lock"),
        }
    }

    /// Closes a cursor. One in use ends when its user gives it back, and its user is told to end. False when
    /// there is none.
    pub fn kill(&self, id: i64) -> bool {
        let mut shard = self.shard(id).lock();
        let removed = match shard.get_mut(&id) {
            None => return false,
            Some(Entry::Pinned { doom, user, .. }) => {
                *doom = Some(Doom::Killed);
                // Under the lock, so that the user still runs the operation that has the cursor.
                if let Some(user) = user {
                    user.interrupt.kill(code::CURSOR_KILLED);
                }
                None
            }
            Some(Entry::Idle { .. }) => shard.remove(&id),
        };
        drop(shard);
        drop(removed);
        true
    }

    /// Whether a cursor that is in use was ended meanwhile.
    pub(crate) fn is_killed(&self, id: i64) -> bool {
        matches!(self.shard(id).lock().get(&id), Some(Entry::Pinned { doom: Some(_), .. }))
    }

    /// The namespace of a cursor, and who opened it.
    pub fn namespace(&self, id: i64) -> Option<(String, Option<UserName>)> {
        match self.shard(id).lock().get(&id)? {
            Entry::Idle { cursor, .. } => Some((cursor.namespace.clone(), cursor.owner.clone())),
            Entry::Pinned { namespace, owner, .. } => Some((namespace.clone(), owner.clone())),
        }
    }

    /// Closes the cursors that `chosen` picks by namespace and session. Returns how many.
    pub fn kill_where(&self, mut chosen: impl FnMut(&str, Option<LogicalSessionId>) -> bool) -> usize {
        let mut closed = Vec::new();
        let mut count = 0;
        for shard in &self.shards {
            let mut shard = shard.lock();
            let mut ids = Vec::new();
            for (id, entry) in shard.iter_mut() {
                match entry {
                    Entry::Idle { cursor, .. } if chosen(&cursor.namespace, cursor.session) => ids.push(*id),
                    Entry::Pinned { session, namespace, doom, .. } if chosen(namespace, *session) => {
                        *doom = Some(Doom::Killed);
                        count += 1;
                    }
                    _ => {}
                }
            }
            closed.extend(ids.into_iter().filter_map(|id| shard.remove(&id)));
        }
        count + closed.len()
    }

    /// Ends the cursors of namespaces that `failed` knows an error for. The next `getMore` tells it and
    /// closes the cursor; what the cursor held is given up at once.
    pub fn fail_where(&self, mut failed: impl FnMut(&str) -> Option<CommandError>) {
        let mut given_up = Vec::new();
        for shard in &self.shards {
            for entry in shard.lock().values_mut() {
                match entry {
                    Entry::Idle { cursor, .. } => {
                        if let Some(error) = failed(&cursor.namespace) {
                            given_up.push(std::mem::replace(&mut cursor.source, Box::new(Failed(error))));
                        }
                    }
                    Entry::Pinned { namespace, doom, .. } => {
                        if let Some(error) = failed(namespace) {
                            *doom = Some(Doom::Failed(error));
                        }
                    }
                }
            }
        }
    }

    /// Closes what nobody used for `timeout`. Returns how many.
    pub fn expire(&self, now: Instant, timeout: Duration) -> usize {
        let mut expired = Vec::new();
        for shard in &self.shards {
            expired.extend(shard.lock().extract_if(|_, entry| match entry {
                Entry::Idle { cursor, last_use } => {
                    !cursor.no_timeout && now.saturating_duration_since(*last_use) >= timeout
                }
                Entry::Pinned { .. } => false,
            }));
        }
        self.timed_out.fetch_add(expired.len() as u64, Ordering::Relaxed);
        expired.len()
    }

    /// The figures of `serverStatus`.
    pub fn figures(&self) -> CursorFigures {
        let mut figures = CursorFigures {
            opened: self.opened.load(Ordering::Relaxed),
            timed_out: self.timed_out.load(Ordering::Relaxed),
            ..CursorFigures::default()
        };
        for shard in &self.shards {
            for entry in shard.lock().values() {
                figures.open += 1;
                match entry {
                    Entry::Pinned { .. } => figures.pinned += 1,
                    Entry::Idle { cursor, .. } => figures.no_timeout += u64::from(cursor.no_timeout),
                }
            }
        }
        figures
    }

    /// The cursors that nobody uses now.
    pub fn idle(&self) -> Vec<CursorReport> {
        let mut views = Vec::new();
        for shard in &self.shards {
            for (id, entry) in shard.lock().iter() {
                if let Entry::Idle { cursor, .. } = entry {
                    views.push(CursorReport {
                        id: *id,
                        namespace: cursor.namespace.clone(),
                        session: cursor.session,
                        owner: cursor.owner.clone(),
                        tailable: cursor.tailable,
                        no_timeout: cursor.no_timeout,
                        returned: cursor.returned,
                        originating_command: cursor.originating_command.clone(),
                        created: cursor.created,
                    });
                }
            }
        }
        views
    }

    /// A user gives a cursor back.
    fn unpin(&self, id: i64, cursor: Option<Box<ClientCursor<N>>>) {
        let mut shard = self.shard(id).lock();
        let Some(Entry::Pinned { doom, .. }) = shard.get(&id) else {
            panic!("cursor {id} is given back and was not in use");
        };
        let killed = doom.is_some();
        match cursor {
            Some(cursor) if !killed => {
                shard.insert(id, Entry::Idle { cursor, last_use: ambient::now() });
            }
            closed => {
                shard.remove(&id);
                drop(shard);
                drop(closed);
            }
        }
    }
}

/// Appends the `ns` of a cursor without making a string of it.
pub fn append_namespace(cursor: &mut DocumentBuilder<'_>, database: &str, name: &str) {
    let length = database.len() + 1 + name.len() + 1;
    let mut value: SmallVec<[u8; 128]> = SmallVec::new();
    value.extend_from_slice(&(length as u32).to_le_bytes());
    value.extend_from_slice(database.as_bytes());
    value.push(b'.');
    value.extend_from_slice(name.as_bytes());
    value.push(0);
    cursor.append_raw(ElementType::String, b"ns", &value);
}

/// `QueryPlanKilled` (175): the collection of a cursor was dropped.
pub fn collection_dropped(uuid: uuid::Uuid) -> CommandError {
    CommandError::new(code::QUERY_PLAN_KILLED, format!("collection dropped. UUID {uuid}"))
}

/// `QueryPlanKilled` (175): the collection of a cursor has another name.
pub fn collection_renamed(from: &str, to: &str, uuid: uuid::Uuid) -> CommandError {
    let message = format!("collection renamed from '{from}' to '{to}'. UUID {uuid}");
    CommandError::new(code::QUERY_PLAN_KILLED, message)
}

/// `CursorNotFound` (43).
pub fn not_found(id: i64) -> CommandError {
    CommandError::new(code::CURSOR_NOT_FOUND, format!("cursor id {id} not found"))
}

fn check_session(
    id: i64,
    owner: Option<LogicalSessionId>,
    caller: Option<LogicalSessionId>,
) -> CommandResult {
    let (code, message) = match (owner, caller) {
        (owner, caller) if owner == caller => return Ok(()),
        (None, Some(caller)) => (
            50736,
            format!(
                "Cannot run getMore on cursor {id}, which was not created in a session, in session {caller}"
            ),
        ),
        (Some(owner), None) => (
            50737,
            format!(
                "Cannot run getMore on cursor {id}, which was created in session {owner}, without an lsid"
            ),
        ),
        (owner, caller) => {
            let [owner, caller] =
                [owner, caller].map(|known| known.unwrap_or(LogicalSessionId::of_nobody([0; 16])));
            (
                50738,
                format!(
                    "Cannot run getMore on cursor {id}, which was created in session {owner}, in session \
                    {caller}"
                ),
            )
        }
    };
    Err(CommandError::new(code, message))
}

/// Cursor numbers are random, positive and not zero.
fn random_id() -> i64 {
    (i64::from_le_bytes(ambient::random_bytes()) & i64::MAX).max(1)
}

/// A cursor in use. Dropping it gives the cursor back; [`PinnedCursor::close`] ends it.
#[derive(Debug)]
pub struct PinnedCursor<'r, N: Node> {
    cursors: &'r Cursors<N>,
    id: i64,
    cursor: Option<Box<ClientCursor<N>>>,
}

impl<N: Node> PinnedCursor<'_, N> {
    /// The cursor.
    pub fn cursor(&mut self) -> &mut ClientCursor<N> {
        self.cursor.as_deref_mut().expect("a cursor is there until it is closed, which takes what holds it")
    }

    /// Tells whose operation a kill of the cursor ends.
    pub(crate) fn set_user(&self, client: &Arc<Client>) {
        match self.cursors.shard(self.id).lock().get_mut(&self.id) {
            Some(Entry::Pinned { user, .. }) => *user = Some(Arc::clone(client)),
            other => panic!("cursor {} is in use and is noted as {other:?}", self.id),
        }
    }

    /// Ends the cursor.
    pub fn close(mut self) {
        self.cursor = None;
    }

    /// What ended it meanwhile: somebody killed it, or its collection is gone.
    pub fn end(&self) -> Option<CommandError> {
        let killed = || CommandError::new(code::CURSOR_KILLED, "cursor was killed while it was in use");
        match self.cursors.shard(self.id).lock().get(&self.id) {
            Some(Entry::Pinned { doom: Some(Doom::Killed), .. }) => Some(killed()),
            Some(Entry::Pinned { doom: Some(Doom::Failed(error)), .. }) => Some(error.clone()),
            _ => None,
        }
    }
}

impl<N: Node> Drop for PinnedCursor<'_, N> {
    fn drop(&mut self) {
        // After a panic nobody knows how far it has come: the next batch might leave documents out.
        let cursor = self.cursor.take().filter(|_| !std::thread::panicking());
        self.cursors.unpin(self.id, cursor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(session: Option<LogicalSessionId>) -> ClientCursor<()> {
        ClientCursor::new("db.c", session, RawDocument::EMPTY, Box::new(FixedDocuments::new(Vec::new())))
    }

    fn check(
        namespace: &str,
        owner: Option<LogicalSessionId>,
        caller: Option<LogicalSessionId>,
        expect: Option<i32>,
    ) {
        let cursors = Cursors::<()>::default();
        let id = cursors.open(cursor(owner));
        assert_eq!(cursors.pin(id, namespace, caller).err().map(|error| error.code), expect);
    }

    #[test]
    fn only_the_owner_uses_a_cursor() {
        let (one, other) =
            (Some(LogicalSessionId::of_nobody([1; 16])), Some(LogicalSessionId::of_nobody([2; 16])));
        check("db.c", one, one, None);
        check("db.c", None, None, None);
        check("db.d", None, None, Some(13));
        check("db.c", None, one, Some(50736));
        check("db.c", one, None, Some(50737));
        check("db.c", one, other, Some(50738));
    }

    #[test]
    fn pinned_cursors_are_taken_out() {
        let cursors = Cursors::<()>::default();
        let id = cursors.open(cursor(None));
        let pinned = cursors.pin(id, "db.c", None).expect("idle");
        assert_eq!(cursors.pin(id, "db.c", None).expect_err("in use").code, 143);
        assert_eq!(
            cursors.figures(),
            CursorFigures { opened: 1, open: 1, pinned: 1, ..CursorFigures::default() }
        );
        drop(pinned);
        cursors.pin(id, "db.c", None).expect("given back").close();
        assert_eq!(cursors.pin(id, "db.c", None).expect_err("closed").code, 43);
    }

    #[test]
    fn a_panic_closes_the_cursor_that_was_in_use() {
        let cursors = Cursors::<()>::default();
        let id = cursors.open(cursor(None));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut pinned = cursors.pin(id, "db.c", None).expect("idle");
            pinned.cursor().returned += 1;
            panic!("half a batch");
        }));
        assert!(panicked.is_err());
        assert_eq!(cursors.pin(id, "db.c", None).expect_err("nobody goes on from it").code, 43);
    }

    #[test]
    fn kill_reaches_cursors_in_use() {
        let cursors = Cursors::<()>::default();
        let id = cursors.open(cursor(Some(LogicalSessionId::of_nobody([1; 16]))));
        let pinned = cursors.pin(id, "db.c", Some(LogicalSessionId::of_nobody([1; 16]))).expect("idle");
        assert_eq!(cursors.kill_where(|_, session| session == Some(LogicalSessionId::of_nobody([1; 16]))), 1);
        assert_eq!(pinned.end().map(|error| error.code), Some(code::CURSOR_KILLED));
        drop(pinned);
        assert_eq!(cursors.figures().open, 0, "a killed cursor does not come back");
    }

    #[test]
    fn cursors_tell_what_became_of_their_collection() {
        let cursors = Cursors::<()>::default();
        let (idle, used) = (cursors.open(cursor(None)), cursors.open(cursor(None)));
        let pinned = cursors.pin(used, "db.c", None).expect("idle");
        let uuid = uuid::Uuid::nil();
        cursors.fail_where(|namespace| (namespace == "db.c").then(|| collection_dropped(uuid)));
        let expect = "collection dropped. UUID 00000000-0000-0000-0000-000000000000";
        assert_eq!(pinned.end().map(|error| error.message.into_owned()).as_deref(), Some(expect));
        drop(pinned);
        assert_eq!(cursors.pin(used, "db.c", None).expect_err("it was told").code, 43);
        assert!(cursors.pin(idle, "db.c", None).is_ok(), "an idle one waits to tell it");
    }

    #[test]
    fn kill_ends_the_operation_of_who_uses_a_cursor() {
        let cursors = Cursors::<()>::default();
        let user = Arc::new(Client::new(1, "test", Arc::new(crate::host::Detached)));
        let id = cursors.open(cursor(None));
        let pinned = cursors.pin(id, "db.c", None).expect("idle");
        pinned.set_user(&user);
        assert!(cursors.kill(id));
        assert_eq!(user.interrupt.check().map_err(|error| error.code), Err(237));
        drop(pinned);
        user.interrupt.reset();
        assert!(!cursors.kill(id), "it is gone");
        assert!(user.interrupt.check().is_ok(), "what its former user does now goes on");
    }

    #[test]
    fn idle_cursors_expire() {
        let cursors = Cursors::<()>::default();
        cursors.open(cursor(None));
        cursors.open(ClientCursor { no_timeout: true, ..cursor(None) });
        let later = Instant::now() + Duration::from_secs(601);
        assert_eq!(cursors.expire(later, Duration::from_secs(600)), 1);
        assert_eq!(cursors.figures().no_timeout, 1);
    }
}
