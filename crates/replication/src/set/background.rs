//! What a member's threads do.
//!
//! | thread | does |
//! |---|---|
//! | `replication` | the driver's turns |
//! | `replication-sync` | syncs the journal: entries travel meanwhile |
//! | `replication-apply` | writes the data of what is committed |
//!
//! A member that cannot go on ends the process: what it has promised is on its disk, and the others elect
//! another.

use crate::effects::SyncTicket;
use crate::log::LogError;
use crate::set::apply::Applying;
use crate::set::driver::{Driver, Inbox, Links, Now, Told, TurnReport};
use crate::set::shared::ThreadWaker;
use parking_lot::Mutex;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use storage::Store;

/// How long after a failure operations are applied again.
const APPLY_AGAIN: Duration = Duration::from_millis(500);
/// What the log's thread gets to write down why the process ends.
const FOR_THE_LOG: Duration = Duration::from_millis(200);

/// The time on a clock that only goes on, and since 1970.
pub(crate) fn clock() -> (Duration, Duration) {
    static BEGAN: LazyLock<Instant> = LazyLock::new(ambient::now);
    (ambient::elapsed(*BEGAN), ambient::since_epoch())
}

/// What the driver wants after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The journal is to be synced, then [`MemberTasks::synced`] told. A later one covers earlier ones.
    pub sync: Option<SyncTicket>,
    /// The latest time for the next turn; without one it waits for word.
    pub deadline: Option<Duration>,
    /// There is no further turn.
    pub has_ended: bool,
}

/// A member's threads, without threads.
pub struct MemberTasks {
    driver: Driver,
    links: Links,
    inbox: Arc<Inbox>,
    applying: Option<Applying>,
}

impl std::fmt::Debug for MemberTasks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("MemberTasks").finish_non_exhaustive()
    }
}

impl MemberTasks {
    pub(crate) fn new(driver: Driver, report: TurnReport, links: Links, inbox: Arc<Inbox>) -> Self {
        let mut background = MemberTasks { driver, links, inbox, applying: None };
        background.begin_applying(report.begins);
        background
    }

    fn begin_applying(&mut self, begins: Option<(crate::Checkpoint, crate::Oplog)>) {
        let Some((mark, oplog)) = begins else { return };
        assert!(self.applying.is_none(), "a member begins to apply once");
        let (links, inbox) = (self.links.clone(), Arc::clone(&self.inbox));
        self.applying = Some(Applying { links, oplog, inbox, mark, failed: None });
    }

    /// A turn of the driver.
    ///
    /// # Errors
    /// When the log fails: this member must not go on.
    pub fn turn(&mut self, monotonic: Duration, wall: Duration) -> Result<Turn, LogError> {
        let TurnReport { sync, deadline, begins, has_ended } = self.driver.turn(Now { monotonic, wall })?;
        self.begin_applying(begins);
        Ok(Turn { sync, deadline, has_ended })
    }

    /// The sync that was asked for with this ticket has ended, begun afterwards.
    pub fn synced(&self, ticket: SyncTicket) {
        self.inbox.tell(Told::Synced(ticket));
    }

    /// Applies the next part of what is committed; whether there was any.
    ///
    /// # Errors
    /// What the data's store refuses; the same is tried again by the next call.
    pub async fn apply(&mut self) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
        match &mut self.applying {
            Some(applying) => Ok(applying.step().await?),
            None => Ok(false),
        }
    }

    /// The copy of another member's data that is to be made next: it is to be polled when an answer has come,
    /// or a [pause](crate::Peers::pause) has ended.
    pub fn take_copy(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        self.links.copying.take_begun()
    }

    /// Does all of it on threads.
    pub(crate) fn start(self) -> io::Result<Vec<JoinHandle<()>>> {
        let MemberTasks { mut driver, links, inbox, applying } = self;
        links.copying.start_threads();
        let syncing = Arc::new(Syncing::default());
        let (store, told, waiting) =
            (links.catalog.store().clone(), Arc::clone(&inbox), Arc::clone(&syncing));
        let sync = vital("replication-sync", move || waiting.run(&store, &told))?;
        let ends = Arc::new(AtomicBool::new(false));
        let begin = {
            let (links, inbox, ends) = (links.clone(), Arc::clone(&inbox), Arc::clone(&ends));
            move |applying: Applying| {
                let (links, _inbox, ends) = (links.clone(), Arc::clone(&inbox), Arc::clone(&ends));
                vital("replication-apply", move || run_applying(applying, &links, &ends))
            }
        };
        let mut apply = applying.map(&begin).transpose()?;
        let drive = vital("replication", move || {
            inbox.waker.wakes_this_thread();
            loop {
                let (monotonic, wall) = clock();
                let turn = match driver.turn(Now { monotonic, wall }) {
                    Ok(turn) => turn,
                    // It has waited for room on the disk, and nothing of the turn was said to anybody.
                    Err(error) if error.is_end() => {
                        driver.give_up();
                        break;
                    }
                    Err(error) => panic!("{error}"),
                };
                if let Some((mark, oplog)) = turn.begins {
                    let (links, inbox) = (links.clone(), Arc::clone(&inbox));
                    let applying = Applying { links, oplog, inbox, mark, failed: None };
                    apply = Some(begin(applying).expect("a thread to apply what is committed"));
                }
                if let Some(ticket) = turn.sync {
                    syncing.want(ticket);
                }
                if turn.has_ended {
                    break;
                }
                match turn.deadline {
                    Some(deadline) => thread::park_timeout(deadline.saturating_sub(clock().0)),
                    None => thread::park(),
                }
            }
            syncing.end();
            ends.store(true, Ordering::Release);
            links.queue.waker.wake();
            if let Some(apply) = apply {
                drop(apply.join());
            }
        })?;
        Ok(vec![drive, sync])
    }
}

fn run_applying(mut applying: Applying, links: &Links, ends: &AtomicBool) {
    links.queue.waker.wakes_this_thread();
    loop {
        let is_last = ends.load(Ordering::Acquire);
        match pollster::block_on(applying.step()) {
            Ok(true) => {}
            Ok(false) if is_last => return,
            Ok(false) => thread::park(),
            // What is behind it must not be applied without it.
            Err(error) if is_last || error.is_end() => {
                return tracing::warn!(%error, "not applied before the end");
            }
            Err(error) => {
                tracing::error!(%error, "operations of the replica set cannot be applied yet");
                thread::sleep(APPLY_AGAIN);
            }
        }
    }
}

/// The sync that is wanted next.
#[derive(Debug, Default)]
struct Syncing {
    wanted: Mutex<Option<SyncTicket>>,
    ends: AtomicBool,
    waker: ThreadWaker,
}

impl Syncing {
    fn want(&self, ticket: SyncTicket) {
        *self.wanted.lock() = Some(ticket);
        self.waker.wake();
    }

    fn end(&self) {
        self.ends.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn run(&self, store: &Store, inbox: &Inbox) {
        self.waker.wakes_this_thread();
        while !self.ends.load(Ordering::Acquire) {
            let wanted = self.wanted.lock().take();
            match wanted {
                Some(ticket) => {
                    store.sync_journal().expect("the journal of the replica set's log is synced");
                    inbox.tell(Told::Synced(ticket));
                }
                None => thread::park(),
            }
        }
    }
}

/// A thread without which the member must not go on.
fn vital(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(|| {
        if catch_unwind(AssertUnwindSafe(body)).is_err() {
            let thread = thread::current().name().unwrap_or("?").to_owned();
            tracing::error!(thread, "a thread of the replica set has panicked: the process ends");
            thread::sleep(FOR_THE_LOG);
            std::process::abort();
        }
    })
}
