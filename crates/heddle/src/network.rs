//! From the tunables to the transport: what it starts with, and what changes while it runs.

use crate::descriptors::DescriptorBudget;
use dispatch::parameters::{ExecutorChoice, Parameter, Parameters, Setting, parse_listener_limits};
use replication::network::MemberTls;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;
use transport::{
    AdaptiveOptions, OverloadTarget, PoolOptions, Server, ServerOptions, ServiceExecutor, Tls, TlsFiles,
    TlsMode,
};

/// Options of the network that cannot be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkError {
    /// The rules between the options of `adaptive`.
    #[error(transparent)]
    Adaptive(#[from] transport::AdaptiveOptionsError),
    /// A thread model or a limit for an address that is not listened on.
    #[error("{option} names '{listener}', which is none of the addresses of net.bindIp: {known}")]
    UnknownListener { option: &'static str, listener: String, known: String },
    /// A mode of TLS without what it needs.
    #[error("need tlsCertificateKeyFile (net.tls.certificateKeyFile) when TLS is enabled")]
    NoCertificate,
    /// Files that are of no use without a mode.
    #[error("net.tls.{file} is given, but net.tls.mode is disabled")]
    TlsDisabled { file: &'static str },
    /// Revoked certificates of no authority.
    #[error("net.tls.CRLFile needs net.tls.CAFile")]
    NoAuthorities,
    /// What is in the files.
    #[error(transparent)]
    Tls(#[from] transport::TlsError),
}

const ADAPTIVE: [Parameter; 8] = [
    Parameter::AdaptiveReservedThreads,
    Parameter::AdaptiveRunTime,
    Parameter::AdaptiveRunTimeJitter,
    Parameter::AdaptiveStuckTimeout,
    Parameter::AdaptiveQueueLatency,
    Parameter::AdaptiveIdleThreshold,
    Parameter::AdaptiveRecursionLimit,
    Parameter::AdaptiveQueues,
];
const POOL: [Parameter; 3] = [Parameter::PoolMinThreads, Parameter::PoolMaxThreads, Parameter::PoolIdle];
const OVERLOAD: [Parameter; 2] = [Parameter::OverloadProtection, Parameter::OverloadTarget];

/// What the process may use, as far as the network is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resources {
    pub(crate) descriptors: DescriptorBudget,
    /// Threads that can run at the same time.
    pub(crate) processors: usize,
    /// Memory in bytes.
    pub(crate) memory: u64,
}

/// Numbers as they are, or as they would be with one change.
struct Numbers<'p> {
    parameters: &'p Parameters,
    resources: Resources,
    changed: Option<(Parameter, i64)>,
}

impl Numbers<'_> {
    fn of(&self, parameter: Parameter) -> i64 {
        match self.changed {
            Some((changed, number)) if changed == parameter => number,
            _ => self.parameters.integer(parameter),
        }
    }

    fn unsigned(&self, parameter: Parameter) -> u64 {
        self.of(parameter).unsigned_abs()
    }

    fn count(&self, parameter: Parameter) -> usize {
        usize::try_from(self.unsigned(parameter)).unwrap_or(usize::MAX)
    }

    fn millis(&self, parameter: Parameter) -> Duration {
        Duration::from_millis(self.unsigned(parameter))
    }

    fn adaptive(&self) -> AdaptiveOptions {
        let narrow = |parameter| u32::try_from(self.unsigned(parameter)).unwrap_or(u32::MAX);
        AdaptiveOptions {
            reserved_threads: self.of(Parameter::AdaptiveReservedThreads),
            run_time: self.millis(Parameter::AdaptiveRunTime),
            run_time_jitter: self.millis(Parameter::AdaptiveRunTimeJitter),
            stuck_thread_timeout: self.millis(Parameter::AdaptiveStuckTimeout),
            max_queue_latency: Duration::from_micros(self.unsigned(Parameter::AdaptiveQueueLatency)),
            idle_threshold_percent: narrow(Parameter::AdaptiveIdleThreshold),
            recursion_limit: narrow(Parameter::AdaptiveRecursionLimit),
            queues: self.count(Parameter::AdaptiveQueues),
            processors: self.resources.processors,
        }
    }

    fn pool(&self) -> PoolOptions {
        let usual = PoolOptions::for_cores(self.resources.processors);
        PoolOptions {
            min_threads: self.count(Parameter::PoolMinThreads),
            max_threads: match self.count(Parameter::PoolMaxThreads) {
                0 => usual.max_threads,
                threads => threads,
            },
            idle: self.millis(Parameter::PoolIdle),
        }
    }

    fn overload(&self) -> OverloadTarget {
        match (self.of(Parameter::OverloadProtection), self.millis(Parameter::OverloadTarget)) {
            (0, _) => OverloadTarget::Off,
            (_, Duration::ZERO) => OverloadTarget::Automatic,
            (_, target) => OverloadTarget::Fixed(target),
        }
    }

    fn unread_replies_max(&self) -> u64 {
        unread_replies_max(self.unsigned(Parameter::UnreadRepliesMax), self.resources.memory)
    }

    /// The limit that the operator chose, as far as the descriptors allow it.
    fn max_connections(&self) -> usize {
        let possible = self.resources.descriptors.connections;
        match self.count(Parameter::MaxConnections) {
            0 => possible,
            chosen => chosen.min(possible),
        }
    }
}

/// A sixteenth of the memory, within bounds, unless the operator chose something else.
fn unread_replies_max(chosen: u64, memory: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    match chosen {
        0 => (memory / 16).clamp(32 * MIB, 1024 * MIB),
        chosen => chosen,
    }
}

/// An eighth of the memory.
fn large_requests_max(memory: u64) -> u64 {
    (memory / 8).max(LARGEST_MESSAGE)
}

/// Shares another size of memory out to what connections hold.
pub(crate) fn set_memory(parameters: &Parameters, server: &Server, memory: u64) {
    let chosen = parameters.unsigned(Parameter::UnreadRepliesMax);
    server.set_unread_replies_max(unread_replies_max(chosen, memory));
    server.set_large_requests_max(large_requests_max(memory));
}

/// The longest message: less could never be received.
const LARGEST_MESSAGE: u64 = wire::MAX_MESSAGE_SIZE as u64;

/// What the transport starts with.
///
/// # Errors
/// Options that contradict each other.
pub(crate) fn server_options(
    parameters: &Parameters,
    resources: Resources,
) -> Result<ServerOptions, NetworkError> {
    let numbers = Numbers { parameters, resources, changed: None };
    let bind_addresses = if parameters.is_on(Parameter::BindIpAll) {
        vec!["*".to_owned()]
    } else {
        names(&parameters.text(Parameter::BindIp))
    };
    let compressors = names(&parameters.text(Parameter::Compressors));
    let (executor, listener_executors) =
        executors(&parameters.text(Parameter::ServiceExecutor), &bind_addresses)?;
    let listener_max_connections =
        listener_limits(&parameters.text(Parameter::ListenerMaxConnections), &bind_addresses)?;
    let adaptive = numbers.adaptive();
    adaptive.validate()?;
    let port = |parameter| u16::try_from(parameters.integer(parameter)).expect("the table bounds ports");
    Ok(ServerOptions {
        bind_addresses,
        port: port(Parameter::Port),
        priority_port: Some(port(Parameter::PriorityPort)).filter(|port| *port > 0),
        priority_lane: parameters.is_on(Parameter::PriorityLane),
        unix_socket_prefix: parameters
            .is_on(Parameter::UnixSocketEnabled)
            .then(|| PathBuf::from(parameters.text(Parameter::UnixSocketPrefix))),
        unix_socket_permissions: u32::try_from(parameters.integer(Parameter::UnixSocketPermissions))
            .expect("the table bounds permissions"),
        max_connections: numbers.max_connections(),
        listener_max_connections,
        compressors: compressors.iter().filter_map(|name| wire::Compressor::from_name(name)).collect(),
        executor,
        listener_executors,
        processors: resources.processors,
        event_loops: numbers.count(Parameter::ServiceEventLoops),
        adaptive,
        pool: numbers.pool(),
        overload: numbers.overload(),
        send_timeout: numbers.millis(Parameter::SendTimeout),
        handshake_timeout: numbers.millis(Parameter::TlsHandshakeTimeout),
        unread_replies_max: numbers.unread_replies_max(),
        large_requests_max: large_requests_max(resources.memory),
        tls: tls(parameters)?.map(Arc::new),
        ..ServerOptions::default()
    })
}

/// How TLS is spoken; `None`: not at all.
///
/// # Errors
/// Files that are missing, of no use, or cannot be used.
pub(crate) fn tls(parameters: &Parameters) -> Result<Option<Tls>, NetworkError> {
    let file =
        |parameter| Some(parameters.text(parameter)).filter(|path| !path.is_empty()).map(PathBuf::from);
    let certificate_key = file(Parameter::TlsCertificateKeyFile);
    let member_certificate_key = file(Parameter::TlsClusterFile);
    let mode = match parameters.text(Parameter::TlsMode).as_str() {
        "allowTLS" => TlsMode::Allow,
        "preferTLS" => TlsMode::Prefer,
        "requireTLS" => TlsMode::Require,
        _ => {
            return match (certificate_key, member_certificate_key) {
                (Some(_), _) => Err(NetworkError::TlsDisabled { file: "certificateKeyFile" }),
                (None, Some(_)) => Err(NetworkError::TlsDisabled { file: "clusterFile" }),
                (None, None) => Ok(None),
            };
        }
    };
    let disabled = names(&parameters.text(Parameter::TlsDisabledProtocols));
    let is_on = |version: &str| !disabled.iter().any(|name| name == version);
    let files = TlsFiles {
        certificate_key: certificate_key.ok_or(NetworkError::NoCertificate)?,
        member_certificate_key,
        authorities: file(Parameter::TlsCaFile),
        revoked: file(Parameter::TlsCrlFile),
        without_certificates: parameters.is_on(Parameter::TlsAllowWithoutCertificates),
        tls_1_2: is_on("TLS1_2"),
        tls_1_3: is_on("TLS1_3"),
    };
    if files.revoked.is_some() && files.authorities.is_none() {
        return Err(NetworkError::NoAuthorities);
    }
    Ok(Some(Tls::open(mode, files)?))
}

/// How TLS is spoken to the other members of a set; `None`: not at all, or there is no set.
///
/// # Errors
/// What is in the files.
pub(crate) fn member_tls(
    parameters: &Parameters,
    tls: Option<&Tls>,
) -> Result<Option<MemberTls>, transport::TlsError> {
    match tls {
        Some(tls) if !parameters.text(Parameter::ReplSetName).is_empty() => {
            Ok(tls.member_config()?.map(MemberTls::new))
        }
        _ => Ok(None),
    }
}

fn names(text: &str) -> Vec<String> {
    text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// The model of most listeners, and those of single ones.
type Executors = (ServiceExecutor, Vec<(String, ServiceExecutor)>);

fn executors(text: &str, bind_addresses: &[String]) -> Result<Executors, NetworkError> {
    let choice = ExecutorChoice::parse(text).expect("the text was checked when it was set");
    let mut listeners = Vec::new();
    for (listener, name) in choice.listeners {
        check_listener("net.serviceExecutor", listener, bind_addresses)?;
        listeners.push((listener.to_owned(), model(name)));
    }
    let usual = Parameter::ServiceExecutor.definition().default_setting().to_string();
    Ok((model(choice.others.unwrap_or(&usual)), listeners))
}

fn check_listener(
    option: &'static str,
    listener: &str,
    bind_addresses: &[String],
) -> Result<(), NetworkError> {
    let is_known = listener.starts_with('/') || bind_addresses.iter().any(|known| known == listener);
    match is_known {
        true => Ok(()),
        false => Err(NetworkError::UnknownListener {
            option,
            listener: listener.to_owned(),
            known: bind_addresses.join(", "),
        }),
    }
}

fn listener_limits(text: &str, bind_addresses: &[String]) -> Result<Vec<(String, usize)>, NetworkError> {
    let limits = parse_listener_limits(text).expect("the text was checked when it was set");
    let checked = limits.into_iter().map(|(listener, most)| {
        check_listener("net.listenerMaxIncomingConnections", listener, bind_addresses)?;
        Ok((listener.to_owned(), most))
    });
    checked.collect()
}

/// Puts changes of the tunables into effect from now on.
pub(crate) fn watch(parameters: &Arc<Parameters>, server: &Arc<Server>, resources: Resources) {
    watch_numbers(parameters, server, resources, &ADAPTIVE, |server, numbers| {
        server.set_adaptive(numbers.adaptive()).map_err(|error| error.to_string())
    });
    watch_numbers(parameters, server, resources, &POOL, |server, numbers| {
        server.set_pool(numbers.pool());
        Ok(())
    });
    watch_numbers(parameters, server, resources, &OVERLOAD, |server, numbers| {
        server.set_overload(numbers.overload());
        Ok(())
    });
    watch_numbers(parameters, server, resources, &[Parameter::MaxConnections], |server, numbers| {
        server.set_max_connections(numbers.max_connections());
        Ok(())
    });
    watch_numbers(parameters, server, resources, &[Parameter::UnreadRepliesMax], |server, numbers| {
        server.set_unread_replies_max(numbers.unread_replies_max());
        Ok(())
    });
    let bind_addresses = names(&parameters.text(Parameter::BindIp));
    let watched = Arc::downgrade(server);
    parameters.watch(Parameter::ServiceExecutor, move |setting| match (setting, watched.upgrade()) {
        (Setting::Text(text), Some(server)) => set_executors(&server, text, &bind_addresses),
        _ => Ok(()),
    });
}

/// Calls `apply` before a number of the group changes, with all numbers as they will be.
fn watch_numbers(
    parameters: &Arc<Parameters>,
    server: &Arc<Server>,
    resources: Resources,
    group: &[Parameter],
    apply: impl Fn(&Server, &Numbers<'_>) -> Result<(), String> + Clone + Send + Sync + 'static,
) {
    for &parameter in group {
        let (server, apply) = (Arc::downgrade(server), apply.clone());
        // Weak: the tunables own their watchers.
        let all: Weak<Parameters> = Arc::downgrade(parameters);
        parameters.watch(parameter, move |setting| {
            let number = match setting {
                Setting::Integer(number) => *number,
                Setting::Boolean(flag) => (*flag).into(),
                Setting::Text(_) => return Ok(()),
            };
            let (Some(parameters), Some(server)) = (all.upgrade(), server.upgrade()) else { return Ok(()) };
            apply(
                &server,
                &Numbers { parameters: &parameters, resources, changed: Some((parameter, number)) },
            )
        });
    }
}

fn model(name: &str) -> ServiceExecutor {
    ServiceExecutor::from_name(name).expect("a choice names models only")
}

/// Changes the thread models of new connections. Nothing is changed when an address is unknown.
fn set_executors(server: &Server, text: &str, bind_addresses: &[String]) -> Result<(), String> {
    let choice = ExecutorChoice::parse(text)?;
    let paths: Vec<String> = server.unix_paths().iter().map(|path| path.display().to_string()).collect();
    let is_known = |listener: &str| bind_addresses.iter().chain(&paths).any(|known| known == listener);
    if let Some((unknown, _)) = choice.listeners.iter().find(|(listener, _)| !is_known(listener)) {
        return Err(format!("'{unknown}' is no address that is listened on"));
    }
    let others = choice.others.map(|model| (None, model));
    let named = choice.listeners.iter().map(|(listener, model)| (Some(*listener), *model));
    for (listener, model) in others.into_iter().chain(named) {
        let model = self::model(model);
        server.set_executor(listener, model).map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dispatch::parameters::SERVICE_EXECUTORS;

    const RESOURCES: Resources = Resources {
        descriptors: DescriptorBudget { connections: 1_000, table_files: 64 },
        processors: 6,
        memory: 1 << 30,
    };

    fn parameters(settings: &[(Parameter, Setting)]) -> Parameters {
        let parameters = Parameters::default();
        for (parameter, setting) in settings {
            parameters.set(*parameter, setting.clone()).expect("allowed");
        }
        parameters
    }

    fn check_executors(text: &str, expect: Result<Executors, &str>) {
        let addresses = ["127.0.0.1".to_owned(), "::1".to_owned()];
        let found = executors(text, &addresses).map_err(|error| error.to_string());
        assert_eq!(found, expect.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn the_table_and_the_transport_know_the_same_models() {
        let [models @ .., auto] = SERVICE_EXECUTORS;
        assert_eq!(models.map(Some), ServiceExecutor::ALL.map(|model| Some(model.name())));
        assert_eq!(ServiceExecutor::from_name(auto), Some(ServiceExecutor::Coroutine));
    }

    #[test]
    fn defaults_are_the_transports_own() {
        let processors = RESOURCES.processors;
        let adaptive = AdaptiveOptions { processors, ..AdaptiveOptions::default() };
        let usual =
            ServerOptions { adaptive, pool: PoolOptions::for_cores(processors), ..ServerOptions::default() };
        let options = server_options(&Parameters::default(), RESOURCES).expect("valid");
        assert_eq!(options.adaptive, usual.adaptive);
        assert_eq!(options.pool, usual.pool);
        assert_eq!(options.overload, usual.overload);
        assert_eq!(
            (options.priority_port, options.priority_lane),
            (usual.priority_port, usual.priority_lane)
        );
        assert_eq!((options.send_timeout, options.event_loops), (usual.send_timeout, usual.event_loops));
        assert_eq!(options.max_connections, 1_000);
        assert_eq!(options.unread_replies_max, 64 << 20, "a sixteenth of the memory");
        assert_eq!(options.large_requests_max, 128 << 20, "an eighth of the memory");
        assert_eq!((options.processors, options.pool.max_threads), (6, 24), "four threads per processor");
    }

    #[test]
    fn models_of_listeners() {
        use ServiceExecutor::{Adaptive, Reactor};
        check_executors("reactor", Ok((Reactor, Vec::new())));
        check_executors(
            "::1=adaptive, /tmp/x.sock=reactor,reactor",
            Ok((Reactor, vec![("::1".to_owned(), Adaptive), ("/tmp/x.sock".to_owned(), Reactor)])),
        );
        check_executors(
            "10.0.0.1=adaptive",
            Err("net.serviceExecutor names '10.0.0.1', which is none of the addresses of net.bindIp: \
                127.0.0.1, ::1"),
        );
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let contradicting = parameters(&[(Parameter::AdaptiveRunTime, Setting::Integer(100))]);
        let error =
            server_options(&contradicting, RESOURCES).expect_err("the jitter is longer than the run time");
        assert!(error.to_string().contains("Jitter"), "{error}");
    }

    #[test]
    fn limits_and_switches() {
        let chosen = parameters(&[
            (Parameter::MaxConnections, Setting::Integer(2_000)),
            (Parameter::OverloadTarget, Setting::Integer(20)),
            (Parameter::PoolMaxThreads, Setting::Integer(3)),
        ]);
        let options = server_options(&chosen, RESOURCES).expect("valid");
        assert_eq!(options.max_connections, 1_000, "descriptors bound what is chosen");
        assert_eq!(options.overload, OverloadTarget::Fixed(Duration::from_millis(20)));
        assert_eq!(options.pool.max_threads, 3);
        let off = Numbers {
            parameters: &chosen,
            resources: RESOURCES,
            changed: Some((Parameter::OverloadProtection, 0)),
        };
        assert_eq!(off.overload(), OverloadTarget::Off);
    }
}
