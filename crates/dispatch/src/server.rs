//! All state of a running server.

use crate::audit::{logged_out, login_abandoned};
use crate::authorization::AccessControl;
use crate::client::Client;
use crate::command::{Command, CommandTable, host_info};
use crate::counters::{CollectionUsage, Counter, OperationClass, OperationCounters, Usage};
use crate::cursors::Cursors;
use crate::error::{CommandError, CommandResult, code};
use crate::failpoints::FailPoints;
use crate::host::Host;
use crate::interrupt::Interrupt;
use crate::node::Node;
use crate::parameters::{Parameter, Parameters};
use crate::sessions::{LogicalSessionId, LogicalSessions};
use crate::spans::SpanHistograms;
use crate::timers::{Sleep, Timers};
use document::ObjectId;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// How many times a command ran and failed.
#[derive(Debug, Default)]
pub struct CommandStatistics {
    /// Runs.
    pub total: Counter,
    /// Runs that ended with an error.
    pub failed: Counter,
}

/// All state of a running server. One per process.
#[derive(Debug)]
pub struct ServiceContext<N: Node> {
    /// Tunables.
    pub parameters: Arc<Parameters>,
    /// What its commands work on.
    pub node: N,
    /// Open cursors.
    pub cursors: Cursors<N>,
    /// Logical sessions.
    pub sessions: LogicalSessions,
    /// Who may do what.
    pub access: AccessControl,
    /// Faults on demand.
    pub failpoints: FailPoints,
    /// Counts by class.
    pub counters: OperationCounters,
    /// Counts and times by collection.
    pub usage: Usage,
    /// Counts and times of all.
    pub latencies: CollectionUsage,
    /// Where the time of requests goes.
    pub spans: SpanHistograms,
    /// Wakes futures at their time.
    pub timers: Timers,
    /// What `heddle` gives.
    pub host: Host,
    /// When the server started.
    pub started: Instant,
    /// `topologyVersion.processId`: new at every start.
    pub process_id: ObjectId,
    /// Open connections by number.
    clients: Mutex<HashMap<i64, Arc<Client>>>,
    commands: CommandTable<N>,
    statistics: Vec<CommandStatistics>,
    shutting_down: AtomicBool,
}

impl<N: Node> ServiceContext<N> {
    /// A server on this node, with these parameters and surroundings.
    ///
    /// # Errors
    /// When the system gives no thread for the timers.
    pub fn new(node: N, parameters: Arc<Parameters>, host: Host) -> std::io::Result<Arc<Self>> {
        Ok(Self::with_timers(node, parameters, host, Timers::start()?))
    }

    /// As [`ServiceContext::new`], with timers of the caller's.
    pub fn with_timers(node: N, parameters: Arc<Parameters>, host: Host, timers: Timers) -> Arc<Self> {
        // Facts of the machine that are in files are read before anybody waits for them.
        host_info::read_facts();
        let sessions_max = usize::try_from(parameters.unsigned(Parameter::SessionsMax)).unwrap_or(usize::MAX);
        let commands = CommandTable::of_node();
        Arc::new(ServiceContext {
            access: AccessControl::new(&parameters, host.members.as_ref()),
            parameters,
            node,
            cursors: Cursors::default(),
            sessions: LogicalSessions::new(sessions_max),
            failpoints: FailPoints::default(),
            counters: OperationCounters::default(),
            usage: Usage::default(),
            latencies: CollectionUsage::default(),
            spans: SpanHistograms::default(),
            timers,
            host,
            started: ambient::now(),
            process_id: ObjectId::new(),
            clients: Mutex::default(),
            statistics: commands.iter().map(|_| CommandStatistics::default()).collect(),
            commands,
            shutting_down: AtomicBool::new(false),
        })
    }

    /// A connection arrived.
    pub fn opened(&self, client: Arc<Client>) {
        self.clients.lock().insert(client.id, client);
    }

    /// A connection ended. A cursor whose batches it streamed ends with it: nobody else knows where the
    /// stream stopped.
    pub fn closed(&self, client: &Client) {
        self.clients.lock().remove(&client.id);
        if let Some(audit) = &self.host.audit {
            let reason = "Implicit logout due to client connection closure".to_owned();
            let events = [login_abandoned(client), logged_out(reason, client)];
            events.iter().flatten().for_each(|event| audit.queue(client, event));
        }
        client.access.log_out();
        match client.streamed_cursor() {
            0 => {}
            id => drop(self.cursors.kill(id)),
        }
    }

    /// The open connections.
    pub fn clients(&self) -> Vec<Arc<Client>> {
        self.clients.lock().values().cloned().collect()
    }

    /// How often each command ran: rows of the command table.
    pub fn statistics(&self) -> impl Iterator<Item = (&'static Command<N>, &CommandStatistics)> {
        self.commands.iter().zip(&self.statistics)
    }

    /// Every command.
    pub const fn commands(&self) -> &CommandTable<N> {
        &self.commands
    }

    pub(crate) fn statistics_of(&self, position: usize) -> Option<&CommandStatistics> {
        self.statistics.get(position)
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        i64::try_from(ambient::since_epoch().as_millis()).unwrap_or(i64::MAX)
    }

    /// Waits until `when`, or until the operation is told to end.
    ///
    /// # Errors
    /// The reason for the end.
    pub async fn sleep(&self, interrupt: &Interrupt, when: Instant) -> CommandResult {
        interrupt.wait_for(self.timers.sleep_until(when)).await
    }

    /// A future that completes at `when`, whatever happens.
    pub fn sleep_until(&self, when: Instant) -> Sleep {
        self.timers.sleep_until(when)
    }

    /// Whether the shutdown began.
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Relaxed)
    }

    /// The shutdown begins: operations that wait for nothing but time (`hello`, tailable cursors) end.
    pub fn begin_shutdown(&self) {
        self.shutting_down.store(true, Ordering::Relaxed);
        for client in self.clients() {
            let waits = client
                .operation()
                .is_some_and(|operation| matches!(operation.command_name, "hello" | "isMaster" | "getMore"));
            client.kill_operation(code::INTERRUPTED_AT_SHUTDOWN, |_, _| waits);
        }
    }

    /// Ends every operation: the time to finish is over.
    pub fn interrupt_all(&self) {
        for client in self.clients() {
            client.kill_operation(code::INTERRUPTED_AT_SHUTDOWN, |_, _| true);
        }
    }

    /// Collections of these names are no more: their cursors end with these errors, and their rows of `top`
    /// go.
    pub fn forget_collections(&self, lost: &HashMap<String, CommandError>) {
        // One walk over all cursors, however many collections there were.
        self.cursors.fail_where(|namespace| lost.get(namespace).cloned());
        lost.keys().for_each(|namespace| self.usage.forget(namespace));
    }

    /// Ends sessions with their cursors.
    pub fn end_sessions(&self, sessions: &[LogicalSessionId]) {
        for session in sessions {
            self.sessions.end(*session);
        }
        self.close_cursors_of(sessions);
    }

    /// Ends the cursors and operations of the sessions that are `doomed`. Each is looked at once.
    pub fn kill_sessions(&self, doomed: impl Fn(LogicalSessionId) -> bool) {
        self.cursors.kill_where(|_, session| session.is_some_and(&doomed));
        for client in self.clients() {
            client.kill_operation(code::INTERRUPTED, |_, session| session.is_some_and(&doomed));
        }
    }

    /// One walk over all cursors, however many sessions end.
    fn close_cursors_of(&self, sessions: &[LogicalSessionId]) {
        let ended: HashSet<LogicalSessionId> = sessions.iter().copied().collect();
        self.cursors.kill_where(|_, owner| owner.is_some_and(|owner| ended.contains(&owner)));
    }

    /// Closes idle cursors, forgets idle sessions, and tells of users who are held to their limits. `heddle`
    /// calls it every `clientCursorMonitorFrequencySecs`.
    pub fn expire(&self, now: Instant) {
        let idle = Duration::from_millis(self.parameters.unsigned(Parameter::CursorTimeout));
        let cursors = self.cursors.expire(now, idle);
        self.access.usages.tidy(now);
        let timeout = Duration::from_secs(60 * self.parameters.unsigned(Parameter::SessionTimeout));
        let sessions = self.sessions.expire(now, timeout);
        if !sessions.is_empty() {
            self.close_cursors_of(&sessions);
        }
        if cursors + sessions.len() > 0 {
            tracing::debug!(target: "QUERY", id = 20528, cursors, sessions = sessions.len(),
                "Closed what was idle");
        }
    }

    /// Counts an operation of a class that counts one per command.
    pub(crate) fn count(&self, class: OperationClass) {
        if !matches!(class, OperationClass::Insert | OperationClass::Update | OperationClass::Delete) {
            self.counters.count(class, 1);
        }
    }
}

/// The next `opid`. Each thread takes a block of them at a time, so that they do not rise one by one across
/// threads.
pub(crate) fn next_operation_id() -> i64 {
    const BLOCK: i64 = 1024;
    static NEXT: AtomicI64 = AtomicI64::new(1);
    thread_local! {
        static OWN: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
    }
    OWN.with(|own| {
        let (mut next, mut end) = own.get();
        if next == end {
            next = NEXT.fetch_add(BLOCK, Ordering::Relaxed);
            end = next + BLOCK;
        }
        own.set((next + 1, end));
        next
    })
}
