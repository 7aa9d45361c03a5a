//! What the server knows of one client connection, and the operation it runs now.

use crate::authorization::ClientAccess;
use crate::host::ClientLink;
use crate::interrupt::Interrupt;
use crate::sessions::LogicalSessionId;
use document::{DocumentBuf, RawDocument};
use parking_lot::Mutex;
use query::QueryError;
use query::checkpoint::Watch;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use uuid::Uuid;

/// How many bytes of a command `currentOp` keeps.
const SHOWN_COMMAND_BYTES: usize = 4096;

/// One client connection. Replies leave in the order of the requests, so that there is one operation at a
/// time.
#[derive(Debug)]
pub struct Client {
    /// Numbered from 1 in the order of arrival; `connectionId` of `hello`.
    pub id: i64,
    /// The client's address as text, `anonymous unix socket` for Unix sockets.
    pub remote: String,
    /// What the client told about itself in its first `hello`: `{application, driver, os, …}`.
    client_metadata: OnceLock<DocumentBuf>,
    said_hello: AtomicBool,
    /// The client backs off when it is told of an overload.
    backs_off: AtomicBool,
    /// The running operation. Order of locks: this one before anything of the registries.
    operation: Mutex<Option<Box<RunningOperation>>>,
    /// Who it is.
    pub access: ClientAccess,
    /// The switch of the running operation.
    pub interrupt: Interrupt,
    /// The cursor whose batches are streamed to the client; 0: none is.
    streamed_cursor: AtomicI64,
    /// What the audit log calls it.
    audit_id: OnceLock<Uuid>,
    /// The way back to the transport.
    pub link: Arc<dyn ClientLink>,
}

/// What is known of a running operation. The records go round among a thread's clients: one that each of
/// thousands kept for itself would have left the processor's caches by its next command.
#[derive(Debug)]
struct RunningOperation {
    id: i64,
    command_name: &'static str,
    started: Instant,
    session: Option<LogicalSessionId>,
    has_namespace: bool,
    message: Option<String>,
    progress: Option<(u64, u64)>,
    fail_point: Option<&'static str>,
    texts: OperationTexts,
}

#[derive(Debug, Default)]
struct OperationTexts {
    command: Vec<u8>,
    database: String,
    namespace: String,
}

/// Records that a thread keeps: as many operations as an event loop has under way in one turn.
const KEPT_RECORDS: usize = 256;

thread_local! {
    /// Of operations that have ended on this thread.
    #[expect(clippy::vec_box, reason = "a client holds a pointer, and the box goes to the next one")]
    static RECORDS: RefCell<Vec<Box<RunningOperation>>> = const { RefCell::new(Vec::new()) };
}

impl RunningOperation {
    /// A record of the operation that begins.
    fn begin(start: &OperationStart<'_>) -> Box<Self> {
        let kept = RECORDS.try_with(|records| records.borrow_mut().pop()).ok().flatten();
        match kept {
            Some(mut record) => {
                *record = Self::new(std::mem::take(&mut record.texts), start);
                record
            }
            None => Box::new(Self::new(OperationTexts::default(), start)),
        }
    }

    fn new(mut texts: OperationTexts, start: &OperationStart<'_>) -> Self {
        texts.command.clear();
        if start.command.len() <= SHOWN_COMMAND_BYTES {
            texts.command.extend_from_slice(start.command);
        }
        texts.database.clear();
        texts.database.push_str(start.database);
        Self {
            id: start.id,
            command_name: start.command_name,
            started: start.started,
            session: start.session,
            has_namespace: false,
            message: None,
            progress: None,
            fail_point: None,
            texts,
        }
    }

    fn end(self: Box<Self>) {
        // Fails only while the thread ends.
        let _ = RECORDS.try_with(|records| {
            let mut records = records.borrow_mut();
            if records.len() < KEPT_RECORDS {
                records.push(self);
            }
        });
    }
}

/// A copy of what an operation looked like at one moment, for `currentOp`.
#[derive(Debug, Clone)]
pub struct OperationReport {
    /// `opid`.
    pub id: i64,
    /// The canonical command name.
    pub command_name: &'static str,
    /// `$db`.
    pub database: String,
    /// When it began.
    pub started: Instant,
    /// Its logical session.
    pub session: Option<LogicalSessionId>,
    /// `database.collection`, when the command works on one.
    pub namespace: Option<String>,
    /// Progress text such as an index build's.
    pub message: Option<String>,
    /// Done and total of that progress.
    pub progress: Option<(u64, u64)>,
    /// The fail point that it waits at.
    pub fail_point: Option<&'static str>,
    /// The command document; `None` when it was too long to keep.
    pub command: Option<DocumentBuf>,
    /// Whether it was told to end.
    pub is_killed: bool,
}

impl Client {
    /// A connection that just arrived.
    pub fn new(id: i64, remote: impl Into<String>, link: Arc<dyn ClientLink>) -> Self {
        Client {
            id,
            remote: remote.into(),
            client_metadata: OnceLock::new(),
            said_hello: AtomicBool::new(false),
            backs_off: AtomicBool::new(false),
            operation: Mutex::new(None),
            access: ClientAccess::default(),
            interrupt: Interrupt::new(Arc::clone(&link)),
            streamed_cursor: AtomicI64::new(0),
            audit_id: OnceLock::new(),
            link,
        }
    }

    /// `conn7`, as log lines and `currentOp` name it.
    pub fn description(&self) -> String {
        format!("conn{}", self.id)
    }

    /// What the audit log calls this connection: one `uuid` for all that it causes.
    pub(crate) fn audit_id(&self) -> Uuid {
        *self.audit_id.get_or_init(ambient::uuid)
    }

    /// What the client told about itself.
    pub fn client_metadata(&self) -> Option<RawDocument<'_>> {
        self.client_metadata.get().map(DocumentBuf::as_raw)
    }

    /// Stores the client's description. False when there is one already.
    pub fn set_client_metadata(&self, metadata: RawDocument<'_>) -> bool {
        self.client_metadata.set(metadata.to_buf()).is_ok()
    }

    /// `client.application.name`.
    pub fn application_name(&self) -> Option<&str> {
        self.client_metadata()?.get("application")?.as_document()?.get("name")?.as_str()
    }

    /// Marks the first `hello`. True when this is the first.
    pub fn first_hello(&self) -> bool {
        !self.said_hello.swap(true, Ordering::Relaxed)
    }

    /// The client said `backpressure` in its `hello`.
    pub fn set_backs_off(&self) {
        self.backs_off.store(true, Ordering::Relaxed);
    }

    /// Whether the client understands refusals because of overload.
    pub fn backs_off(&self) -> bool {
        self.backs_off.load(Ordering::Relaxed)
    }

    /// The client gets the batches of this cursor unasked from now on; 0: the stream has ended.
    pub(crate) fn stream_cursor(&self, id: i64) {
        self.streamed_cursor.store(id, Ordering::Relaxed);
    }

    /// The cursor whose batches are streamed; 0: none is.
    pub(crate) fn streamed_cursor(&self) -> i64 {
        self.streamed_cursor.load(Ordering::Relaxed)
    }

    /// The canonical name of the command that runs now.
    pub fn running_command(&self) -> Option<&'static str> {
        self.operation.lock().as_ref().map(|running| running.command_name)
    }

    /// Goes to a thread that may compute for long, unless the operation is on one.
    pub async fn offload(&self) {
        poll_fn(|task| self.link.poll_offload(task)).await;
    }

    /// Goes to a thread that may block, unless the operation is on one.
    pub async fn offload_briefly(&self) {
        poll_fn(|task| self.link.poll_offload_briefly(task)).await;
    }

    /// Registers an operation until the returned guard is dropped.
    pub(crate) fn begin<'c>(&'c self, start: OperationStart<'_>) -> OperationGuard<'c> {
        self.interrupt.reset();
        let id = start.id;
        *self.operation.lock() = Some(RunningOperation::begin(&start));
        OperationGuard { client: self, id }
    }

    /// The operation that runs now.
    pub fn operation(&self) -> Option<OperationReport> {
        let operation = self.operation.lock();
        let running = operation.as_ref()?;
        let texts = &running.texts;
        Some(OperationReport {
            id: running.id,
            command_name: running.command_name,
            database: texts.database.clone(),
            started: running.started,
            session: running.session,
            namespace: running.has_namespace.then(|| texts.namespace.clone()),
            message: running.message.clone(),
            progress: running.progress,
            fail_point: running.fail_point,
            command: (!texts.command.is_empty()).then(|| DocumentBuf::trusted(texts.command.clone())),
            is_killed: self.interrupt.is_killed(),
        })
    }

    /// Ends the operation when `chosen` says so. Returns whether it did.
    pub fn kill_operation(
        &self,
        code: i32,
        chosen: impl FnOnce(i64, Option<LogicalSessionId>) -> bool,
    ) -> bool {
        let operation = self.operation.lock();
        let Some(running) = &*operation else { return false };
        let kill = chosen(running.id, running.session);
        if kill {
            self.interrupt.kill(code);
        }
        kill
    }
}

impl Watch for Client {
    fn look(&self) -> Result<(), QueryError> {
        self.interrupt.check().map_err(|error| QueryError::new(error.code, error.message))
    }

    fn ended(self: Arc<Self>) -> Pin<Box<dyn Future<Output = QueryError> + Send>> {
        Box::pin(async move {
            let error = self.interrupt.ended().await;
            QueryError::new(error.code, error.message)
        })
    }
}

/// What is known of an operation when it begins.
pub(crate) struct OperationStart<'a> {
    pub(crate) id: i64,
    pub(crate) command_name: &'static str,
    pub(crate) database: &'a str,
    pub(crate) command: &'a [u8],
    pub(crate) session: Option<LogicalSessionId>,
    pub(crate) started: Instant,
}

/// Keeps an operation registered.
#[derive(Debug)]
pub struct OperationGuard<'c> {
    client: &'c Client,
    /// `opid`.
    pub id: i64,
}

impl OperationGuard<'_> {
    /// Tells which collection the operation works on.
    pub fn set_namespace(&self, database: &str, collection: &str) {
        self.change(|running| {
            running.texts.namespace.clear();
            running.texts.namespace.extend([database, ".", collection]);
            running.has_namespace = true;
        });
    }

    /// What [`OperationGuard::set_namespace`] told.
    pub(crate) fn with_namespace<R>(&self, read: impl FnOnce(&str) -> R) -> Option<R> {
        let operation = self.client.operation.lock();
        let running = operation.as_ref().filter(|running| running.has_namespace)?;
        Some(read(&running.texts.namespace))
    }

    /// Tells how far the operation is: in words, done and total.
    pub fn set_progress(&self, message: String, done: u64, total: u64) {
        self.change(|running| {
            running.progress = Some((done, total));
            running.message = Some(message);
        });
    }

    /// Takes back what was told last of how far it is.
    pub fn clear_progress(&self) {
        self.change(|running| (running.progress, running.message) = (None, None));
    }

    /// Tells which fail point the operation waits at.
    pub(crate) fn set_fail_point(&self, name: Option<&'static str>) {
        self.change(|running| running.fail_point = name);
    }

    fn change(&self, change: impl FnOnce(&mut RunningOperation)) {
        let mut operation = self.client.operation.lock();
        let Some(running) = &mut *operation else {
            panic!("operation {} is not registered while it runs", self.id);
        };
        assert_eq!(running.id, self.id, "two operations run on connection {}", self.client.id);
        change(running);
    }
}

impl Drop for OperationGuard<'_> {
    fn drop(&mut self) {
        let ended = self.client.operation.lock().take();
        ended.into_iter().for_each(RunningOperation::end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Detached;

    fn check(client: &Client, database: &str, command: &[u8], shown: Option<&[u8]>) {
        let started = Instant::now();
        let command_name = "ping";
        let start = OperationStart { id: 7, command_name, database, command, session: None, started };
        let guard = client.begin(start);
        let seen = client.operation().expect("it runs");
        assert_eq!((seen.id, seen.database.as_str(), seen.namespace), (7, database, None));
        assert_eq!(seen.command.as_ref().map(|command| command.as_bytes()), shown);
        guard.set_namespace(database, "c");
        assert_eq!(client.operation().expect("it runs").namespace, Some(format!("{database}.c")));
        drop(guard);
        assert!(client.operation().is_none(), "it has ended");
    }

    #[test]
    fn clients_of_a_thread_share_one_record_and_see_nothing_of_each_other() {
        let [first, second] = [1, 2].map(|id| Client::new(id, "somewhere", Arc::new(Detached)));
        let command = document::doc! { "ping": 1 }.to_buf();
        check(&first, "one", command.as_bytes(), Some(command.as_bytes()));
        check(&second, "other", &[0; SHOWN_COMMAND_BYTES + 1], None);
        check(&first, "third", command.as_bytes(), Some(command.as_bytes()));
        assert_eq!(RECORDS.with_borrow(Vec::len), 1, "a record for each client");
    }
}
