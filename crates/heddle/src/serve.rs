//! `heddle serve`: everything is put together, runs, and ends in order.

use crate::accountant::{Accountant, AccountantThread, MemoryReport};
use crate::background::BackgroundThread;
use crate::descriptors::DescriptorBudget;
use crate::figures::Figures;
use crate::logging::{Log, LogHandle, LogTarget};
use crate::machine::Machine;
use crate::member_login::MemberLogin;
use crate::network::{self, Resources};
use crate::options::Options;
use crate::pid_file::PidFile;
use crate::replica_set::{self, RunningMember};
use crate::service::CommandService;
use crate::sizing::Sizes;
use crate::ttl::TtlThread;
use crate::{EXIT_OPTIONS, allocator, audit, encryption, fail, knobs};
use catalog::Catalog;
use commands::{DataNode, ServiceContext};
use dispatch::audit::{AuditEvent, AuditLog};
use dispatch::host::{Host, MachineFacts, ProcessControl};
use dispatch::parameters::{Parameter, Parameters, Setting};
use document::{Document, Value, doc};
use query::memory::MemoryPool;
use replication::network::NetworkOptions;
use rustix::fs::Mode;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::error::Error;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use storage::{StorageError, StorageOptions, Store};
use transport::StartError;

/// Exit status when the data cannot be opened, as mongod has it.
const EXIT_DATA: u8 = 100;
/// Exit status when the port cannot be had, as mongod has it.
const EXIT_NETWORK: u8 = 48;
/// Exit status of other failures at the start.
const EXIT_START: u8 = 1;
/// Exit status when the data could not be closed in order.
const EXIT_CLOSE: u8 = 14;

const MIB: u64 = 1 << 20;

/// Memory that is free is looked for at least so often.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How often a primary looks for sessions with retryable writes that are long over.
const SESSIONS_EVERY: Duration = Duration::from_secs(300);

/// Why the server ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Signal(i32),
    Command(Duration),
    /// The data were copied from another member: they are to be opened.
    Copied,
}

/// The `shutdown` command's way to [`run`].
#[derive(Debug)]
struct EndByCommand(Sender<End>);

impl ProcessControl for EndByCommand {
    fn shut_down(&self, timeout_secs: u64) {
        let _ = self.0.send(End::Command(Duration::from_secs(timeout_secs)));
    }
}

/// A failure to start and the exit status that tells it.
struct StartFailure {
    error: Box<dyn Error>,
    status: u8,
}

impl StartFailure {
    fn with(status: u8) -> impl Fn(Box<dyn Error>) -> Self {
        move |error| StartFailure { error, status }
    }
}

/// Starts the server and returns when it has ended.
pub(crate) fn run(options: Options) -> ExitCode {
    if !options.parameters.is_on(Parameter::HonorSystemUmask) {
        // Before any file is made.
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
    }
    let log = match start_log(&options) {
        Ok(log) => log,
        Err(error) => return fail(&error, EXIT_START),
    };
    let (sender, ends) = channel();
    let (end, ended) = match start(&options, &log, &sender) {
        Ok(running) => running.until_the_end(&ends),
        Err(failure) => {
            tracing::error!(target: "control", id = 20_575, error = %failure.error, "Error at startup");
            return ended_early(&log, &failure);
        }
    };
    log.flush();
    match (end, ended) {
        (End::Copied, Ok(())) => begin_again(),
        (_, Ok(())) => ExitCode::SUCCESS,
        (_, Err(error)) => fail(&error, EXIT_CLOSE),
    }
}

fn ended_early(log: &Log, failure: &StartFailure) -> ExitCode {
    let status = fail(&*failure.error, failure.status);
    log.flush();
    status
}

/// Makes this process the same program with the same arguments once more.
fn begin_again() -> ExitCode {
    let again = |program| Command::new(program).args(std::env::args_os().skip(1)).exec();
    let error = std::env::current_exe().map_or_else(|error| error, again);
    fail(&error, EXIT_START)
}

fn start_log(options: &Options) -> std::io::Result<Arc<Log>> {
    let parameters = &options.parameters;
    let path = parameters.text(Parameter::LogPath);
    let target = if path.is_empty() {
        LogTarget::StandardOutput
    } else {
        LogTarget::File { path: PathBuf::from(path), append: parameters.is_on(Parameter::LogAppend) }
    };
    let log = Log::start(target)?;
    let level = |number: i64| i32::try_from(number).expect("the table bounds levels");
    log.set_level("", level(parameters.integer(Parameter::LogLevel)));
    for (component, level) in &options.verbosities {
        log.set_level(component, *level);
    }
    let watched = Arc::clone(&log);
    parameters.watch(Parameter::LogLevel, move |setting| {
        if let Setting::Integer(number) = setting {
            watched.set_level("", level(*number));
        }
        Ok(())
    });
    log.set_redaction(parameters.is_on(Parameter::RedactClientLogData));
    let watched = Arc::clone(&log);
    parameters.watch(Parameter::RedactClientLogData, move |setting| {
        watched.set_redaction(*setting == Setting::Boolean(true));
        Ok(())
    });
    std::panic::set_hook(Box::new(log_panic));
    Ok(log)
}

/// A panic ends one request; the log tells where it was.
fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(target: "control", id = 23_081, place,
        panic_text = panic.payload_as_str().unwrap_or("-"), "Assertion failed");
}

/// A server that listens.
struct Running {
    server: Arc<ServiceContext>,
    transport: Arc<transport::Server>,
    store: Store,
    member: Option<RunningMember>,
    ttl: Option<TtlThread>,
    background: Vec<BackgroundThread>,
    memory: AccountantThread,
    parameters: Arc<Parameters>,
    _pid_file: Option<PidFile>,
}

fn start(options: &Options, log: &Arc<Log>, ends: &Sender<End>) -> Result<Running, StartFailure> {
    let parameters = &options.parameters;
    let budget = DescriptorBudget::of_process();
    let machine = Machine::of_process();
    let sizes = Sizes::choose(&machine, parameters);
    let resources = Resources { descriptors: budget, processors: sizes.processors, memory: sizes.memory };
    let network_options = network::server_options(parameters, resources)
        .map_err(|error| StartFailure::with(EXIT_OPTIONS)(Box::new(error)))?;
    let MemberLogin { identity, proof, is_optional } =
        MemberLogin::read(parameters, network_options.tls.as_deref())
            .map_err(|error| StartFailure::with(EXIT_START)(Box::new(error)))?;
    tracing::info!(target: "control", id = 4_615_611, pid = std::process::id(),
        version = env!("CARGO_PKG_VERSION"),
        dbpath = %parameters.text(Parameter::DbPath), "Heddle starting");
    sizes.log(&machine);
    allocator::keep_free_memory(sizes.keep_free);
    let audit =
        audit::start(parameters, log).map_err(|error| StartFailure::with(EXIT_START)(error.into()))?;
    watch_signals(ends.clone(), Arc::clone(log), audit.clone())
        .map_err(|error| StartFailure::with(EXIT_START)(error.into()))?;
    let (store, has_copied) =
        open_store(parameters, &machine, &sizes, budget).map_err(StartFailure::with(EXIT_DATA))?;
    let catalog =
        Catalog::open(store.clone()).map_err(|error| StartFailure::with(EXIT_DATA)(Box::new(error)))?;
    let member_tls = network::member_tls(parameters, network_options.tls.as_deref())
        .map_err(|error| StartFailure::with(EXIT_OPTIONS)(Box::new(error)))?;
    let figures = Figures::default();
    figures.set_member_tls(member_tls.clone());
    let to_members = NetworkOptions {
        tls: member_tls,
        login: identity,
        login_is_optional: is_optional,
        ..NetworkOptions::default()
    };
    let member = replica_set::start(parameters, sizes.memory, &catalog, has_copied, to_members)
        .map_err(StartFailure::with(EXIT_OPTIONS))?;
    let node = DataNode::new(catalog, parameters);
    let node = match &member {
        Some(member) => node.member_of(member.set.clone()),
        None => node,
    };
    let memory_report = MemoryReport::default();
    let memory_pool = Arc::new(MemoryPool::unlimited());
    let accountant =
        Accountant::new(machine.clone(), sizes, parameters, Arc::clone(&memory_pool), store.clone());
    memory_report.set(Arc::clone(&accountant));
    let host = Host {
        transport: Box::new(figures.clone()),
        log: Box::new(LogHandle(Arc::clone(log))),
        audit,
        process: Box::new(EndByCommand(ends.clone())),
        arguments: std::env::args().collect(),
        parsed_options: options.given.clone(),
        machine: machine_facts(&machine),
        members: proof,
        memory_pool,
        memory: Box::new(memory_report),
        allocator_bytes: allocator::committed_bytes,
        let_others_run: transport::let_others_run,
    };
    let server = ServiceContext::new(node, Arc::clone(parameters), host)
        .map_err(|error| StartFailure::with(EXIT_START)(error.into()))?;
    match &member {
        Some(member) => {
            let (copied, ends) = (member.set.clone(), ends.clone());
            let begins = std::thread::Builder::new().name("replication-copied".into()).spawn(move || {
                pollster::block_on(copied.copied());
                let _ = ends.send(End::Copied);
            });
            begins
                .and_then(|_| member.watch(&server))
                .map_err(|error| StartFailure::with(EXIT_START)(error.into()))?
        }
        None => pollster::block_on(commands::remove_unfinished_outputs(&server.node))
            .map_err(|error| StartFailure::with(EXIT_DATA)(Box::new(error)))?,
    }
    if let Err(error) = pollster::block_on(commands::prepare_own_collections(&server)) {
        tracing::warn!(target: "control", id = 21_100, %error, "Cannot note this start in local.startup_log");
    }
    commands::keep_index_builds_to_calendar(&server);
    commands::keep_compaction_to_calendar(&server);
    warn_about_access(parameters);
    warn_about_permissions(&parameters.text(Parameter::DbPath));
    let service = Arc::new(CommandService::new(Arc::clone(&server)));
    warn_about_limits(parameters, budget);
    tell_of_start(&server);
    let transport = transport::Server::start(network_options, service)
        .map_err(|error: StartError| StartFailure::with(EXIT_NETWORK)(Box::new(error)))?;
    let transport = Arc::new(transport);
    figures.set(Arc::clone(&transport));
    network::watch(parameters, &transport, resources);
    let memory = accountant
        .start(&server, &transport, member.as_ref().map(|member| &member.peers))
        .map_err(|error| StartFailure::with(EXIT_START)(error.into()))?;
    let pid_file = PidFile::write(&parameters.text(Parameter::PidFilePath))
        .map_err(|error| StartFailure::with(EXIT_START)(error.into()))?;
    tell_addresses(&transport);
    log.started();
    let (ttl, background) =
        start_background(&server, member.as_ref()).map_err(StartFailure::with(EXIT_START))?;
    let parameters = Arc::clone(parameters);
    Ok(Running { server, transport, store, member, ttl, background, memory, parameters, _pid_file: pid_file })
}

/// Lets documents expire and index builds go on, where that is this server's to decide.
fn start_background(
    server: &Arc<ServiceContext>,
    member: Option<&RunningMember>,
) -> Result<(Option<TtlThread>, Vec<BackgroundThread>), Box<dyn Error>> {
    let mut background: Vec<_> = BackgroundThread::of_key_rotation(server)?.into_iter().collect();
    if replica_set::is_away_from_its_set(member, &server.node.catalog)? {
        return Ok((None, background));
    }
    background.extend(BackgroundThread::of_index_builds(server)?);
    Ok((Some(TtlThread::start(server)?), background))
}

/// The audit log is told before anybody is served.
fn tell_of_start(server: &ServiceContext) {
    if let Some(audit) = &server.host.audit {
        let options = server.host.parsed_options.clone();
        let param =
            doc! { "startupOptions": options, "initialClusterServerParameters": (Vec::<Value>::new()) };
        audit.record_own(&AuditEvent::new("startup", param));
    }
}

/// SIGTERM and SIGINT end the server, the second one at once; SIGUSR1 begins a new log file.
fn watch_signals(ends: Sender<End>, log: Arc<Log>, audit: Option<Arc<AuditLog>>) -> std::io::Result<()> {
    /// Status of a process that a signal ended, as shells count it.
    const EXIT_BY_SIGNAL: i32 = 128;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGUSR1])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let mut asked = false;
        for signal in signals.forever() {
            if signal == SIGUSR1 {
                if let Err(error) = log.rotate_file() {
                    tracing::warn!(target: "control", id = 23_168, %error, "Log rotation failed");
                }
                if let Some(Err(error)) = audit.as_ref().map(|audit| audit.rotate(None)) {
                    tracing::warn!(target: "control", id = 23_169, %error, "Audit log rotation failed");
                }
                continue;
            }
            if asked {
                std::process::exit(EXIT_BY_SIGNAL + signal);
            }
            asked = true;
            let _ = ends.send(End::Signal(signal));
        }
    })?;
    Ok(())
}

fn machine_facts(machine: &Machine) -> MachineFacts {
    MachineFacts {
        memory_bytes: machine.memory,
        memory_limit_bytes: machine.usable_memory(),
        processors: machine.processors,
        usable_processors: machine.usable_processors(),
    }
}

fn open_store(
    parameters: &Arc<Parameters>,
    machine: &Machine,
    sizes: &Sizes,
    budget: DescriptorBudget,
) -> Result<(Store, bool), Box<dyn Error>> {
    let mut options = StorageOptions {
        journal_interval: Duration::from_millis(parameters.unsigned(Parameter::JournalCommitInterval)),
        open_files_max: budget.table_files,
        engine_defaults: parameters.is_on(Parameter::EngineDefaults),
        ..sizes.storage()
    };
    if let Ok(mib) = u64::try_from(parameters.integer(Parameter::DiskReserveMb)) {
        options.disk_reserve_bytes = Some(mib * MIB);
    }
    options = knobs::storage(options, parameters);
    options.master_key = encryption::master_key(parameters)?;
    let path = PathBuf::from(parameters.text(Parameter::DbPath));
    let has_copied = !parameters.text(Parameter::ReplSetName).is_empty()
        && replication::initial_sync::adopt_copy(&path, &|path| Store::open(path, &options))?;
    let store = Store::open(&path, &options)?;
    // Nobody else has the directory now.
    backup::remove_unfinished(&path)?;
    knobs::watch(parameters, machine, &store);
    let watched = store.clone();
    parameters.watch(Parameter::JournalCommitInterval, move |setting| {
        if let Setting::Integer(milliseconds) = setting {
            watched.set_journal_interval(Duration::from_millis(milliseconds.unsigned_abs()));
        }
        Ok(())
    });
    Ok((store, has_copied))
}

fn warn_about_access(parameters: &Parameters) {
    let bind = parameters.text(Parameter::BindIp);
    let open = parameters.is_on(Parameter::BindIpAll) || bind.split(',').any(|part| !is_local(part.trim()));
    if parameters.text(Parameter::Authorization) == "enabled" {
        tracing::info!(target: "control", id = 22_121,
            "Access control is on; without TLS all but passwords is sent in clear");
        return;
    }
    tracing::warn!(target: "control", id = 22_120,
        "There is no access control: whoever reaches this server may read and change everything");
    if open {
        tracing::warn!(target: "control", id = 22_140, bind_ip = bind,
            "This server listens on addresses that other machines may reach");
    }
}

/// A directory that was made by hand or by an older version may be open to all users of the machine.
fn warn_about_permissions(path: &str) {
    let Ok(metadata) = std::fs::metadata(path) else { return };
    let others = metadata.permissions().mode() & Mode::RWXO.bits();
    if others != 0 {
        tracing::warn!(target: "control", id = 22_141, path,
            "Other users of this machine may look into the data directory: `chmod o-rwx` closes it");
    }
}

/// Whoever asks for more connections than there are descriptors hears of it before it hurts.
fn warn_about_limits(parameters: &Parameters, budget: DescriptorBudget) {
    let wanted = parameters.unsigned(Parameter::MaxConnections);
    if wanted > budget.connections as u64 {
        tracing::warn!(target: "control", id = 22_184, wanted, possible = budget.connections,
            "The limit on open files allows fewer connections than net.maxIncomingConnections");
    }
}

fn is_local(address: &str) -> bool {
    address == "localhost" || address == "::1" || address.starts_with("127.") || address.starts_with('/')
}

fn tell_addresses(transport: &transport::Server) {
    for address in transport.tcp_addresses() {
        tracing::info!(target: "network", id = 23_015, address = %address, port = address.port(),
            "Listening on");
    }
    for address in transport.priority_addresses() {
        tracing::info!(target: "network", id = 23_015, address = %address, port = address.port(),
            lane = "priority", "Listening on");
    }
    for path in transport.unix_paths() {
        tracing::info!(target: "network", id = 23_015, address = %path.display(), "Listening on");
    }
    tracing::info!(target: "network", id = 23_016, "Waiting for connections");
}

impl Running {
    /// Does the regular work until somebody asks for the end, then ends in order.
    fn until_the_end(self, ends: &Receiver<End>) -> (End, Result<(), StorageError>) {
        let (mut expired, mut sessions_expired) = (Instant::now(), Instant::now());
        let end = loop {
            let pause = Duration::from_secs(self.parameters.unsigned(Parameter::CursorMonitorFrequency));
            match ends.recv_timeout(pause.min(LONGEST_PAUSE)) {
                Ok(end) => break end,
                Err(RecvTimeoutError::Timeout) => {
                    if expired.elapsed() >= pause {
                        expired = Instant::now();
                        self.server.expire(expired);
                        // Documents of users that a tool has written are nowhere told.
                        self.server.node.look_at_access_again();
                    }
                    if let Some(member) =
                        self.member.as_ref().filter(|_| sessions_expired.elapsed() >= SESSIONS_EVERY)
                    {
                        sessions_expired = Instant::now();
                        member.expire(&self.server);
                    }
                    commands::keep_compaction_to_calendar(&self.server);
                    self.transport.tidy();
                    allocator::give_back_expired();
                }
                Err(RecvTimeoutError::Disconnected) => break End::Command(Duration::ZERO),
            }
        };
        let grace = match end {
            End::Command(grace) => {
                tracing::info!(target: "control", id = 23_377, reason = "shutdown command", "Shutting down");
                grace
            }
            End::Signal(signal) => {
                tracing::info!(target: "control", id = 23_377, reason = "signal", signal, "Shutting down");
                Duration::from_millis(self.parameters.unsigned(Parameter::ShutdownTimeout))
            }
            End::Copied => {
                tracing::info!(target: "control", id = 23_377, reason = "initial sync",
                    "Shutting down to open the data that were copied");
                Duration::ZERO
            }
        };
        if let Some(audit) = &self.server.host.audit {
            audit.record_own(&AuditEvent::new("shutdown", Document::new()));
        }
        (end, self.finish(grace))
    }

    fn finish(self, grace: Duration) -> Result<(), StorageError> {
        /// Time for interrupted operations to answer.
        const AFTER_INTERRUPT: Duration = Duration::from_secs(2);
        self.server.begin_shutdown();
        if let Some(ttl) = &self.ttl {
            ttl.stop();
        }
        self.background.iter().for_each(BackgroundThread::stop);
        let interrupted = Arc::clone(&self.server);
        let timer = std::thread::Builder::new().name("shutdown-timer".into()).spawn(move || {
            std::thread::sleep(grace);
            interrupted.interrupt_all();
        });
        if timer.is_err() {
            self.server.interrupt_all();
        }
        if let Some(member) = &self.member {
            member.stop();
        }
        let report = self.transport.shutdown(grace + AFTER_INTERRUPT);
        self.server.timers.stop();
        self.memory.stop();
        if let Some(ttl) = &self.ttl {
            ttl.wait(AFTER_INTERRUPT);
        }
        self.background.iter().for_each(|thread| thread.wait(AFTER_INTERRUPT));
        let closed = self.store.close();
        tracing::info!(target: "control", id = 20_565, forced = report.forced, abandoned = report.abandoned,
            "Now exiting");
        closed
    }
}
