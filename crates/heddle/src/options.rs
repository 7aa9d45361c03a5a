//! All options of `heddle serve`: the YAML file first, flags over it.

use crate::yaml::{self, YamlError};
use clap::ArgMatches;
use dispatch::parameters::{Absent, DEFINITIONS, Parameter, Parameters, Setting, SettingError};
use document::{Document, Value};
use std::path::Path;
use std::sync::Arc;

/// What the server is started with.
#[derive(Debug)]
pub(crate) struct Options {
    /// The tunables.
    pub(crate) parameters: Arc<Parameters>,
    /// Verbosity by log component, as far as given.
    pub(crate) verbosities: Vec<(String, i32)>,
    /// What was given, nested as in the YAML file, for `getCmdLineOpts`.
    pub(crate) given: Document,
}

/// Options that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OptionsError {
    #[error(transparent)]
    Yaml(#[from] YamlError),
    #[error("{0}")]
    Setting(#[from] SettingError),
    #[error(
        "unknown key '{key}' in the configuration file {path}: see `heddle parameters` for what there is"
    )]
    UnknownKey { key: String, path: String },
    #[error("unknown server parameter '{name}': see `heddle parameters` for what there is")]
    UnknownParameter { name: String },
    #[error("security.keyFile is required when authorization is enabled with replica sets")]
    NoKeyFile,
    #[error("security.clusterAuthMode {mode} needs security.keyFile")]
    ModeWithoutKey { mode: String },
    #[error("security.transitionToAuth needs security.keyFile, or security.clusterAuthMode x509")]
    TransitionWithoutKey,
    #[error("security.transitionToAuth asks nobody for a login, and security.authorization everybody")]
    TransitionWithAuth,
    #[error("need to enable TLS via the tlsMode flag for security.clusterAuthMode sendX509 or x509")]
    CertificatesWithoutTls,
    #[error("cannot have x.509 cluster authentication in allowTLS mode")]
    CertificatesInClear,
    #[error("security.enableEncryption needs security.encryptionKeyFile or security.encryptionKeyCommand")]
    NoEncryptionKey,
    #[error("give security.encryptionKeyFile or security.encryptionKeyCommand, not both")]
    TwoEncryptionKeys,
    #[error("security.encryptionKeyFile and security.encryptionKeyCommand need security.enableEncryption")]
    EncryptionNotEnabled,
    #[error("systemLog.path is required if systemLog.destination is to a file")]
    NoLogPath,
    #[error("--setParameter needs name=value, found '{given}'")]
    NoValue { given: String },
    #[error(transparent)]
    Audit(#[from] crate::audit::AuditOptionsError),
    #[error("invalid verbosity '{level}' of log component '{component}': expected -1 to 5")]
    Verbosity { component: String, level: String },
}

/// Reads the file and the flags.
///
/// # Errors
/// Unknown keys, values that cannot be.
pub(crate) fn read(matches: &ArgMatches) -> Result<Options, OptionsError> {
    let mut options = Options { parameters: Arc::default(), verbosities: Vec::new(), given: Document::new() };
    if let Some(path) = matches.get_one::<String>("config") {
        options.given.push("config", path.as_str());
        for (key, text) in yaml::read(Path::new(path))? {
            options.set_key(path, &key, &text)?;
        }
    }
    for assignment in matches.get_many::<String>("setParameter").into_iter().flatten() {
        let Some((name, text)) = assignment.split_once('=') else {
            return Err(OptionsError::NoValue { given: assignment.clone() });
        };
        options.set_server_parameter(name.trim(), text.trim())?;
    }
    options.read_flags(matches)?;
    options.check()?;
    Ok(options)
}

/// By what members know each other: what goes together. Where they do, clients log in.
///
/// # Errors
/// What is missing, or of no use.
pub(crate) fn check_members(parameters: &Parameters) -> Result<(), OptionsError> {
    let given = |parameter| !parameters.text(parameter).is_empty();
    let has_access_control = parameters.text(Parameter::Authorization) == "enabled";
    let mode = parameters.text(Parameter::ClusterAuthMode);
    if mode != "keyFile" && !given(Parameter::KeyFile) && mode != "x509" {
        return Err(OptionsError::ModeWithoutKey { mode });
    }
    if matches!(mode.as_str(), "sendX509" | "x509") {
        match parameters.text(Parameter::TlsMode).as_str() {
            "disabled" => return Err(OptionsError::CertificatesWithoutTls),
            "allowTLS" => return Err(OptionsError::CertificatesInClear),
            _ => {}
        }
    }
    let has_proof = given(Parameter::KeyFile) || mode == "x509";
    if parameters.is_on(Parameter::TransitionToAuth) {
        match (has_proof, has_access_control) {
            (false, _) => return Err(OptionsError::TransitionWithoutKey),
            (true, true) => return Err(OptionsError::TransitionWithAuth),
            (true, false) => {}
        }
    } else if has_proof {
        // Members that are told from strangers, and clients that are not, would be of no use.
        parameters.set(Parameter::Authorization, Setting::Text("enabled".to_owned()))?;
    } else if has_access_control && given(Parameter::ReplSetName) {
        return Err(OptionsError::NoKeyFile);
    }
    Ok(())
}

impl Options {
    /// The rules across options.
    fn check(&self) -> Result<(), OptionsError> {
        let to_file = self.parameters.text(Parameter::LogDestination) == "file";
        let given = |parameter| !self.parameters.text(parameter).is_empty();
        check_members(&self.parameters)?;
        let by_file = given(Parameter::EncryptionKeyFile);
        let by_command = given(Parameter::EncryptionKeyCommand);
        match (self.parameters.is_on(Parameter::EnableEncryption), by_file || by_command) {
            (true, false) => return Err(OptionsError::NoEncryptionKey),
            (false, true) => return Err(OptionsError::EncryptionNotEnabled),
            _ if by_file && by_command => return Err(OptionsError::TwoEncryptionKeys),
            _ => {}
        }
        if to_file && self.parameters.text(Parameter::LogPath).is_empty() {
            return Err(OptionsError::NoLogPath);
        }
        Ok(crate::audit::check(&self.parameters)?)
    }

    fn read_flags(&mut self, matches: &ArgMatches) -> Result<(), OptionsError> {
        for definition in DEFINITIONS {
            let Some(parameter) = definition.flag.and_then(Parameter::by_flag) else { continue };
            if matches.value_source(definition.name) != Some(clap::parser::ValueSource::CommandLine) {
                continue;
            }
            let setting = match definition.kind {
                dispatch::parameters::Kind::Boolean { .. } => Setting::Boolean(true),
                _ => {
                    definition.parse(matches.get_one::<String>(definition.name).map_or("", String::as_str))?
                }
            };
            self.set(parameter, setting)?;
        }
        if matches.get_flag("nounixsocket") {
            self.set(Parameter::UnixSocketEnabled, Setting::Boolean(false))?;
        }
        if matches.get_flag("auth") {
            self.set(Parameter::Authorization, Setting::Text("enabled".to_owned()))?;
        }
        match matches.get_count("verbose") {
            0 => Ok(()),
            level => self.set(Parameter::LogLevel, Setting::Integer(level.min(5).into())),
        }
    }

    fn set(&mut self, parameter: Parameter, setting: Setting) -> Result<(), OptionsError> {
        let definition = parameter.definition();
        let path = definition.yaml.map_or_else(|| format!("setParameter.{}", definition.name), str::to_owned);
        let parts: Vec<&str> = path.split('.').collect();
        note(&mut self.given, &parts, Value::from(&setting));
        self.parameters.set(parameter, setting)?;
        Ok(())
    }

    fn set_server_parameter(&mut self, name: &str, text: &str) -> Result<(), OptionsError> {
        // As text, which is what test suites compare with.
        note(&mut self.given, &["setParameter", name], Value::from(text));
        if let Some(absent) = Absent::by_name(name) {
            return Ok(absent.keep_text(text)?);
        }
        let Some(parameter) = Parameter::by_name(name) else {
            return Err(OptionsError::UnknownParameter { name: name.to_owned() });
        };
        self.parameters.set(parameter, parameter.definition().parse(text)?)?;
        Ok(())
    }

    /// One key of the YAML file.
    fn set_key(&mut self, path: &str, key: &str, text: &str) -> Result<(), OptionsError> {
        if let Some(parameter) = Parameter::by_yaml(key) {
            return self.set(parameter, parameter.definition().parse(text)?);
        }
        if let Some(name) = key.strip_prefix("setParameter.") {
            return self.set_server_parameter(name, text);
        }
        let component =
            key.strip_prefix("systemLog.component.").and_then(|rest| rest.strip_suffix(".verbosity"));
        let Some(component) = component.filter(|name| crate::logging::is_component(name)) else {
            return Err(OptionsError::UnknownKey { key: key.to_owned(), path: path.to_owned() });
        };
        let level = text.parse().ok().filter(|level| (-1..=5).contains(level));
        let Some(level) = level else {
            return Err(OptionsError::Verbosity { component: component.to_owned(), level: text.to_owned() });
        };
        let parts: Vec<&str> = key.split('.').collect();
        note(&mut self.given, &parts, Value::Int32(level));
        self.verbosities.push((component.to_owned(), level));
        Ok(())
    }
}

/// Puts a value at a path of nested documents.
fn note(document: &mut Document, path: &[&str], value: Value) {
    match path {
        [] => {}
        [name] => {
            document.insert(*name, value);
        }
        [name, rest @ ..] => {
            if !document.contains(name) {
                document.push(*name, Document::new());
            }
            if let Some(Value::Document(inner)) = document.get_mut(name) {
                note(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::doc;
    use std::io::Write;

    /// Parses the flags, with a YAML file of this text when there is one.
    fn parse(yaml: &str, flags: &[&str]) -> Result<Options, String> {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(yaml.as_bytes()).expect("write");
        let path = file.path().to_str().expect("text").to_owned();
        let mut line = vec!["heddle", "serve"];
        if !yaml.is_empty() {
            line.extend(["-f", &path]);
        }
        line.extend(flags);
        let matches =
            crate::arguments::command().try_get_matches_from(line).map_err(|error| error.to_string())?;
        let (_, serve) = matches.subcommand().expect("serve");
        read(serve).map_err(|error| error.to_string().replace(&path, "FILE"))
    }

    fn fails(yaml: &str, flags: &[&str], expect: &str) {
        assert_eq!(parse(yaml, flags).map(drop), Err(expect.to_owned()));
    }

    #[test]
    fn flags_win_over_the_file() {
        let yaml = "net:\n  port: 1000\n  bindIp: 0.0.0.0\n\
            systemLog:\n  component:\n    network:\n      verbosity: 2\n\
                    setParameter:\n  cursorTimeoutMillis: 5\n";
        let options =
            parse(yaml, &["--port", "2000", "-vv", "--setParameter", "enableTestCommands=1"]).expect("valid");
        assert_eq!(options.parameters.integer(Parameter::Port), 2000);
        assert_eq!(options.parameters.text(Parameter::BindIp), "0.0.0.0");
        assert_eq!(options.parameters.integer(Parameter::CursorTimeout), 5);
        assert_eq!(options.parameters.integer(Parameter::LogLevel), 2);
        assert!(options.parameters.is_on(Parameter::EnableTestCommands));
        assert_eq!(options.verbosities, [("network".to_owned(), 2)]);
        assert_eq!(options.given.get("net"), Some(&doc! { "port": 2000, "bindIp": "0.0.0.0" }.into()));
        let server_parameters = doc! { "cursorTimeoutMillis": "5", "enableTestCommands": "1" };
        assert_eq!(options.given.get("setParameter"), Some(&server_parameters.into()));
    }

    #[test]
    fn what_rules_and_other_servers_ask_for_is_taken() {
        let yaml = "systemLog:\n  destination: file\n  path: /tmp/x\n";
        let options = parse(yaml, &["--setParameter", "ttlMonitorEnabled=false"]).expect("valid");
        assert_eq!(options.parameters.text(Parameter::LogPath), "/tmp/x");
        assert_eq!(options.given.get("setParameter"), Some(&doc! { "ttlMonitorEnabled": "false" }.into()));
        assert!(!options.parameters.is_on(Parameter::TtlMonitorEnabled));
        parse("systemLog:\n  destination: file\n", &["--logpath", "/tmp/x"]).expect("valid");
    }

    #[test]
    fn members_with_access_control_have_a_key() {
        let of = |yaml: &str, flags: &[&str]| {
            let options = parse(yaml, flags).expect("valid");
            options.parameters.text(Parameter::Authorization)
        };
        fails(
            "",
            &["--auth", "--replSet", "rs"],
            "security.keyFile is required when authorization is enabled with replica sets",
        );
        fails(
            "",
            &["--clusterAuthMode", "sendKeyFile"],
            "security.clusterAuthMode sendKeyFile needs security.keyFile",
        );
        fails(
            "",
            &["--clusterAuthMode", "x509"],
            "need to enable TLS via the tlsMode flag for security.clusterAuthMode sendX509 or x509",
        );
        let by_certificate = ["--clusterAuthMode", "x509", "--replSet", "rs", "--tlsMode"];
        fails(
            "",
            &[by_certificate.as_slice(), &["allowTLS"]].concat(),
            "cannot have x.509 cluster authentication in allowTLS mode",
        );
        assert_eq!(of("", &[by_certificate.as_slice(), &["preferTLS"]].concat()), "enabled");
        assert_eq!(of("", &["--keyFile", "/k", "--replSet", "rs"]), "enabled");
        assert_eq!(of("security:\n  keyFile: /k\n  authorization: disabled\n", &[]), "enabled");
        assert_eq!(of("", &["--replSet", "rs"]), "disabled");
        let transition = ["--keyFile", "/k", "--replSet", "rs", "--transitionToAuth"];
        assert_eq!(of("", &transition), "disabled");
        fails(
            "",
            &["--transitionToAuth"],
            "security.transitionToAuth needs security.keyFile, or security.clusterAuthMode x509",
        );
        fails(
            "",
            &[transition.as_slice(), &["--auth"]].concat(),
            "security.transitionToAuth asks nobody for a login, and security.authorization everybody",
        );
    }

    #[test]
    fn what_is_encrypted_has_one_key() {
        fails(
            "",
            &["--enableEncryption"],
            "security.enableEncryption needs security.encryptionKeyFile or security.encryptionKeyCommand",
        );
        fails(
            "security:\n  encryptionKeyFile: /k\n",
            &[],
            "security.encryptionKeyFile and security.encryptionKeyCommand need security.enableEncryption",
        );
        fails(
            "security:\n  enableEncryption: true\n  encryptionKeyFile: /k\n",
            &["--encryptionKeyCommand", "true"],
            "give security.encryptionKeyFile or security.encryptionKeyCommand, not both",
        );
        parse("", &["--enableEncryption", "--encryptionKeyFile", "/k"]).expect("valid");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        fails(
            "net:\n  prot: 1\n",
            &[],
            "unknown key 'net.prot' in the configuration file FILE: see `heddle parameters` for what there \
            is",
        );
        fails(
            "",
            &["--setParameter", "nonsense=1"],
            "unknown server parameter 'nonsense': see `heddle parameters` for what there is",
        );
        fails("", &["--setParameter", "nonsense"], "--setParameter needs name=value, found 'nonsense'");
        fails(
            "",
            &["--port", "70000"],
            "invalid value for parameter net.port: 70000 is not less than or equal to 65535",
        );
        fails(
            "",
            &["--port", "x"],
            "invalid value for parameter net.port: expected a whole number, found 'x'",
        );
        fails(
            "",
            &["--setParameter", "ingressConnectionEstablishmentMaxQueueDepth=1"],
            "invalid value for parameter ingressConnectionEstablishmentMaxQueueDepth: connections are not \
            admitted by a rate; see overloadProtection and maxIncomingConnections",
        );
        fails(
            "systemLog:\n  destination: file\n",
            &[],
            "systemLog.path is required if systemLog.destination is to a file",
        );
        fails("net: [1]\n", &[], "configuration file FILE: 'net' must have a single value");
    }
}
