//! A server as a member of a replica set: `--replSet`.

use catalog::Catalog;
use commands::ServiceContext;
use dispatch::command::host_info;
use dispatch::failpoints::FailPoint;
use dispatch::parameters::{Parameter, Parameters, Setting};
use replication::network::{NetworkOptions, TcpPeers};
use replication::set::{ReplicaSet, SetOptions, Topology};
use replication::{LocalState, LogOptions};
use rustix::fs::statvfs;
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// A new oplog without a chosen size gets this share of the free disk, within the bounds.
const OPLOG_SHARE: u64 = 20;
const OPLOG_BYTES_MIN: u64 = 990 * MIB;
const OPLOG_BYTES_MAX: u64 = 50 << 30;
const SECONDS_PER_HOUR: f64 = 3600.0;

/// What cannot be started as a member.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MemberError {
    #[error(
        "Local replica set configuration document reported set name of {stored}, but command line reported \
        {given}"
    )]
    OtherSet { stored: String, given: String },
    #[error(
        "replication.replSetName needs a net.port that is known: 0 takes any, which the others would not find"
    )]
    NoPort,
}

/// A member that runs, and its way to the others.
#[derive(Debug)]
pub(crate) struct RunningMember {
    pub(crate) set: ReplicaSet,
    pub(crate) peers: Arc<TcpPeers>,
}

/// Starts the member that the options make of this server, with so many bytes of memory for the process, and
/// with how it speaks to the others; `None` for a server of no set.
///
/// # Errors
/// Data of another set, a log that cannot be read, no thread left.
pub(crate) fn start(
    parameters: &Parameters,
    memory: u64,
    catalog: &Arc<Catalog>,
    has_copied: bool,
    network: NetworkOptions,
) -> Result<Option<RunningMember>, Box<dyn Error>> {
    let given = parameters.text(Parameter::ReplSetName);
    let stored = LocalState::new(catalog.store().clone()).identity()?.map(|identity| identity.set_name);
    match stored {
        Some(stored) if given.is_empty() => {
            tracing::warn!(target: "control", id = 20_547, set = stored,
                "Document(s) exist in 'system.replset', but started without --replSet. Database contents \
                may appear inconsistent with the writes that were visible when this node was running as \
                part of a replica set. Restart with --replSet unless you are doing maintenance and no other \
                clients are connected. The TTL collection monitor will not start because of this");
            return Ok(None);
        }
        Some(stored) if stored != given => return Err(MemberError::OtherSet { stored, given }.into()),
        _ if given.is_empty() => return Ok(None),
        _ => {}
    }
    if parameters.integer(Parameter::Port) == 0 {
        return Err(MemberError::NoPort.into());
    }
    let mut options = SetOptions::new(given, own_hosts(parameters), seed());
    options.log = log_options(parameters);
    options.has_copied = has_copied;
    options.data = catalog.store().path().map(Path::to_owned);
    let options = options.within_memory(memory);
    let peers = Arc::new(TcpPeers::start(network.within_memory(memory))?);
    let set = ReplicaSet::start(options, Arc::clone(catalog), Arc::<TcpPeers>::clone(&peers))?;
    set.set_replaces_data(parameters.is_on(Parameter::AutomaticInitialSync));
    let watched = set.clone();
    parameters.watch(Parameter::AutomaticInitialSync, move |setting| {
        watched.set_replaces_data(*setting == Setting::Boolean(true));
        Ok(())
    });
    watch_flow(parameters, &set);
    let (watched, seconds) = (set.clone(), parameters.unsigned(Parameter::SnapshotHistoryWindow));
    set.set_history_window(Duration::from_secs(seconds));
    parameters.watch(Parameter::SnapshotHistoryWindow, move |setting| {
        if let Setting::Integer(seconds) = setting {
            watched.set_history_window(Duration::from_secs(seconds.unsigned_abs()));
        }
        Ok(())
    });
    Ok(Some(RunningMember { set, peers }))
}

/// Whether the data are a member's that was not started as one: nothing of them goes by itself, or they would
/// be others than those of the set.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn is_away_from_its_set(
    member: Option<&RunningMember>,
    catalog: &Catalog,
) -> Result<bool, Box<dyn Error>> {
    Ok(member.is_none() && LocalState::new(catalog.store().clone()).identity()?.is_some())
}

impl RunningMember {
    /// Hands over where this member is the primary, and ends what runs for the set.
    pub(crate) fn stop(&self) {
        self.set.stop();
        self.peers.stop();
    }

    /// Tells what becomes of this member, and does what a primary does at the beginning of its time, on a
    /// thread of its own.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn watch(&self, server: &Arc<ServiceContext>) -> std::io::Result<()> {
        let (set, server) = (self.set.clone(), Arc::downgrade(server));
        let tested = server.clone();
        let is_paused = |server: Arc<ServiceContext>| {
            let point = FailPoint::PauseBatchApplicationBeforeCompletion;
            server.failpoints.is_set(point) && !server.is_shutting_down()
        };
        set.pause_batches_while(move || tested.upgrade().is_some_and(is_paused));
        let watch = move || {
            let mut before: Option<Arc<Topology>> = None;
            loop {
                let now = set.topology();
                let Some(server) = server.upgrade() else { return };
                tell_change(before.as_deref(), &now);
                let has_prepared = before.is_some_and(|before| before.is_writable && before.term == now.term);
                if now.is_writable && !has_prepared {
                    prepare(&server);
                }
                drop(server);
                pollster::block_on(set.topology_changed(now.counter));
                before = Some(now);
            }
        };
        std::thread::Builder::new().name("replication-role".into()).spawn(watch).map(drop)
    }

    /// Forgets sessions that nobody has used for long, on a thread of its own: it waits for the others.
    pub(crate) fn expire(&self, server: &Arc<ServiceContext>) {
        if !self.set.is_writable() {
            return;
        }
        let server = Arc::clone(server);
        let expire = move || {
            if let Err(error) = pollster::block_on(commands::expire_retryable_writes(&server)) {
                tracing::debug!(target: "repl", %error, "outdated sessions are not forgotten");
            }
        };
        if let Err(error) = std::thread::Builder::new().name("session-expiry".into()).spawn(expire) {
            tracing::warn!(target: "repl", id = 5_710_012, %error, "No thread to forget outdated sessions");
        }
    }
}

/// Puts changes of the parameters of flow control into effect.
fn watch_flow(parameters: &Parameters, set: &ReplicaSet) {
    let switched = set.clone();
    follow(parameters, Parameter::EnableFlowControl, move |setting| {
        if let Setting::Boolean(is_on) = setting {
            switched.flow_settings().switch(*is_on);
        }
    });
    let set = set.clone();
    follow(parameters, Parameter::FlowControlTargetLag, move |setting| {
        if let Setting::Integer(seconds) = setting {
            set.flow_settings().set_target_lag(Duration::from_secs(seconds.unsigned_abs()));
        }
    });
}

/// Tells what a parameter is, and what it becomes.
fn follow(parameters: &Parameters, parameter: Parameter, apply: impl Fn(&Setting) + Send + Sync + 'static) {
    apply(&parameters.get(parameter));
    parameters.watch(parameter, move |setting| {
        apply(setting);
        Ok(())
    });
}

/// What the first moments of a primary are for.
fn prepare(server: &Arc<ServiceContext>) {
    if let Err(error) = pollster::block_on(commands::prepare_replicated(server)) {
        // The next primary does it.
        tracing::warn!(target: "repl", id = 5_710_011, %error, "What a primary prepares is not done");
    }
}

/// Says what has become of this member.
fn tell_change(before: Option<&Topology>, now: &Topology) {
    let state = |topology: &Topology| topology.state.name();
    if let Some(before) = before.filter(|before| before.state != now.state) {
        tracing::info!(target: "repl", id = 21_358, new_state = state(now), old_state = state(before),
            term = now.term,
            "Replica set state transition");
    }
}

fn seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// As what the others may know this server; first, what it calls itself: as MongoDB, the first address that
/// it listens on, or the machine's name where it listens on all.
fn own_hosts(parameters: &Parameters) -> Vec<String> {
    let port = parameters.integer(Parameter::Port);
    let bound = match parameters.is_on(Parameter::BindIpAll) {
        true => "*".to_owned(),
        false => parameters.text(Parameter::BindIp),
    };
    let names = bound.split(',').map(|name| name.trim().to_owned());
    let mut names: Vec<String> = names
        .filter(|name| !matches!(name.as_str(), "" | "*" | "0.0.0.0" | "::") && !name.starts_with('/'))
        .collect();
    names.push(host_info::host_name());
    names.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    let mut hosts = Vec::new();
    for name in names {
        let host = if name.contains(':') { format!("[{name}]:{port}") } else { format!("{name}:{port}") };
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

fn log_options(parameters: &Parameters) -> LogOptions {
    let size_bytes = match parameters.unsigned(Parameter::OplogSizeMb) {
        0 => usual_oplog_bytes(Path::new(&parameters.text(Parameter::DbPath))),
        mib => mib * MIB,
    };
    let hours = parameters.text(Parameter::OplogMinRetention).parse();
    let hours: f64 = hours.expect("the text was checked when it was set");
    let retention = (hours > 0.0).then(|| Duration::from_secs_f64(hours * SECONDS_PER_HOUR));
    LogOptions { size_bytes, retention, ..LogOptions::default() }
}

fn usual_oplog_bytes(directory: &Path) -> u64 {
    let free = statvfs(directory).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    (free / OPLOG_SHARE).clamp(OPLOG_BYTES_MIN, OPLOG_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_hosts(bind: &str, first: &str) {
        let parameters = Parameters::default();
        parameters.set(Parameter::BindIp, Setting::Text(bind.to_owned())).expect("allowed");
        parameters.set(Parameter::Port, Setting::Integer(7)).expect("allowed");
        let hosts = own_hosts(&parameters);
        assert_eq!(hosts.first().map(String::as_str), Some(first), "{bind}");
        for host in ["localhost:7", "127.0.0.1:7", "[::1]:7"] {
            assert_eq!(hosts.iter().filter(|known| *known == host).count(), 1, "{bind}: {hosts:?}");
        }
    }

    #[test]
    fn a_member_calls_itself_what_it_listens_on() {
        check_hosts("127.0.0.1", "127.0.0.1:7");
        check_hosts("localhost,10.0.0.1", "localhost:7");
        check_hosts("::1", "[::1]:7");
        check_hosts("0.0.0.0", &format!("{}:7", host_info::host_name()));
        check_hosts("/tmp/x.sock, db1", "db1:7");
    }

    #[test]
    fn the_oplog_is_as_large_and_old_as_chosen() {
        let parameters = Parameters::default();
        assert!((OPLOG_BYTES_MIN..=OPLOG_BYTES_MAX).contains(&log_options(&parameters).size_bytes));
        assert_eq!(log_options(&parameters).retention, None);
        parameters.set(Parameter::OplogSizeMb, Setting::Integer(7)).expect("allowed");
        parameters.set(Parameter::OplogMinRetention, Setting::Text("1.5".to_owned())).expect("allowed");
        let options = log_options(&parameters);
        assert_eq!(options.size_bytes, 7 * MIB);
        assert_eq!(options.retention, Some(Duration::from_secs(5400)));
        assert!(parameters.set(Parameter::OplogMinRetention, Setting::Text("-1".to_owned())).is_err());
    }
}
