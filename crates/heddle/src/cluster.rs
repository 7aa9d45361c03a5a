//! `heddle cluster`: a replica set on this machine, for a try.

use crate::fail;
use crate::key_file;
use crate::member_login::{MemberLogin, MemberLoginError};
use crate::network::{self, NetworkError};
use crate::options::{self, OptionsError};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use dispatch::parameters::{Parameter, Parameters, Setting, SettingError};
use document::{Document, DocumentBuf, RawValue, Value, doc};
use replication::network::{MemberTls, NetworkOptions, TcpPeers};
use replication::set::MemberState;
use replication::{PeerError, Peers};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

const MEMBERS: &str = "members";
const DBPATH: &str = "dbpath";
const PORT: &str = "port";
const REPL_SET: &str = "replSet";
const AUTH: &str = "auth";
const KEY_FILE: &str = "keyFile";
const CLUSTER_AUTH_MODE: &str = "clusterAuthMode";
const TLS_MODE: &str = "tlsMode";
const TLS_CA_FILE: &str = "tlsCAFile";
/// What members are told of TLS, with the parameter that it is.
const TLS: [(&str, Parameter, &str); 4] = [
    (TLS_MODE, Parameter::TlsMode, "As each member's: disabled, allowTLS, preferTLS or requireTLS"),
    (
        "tlsCertificateKeyFile",
        Parameter::TlsCertificateKeyFile,
        "Certificate and key that all members show; made out to 127.0.0.1 where they speak TLS to each other",
    ),
    (TLS_CA_FILE, Parameter::TlsCaFile, "Authorities that vouch for certificates of members and clients"),
    ("tlsClusterFile", Parameter::TlsClusterFile, "Another certificate that members show to each other"),
];
const ENABLE_ENCRYPTION: &str = "enableEncryption";
/// Where the master key is, of which one is given.
const ENCRYPTION_KEY: &str = "encryptionKey";
const ENCRYPTION_KEY_FILE: &str = "encryptionKeyFile";
const ENCRYPTION_KEY_COMMAND: &str = "encryptionKeyCommand";
/// Told to each member: it ends with this process.
pub(crate) const ENDS_WITH: &str = "endsWith";

const MEMBERS_MAX: u16 = 7;
/// How often the members are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
const INITIATE_LIMIT: Duration = Duration::from_secs(30);
/// A member that has ended is started again after this time.
const START_AGAIN: Duration = Duration::from_secs(5);
/// What members get to end in order.
const END_LIMIT: Duration = Duration::from_secs(20);

/// The subcommand.
pub(crate) fn command() -> Command {
    Command::new("cluster")
        .about("Starts a replica set on this machine, for a try: Ctrl-C ends it")
        .arg(
            Arg::new(MEMBERS)
                .long(MEMBERS)
                .value_name("COUNT")
                .value_parser(value_parser!(u16).range(1..=i64::from(MEMBERS_MAX)))
                .default_value("3")
                .help("How many members it has"),
        )
        .arg(
            Arg::new(PORT)
                .long(PORT)
                .value_name("PORT")
                .value_parser(value_parser!(u16).range(1..=i64::from(u16::MAX - MEMBERS_MAX)))
                .default_value("27017")
                .help("Port of the first member; the others follow"),
        )
        .arg(
            Arg::new(DBPATH)
                .long(DBPATH)
                .value_name("DIRECTORY")
                .help("Where the data stay; without it they are removed at the end"),
        )
        .arg(
            Arg::new(REPL_SET)
                .long(REPL_SET)
                .value_name("NAME")
                .default_value("heddle")
                .help("Name of the set"),
        )
        .arg(
            Arg::new(AUTH)
                .long(AUTH)
                .action(ArgAction::SetTrue)
                .help("With logins: the members get a key that is made for them, beside the data"),
        )
        .arg(Arg::new(KEY_FILE).long(KEY_FILE).value_name("FILE").help("The same with the key in this file"))
        .arg(
            Arg::new(CLUSTER_AUTH_MODE)
                .long(CLUSTER_AUTH_MODE)
                .value_name("MODE")
                .help("By what members know each other: keyFile, sendKeyFile, sendX509 or x509"),
        )
        .args(TLS.map(|(name, _, help)| {
            Arg::new(name).long(name).value_name(if name == TLS_MODE { "MODE" } else { "FILE" }).help(help)
        }))
        .arg(
            Arg::new(ENABLE_ENCRYPTION)
                .long(ENABLE_ENCRYPTION)
                .action(ArgAction::SetTrue)
                .requires(ENCRYPTION_KEY)
                .help("Each member encrypts its data, with keys of its own and one master key"),
        )
        .args(
            [
                (ENCRYPTION_KEY_FILE, "FILE", "The master key of all members"),
                (ENCRYPTION_KEY_COMMAND, "COMMAND", "The same as a command prints it"),
            ]
            .map(|(name, value, help)| {
                Arg::new(name).long(name).value_name(value).requires(ENABLE_ENCRYPTION).help(help)
            }),
        )
        .group(ArgGroup::new(ENCRYPTION_KEY).args([ENCRYPTION_KEY_FILE, ENCRYPTION_KEY_COMMAND]))
}

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
enum ClusterError {
    #[error("port {port} cannot be had: {error}")]
    Port { port: u16, error: io::Error },
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Login(#[from] MemberLoginError),
    #[error(transparent)]
    Tls(#[from] NetworkError),
    #[error("{0}")]
    Setting(#[from] SettingError),
    #[error("{host} ended at its start ({status}): see {log}")]
    NotStarted { host: String, status: String, log: String },
    #[error("{host} does not begin the set: {message}")]
    NotInitiated { host: String, message: String },
}

/// Runs the set until a signal comes.
pub(crate) fn run(given: &ArgMatches) -> ExitCode {
    let ends = Arc::new(AtomicBool::new(false));
    match run_until(given, &ends) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error, 1),
    }
}

fn run_until(given: &ArgMatches, ends: &Arc<AtomicBool>) -> Result<(), ClusterError> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(ends))?;
    }
    let mut cluster = Cluster::start(given)?;
    cluster.tell_beginning();
    let outcome = cluster.watch(ends);
    cluster.end();
    outcome
}

struct Cluster {
    name: String,
    directory: PathBuf,
    /// Removes the data at the end.
    _temporary: Option<tempfile::TempDir>,
    members: Vec<MemberProcess>,
    peers: TcpPeers,
    is_initiated: bool,
    /// The members' key, where they have one.
    key: Option<PathBuf>,
    security: MemberSecurity,
}

/// How the members know each other and speak TLS, and how they encrypt what they store.
struct MemberSecurity {
    /// What each of them is told.
    arguments: Vec<String>,
    /// Clients log in.
    has_access_control: bool,
    /// What clients add to the address.
    for_clients: String,
}

struct MemberProcess {
    host: String,
    port: u16,
    directory: PathBuf,
    process: Child,
    ended_at: Option<Instant>,
    /// Since it was started.
    has_answered: bool,
    /// What was last told of it.
    seen: String,
}

impl Cluster {
    fn start(given: &ArgMatches) -> Result<Self, ClusterError> {
        let text = |name: &str| given.get_one::<String>(name).cloned();
        let number = |name: &str| given.get_one::<u16>(name).copied().unwrap_or_default();
        let (directory, temporary) = match text(DBPATH) {
            Some(path) => (PathBuf::from(path), None),
            None => {
                let made = tempfile::Builder::new().prefix("heddle-cluster-").tempdir()?;
                (made.path().to_owned(), Some(made))
            }
        };
        let name = text(REPL_SET).unwrap_or_default();
        let ports = number(PORT)..number(PORT) + number(MEMBERS);
        can_be_had(ports.clone())?;
        let key = key_of(given, &directory)?;
        // As a member: there may be no user yet.
        let (security, own) = security_of(given, key.as_deref())?;
        let mut members = Vec::new();
        for (place, port) in ports.enumerate() {
            let directory = directory.join(format!("member{}", place + 1));
            let process = start_member(&name, &security, port, &directory)?;
            let host = format!("127.0.0.1:{port}");
            members.push(MemberProcess {
                host,
                port,
                directory,
                process,
                ended_at: None,
                has_answered: false,
                seen: String::new(),
            });
        }
        let peers = TcpPeers::start(own)?;
        let _temporary = temporary;
        Ok(Cluster { name, directory, _temporary, members, peers, is_initiated: false, key, security })
    }

    fn hosts(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.host.as_str())
    }

    fn tell_beginning(&self) {
        let hosts: Vec<&str> = self.hosts().collect();
        say(&format!("{} members of the replica set '{}' start.", hosts.len(), self.name));
        say(&format!("Data and logs: {}", self.directory.display()));
        let (hosts, tls) = (hosts.join(","), &self.security.for_clients);
        say(&format!("Connect to:    mongodb://{hosts}/?replicaSet={}{tls}", self.name));
        if let Some(key) = &self.key {
            say(&format!("The members' key: {}", key.display()));
        }
        if self.security.has_access_control {
            say(
                "Clients log in. The first user, once there is a primary, from this machine without a login:",
            );
            say("use admin; db.createUser({user: \"root\", pwd: passwordPrompt(), roles: [\"root\"]})");
        }
        say("Ctrl-C ends it.");
    }

    /// Tells each change until the end is asked for.
    fn watch(&mut self, ends: &AtomicBool) -> Result<(), ClusterError> {
        while !ends.load(Ordering::Relaxed) {
            self.look_at_processes()?;
            let states: Vec<Seen> = self.members.iter().map(|member| self.look(member)).collect();
            if !self.is_initiated && states.iter().all(|seen| seen.answers) {
                self.initiate(&states)?;
            }
            for (member, seen) in self.members.iter_mut().zip(states) {
                member.has_answered |= seen.answers;
                member.tell(seen.told);
            }
            sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// A member that has ended is started again, unless it never ran.
    fn look_at_processes(&mut self) -> Result<(), ClusterError> {
        let (name, security) = (self.name.as_str(), &self.security);
        let is_initiated = self.is_initiated;
        for member in &mut self.members {
            match (member.ended_at, member.process.try_wait()?) {
                (_, None) => {}
                (None, Some(status)) if !is_initiated => {
                    let log = log_of(&member.directory).display().to_string();
                    return Err(ClusterError::NotStarted {
                        host: member.host.clone(),
                        status: status.to_string(),
                        log,
                    });
                }
                (None, Some(status)) => {
                    member.ended_at = Some(Instant::now());
                    member.tell(format!("ended ({status}); starts again in {} s", START_AGAIN.as_secs()));
                }
                (Some(ended), Some(_)) if ended.elapsed() >= START_AGAIN => {
                    member.process = start_member(name, security, member.port, &member.directory)?;
                    (member.ended_at, member.has_answered) = (None, false);
                }
                (Some(_), Some(_)) => {}
            }
        }
        Ok(())
    }

    fn look(&self, member: &MemberProcess) -> Seen {
        if member.ended_at.is_some() {
            return Seen { told: member.seen.clone(), ..Seen::default() };
        }
        let status = doc! { "replSetGetStatus": 1, "$db": "admin" };
        let Ok(reply) = self.ask(member, &status, ANSWER_LIMIT) else {
            let told = if member.has_answered { "does not answer" } else { "starts" };
            return Seen { told: told.to_owned(), ..Seen::default() };
        };
        let reply = reply.as_raw();
        let number = |name: &str| reply.get(name).and_then(RawValue::as_i64_exact);
        match number("myState").and_then(MemberState::of_number) {
            None => Seen { answers: true, is_member: false, told: "waits for the set".to_owned() },
            Some(MemberState::Primary) => {
                let told = format!("PRIMARY of term {}", number("term").unwrap_or_default());
                Seen { answers: true, is_member: true, told }
            }
            Some(state) => Seen { answers: true, is_member: true, told: state.name().to_owned() },
        }
    }

    fn ask(
        &self,
        member: &MemberProcess,
        command: &Document,
        limit: Duration,
    ) -> Result<DocumentBuf, PeerError> {
        pollster::block_on(self.peers.ask(&member.host, command.to_buf(), limit))
    }

    /// Makes the set, unless its members know of it already.
    fn initiate(&mut self, states: &[Seen]) -> Result<(), ClusterError> {
        self.is_initiated = true;
        if states.iter().any(|seen| seen.is_member) {
            return Ok(());
        }
        let Some(first) = self.members.first() else { return Ok(()) };
        let members = self.hosts().enumerate();
        let members: Vec<Value> =
            members.map(|(id, host)| doc! { "_id": (id as i32), "host": host }.into()).collect();
        let config = doc! { "_id": (self.name.as_str()), "version": 1, "members": members };
        let command = doc! { "replSetInitiate": (config), "$db": "admin" };
        let failed = |message: String| ClusterError::NotInitiated { host: first.host.clone(), message };
        let reply = self.ask(first, &command, INITIATE_LIMIT).map_err(|error| failed(error.to_string()))?;
        match (reply.as_raw().get("ok").and_then(RawValue::as_f64), reply.as_raw().get("errmsg")) {
            (Some(1.0), _) => Ok(()),
            (_, message) => Err(failed(message.and_then(RawValue::as_str).unwrap_or("refused").to_owned())),
        }
    }

    /// Ends all members, in order where they do.
    fn end(&mut self) {
        say("The members end.");
        self.peers.stop();
        for member in &mut self.members {
            if let (Ok(None), Some(pid)) =
                (member.process.try_wait(), Pid::from_raw(member.process.id() as i32))
            {
                // It may end by itself at this moment.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        let deadline = Instant::now() + END_LIMIT;
        for member in &mut self.members {
            while Instant::now() < deadline && matches!(member.process.try_wait(), Ok(None)) {
                sleep(Duration::from_millis(10));
            }
            let _ = member.process.kill();
            let _ = member.process.wait();
        }
    }
}

/// What a look at a member has shown.
#[derive(Default)]
struct Seen {
    answers: bool,
    is_member: bool,
    told: String,
}

impl MemberProcess {
    fn tell(&mut self, now: String) {
        if self.seen != now {
            say(&format!("{}  {now}", self.host));
            self.seen = now;
        }
    }
}

fn log_of(directory: &Path) -> PathBuf {
    directory.with_extension("log")
}

/// All of them, before anything starts.
fn can_be_had(ports: Range<u16>) -> Result<(), ClusterError> {
    for port in ports {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| ClusterError::Port { port, error })?;
    }
    Ok(())
}

/// Where the members' key is; `None`: nobody logs in.
fn key_of(given: &ArgMatches, directory: &Path) -> io::Result<Option<PathBuf>> {
    const MADE: &str = "keyFile";
    if let Some(path) = given.get_one::<String>(KEY_FILE) {
        return Ok(Some(PathBuf::from(path)));
    }
    let by_certificates = given.get_one::<String>(CLUSTER_AUTH_MODE).is_some_and(|mode| mode == "x509");
    if !given.get_flag(AUTH) || by_certificates {
        return Ok(None);
    }
    std::fs::create_dir_all(directory)?;
    let path = directory.join(MADE);
    key_file::make(&path)?;
    Ok(Some(path))
}

/// What members are told, and how this process speaks to them. What cannot be is refused before they start.
fn security_of(
    given: &ArgMatches,
    key: Option<&Path>,
) -> Result<(MemberSecurity, NetworkOptions), ClusterError> {
    let parameters = Parameters::default();
    let mut arguments = encryption_of(given)?;
    let mut tell = |name: &str, parameter: Parameter, value: String| {
        parameters.set(parameter, Setting::Text(value.clone()))?;
        arguments.extend([format!("--{name}"), value]);
        Ok::<_, ClusterError>(())
    };
    if let Some(key) = key {
        tell(KEY_FILE, Parameter::KeyFile, std::path::absolute(key)?.to_string_lossy().into_owned())?;
    }
    if let Some(mode) = given.get_one::<String>(CLUSTER_AUTH_MODE) {
        tell(CLUSTER_AUTH_MODE, Parameter::ClusterAuthMode, mode.clone())?;
    }
    for (name, parameter, _) in TLS {
        let Some(value) = given.get_one::<String>(name) else { continue };
        let value = match name {
            TLS_MODE => value.clone(),
            _ => std::path::absolute(value)?.to_string_lossy().into_owned(),
        };
        tell(name, parameter, value)?;
    }
    options::check_members(&parameters)?;
    let tls = network::tls(&parameters)?;
    let identity = MemberLogin::read(&parameters, tls.as_ref())?.identity;
    let for_clients = match parameters.text(Parameter::TlsMode).as_str() {
        "requireTLS" => format!("&tls=true&{TLS_CA_FILE}={}", parameters.text(Parameter::TlsCaFile)),
        _ => String::new(),
    };
    let has_access_control = parameters.text(Parameter::Authorization) == "enabled";
    let tls = match &tls {
        Some(tls) => tls.member_config().map_err(NetworkError::from)?.map(MemberTls::new),
        None => None,
    };
    let own = NetworkOptions { login: identity, tls, ..NetworkOptions::default() };
    Ok((MemberSecurity { arguments, has_access_control, for_clients }, own))
}

/// What members are told of encryption at rest.
fn encryption_of(given: &ArgMatches) -> io::Result<Vec<String>> {
    let text = |name: &str| given.get_one::<String>(name);
    let mut arguments = Vec::new();
    if given.get_flag(ENABLE_ENCRYPTION) {
        arguments.push(format!("--{ENABLE_ENCRYPTION}"));
    }
    if let Some(path) = text(ENCRYPTION_KEY_FILE) {
        let path = std::path::absolute(path)?.to_string_lossy().into_owned();
        arguments.extend([format!("--{ENCRYPTION_KEY_FILE}"), path]);
    }
    if let Some(command) = text(ENCRYPTION_KEY_COMMAND) {
        arguments.extend([format!("--{ENCRYPTION_KEY_COMMAND}"), command.clone()]);
    }
    Ok(arguments)
}

fn start_member(name: &str, security: &MemberSecurity, port: u16, directory: &Path) -> io::Result<Child> {
    std::fs::create_dir_all(directory)?;
    std::process::Command::new(std::env::current_exe()?)
        .arg("serve")
        .args(&security.arguments)
        .args(["--bind_ip", "127.0.0.1", "--nounixsocket", "--logappend"])
        // Three reserves on one disk would be a lot for a try.
        .args(["--diskReserveMB", "0"])
        .args(["--replSet", name, "--port", &port.to_string()])
        .args([format!("--{ENDS_WITH}"), std::process::id().to_string()])
        .arg("--dbpath")
        .arg(directory)
        .arg("--logpath")
        .arg(log_of(directory))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C is for us alone.
        .process_group(0)
        .spawn()
}

fn say(line: &str) {
    let mut output = io::stdout().lock();
    // Whoever reads may be gone; the members end in order nevertheless.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

/// In a member: ends when the process of this id does, at once where it is gone already.
///
/// # Errors
/// The system does not tell of it.
pub(crate) fn end_with(parent: i32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    if rustix::process::getppid().map(Pid::as_raw_nonzero).map(i32::from) != Some(parent) {
        kill_process(rustix::process::getpid(), Signal::TERM)?;
    }
    Ok(())
}
