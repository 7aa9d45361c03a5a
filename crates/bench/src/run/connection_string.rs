//! Connection strings (specification "Connection String"): `mongodb://host[:port],…/database?option=value&…`.

use crate::error::BenchError;
use crate::security::{BY_CERTIFICATE, LoginOptions, SecurityOptions, TlsRequest};
use crate::workload::{Concerns, W, WriteConcern};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const SCHEME: &str = "mongodb://";
const DEFAULT_PORT: u16 = 27017;
/// Modes of read preference (specification "Server Selection").
const READ_PREFERENCES: [&str; 5] =
    ["primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"];
/// Options that say something about pools, retries and monitoring of a driver; a load generator has none of
/// them.
const WITHOUT_EFFECT: [&str; 15] = [
    "appname",
    "heartbeatfrequencyms",
    "localthresholdms",
    "maxidletimems",
    "maxpoolsize",
    "maxconnecting",
    "minpoolsize",
    "retryreads",
    "retrywrites",
    "servermonitoringmode",
    "serverselectiontryonce",
    "uuidrepresentation",
    "waitqueuetimeoutms",
    "maxstalenessseconds",
    "readpreferencetags",
];

/// What cannot be read of a user is not shown: a password may be in it.
const UNREAD_USER: &str =
    "user and password: ':', '/', '?', '@' and '%' are written as %3A, %2F, %3F, %40 and %25";

/// One host: a name or an address without brackets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Host { name, port } = self;
        if name.contains(':') {
            write!(formatter, "[{name}]:{port}")
        } else {
            write!(formatter, "{name}:{port}")
        }
    }
}

/// A connection string, understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ConnectionString {
    pub(crate) hosts: Vec<Host>,
    pub(crate) database: Option<String>,
    pub(crate) replica_set: Option<String>,
    pub(crate) direct: Option<bool>,
    pub(crate) concerns: Concerns,
    pub(crate) compressors: Compressors,
    pub(crate) connect_timeout: Option<Duration>,
    /// How long a reply is waited for.
    pub(crate) socket_timeout: Option<Duration>,
    pub(crate) selection_timeout: Option<Duration>,
    pub(crate) security: SecurityOptions,
    /// What was said and has no effect, in whole sentences.
    pub(crate) warnings: Vec<String>,
}

impl ConnectionString {
    /// # Errors
    /// [`BenchError::Usage`] for what is no connection string or asks for what this program cannot do.
    pub(crate) fn parse(text: &str) -> Result<Self, BenchError> {
        Self::parse_or_ask(text, |_| Err("the user has no password: mongodb://USER:PASSWORD@HOST".to_owned()))
    }

    /// The same; `ask` is for the password of a user who is named without one.
    pub(crate) fn parse_or_ask(
        text: &str,
        ask: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<Self, BenchError> {
        parse(text, ask).map_err(|problem| BenchError::Usage(format!("connection string: {problem}")))
    }
}

fn parse(text: &str, ask: impl FnOnce(&str) -> Result<String, String>) -> Result<ConnectionString, String> {
    if text.starts_with("mongodb+srv://") {
        return Err("mongodb+srv is not supported; name the hosts: mongodb://host:port,host:port".to_owned());
    }
    let Some(rest) = text.strip_prefix(SCHEME) else {
        return Err(format!("expected {SCHEME}host[:port][/database][?options], found '{text}'"));
    };
    let (before, options) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = before.split_once('/').unwrap_or((before, ""));
    let (user, authority) = match authority.rsplit_once('@') {
        Some((user, authority)) => (Some(user), authority),
        // It would be taken for hosts and options, and shown.
        None if rest.contains('@') => return Err(UNREAD_USER.to_owned()),
        None => (None, authority),
    };
    let hosts = authority.split(',').map(host).collect::<Result<Vec<Host>, String>>()?;
    let mut found = ConnectionString { hosts, ..ConnectionString::default() };
    if !database.is_empty() {
        found.database = Some(database_name(&decoded(database)?)?);
    }
    let mut secured = SecuredBy::default();
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option
            .split_once('=')
            .ok_or(format!("the option '{option}' has no value; expected {option}=…"))?;
        let (name, value) = (decoded(name)?, decoded(value)?);
        if !secured.set(&name, &value)? {
            found.set(&name, &value)?;
        }
    }
    found.security.login = secured.login(user, found.database.as_deref(), ask)?;
    found.security.tls = secured.tls()?;
    if found.direct == Some(true) && found.hosts.len() > 1 {
        return Err("directConnection=true goes with one host only".to_owned());
    }
    Ok(found)
}

/// A name that the server accepts for a database.
fn database_name(name: &str) -> Result<String, String> {
    if name.contains(['/', '\\', ' ', '"', '$', '.']) {
        return Err(format!("'{name}' is no name of a database"));
    }
    Ok(name.to_owned())
}

fn host(text: &str) -> Result<Host, String> {
    if text.is_empty() {
        return Err("a host is missing".to_owned());
    }
    let plain = decoded(text)?;
    if plain.contains('/') {
        return Err(format!("'{plain}': load over Unix sockets is not supported yet; name host and port"));
    }
    let (name, port) = match plain.strip_prefix('[') {
        Some(rest) => {
            let (name, rest) = rest.split_once(']').ok_or(format!("'{text}' has no closing bracket"))?;
            name.parse::<std::net::Ipv6Addr>().map_err(|_| format!("'{name}' is no IPv6 address"))?;
            let port = rest.strip_prefix(':');
            if port.is_none() && !rest.is_empty() {
                return Err(format!("'{text}': expected [address]:port"));
            }
            (name.to_owned(), port)
        }
        None => match plain.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(format!("'{text}': an IPv6 address stands in brackets, [{text}]"));
            }
            Some((name, port)) => (name.to_owned(), Some(port)),
            None => (plain.clone(), None),
        },
    };
    let number = |port: &str| port.parse().ok().filter(|port| *port > 0);
    let port = port.map_or(Ok(DEFAULT_PORT), |port| {
        number(port).ok_or(format!("'{port}' is no port; expected 1 to 65535"))
    })?;
    if name.is_empty() {
        return Err(format!("'{text}' names no host"));
    }
    Ok(Host { name, port })
}

/// Undoes percent-encoding.
fn decoded(text: &str) -> Result<String, String> {
    let problem = || format!("'{text}' is not percent-encoded: expected %XX with two hexadecimal digits");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16)).ok_or_else(problem);
        bytes.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(bytes).map_err(|_| problem())
}

fn boolean(name: &str, value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| format!("{name}={value}: expected true or false"))
}

fn number(name: &str, value: &str) -> Result<u32, String> {
    value.parse().map_err(|_| format!("{name}={value}: expected a whole number from 0"))
}

/// A mode of read preference in its own spelling.
pub(crate) fn read_preference(text: &str) -> Result<String, String> {
    let known = READ_PREFERENCES.into_iter().find(|known| known.eq_ignore_ascii_case(text));
    known.map(str::to_owned).ok_or(format!("'{text}' is not one of {}", READ_PREFERENCES.join(", ")))
}

/// The names of compressors that this program has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Compressors(pub(crate) Vec<String>);

impl FromStr for Compressors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = |name: &str| match wire::Compressor::from_name(name) {
            Some(known) if wire::Compressor::NEGOTIABLE.contains(&known) => Ok(name.to_owned()),
            _ => Err(format!("'{name}' is not one of snappy, zlib, zstd")),
        };
        text.split(',').filter(|name| !name.is_empty()).map(known).collect::<Result<_, _>>().map(Compressors)
    }
}

impl ConnectionString {
    /// Sets an option; names are case-insensitive.
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let milliseconds = || {
            let milliseconds = number(name, value)?;
            Ok::<_, String>((milliseconds > 0).then(|| Duration::from_millis(milliseconds.into())))
        };
        match name.to_ascii_lowercase().as_str() {
            "replicaset" => self.replica_set = Some(value.to_owned()),
            "directconnection" => self.direct = Some(boolean(name, value)?),
            "readpreference" => {
                self.concerns.read_preference =
                    Some(read_preference(value).map_err(|problem| format!("{name}: {problem}"))?);
            }
            "readconcernlevel" => self.concerns.read = Some(value.to_owned()),
            "w" => self.concerns.write.w = Some(W::parse(value)),
            "journal" => self.concerns.write.journal = Some(boolean(name, value)?),
            "wtimeoutms" | "wtimeout" => {
                self.concerns.write =
                    WriteConcern { timeout_ms: Some(number(name, value)?), ..self.concerns.write.clone() };
            }
            "compressors" => {
                self.compressors = value.parse().map_err(|problem| format!("{name}: {problem}"))?;
            }
            "connecttimeoutms" => self.connect_timeout = milliseconds()?,
            "sockettimeoutms" | "timeoutms" => self.socket_timeout = milliseconds()?,
            "serverselectiontimeoutms" => self.selection_timeout = milliseconds()?,
            "loadbalanced" if boolean(name, value)? => {
                return Err("loadBalanced is not supported".to_owned());
            }
            "loadbalanced" => {}
            "authmechanismproperties" => return Err(format!("{name} is not supported")),
            other if other.starts_with("tls") => return Err(format!("{name} is not supported")),
            other if WITHOUT_EFFECT.contains(&other) => {
                self.warnings.push(format!("the option {name} has no effect here"));
            }
            _ => self.warnings.push(format!("unknown option {name} in the connection string")),
        }
        Ok(())
    }
}

/// The options that are about logins and TLS.
#[derive(Debug, Default)]
struct SecuredBy {
    source: Option<String>,
    mechanism: Option<String>,
    is_secured: Option<bool>,
    request: TlsRequest,
}

impl SecuredBy {
    /// Whether the option is one of these.
    fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let request = &mut self.request;
        match name.to_ascii_lowercase().as_str() {
            "authsource" => self.source = Some(database_of_users(value)?),
            "authmechanism" if value == "DEFAULT" => {}
            "authmechanism" if matches!(value, "SCRAM-SHA-1" | "SCRAM-SHA-256" | BY_CERTIFICATE) => {
                self.mechanism = Some(value.to_owned());
            }
            "authmechanism" => {
                let known = "SCRAM-SHA-1, SCRAM-SHA-256 or MONGODB-X509";
                return Err(format!("{name}={value}: expected {known}"));
            }
            "tls" | "ssl" => self.is_secured = Some(boolean(name, value)?),
            "tlscafile" => request.authorities = Some(value.into()),
            "tlscertificatekeyfile" => request.certificate_key = Some(value.into()),
            "tlsallowinvalidcertificates" => request.any_certificate = boolean(name, value)?,
            "tlsallowinvalidhostnames" => request.any_hostname = boolean(name, value)?,
            "tlsinsecure" => {
                request.any_certificate = boolean(name, value)?;
                request.any_hostname = request.any_certificate;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `user` is what stands before the hosts.
    fn login(
        &self,
        user: Option<&str>,
        database: Option<&str>,
        ask: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<Option<LoginOptions>, String> {
        if self.mechanism.as_deref() == Some(BY_CERTIFICATE) {
            return self.by_certificate(user).map(Some);
        }
        let Some(user) = user else {
            return match self.mechanism {
                Some(_) => Err("authMechanism needs a user: mongodb://USER:PASSWORD@HOST".to_owned()),
                None => Ok(None),
            };
        };
        let part = |text: &str| {
            let is_plain = !text.contains([':', '@']);
            decoded(text).ok().filter(|_| is_plain).ok_or_else(|| UNREAD_USER.to_owned())
        };
        let source = self.source.as_deref().or(database).unwrap_or("admin").to_owned();
        let (user, password) = match user.split_once(':') {
            Some((user, password)) => (part(user)?, Some(part(password)?)),
            None => (part(user)?, None),
        };
        if user.is_empty() {
            return Err("the user has no name".to_owned());
        }
        let password = password.map_or_else(|| ask(&user), Ok)?;
        Ok(Some(LoginOptions { user, password, source, mechanism: self.mechanism.clone() }))
    }

    /// The name may be left out: the certificate has it.
    fn by_certificate(&self, user: Option<&str>) -> Result<LoginOptions, String> {
        if self.is_secured != Some(true) || self.request.certificate_key.is_none() {
            return Err("authMechanism=MONGODB-X509 goes with tls=true and tlsCertificateKeyFile".to_owned());
        }
        let user = decoded(user.unwrap_or_default()).map_err(|_| UNREAD_USER.to_owned())?;
        Ok(LoginOptions {
            user,
            password: String::new(),
            source: "$external".to_owned(),
            mechanism: self.mechanism.clone(),
        })
    }

    fn tls(self) -> Result<Option<TlsRequest>, String> {
        match self.is_secured {
            Some(true) => Ok(Some(self.request)),
            _ if self.request != TlsRequest::default() => {
                Err("the other options of TLS go with tls=true".to_owned())
            }
            _ => Ok(None),
        }
    }
}

/// `authSource`: a database, or that of names from elsewhere.
fn database_of_users(name: &str) -> Result<String, String> {
    if name == "$external" { Ok(name.to_owned()) } else { database_name(name) }
}

/// A connection string without the password in it, for reports.
pub(crate) fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    match authority.rsplit_once('@').map(|(user, hosts)| (user.split(':').next().unwrap_or(""), hosts)) {
        Some((user, hosts)) => format!("{scheme}://{user}@{hosts}{behind}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_hosts(text: &str, expect: &[&str]) {
        let found = ConnectionString::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let hosts: Vec<String> = found.hosts.iter().map(Host::to_string).collect();
        assert_eq!(hosts, expect, "for {text}");
    }

    fn check_refused(text: &str, expect: &str) {
        match ConnectionString::parse(text) {
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains(expect) && !error.contains('\n'), "{text}: {error}");
            }
            Ok(found) => panic!("{text} passed: {found:?}"),
        }
    }

    #[test]
    fn hosts() {
        check_hosts("mongodb://localhost", &["localhost:27017"]);
        check_hosts("mongodb://a:1,b:2,c", &["a:1", "b:2", "c:27017"]);
        check_hosts("mongodb://[::1]:27018/", &["[::1]:27018"]);
        check_hosts("mongodb://[::1],127.0.0.1:1", &["[::1]:27017", "127.0.0.1:1"]);
        check_hosts("mongodb://my%2Dhost:5", &["my-host:5"]);
    }

    #[test]
    fn options_in_any_case() {
        let text = "mongodb://h/my%5Fdb?replicaSet=rs0&READPREFERENCE=secondarypreferred&w=majority\
                    &journal=true&wtimeoutMS=50&readConcernLevel=local&compressors=zstd,snappy\
                    &directConnection=false\
                    &connectTimeoutMS=1500&socketTimeoutMS=0&maxPoolSize=5&whatIsThis=1";
        let found = ConnectionString::parse(text).expect("valid");
        assert_eq!(found.database.as_deref(), Some("my_db"));
        assert_eq!(found.replica_set.as_deref(), Some("rs0"));
        assert_eq!(found.concerns.read_preference.as_deref(), Some("secondaryPreferred"));
        assert_eq!(found.concerns.read.as_deref(), Some("local"));
        assert_eq!(found.concerns.write.to_string(), "w: majority, j: true, wtimeout: 50");
        assert_eq!(found.compressors.0, ["zstd", "snappy"]);
        assert_eq!((found.direct, found.socket_timeout), (Some(false), None));
        assert_eq!(found.connect_timeout, Some(Duration::from_millis(1_500)));
        assert_eq!(
            found.warnings,
            [
                "the option maxPoolSize has no effect here",
                "unknown option whatIsThis in the connection string"
            ]
        );
    }

    #[test]
    fn what_cannot_be_is_refused_in_one_clear_line() {
        check_refused("localhost:27017", "expected mongodb://host");
        check_refused("mongodb+srv://cluster.example", "mongodb+srv is not supported");
        check_refused("mongodb://user@h/", "the user has no password");
        check_refused("mongodb://:secret@h/", "the user has no name");
        check_refused("mongodb://h/?authMechanism=SCRAM-SHA-1", "authMechanism needs a user");
        check_refused(
            "mongodb://u:p@h/?authMechanism=PLAIN",
            "expected SCRAM-SHA-1, SCRAM-SHA-256 or MONGODB-X509",
        );
        check_refused("mongodb://h/?authMechanism=MONGODB-X509", "goes with tls=true");
        check_refused("mongodb://u:p@h/?authMechanismProperties=x:y", "is not supported");
        check_refused("mongodb://h/?tlsCAFile=x", "go with tls=true");
        check_refused("mongodb://h/?tls=true&tlsDisableOCSPEndpointCheck=true", "is not supported");
        check_refused("mongodb://h:99999", "'99999' is no port");
        check_refused("mongodb://h:0", "'0' is no port");
        check_refused("mongodb://", "a host is missing");
        check_refused("mongodb://a,,b", "a host is missing");
        check_refused("mongodb://:5", "names no host");
        check_refused("mongodb://::1", "stands in brackets");
        check_refused("mongodb://[::1", "no closing bracket");
        check_refused("mongodb://[hello]", "is no IPv6 address");
        check_refused("mongodb://%2Ftmp%2Fmongodb-27017.sock/db", "Unix sockets is not supported yet");
        check_refused("mongodb://h%zz", "not percent-encoded");
        check_refused("mongodb://h/a.b", "no name of a database");
        check_refused("mongodb://h/?w", "has no value");
        check_refused("mongodb://h/?journal=perhaps", "expected true or false");
        check_refused("mongodb://h/?readPreference=third", "'third' is not one of primary");
        check_refused("mongodb://h/?compressors=lz4", "'lz4' is not one of snappy");
        check_refused("mongodb://a,b/?directConnection=true", "one host only");
    }

    #[test]
    fn credentials_are_never_in_a_message() {
        for wrong in [
            "user:secret%zz@h/",
            "user:sec:ret@h",
            "user:se@cret@h",
            "user:sec/ret@h",
            "user:sec?ret@h",
            "user:secret@h/?journal=maybe",
        ] {
            let error = ConnectionString::parse(&format!("mongodb://{wrong}")).expect_err("refused");
            let error = error.to_string();
            assert!(!error.contains("cret"), "{error}");
        }
        let shown = |text: &str| without_password(text);
        assert_eq!(shown("mongodb://me:secret@a,b/db?w=1"), "mongodb://me@a,b/db?w=1");
        assert_eq!(shown("mongodb://a?x=me:y@z"), "mongodb://a?x=me:y@z");
        let found = ConnectionString::parse("mongodb://me:secret@h/").expect("valid");
        assert!(!format!("{found:?}").contains("secret"), "{found:?}");
    }

    #[test]
    fn users_and_tls() {
        let of = |text: &str| ConnectionString::parse(text).expect("valid").security;
        let login = |user: &str, password: &str, source: &str, mechanism: Option<&str>| {
            let (user, password, source) = (user.to_owned(), password.to_owned(), source.to_owned());
            Some(LoginOptions { user, password, source, mechanism: mechanism.map(str::to_owned) })
        };
        assert_eq!(of("mongodb://h").login, None);
        assert_eq!(of("mongodb://h/?authSource=admin").login, None);
        assert_eq!(of("mongodb://me:p%40ss%3A@h").login, login("me", "p@ss:", "admin", None));
        assert_eq!(of("mongodb://me:p@h/shop").login, login("me", "p", "shop", None));
        assert_eq!(
            of("mongodb://me:p@h/shop?authSource=users&authMechanism=SCRAM-SHA-256").login,
            login("me", "p", "users", Some("SCRAM-SHA-256"))
        );
        let by_certificate = "authMechanism=MONGODB-X509&tls=true&tlsCertificateKeyFile=/me";
        assert_eq!(
            of(&format!("mongodb://CN=me%2CO=us@h/?{by_certificate}")).login,
            login("CN=me,O=us", "", "$external", Some("MONGODB-X509"))
        );
        assert_eq!(
            of(&format!("mongodb://h/?{by_certificate}")).login,
            login("", "", "$external", Some("MONGODB-X509"))
        );
        assert_eq!(of("mongodb://h/?tls=false").tls, None);
        assert_eq!(of("mongodb://h/?ssl=true").tls, Some(TlsRequest::default()));
        let full = "mongodb://h/?tls=true&tlsCAFile=%2Fca&tlsCertificateKeyFile=/me&tlsInsecure=true";
        let expect = TlsRequest {
            authorities: Some("/ca".into()),
            certificate_key: Some("/me".into()),
            any_certificate: true,
            any_hostname: true,
        };
        assert_eq!(of(full).tls, Some(expect));
    }
}
