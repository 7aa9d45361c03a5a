//! One run: a server, its disk, its clients, and the order in which they come to their turns.

use crate::bug::Bug;
use crate::client;
use crate::disk::{Crash, Faults, SimulatedDisk};
use crate::model::{Model, check_lost_end};
use crate::mortal::Mortals;
use crate::observer;
use crate::random::SeededRandom;
use crate::server::{Port, Reply, SimulatedServer};
use crate::shared::Shared;
use crate::trace::Trace;
use document::{Document, DocumentBuf, Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

pub(crate) const DATABASE: &str = "sim";
const CLIENTS_MAX: u64 = 6;
const COMMANDS_MIN: u64 = 80;
const COMMANDS_MORE: u64 = 160;
/// A run in which nobody comes on for so many steps, although nothing fails, hangs.
const STEPS_WITHOUT_PROGRESS_MAX: u64 = 5_000;
const RECOVERY_POLLS_MAX: u64 = 200_000;

/// The server's wall clock: milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    ambient::since_epoch().as_millis() as i64
}

/// What a run came to.
#[derive(Debug)]
pub struct Finding {
    /// The run as one number: the same for the same seed.
    pub hash: u64,
    /// What is wrong with the server, and the last lines of the trace.
    pub failure: Option<String>,
    /// How many commands were answered.
    pub commands: u64,
    /// How often the server was started.
    pub starts: u64,
}

/// What the clients and the main loop share.
pub(crate) struct World {
    pub(crate) node: SimulatedServer,
    pub(crate) trace: Trace,
    pub(crate) models: Vec<RefCell<Model>>,
    pub(crate) shared: RefCell<Shared>,
    /// Of each client the documents that expire.
    pub(crate) mortals: Vec<RefCell<Mortals>>,
    /// Who holds what only one may hold, as far as it was acknowledged.
    pub(crate) claims: RefCell<BTreeMap<i64, String>>,
    pub(crate) bug: Option<Bug>,
    simulation: ambient::Simulation,
    skipped: Cell<Duration>,
    step: Cell<u64>,
    calls: Cell<u64>,
    calls_left: Cell<u64>,
    failure: RefCell<Option<String>>,
    /// The step in which a sync had failed.
    poisoned_at: Cell<Option<u64>>,
    /// Clients that wait for the server to come back.
    waiting: RefCell<BTreeSet<usize>>,
    progress: Cell<u64>,
    tags: Cell<i64>,
}

impl World {
    pub(crate) fn step(&self) -> u64 {
        self.step.get()
    }

    /// The time that has passed, but for what was skipped.
    pub(crate) fn elapsed(&self) -> Duration {
        self.simulation.elapsed() - self.skipped.get()
    }

    /// Lets so much time pass at once: for what sleeps long.
    pub(crate) fn skip(&self, time: Duration) {
        self.skipped.set(self.skipped.get() + time);
        self.simulation.advance(time);
    }

    /// A moment later than all before.
    pub(crate) fn tick(&self) -> u64 {
        self.step.set(self.step.get() + 1);
        self.step.get()
    }

    pub(crate) fn tag(&self) -> i64 {
        self.tags.set(self.tags.get() + 1);
        self.tags.get()
    }

    pub(crate) fn note(&self, text: &str) {
        self.trace.note(self.simulation.elapsed(), text);
    }

    /// The server is wrong.
    pub(crate) fn fail(&self, text: String) {
        self.note(&format!("WRONG: {text}"));
        self.failure.borrow_mut().get_or_insert(text);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.calls_left.get() == 0 || self.has_failed()
    }

    /// A sync has failed: from now on nothing may be acknowledged.
    pub(crate) fn poisoned(&self) {
        if self.poisoned_at.get().is_none() {
            self.poisoned_at.set(Some(self.step()));
        }
    }

    /// Whether a write that was asked for then must not be acknowledged.
    pub(crate) fn is_poisoned_since(&self, asked: u64) -> bool {
        self.poisoned_at.get().is_some_and(|step| step < asked)
    }

    /// Sends a command; `None` when the server dies before it answers.
    pub(crate) fn call(self: &Rc<Self>, port: &Port, name: &str, mut command: Document) -> Call {
        if !command.contains("$db") {
            command.push("$db", DATABASE);
        }
        if let Some(bug) = self.bug {
            bug.garble(&mut command);
        }
        let message = command.to_buf();
        // Numbers of operations are not the same in two runs.
        let hidden = ["currentOp", "killOp", "serverStatus"];
        let is_shown = !hidden.iter().any(|name| command.contains(name));
        match is_shown {
            true => self.note(&format!("{name} -> {}", json::to_string(message.as_raw()))),
            false => self.note(&format!("{name} -> {:?}", command.first().map(|(command, _)| command))),
        }
        self.calls_left.set(self.calls_left.get().saturating_sub(1));
        let reply = Some(self.node.deliver(port, message.into_bytes()));
        Call {
            world: Rc::clone(self),
            port: port.clone(),
            name: name.to_owned(),
            reply,
            start: self.node.starts(),
            is_shown,
        }
    }

    /// Waits until the server has come back.
    pub(crate) async fn restarted(&self, client: usize, starts: u64) {
        std::future::poll_fn(|_| {
            let mut waiting = self.waiting.borrow_mut();
            if self.node.is_running() && self.node.starts() > starts && waiting.is_empty() {
                return Poll::Ready(());
            }
            waiting.insert(client);
            Poll::Pending
        })
        .await;
    }
}

/// A command on its way.
pub(crate) struct Call {
    world: Rc<World>,
    port: Port,
    name: String,
    reply: Option<Reply>,
    start: u64,
    is_shown: bool,
}

impl Future for Call {
    type Output = Option<Document>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let call = &mut *self;
        let is_lost = !call.world.node.is_running() || call.world.node.starts() != call.start;
        let Some(reply) = call.reply.as_mut().filter(|_| !is_lost) else {
            call.reply = None;
            call.world.note(&format!("{} <- nothing: the server is dead", call.name));
            return Poll::Ready(None);
        };
        match call.port.defers() {
            true => storage::defer_commits(),
            false => storage::commit_inline(),
        }
        let Poll::Ready(bytes) = reply.as_mut().poll(context) else { return Poll::Pending };
        call.reply = None;
        let world = &call.world;
        world.tick();
        world.calls.set(world.calls.get() + 1);
        world.progress.set(world.step());
        let reply = bytes.and_then(|bytes| DocumentBuf::from_bytes(bytes).ok());
        match &reply {
            Some(_) if !call.is_shown => world.note(&format!("{} <- a reply", call.name)),
            Some(reply) => world.note(&format!("{} <- {}", call.name, json::to_string(reply.as_raw()))),
            None => world.fail(format!("{}: the reply is no document", call.name)),
        }
        Poll::Ready(reply.map(|reply| reply.as_raw().to_document()))
    }
}

/// Whether a task has been woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    woken: Arc<Woken>,
}

/// Runs a server through what this seed has in store for it. On a thread of its own: what earlier runs left
/// in a thread (steps that were counted, for one) would make it another run.
pub fn run(seed: u64, bug: Option<Bug>) -> Finding {
    let run = std::thread::spawn(move || run_on_this_thread(seed, bug));
    run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn run_on_this_thread(seed: u64, bug: Option<Bug>) -> Finding {
    let mut random = SeededRandom::new(seed);
    let simulation = ambient::Simulation::begin(random.seed());
    let clients = 1 + random.below(CLIENTS_MAX);
    let disk = SimulatedDisk::new(random.seed(), bug);
    let world = Rc::new(World {
        node: SimulatedServer::new(disk, random.seed()),
        trace: Trace::new(),
        models: (0..clients).map(|_| RefCell::default()).collect(),
        shared: RefCell::default(),
        mortals: (0..clients).map(|_| RefCell::default()).collect(),
        claims: RefCell::default(),
        bug,
        simulation,
        skipped: Cell::default(),
        step: Cell::new(0),
        calls: Cell::new(0),
        calls_left: Cell::new(COMMANDS_MIN + random.below(COMMANDS_MORE)),
        failure: RefCell::new(None),
        poisoned_at: Cell::new(None),
        waiting: RefCell::default(),
        progress: Cell::new(0),
        tags: Cell::new(0),
    });
    let main = Main {
        crashes: crashes(&mut random, world.calls_left.get()),
        world: Rc::clone(&world),
        tasks: Vec::new(),
        random,
    };
    main.run();
    storage::commit_inline();
    let failure = world.failure.borrow().as_ref().map(|failure| {
        format!(
            "seed {seed}{}: {failure}\n{}",
            bug.map_or(String::new(), |bug| format!(" ({bug:?})")),
            world.trace.last_lines()
        )
    });
    Finding { hash: world.trace.hash(), failure, commands: world.calls.get(), starts: world.node.starts() }
}

/// With how many commands left the server crashes, and how; the next one last.
fn crashes(random: &mut SeededRandom, commands: u64) -> Vec<(u64, Crash)> {
    let mut crashes: Vec<(u64, Crash)> =
        (0..random.below(4)).map(|_| (1 + random.below(commands), kind(random))).collect();
    crashes.sort_by_key(|(left, _)| *left);
    crashes.insert(0, (0, kind(random)));
    crashes
}

fn kind(random: &mut SeededRandom) -> Crash {
    if random.chance(300) { Crash::Kill } else { Crash::PowerCut }
}

struct Main {
    world: Rc<World>,
    tasks: Vec<Task>,
    random: SeededRandom,
    crashes: Vec<(u64, Crash)>,
}

impl Main {
    fn run(mut self) {
        if let Err(failure) = self.world.node.start() {
            return self.world.fail(failure);
        }
        let world = Rc::clone(&self.world);
        if !self.finish(observer::prepare(&world)) {
            return;
        }
        for number in 0..self.world.models.len() {
            let client = client::run(Rc::clone(&self.world), number, self.random.seed());
            let woken = Arc::new(Woken(AtomicBool::new(true)));
            self.tasks.push(Task { future: Box::pin(client), woken });
        }
        self.new_faults();
        while !self.world.has_failed() && (!self.tasks.is_empty() || !self.crashes.is_empty()) {
            self.step();
        }
        self.tasks.clear();
    }

    fn step(&mut self) {
        let world = Rc::clone(&self.world);
        world.tick();
        world.simulation.advance(Duration::from_micros(5 + self.random.below(200)));
        let is_due = self.crashes.last().is_some_and(|(left, _)| world.calls_left.get() <= *left);
        let after_poison = world.poisoned_at.get().is_some_and(|step| world.step() > step + 300);
        if is_due && (world.calls_left.get() > 0 || self.tasks.is_empty() || self.random.chance(20)) {
            let crash = self.crashes.pop().map_or(Crash::Kill, |(_, crash)| crash);
            return self.crash(crash);
        }
        if after_poison {
            let crash = kind(&mut self.random);
            return self.crash(crash);
        }
        match self.random.below(1000) {
            0..700 => self.poll_one(),
            700..800 => world.node.turn_ended(),
            800..992 => world.node.work(self.random.chance(500)),
            // The TTL monitor sleeps for a second.
            992..995 => world.skip(Duration::from_secs(1)),
            _ => self.new_faults(),
        }
        if world.step() > world.progress.get() + STEPS_WITHOUT_PROGRESS_MAX / 2 {
            world.node.disk().set_faults(Faults::default());
        }
        if world.step() > world.progress.get() + STEPS_WITHOUT_PROGRESS_MAX && !self.tasks.is_empty() {
            world.fail("nothing fails, and no command comes to its end".to_owned());
        }
    }

    fn poll_one(&mut self) {
        let ready: Vec<usize> = (0..self.tasks.len()).filter(|task| self.is_woken(*task)).collect();
        if ready.is_empty() {
            self.world.node.turn_ended();
            self.world.simulation.advance(Duration::from_micros(self.random.below(3_000)));
            return;
        }
        let chosen = ready.get(self.random.below(ready.len() as u64) as usize).copied().unwrap_or_default();
        self.poll(chosen);
    }

    fn is_woken(&self, task: usize) -> bool {
        self.tasks.get(task).is_some_and(|task| task.woken.0.load(Ordering::SeqCst))
    }

    fn poll(&mut self, position: usize) {
        let Some(task) = self.tasks.get_mut(position) else { return };
        task.woken.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&task.woken));
        if task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            drop(self.tasks.remove(position));
        }
    }

    /// Other things fail from now on.
    fn new_faults(&mut self) {
        let random = &mut self.random;
        let mut faults = Faults { cold_reads: random.below(3) * random.below(200), ..Faults::default() };
        match random.below(12) {
            0 => faults.writes = 100,
            1 => faults.stalls = 300,
            2 => faults.reads = 20,
            3 => faults.full = true,
            4 => faults.sync = random.chance(300),
            5 => (faults.writes, faults.stalls, faults.reads) = (30, 30, 5),
            _ => {}
        }
        self.world.note(&format!("from now on: {faults:?}"));
        self.world.node.disk().set_faults(faults);
    }

    fn crash(&mut self, crash: Crash) {
        let world = Rc::clone(&self.world);
        let lost = world.node.crash(crash);
        world.note(&format!("{crash:?}, {lost} batches are lost"));
        // Everybody hears of it before the server comes back.
        while world.waiting.borrow().len() < self.tasks.len() && !world.has_failed() {
            for task in (0..self.tasks.len()).rev() {
                self.poll(task);
            }
        }
        world.poisoned_at.set(None);
        storage::commit_inline();
        if world.has_failed() {
            return;
        }
        if let Err(failure) = world.node.start() {
            return world.fail(format!("after {crash:?}: {failure}"));
        }
        self.finish(recover(Rc::clone(&world), crash));
        world.waiting.borrow_mut().clear();
        world.progress.set(world.step());
        self.tasks.iter().for_each(|task| task.woken.0.store(true, Ordering::SeqCst));
        self.new_faults();
    }

    /// Polls until the future is done; false when something is wrong.
    fn finish(&mut self, future: impl Future<Output = Result<(), String>>) -> bool {
        let mut future = pin!(future);
        for _ in 0..RECOVERY_POLLS_MAX {
            if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                if let Err(failure) = result {
                    self.world.fail(failure);
                }
                return !self.world.has_failed();
            }
            self.world.simulation.advance(Duration::from_micros(100));
            self.world.node.work(true);
        }
        self.world.fail("the server does not answer after its start".to_owned());
        false
    }
}

/// Compares what a started server has with what the clients know.
async fn recover(world: Rc<World>, crash: Crash) -> Result<(), String> {
    let port = world.node.connect(0, false);
    observer::validate(&world, &port).await?;
    let mut fates = Vec::new();
    let mut claims = BTreeMap::new();
    for (number, model) in world.models.iter().enumerate() {
        let found = observer::documents_of(&world, &port, number).await?;
        for ((collection, id), document) in &found {
            if collection == "claims"
                && let Some(Value::Int64(claimed)) = document.get("k")
                && let Some(other) = claims.insert(*claimed, id.clone())
            {
                return Err(format!("{other} and {id} both hold {claimed} after {crash:?}"));
            }
        }
        let fate = model.borrow_mut().recovered(crash, found);
        fates.push(fate.map_err(|failure| format!("client {number} after {crash:?}: {failure}"))?);
    }
    let documents = observer::shared_documents(&world, &port).await?;
    fates.push(world.shared.borrow_mut().recovered(crash, &documents)?);
    *world.claims.borrow_mut() = claims;
    check_lost_end(&fates).map_err(|failure| format!("after {crash:?}: {failure}"))?;
    for (number, mortals) in world.mortals.iter().enumerate() {
        let found = observer::mortals_of(&world, &port, number).await?;
        let fate = mortals.borrow_mut().recovered(crash, &found, now_ms());
        fate.map_err(|failure| format!("client {number} after {crash:?}: {failure}"))?;
    }
    observer::let_expire(&world, &port).await
}
