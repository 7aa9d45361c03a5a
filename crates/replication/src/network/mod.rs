//! The way to the other members over TCP: MongoDB's wire protocol on each member's ordinary port.
//!
//! ```text
//!   send ─▶ outbox (bounded, the oldest go) ─▶ thread peer-HOST ─▶ connection: OP_MSG with moreToCome
//!   ask  ─▶ questions                       ─▶ thread ask-HOST  ─▶ connection: one request, one reply
//!             └─▶ thread ask-limits: whoever waits hears in time, whatever the other thread waits for
//! ```
//! Names are looked up, connections made and messages written on these threads only: a member that is dead,
//! slow or silent holds up nobody but itself. Envelopes may be lost, as Raft wants it; after a failure those
//! that wait are old and are dropped. Threads that nobody has needed for a while end.

mod answer;
mod asker;
mod connection;
mod limits;
mod login;
#[cfg(test)]
mod login_tests;
mod secure;
mod sender;
#[cfg(test)]
mod tests;

use crate::peers::{Answer, PeerError, Peers};
use access::LoginIdentity;
use answer::Promise;
use asker::Asker;
use document::DocumentBuf;
use hashbrown::HashMap;
use limits::TimeLimits;
use parking_lot::{Condvar, Mutex};
pub use secure::MemberTls;
use sender::Sender;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Times and bounds of the connections to other members.
#[derive(Debug, Clone)]
pub struct NetworkOptions {
    /// How long a connection for envelopes may take to be made.
    pub connect_limit: Duration,
    /// How long its greeting may go unanswered: whoever has connections may still be short of processors, and
    /// would not be sooner with another one.
    pub greeting_limit: Duration,
    /// What was sent and is not taken for so long ends a connection: a way that is cut shows only so, and the
    /// kernel alone would go on trying for a quarter of an hour.
    pub untaken_limit: Duration,
    /// Pause after the first failure. It doubles with each further one.
    pub first_pause: Duration,
    /// The longest pause: a member that is back hears of it by then.
    pub longest_pause: Duration,
    /// Threads and connections that nobody has used for so long end.
    pub idle_limit: Duration,
    /// Bytes of envelopes that wait for one member.
    pub outbox_bytes_max: usize,
    /// Questions that wait for one member.
    pub questions_max: usize,
    /// How TLS is spoken to the other members; `None`: not at all.
    pub tls: Option<MemberTls>,
    /// Who logs in at the beginning of each connection; `None`: nobody.
    pub login: Option<LoginIdentity>,
    /// Whether a connection on which that comes to nothing is used nevertheless: while a set goes over to
    /// access control.
    pub login_is_optional: bool,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        NetworkOptions {
            connect_limit: Duration::from_secs(3),
            greeting_limit: Duration::from_secs(12),
            untaken_limit: Duration::from_secs(5),
            first_pause: Duration::from_millis(20),
            longest_pause: Duration::from_secs(1),
            idle_limit: Duration::from_secs(60),
            outbox_bytes_max: 64 << 20,
            questions_max: 100,
            tls: None,
            login: None,
            login_is_optional: false,
        }
    }
}

impl NetworkOptions {
    /// With bounds for a process that may use so many bytes of memory.
    #[must_use]
    pub fn within_memory(mut self, memory: u64) -> Self {
        const LEAST: usize = 32 << 20;
        let share = usize::try_from(memory / 128).unwrap_or(usize::MAX);
        self.outbox_bytes_max = share.clamp(LEAST, self.outbox_bytes_max);
        self
    }
}

/// The other members, over TCP.
#[derive(Debug)]
pub struct TcpPeers {
    shared: Arc<NetworkShared>,
}

#[derive(Debug)]
struct NetworkShared {
    options: NetworkOptions,
    /// At the start that of the options.
    outbox_bytes_max: AtomicUsize,
    limits: TimeLimits,
    /// Taken before the locks of a peer.
    peers: Mutex<PeerTable>,
    threads: Threads,
}

#[derive(Debug, Default)]
struct PeerTable {
    senders: HashMap<String, Arc<Sender>>,
    askers: HashMap<String, Arc<Asker>>,
    stopped: bool,
}

/// Threads that run, and who waits for their end.
#[derive(Debug, Default)]
struct Threads {
    running: Mutex<usize>,
    ended: Condvar,
}

/// What a thread of a peer does until it is told to stop or has had nothing to do for long.
trait Worker: Send + Sync + 'static {
    fn run(&self, options: &NetworkOptions);
}

impl TcpPeers {
    /// Begins with nobody connected.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(options: NetworkOptions) -> io::Result<Self> {
        let shared = Arc::new(NetworkShared {
            outbox_bytes_max: AtomicUsize::new(options.outbox_bytes_max),
            options,
            limits: TimeLimits::default(),
            peers: Mutex::default(),
            threads: Threads::default(),
        });
        shared.spawn("ask-limits".to_owned(), |shared| shared.limits.run())?;
        Ok(TcpPeers { shared })
    }

    /// Bytes of envelopes that wait for other members.
    pub fn waiting_bytes(&self) -> usize {
        self.shared.peers.lock().senders.values().map(|sender| sender.waiting_bytes()).sum()
    }

    /// Changes what may wait for one member to that of a process with so much memory.
    pub fn bound_memory(&self, memory: u64) {
        let bounds = NetworkOptions::default().within_memory(memory);
        self.shared.outbox_bytes_max.store(bounds.outbox_bytes_max, Ordering::Relaxed);
    }

    /// Ends all connections and threads: whoever waits for an answer hears of it, what was not sent is
    /// dropped.
    pub fn stop(&self) {
        /// A thread that looks a name up cannot be ended; it is left behind and ends by itself.
        const PATIENCE: Duration = Duration::from_secs(1);
        let (senders, askers) = {
            let mut table = self.shared.peers.lock();
            table.stopped = true;
            (std::mem::take(&mut table.senders), std::mem::take(&mut table.askers))
        };
        senders.values().for_each(|sender| sender.stop());
        askers.values().for_each(|asker| asker.stop());
        self.shared.limits.stop();
        self.shared.threads.wait(PATIENCE);
    }
}

impl Drop for TcpPeers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Peers for TcpPeers {
    fn send(&self, host: &str, envelope: DocumentBuf) {
        assert!(
            envelope.as_bytes().len() <= wire::MAX_COMMAND_SIZE,
            "an envelope of {} bytes for {host} cannot be a command",
            envelope.as_bytes().len()
        );
        let mut envelope = Some(envelope);
        // Again only where the thread ended between the two steps, for it had had nothing to do.
        while let Some(waiting) = envelope.take() {
            let Some(sender) = self.shared.sender(host) else { return };
            envelope = sender.push(waiting, self.shared.outbox_bytes_max.load(Ordering::Relaxed));
        }
    }

    fn ask(&self, host: &str, command: DocumentBuf, limit: Duration) -> Answer {
        let deadline = ambient::now() + limit;
        let (promise, answer) = answer::pair();
        self.shared.limits.watch(deadline, host, &promise);
        let mut question = Some(Question { command, deadline, promise });
        while let Some(waiting) = question.take() {
            match self.shared.asker(host) {
                Some(asker) => question = asker.push(waiting, &self.shared.options),
                None => waiting.promise.keep(Err(PeerError::Stopped)),
            }
        }
        Box::pin(answer)
    }
}

/// A command, until it is answered.
#[derive(Debug)]
struct Question {
    command: DocumentBuf,
    deadline: Instant,
    promise: Arc<Promise>,
}

impl NetworkShared {
    /// The sender of a member. `None`: the system has no thread for it, or all has been stopped.
    fn sender(self: &Arc<Self>, host: &str) -> Option<Arc<Sender>> {
        let mut table = self.peers.lock();
        if table.stopped {
            return None;
        }
        if let Some(sender) = table.senders.get(host) {
            return Some(Arc::clone(sender));
        }
        let sender = Arc::new(Sender::new(host));
        let worker = Arc::clone(&sender);
        self.start_worker("peer", host, worker, |table| &mut table.senders)?;
        table.senders.insert(host.to_owned(), Arc::clone(&sender));
        Some(sender)
    }

    fn asker(self: &Arc<Self>, host: &str) -> Option<Arc<Asker>> {
        let mut table = self.peers.lock();
        if table.stopped {
            return None;
        }
        if let Some(asker) = table.askers.get(host) {
            return Some(Arc::clone(asker));
        }
        let asker = Arc::new(Asker::new(host));
        let worker = Arc::clone(&asker);
        self.start_worker("ask", host, worker, |table| &mut table.askers)?;
        table.askers.insert(host.to_owned(), Arc::clone(&asker));
        Some(asker)
    }

    /// Runs a worker on its thread; afterwards it is in the table no more.
    fn start_worker<W: Worker>(
        self: &Arc<Self>,
        kind: &str,
        host: &str,
        worker: Arc<W>,
        place: fn(&mut PeerTable) -> &mut HashMap<String, Arc<W>>,
    ) -> Option<()> {
        let key = host.to_owned();
        let started = self.spawn(format!("{kind}-{}", host.replace('\0', "")), move |shared| {
            worker.run(&shared.options);
            let mut table = shared.peers.lock();
            let workers = place(&mut table);
            if workers.get(&key).is_some_and(|current| Arc::ptr_eq(current, &worker)) {
                workers.remove(&key);
            }
        });
        if let Err(error) = &started {
            tracing::warn!(target: "repl", id = 5_710_001, host, %error,
                "No thread for another member of the set");
        }
        started.ok()
    }

    fn spawn(
        self: &Arc<Self>,
        name: String,
        work: impl FnOnce(&NetworkShared) + Send + 'static,
    ) -> io::Result<()> {
        let shared = Arc::clone(self);
        *self.threads.running.lock() += 1;
        let spawned = std::thread::Builder::new().name(name).spawn(move || {
            work(&shared);
            shared.threads.one_ended();
        });
        if spawned.is_err() {
            self.threads.one_ended();
        }
        spawned.map(drop)
    }
}

impl Threads {
    fn one_ended(&self) {
        *self.running.lock() -= 1;
        self.ended.notify_all();
    }

    fn wait(&self, patience: Duration) {
        let deadline = ambient::now() + patience;
        let mut running = self.running.lock();
        while *running > 0 && !self.ended.wait_for(&mut running, left_until(deadline)).timed_out() {}
    }
}

/// The time until then; none when it has passed.
fn left_until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(ambient::now())
}
