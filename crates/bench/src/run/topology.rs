//! Which servers get the load: what each host says of itself, and what the read preference makes of it.

use crate::command_client::{CommandClient, is_ok, message_of};
use crate::error::BenchError;
use crate::run::connection_string::{ConnectionString, Host};
use crate::security::SecurityOptions;
use document::{Document, Value, doc};
use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// How long a server has for connecting and for `hello`, unless the connection string says otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Targets {
    /// Writes, commands, and the load phase.
    pub(crate) writes: Vec<SocketAddr>,
    /// Reads.
    pub(crate) reads: Vec<SocketAddr>,
    /// All of them as the user knows them.
    pub(crate) hosts: Vec<String>,
    /// What is sent as `$readPreference`; `None`: nothing.
    pub(crate) read_preference: Option<String>,
    /// What each address is called.
    pub(crate) names: Vec<(SocketAddr, String)>,
}

impl Targets {
    /// Whether reads go where writes do.
    pub(crate) fn are_one(&self) -> bool {
        self.writes == self.reads
    }
}

/// What a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Standalone,
    Router,
    Primary,
    Secondary,
    /// An arbiter, a hidden or a starting member: nothing is sent there.
    Other,
}

/// A server that answered.
#[derive(Debug, Clone)]
struct Member {
    host: Host,
    address: SocketAddr,
    role: Role,
    set_name: Option<String>,
    /// The other members as it knows them.
    others: Vec<String>,
}

/// Asks every host, and the members they know of.
///
/// # Errors
/// When a host cannot be reached or the hosts together are no place to send to.
pub(crate) fn discover(wanted: &ConnectionString) -> Result<Targets, BenchError> {
    let mut members: Vec<Member> = Vec::new();
    let mut problems: Vec<String> = Vec::new();
    let mut known: BTreeSet<Host> = wanted.hosts.iter().cloned().collect();
    let mut left = wanted.hosts.clone();
    while let Some(host) = left.pop() {
        match ask(&host, &wanted.security, wanted.connect_timeout.unwrap_or(PATIENCE)) {
            Ok(member) => {
                let discovers = wanted.direct != Some(true) && member.set_name.is_some();
                for other in member.others.iter().filter(|_| discovers) {
                    let other = member_host(other)?;
                    if known.insert(other.clone()) {
                        left.push(other);
                    }
                }
                members.push(member);
            }
            Err(BenchError::Unreachable { problem }) => problems.push(problem),
            Err(error) => problems.push(error.to_string()),
        }
    }
    members.sort_by(|one, other| one.host.cmp(&other.host));
    choose(wanted, &members).map_err(|problem| {
        let problem = std::iter::once(problem).chain(problems).collect::<Vec<_>>().join("; ");
        BenchError::Unreachable { problem }
    })
}

/// `host:port` as members of a replica set are named.
fn member_host(text: &str) -> Result<Host, BenchError> {
    let found = ConnectionString::parse(&format!("mongodb://{text}"))?.hosts;
    found.into_iter().next().ok_or_else(|| BenchError::Usage(format!("'{text}' names no host")))
}

/// As nobody: arbiters know no users.
fn ask(host: &Host, security: &SecurityOptions, patience: Duration) -> Result<Member, BenchError> {
    let unreachable = |problem: String| BenchError::Unreachable { problem: format!("{host}: {problem}") };
    let address = resolve(host).map_err(&unreachable)?;
    let names = vec![(address, host.name.clone())];
    let access = SecurityOptions { login: None, names, ..security.clone() }.access()?;
    let mut client = CommandClient::connect_within(access.at(address), patience)
        .map_err(|error| unreachable(format!("{error}; is a server running there?")))?;
    let reply = client
        .command(&doc! { "hello": 1, "$db": "admin" })
        .map_err(|error| unreachable(format!("no answer to hello: {error}")))?;
    // Servers before 4.4.2 know it as isMaster.
    let reply = if is_ok(&reply) {
        reply
    } else {
        client
            .command(&doc! { "isMaster": 1, "$db": "admin" })
            .map_err(|error| unreachable(format!("no answer to isMaster: {error}")))?
    };
    if !is_ok(&reply) {
        return Err(unreachable(format!("refuses hello: {}", message_of(&reply))));
    }
    Ok(member(host, address, &reply))
}

/// # Errors
/// When it has no address, in words.
pub(crate) fn resolve(host: &Host) -> Result<SocketAddr, String> {
    let mut addresses = (host.name.as_str(), host.port)
        .to_socket_addrs()
        .map_err(|error| format!("the name cannot be resolved: {error}"))?;
    addresses.next().ok_or_else(|| "the name has no address".to_owned())
}

fn member(host: &Host, address: SocketAddr, reply: &Document) -> Member {
    let flag =
        |names: &[&str]| names.iter().any(|name| reply.get(name).and_then(Value::as_bool) == Some(true));
    let set_name = reply.get("setName").and_then(Value::as_str).map(str::to_owned);
    let hidden = flag(&["hidden", "arbiterOnly"]);
    let role = if reply.get("msg").and_then(Value::as_str) == Some("isdbgrid") {
        Role::Router
    } else if set_name.is_none() {
        Role::Standalone
    } else if flag(&["isWritablePrimary", "ismaster"]) {
        Role::Primary
    } else if flag(&["secondary"]) && !hidden {
        Role::Secondary
    } else {
        Role::Other
    };
    let list = |name: &str| -> Vec<String> {
        let values = reply.get(name).and_then(Value::as_array).unwrap_or_default();
        values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let others = [list("hosts"), list("passives")].concat();
    Member { host: host.clone(), address, role, set_name, others }
}

/// What to make of the members that answered.
fn choose(wanted: &ConnectionString, members: &[Member]) -> Result<Targets, String> {
    let Some(first) = members.first() else { return Err("no server answers".to_owned()) };
    if let Some(name) = &wanted.replica_set
        && let Some(other) = members.iter().find(|member| member.set_name.as_ref() != Some(name))
    {
        let found = other.set_name.as_deref().unwrap_or("no member of a replica set");
        return Err(format!("{} is not of the replica set '{name}': {found}", other.host));
    }
    let preference = wanted.concerns.read_preference.as_deref().unwrap_or("primary");
    let of =
        |wanted: Role| -> Vec<&Member> { members.iter().filter(|member| member.role == wanted).collect() };
    let all_of = |role: Role| of(role).len() == members.len();
    if wanted.direct == Some(true) || (members.len() == 1 && first.role == Role::Standalone) {
        // As drivers do on direct connections: a secondary would refuse reads otherwise.
        let read_preference = (first.role == Role::Secondary).then(|| "primaryPreferred".to_owned());
        return Ok(targets(&[first], &[first], read_preference));
    }
    if all_of(Role::Router) {
        let routers = of(Role::Router);
        return Ok(targets(&routers, &routers, wanted.concerns.read_preference.clone()));
    }
    if let Some(standalone) = of(Role::Standalone).first() {
        return Err(format!(
            "{} is a standalone and cannot be one of several hosts; measure one at a time",
            standalone.host
        ));
    }
    let (primaries, secondaries) = (of(Role::Primary), of(Role::Secondary));
    let Some(primary) = primaries.first() else { return Err("no member is the primary".to_owned()) };
    let primary = [*primary];
    let reads = match preference {
        "secondary" if secondaries.is_empty() => {
            return Err("readPreference=secondary, and there is no secondary".to_owned());
        }
        "secondary" => secondaries,
        "secondaryPreferred" if !secondaries.is_empty() => secondaries,
        "nearest" => [&primary[..], &secondaries[..]].concat(),
        _ => primary.to_vec(),
    };
    Ok(targets(&primary, &reads, wanted.concerns.read_preference.clone()))
}

fn targets(writes: &[&Member], reads: &[&Member], read_preference: Option<String>) -> Targets {
    let addresses = |members: &[&Member]| members.iter().map(|member| member.address).collect();
    let mut hosts: Vec<String> = writes.iter().chain(reads).map(|member| member.host.to_string()).collect();
    hosts.sort();
    hosts.dedup();
    let read_preference = read_preference.filter(|mode| mode != "primary");
    let members = writes.iter().chain(reads);
    let names = members.map(|member| (member.address, member.host.name.clone())).collect();
    Targets { writes: addresses(writes), reads: addresses(reads), hosts, read_preference, names }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(port: u16, role: &str) -> Member {
        let host = Host { name: "h".to_owned(), port };
        let reply = match role {
            "primary" => {
                doc! { "isWritablePrimary": true, "setName": "rs", "hosts": ["h:1", "h:2"], "ok": 1.0 }
            }
            "secondary" => doc! { "isWritablePrimary": false, "secondary": true, "setName": "rs", "ok": 1.0 },
            "arbiter" => doc! { "secondary": true, "arbiterOnly": true, "setName": "rs", "ok": 1.0 },
            "router" => doc! { "isWritablePrimary": true, "msg": "isdbgrid", "ok": 1.0 },
            _ => doc! { "isWritablePrimary": true, "ok": 1.0 },
        };
        member(&host, SocketAddr::from(([127, 0, 0, 1], port)), &reply)
    }

    /// Ports of the writes and the reads.
    fn check(options: &str, roles: &[&str], expect: Result<(&[u16], &[u16]), &str>) {
        let members: Vec<Member> = (1..).zip(roles).map(|(port, role)| one(port, role)).collect();
        let wanted = ConnectionString::parse(&format!("mongodb://h/?{options}")).expect("valid");
        let ports = |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::port).collect::<Vec<_>>();
        match (choose(&wanted, &members), expect) {
            (Ok(targets), Ok((writes, reads))) => {
                assert_eq!(
                    (ports(&targets.writes), ports(&targets.reads)),
                    (writes.to_vec(), reads.to_vec()),
                    "{options} {roles:?}"
                );
            }
            (Err(problem), Err(expect)) => {
                assert!(problem.contains(expect), "{options} {roles:?}: {problem}")
            }
            (found, expect) => panic!("{options} {roles:?}: {found:?} instead of {expect:?}"),
        }
    }

    #[test]
    fn the_read_preference_decides() {
        let set = ["secondary", "primary", "secondary", "arbiter"];
        check("", &["standalone"], Ok((&[1], &[1])));
        check("readPreference=secondary", &["standalone"], Ok((&[1], &[1])));
        check("", &set, Ok((&[2], &[2])));
        check("readPreference=primaryPreferred", &set, Ok((&[2], &[2])));
        check("readPreference=secondary", &set, Ok((&[2], &[1, 3])));
        check("readPreference=secondaryPreferred", &set, Ok((&[2], &[1, 3])));
        check("readPreference=secondaryPreferred", &["primary"], Ok((&[1], &[1])));
        check("readPreference=secondary", &["primary"], Err("there is no secondary"));
        check("readPreference=nearest", &set, Ok((&[2], &[2, 1, 3])));
        check("", &["router", "router"], Ok((&[1, 2], &[1, 2])));
    }

    #[test]
    fn hosts_that_do_not_belong_together_are_refused() {
        check("", &[], Err("no server answers"));
        check("", &["secondary"], Err("no member is the primary"));
        check("", &["standalone", "standalone"], Err("measure one at a time"));
        check("replicaSet=rs", &["primary"], Ok((&[1], &[1])));
        check("replicaSet=other", &["primary"], Err("is not of the replica set 'other': rs"));
        check("replicaSet=rs", &["standalone"], Err("no member of a replica set"));
    }

    #[test]
    fn a_direct_connection_takes_the_server_as_it_is() {
        let secondary = [one(1, "secondary")];
        let wanted = ConnectionString::parse("mongodb://h/?directConnection=true").expect("valid");
        let targets = choose(&wanted, &secondary).expect("a target");
        assert_eq!(
            targets.read_preference.as_deref(),
            Some("primaryPreferred"),
            "it would refuse to read otherwise"
        );
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let wanted = ConnectionString::parse(&format!("mongodb://{address}")).expect("valid");
        let problem = discover(&wanted).expect_err("nobody is there").to_string();
        assert!(
            problem.contains(&address.to_string()) && problem.contains("is a server running there"),
            "{problem}"
        );
    }
}
