//! What each user has of the server at once, held to its limits.
//!
//! ```text
//!   login ──▶ one connection more, or TemporarilyUnavailable        ┐
//!   request ─▶ one operation more, or it waits for its turn         ├─ UserUsage, one for each user's name
//!   sort, group, join ─▶ bytes of the user's pool, or it gives way  ┘
//! ```
//! A request of a user without limits looks at nothing here. One whose user may have so many operations waits
//! as a future: no thread is held, and nothing but its connection. It goes on when another one of its user
//! ends, mostly in the order of arrival, and ends as any other does: by `maxTimeMS`, `killOp` and the
//! shutdown. There is no bound of its own on the wait: what would succeed does.

use crate::client::Client;
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use crate::interrupt::Interrupt;
use crate::node::Node;
use access::{AccessUser, UserLimits, UserName};
use document::{Document, Value, doc};
use event_listener::Event;
use hashbrown::HashMap;
use parking_lot::Mutex;
use query::memory::{Memory, MemoryPool};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How often the log tells of a user that it is held to its limits.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// Users that `serverStatus` lists at most.
const SHOWN_USERS: usize = 100;

/// What one user has at once, over all its connections.
#[derive(Debug)]
pub(crate) struct UserUsage {
    name: UserName,
    /// As they were found last by one of its connections.
    limits: Mutex<UserLimits>,
    connections: AtomicUsize,
    /// Operations that run, while there is a limit on them.
    operations: AtomicUsize,
    /// Operations that wait for their turn.
    waiting: AtomicUsize,
    /// An operation has ended, or the limit is another one.
    turn: Event,
    memory: Arc<MemoryPool>,
    refusals: Refusals,
    told: Mutex<Told>,
}

/// How often a limit was met.
#[derive(Debug, Default)]
struct Refusals {
    connections: AtomicU64,
    operations: AtomicU64,
}

/// How often each limit of a user was met: logins refused, operations that waited, operations that gave
/// memory back or failed for want of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LimitsMet {
    connections: u64,
    operations: u64,
    memory: u64,
}

impl LimitsMet {
    fn plus(self, other: LimitsMet) -> LimitsMet {
        LimitsMet {
            connections: self.connections + other.connections,
            operations: self.operations + other.operations,
            memory: self.memory + other.memory,
        }
    }

    fn append_to(self, document: &mut Document) {
        document.push("connectionsRefused", self.connections as i64);
        document.push("operationsDelayed", self.operations as i64);
        document.push("memoryGaveWay", self.memory as i64);
    }
}

/// What the log has been told.
#[derive(Debug, Default)]
struct Told {
    met: LimitsMet,
    at: Option<Instant>,
}

impl UserUsage {
    fn new(name: UserName) -> Self {
        UserUsage {
            name,
            limits: Mutex::default(),
            connections: AtomicUsize::new(0),
            operations: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            turn: Event::new(),
            memory: Arc::new(MemoryPool::unlimited()),
            refusals: Refusals::default(),
            told: Mutex::default(),
        }
    }

    /// The limits are these from now on.
    fn set_limits(&self, limits: UserLimits) {
        let before = std::mem::replace(&mut *self.limits.lock(), limits);
        let bytes = limits.memory_mb.map_or(usize::MAX, |mib| (mib as usize).saturating_mul(1 << 20));
        self.memory.set_most(bytes);
        if before.operations != limits.operations {
            self.turn.notify(usize::MAX);
        }
    }

    /// One connection more, unless it has as many as it may.
    fn connect(&self, most: Option<u32>) -> bool {
        let most = most.map_or(usize::MAX, |most| most as usize);
        let more = |now: usize| (now < most).then_some(now + 1);
        let is_admitted = self.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if !is_admitted {
            self.refusals.connections.fetch_add(1, Ordering::Relaxed);
        }
        is_admitted
    }

    fn try_begin(self: &Arc<Self>) -> Option<UserOperation> {
        let most = self.limits.lock().operations.map_or(usize::MAX, |most| most as usize);
        let more = |now: usize| (now < most).then_some(now + 1);
        let begun = self.operations.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        begun.is_ok().then(|| UserOperation(Arc::clone(self)))
    }

    /// One operation more, when there is room for it.
    ///
    /// # Errors
    /// The reason for the operation's end.
    async fn begin(self: &Arc<Self>, interrupt: &Interrupt) -> CommandResult<UserOperation> {
        if let Some(operation) = self.try_begin() {
            return Ok(operation);
        }
        self.refusals.operations.fetch_add(1, Ordering::Relaxed);
        let _waits = Waiting::of(self);
        loop {
            // Heard from here on: what ends between the look and the wait is not missed. Who was told and
            // goes away passes it on.
            let turn = self.turn.listen();
            if let Some(operation) = self.try_begin() {
                return Ok(operation);
            }
            interrupt.wait_for(turn).await?;
        }
    }

    fn met(&self) -> LimitsMet {
        LimitsMet {
            connections: self.refusals.connections.load(Ordering::Relaxed),
            operations: self.refusals.operations.load(Ordering::Relaxed),
            memory: self.memory.figures().gave_way,
        }
    }

    /// Whether it has nothing of the server.
    fn is_idle(&self) -> bool {
        let has = |count: &AtomicUsize| count.load(Ordering::Relaxed) > 0;
        !has(&self.connections) && !has(&self.operations) && self.memory.figures().used == 0
    }

    /// For `serverStatus`; `None` where there is nothing to tell.
    fn report(&self) -> Option<Document> {
        let (limits, met) = (*self.limits.lock(), self.met());
        if limits.is_empty() && met == LimitsMet::default() {
            return None;
        }
        let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let (connections, operations) = (count(&self.connections), count(&self.operations));
        let memory = self.memory.figures();
        let is_at = |now: usize, most: Option<u32>| most.is_some_and(|most| now >= most as usize);
        let mut at_limit: Vec<Value> = Vec::new();
        for (name, is_at) in [
            ("maxConnections", is_at(connections, limits.connections)),
            ("maxOperations", is_at(operations, limits.operations)),
            ("maxMemoryMB", memory.used > memory.most),
        ] {
            at_limit.extend(is_at.then(|| name.into()));
        }
        let mut report = doc! {
            "user": (self.name.user.as_str()), "db": (self.name.database.as_str()),
            "limits": (limits.to_document()), "atLimit": at_limit,
            "connections": (connections as i64), "operations": (operations as i64),
            "operationsWaiting": (count(&self.waiting) as i64), "memoryBytes": (memory.used as i64),
        };
        met.append_to(&mut report);
        Some(report)
    }

    /// Tells the log, once in a while, that limits were met.
    fn tell(&self, now: Instant) {
        let met = self.met();
        let mut told = self.told.lock();
        let is_due = told.at.is_none_or(|at| now.saturating_duration_since(at) >= TOLD_EVERY);
        if met == told.met || !is_due {
            return;
        }
        let before = std::mem::replace(&mut told.met, met);
        told.at = Some(now);
        let limits = *self.limits.lock();
        let limit = |limit: Option<u32>| limit.unwrap_or(0);
        tracing::warn!(target: "ACCESS", id = 8_800_300, user = %self.name,
            connections_refused = met.connections - before.connections,
            operations_delayed = met.operations - before.operations,
            memory_gave_way = met.memory - before.memory,
            max_connections = limit(limits.connections), max_operations = limit(limits.operations),
            max_memory_mb = limit(limits.memory_mb),
            "A user is held to its limits");
    }
}

/// Counts an operation among those that wait.
struct Waiting<'u>(&'u UserUsage);

impl<'u> Waiting<'u> {
    fn of(usage: &'u UserUsage) -> Self {
        usage.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(usage)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One of a user's operations; dropping it lets the next one begin.
#[derive(Debug)]
pub(crate) struct UserOperation(Arc<UserUsage>);

impl Drop for UserOperation {
    fn drop(&mut self) {
        self.0.operations.fetch_sub(1, Ordering::AcqRel);
        self.0.turn.notify_additional(1);
    }
}

/// One of a user's connections; dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct UserConnection(Arc<UserUsage>);

impl UserConnection {
    /// What is stored of the user says this now.
    pub(crate) fn look_at(&self, user: &AccessUser) {
        self.0.set_limits(user.limits);
    }

    /// What all its sorts, groups and joins have together.
    pub(crate) fn memory(&self) -> &Arc<MemoryPool> {
        &self.0.memory
    }

    pub(crate) const fn usage(&self) -> &Arc<UserUsage> {
        &self.0
    }
}

impl Drop for UserConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What all users have.
#[derive(Debug, Default)]
pub struct UserUsages {
    /// Those that have something, or have had it lately.
    users: Mutex<HashMap<UserName, Arc<UserUsage>>>,
    /// What those have met that are forgotten.
    forgotten: Mutex<LimitsMet>,
}

impl UserUsages {
    /// A connection is this user's from now on.
    ///
    /// # Errors
    /// `TemporarilyUnavailable`: it has as many as it may.
    pub(crate) fn connect(&self, user: &AccessUser) -> CommandResult<UserConnection> {
        // Counted under the lock, so that who is forgotten has none.
        let mut users = self.users.lock();
        let usage = match users.get(&user.name) {
            Some(usage) => Arc::clone(usage),
            None => {
                let usage = Arc::new(UserUsage::new(user.name.clone()));
                users.insert(user.name.clone(), Arc::clone(&usage));
                usage
            }
        };
        usage.set_limits(user.limits);
        match usage.connect(user.limits.connections) {
            true => Ok(UserConnection(usage)),
            false => Err(too_many_connections(user)),
        }
    }

    /// Forgets who has nothing, and tells the log of who is held to its limits.
    pub(crate) fn tidy(&self, now: Instant) {
        let mut users = self.users.lock();
        users.values().for_each(|usage| usage.tell(now));
        users.retain(|_, usage| {
            let is_kept = !usage.is_idle() || usage.told.lock().met != usage.met();
            if !is_kept {
                let mut forgotten = self.forgotten.lock();
                *forgotten = forgotten.plus(usage.met());
            }
            is_kept
        });
    }

    /// How often limits were met since the start, and who has limits now: `serverStatus.security.userLimits`.
    pub fn to_document(&self) -> Document {
        let users: Vec<Arc<UserUsage>> = self.users.lock().values().cloned().collect();
        let met = users.iter().map(|usage| usage.met()).fold(*self.forgotten.lock(), LimitsMet::plus);
        let mut reports: Vec<Document> = users.iter().filter_map(|usage| usage.report()).collect();
        let is_held = |report: &Document| match report.get("atLimit") {
            Some(Value::Array(names)) => !names.is_empty(),
            _ => false,
        };
        // Who is at a limit comes first.
        reports.sort_by_key(|report| !is_held(report));
        reports.truncate(SHOWN_USERS);
        let mut document = Document::new();
        met.append_to(&mut document);
        document.push("users", reports.into_iter().map(Value::from).collect::<Vec<Value>>());
        document
    }
}

fn too_many_connections(user: &AccessUser) -> CommandError {
    let message = format!(
        "user {} has as many connections as it may have ({}, limits.maxConnections): close one, or try again \
         later",
        user.name,
        user.limits.connections.unwrap_or_default()
    );
    CommandError::new(wire::ErrorCode::TemporarilyUnavailable as i32, message)
}

/// Waits until the user of this connection may have one operation more. Kept until the operation ends.
pub(crate) async fn begin_operation<N: Node>(
    context: &CommandContext<'_, N>,
) -> CommandResult<Option<UserOperation>> {
    match context.client.access.usage() {
        Some(usage) => usage.begin(context.interrupt()).await.map(Some),
        None => Ok(None),
    }
}

impl Client {
    /// What sorts, groups and joins of its user have together; `None`: as much as those of all.
    pub fn memory_pool(&self) -> Option<Arc<MemoryPool>> {
        self.access.memory_pool()
    }
}

impl<N: Node> CommandContext<'_, N> {
    /// The account of what this operation's sorts, groups and joins hold, up to so many bytes.
    pub fn memory(&self, most: usize) -> Memory {
        let of_user = self.client.memory_pool();
        Memory::within_both(&self.server.host.memory_pool, of_user, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use access::RoleGraph;
    use pollster::block_on;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    fn user(limits: Document) -> AccessUser {
        let stored = doc! { "user": "u", "db": "admin", "roles": [], "limits": limits };
        AccessUser::new(stored.to_buf().as_raw(), &RoleGraph::default(), 0).expect("a user")
    }

    fn shown(usages: &UserUsages, field: &str) -> Vec<Value> {
        let document = usages.to_document();
        let Some(Value::Array(users)) = document.get("users") else { panic!("{document:?}") };
        users.iter().filter_map(|user| user.as_document()?.get(field).cloned()).collect()
    }

    #[test]
    fn a_user_has_as_many_connections_as_it_may() {
        let usages = UserUsages::default();
        let limited = user(doc! { "maxConnections": 2 });
        let first = usages.connect(&limited).expect("one");
        let _second = usages.connect(&limited).expect("two");
        let refused = usages.connect(&limited).expect_err("three");
        assert_eq!(refused.code, 365);
        assert_eq!(usages.to_document().get("connectionsRefused"), Some(&Value::Int64(1)));
        assert_eq!(shown(&usages, "atLimit"), [Value::from(vec![Value::from("maxConnections")])]);
        drop(first);
        let _third = usages.connect(&limited).expect("one has gone");
        let _fourth = usages.connect(&user(doc! {})).expect("the limit has gone");
    }

    /// The operation, once it has its turn.
    fn poll(
        waiting: &mut (impl Future<Output = CommandResult<UserOperation>> + Unpin),
    ) -> Option<UserOperation> {
        match Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(begun) => Some(begun.expect("nobody kills it")),
            Poll::Pending => None,
        }
    }

    #[test]
    fn operations_beyond_the_limit_wait_for_their_turn_and_pass_it_on() {
        let usages = UserUsages::default();
        let connection = usages.connect(&user(doc! { "maxOperations": 1 })).expect("a connection");
        let (usage, interrupt) = (connection.usage(), Interrupt::default());
        let begin = || Box::pin(usage.begin(&interrupt));
        let first = block_on(begin()).expect("it is the only one");
        let (mut second, mut third) = (begin(), begin());
        assert!(poll(&mut second).is_none() && poll(&mut third).is_none());
        assert_eq!(shown(&usages, "operationsWaiting"), [Value::Int64(2)]);
        drop(first);
        // It was its turn, and it goes away without taking it.
        drop(second);
        let third = poll(&mut third).expect("it has the turn of the one before it");
        let mut fourth = begin();
        assert!(poll(&mut fourth).is_none());
        connection.look_at(&user(doc! {}));
        let fourth = poll(&mut fourth).expect("there is no limit any more");
        drop((third, fourth));
        assert_eq!(shown(&usages, "operations"), [Value::Int64(0)]);
        assert_eq!(usages.to_document().get("operationsDelayed"), Some(&Value::Int64(3)));
    }

    #[test]
    fn a_kill_ends_the_wait() {
        let usages = UserUsages::default();
        let connection = usages.connect(&user(doc! { "maxOperations": 1 })).expect("a connection");
        let interrupt = Interrupt::default();
        let _first = block_on(connection.usage().begin(&interrupt)).expect("it is the only one");
        interrupt.kill(crate::error::code::INTERRUPTED);
        let waiting = pin!(connection.usage().begin(&interrupt));
        let killed = block_on(waiting).expect_err("it does not wait for ever");
        assert_eq!(killed.code, crate::error::code::INTERRUPTED);
    }

    #[test]
    fn who_has_nothing_is_forgotten_and_its_refusals_are_not() {
        let usages = UserUsages::default();
        let limited = user(doc! { "maxConnections": 1, "maxMemoryMB": 1 });
        let only = usages.connect(&limited).expect("one");
        usages.connect(&limited).expect_err("two");
        let mut held = Memory::within_both(
            &Arc::new(MemoryPool::unlimited()),
            Some(Arc::clone(only.memory())),
            usize::MAX,
        )
        .part();
        held.set(600 << 10);
        assert!(held.is_over(usize::MAX), "twice of it is more than a mebibyte");
        drop(only);
        let now = ambient::now();
        usages.tidy(now);
        assert_eq!(usages.users.lock().len(), 1, "a cursor still holds memory");
        drop(held);
        usages.tidy(now);
        usages.tidy(now + TOLD_EVERY);
        assert_eq!(usages.users.lock().len(), 0);
        let document = usages.to_document();
        assert_eq!(document.get("connectionsRefused"), Some(&Value::Int64(1)));
        assert_eq!(document.get("memoryGaveWay"), Some(&Value::Int64(1)));
    }
}
