//! The audit log of the process: where the options say that it goes, and which events it takes.
//!
//! Source: MongoDB manual, "Configure Auditing".

mod file;
mod filter;

use crate::logging::Log;
use dispatch::audit::AuditLog;
use dispatch::parameters::{Parameter, Parameters};
use document::Document;
use file::{AuditTarget, AuditWriter};
use query::Environment;
use query::matcher::Matcher;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options of auditing that do not go together, or that this server does not have.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuditOptionsError {
    #[error("auditLog.destination: syslog is not built into this server: use file or console")]
    Syslog,
    #[error("auditLog.format: this server writes JSON only, found BSON")]
    Bson,
    #[error("auditLog.destination: file needs auditLog.path")]
    NoPath,
    #[error("{option} needs auditLog.destination")]
    NoDestination { option: &'static str },
    #[error("auditLog.filter: {reason}")]
    Filter { reason: String },
}

/// The rules across options, and the filter.
///
/// # Errors
/// What does not go together; a filter that is none.
pub(crate) fn check(parameters: &Parameters) -> Result<(), AuditOptionsError> {
    let destination = parameters.text(Parameter::AuditDestination);
    let given = |parameter| !parameters.text(parameter).is_empty();
    match destination.as_str() {
        "syslog" => return Err(AuditOptionsError::Syslog),
        "" => {
            let options = [Parameter::AuditPath, Parameter::AuditFilter, Parameter::AuditFormat];
            if let Some(option) = options.into_iter().find(|option| given(*option)) {
                return Err(AuditOptionsError::NoDestination { option: option.definition().name });
            }
        }
        "file" if !given(Parameter::AuditPath) => return Err(AuditOptionsError::NoPath),
        _ => {}
    }
    if parameters.text(Parameter::AuditFormat) == "BSON" {
        return Err(AuditOptionsError::Bson);
    }
    matcher(&parameters.text(Parameter::AuditFilter)).map(drop)
}

/// The filter of events; an empty text takes all.
fn matcher(text: &str) -> Result<Matcher, AuditOptionsError> {
    if text.trim().is_empty() {
        return Ok(Matcher::everything());
    }
    let refused = |reason: String| AuditOptionsError::Filter { reason };
    let filter: Document = filter::parse(text).map_err(refused)?;
    let environment = Environment::at(i64::try_from(now_ms()).unwrap_or(i64::MAX));
    Matcher::parse(filter.to_buf().as_raw(), &environment).map_err(|error| refused(error.to_string()))
}

/// Milliseconds since 1970: `$$NOW` of a filter is the start of the server.
fn now_ms() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_millis()
}

/// Opens the audit log that the options ask for; `None` where they ask for none. Options that were
/// [checked](check).
///
/// # Errors
/// When the file cannot be opened or the system gives no thread.
pub(crate) fn start(parameters: &Parameters, log: &Arc<Log>) -> io::Result<Option<Arc<AuditLog>>> {
    let target = match parameters.text(Parameter::AuditDestination).as_str() {
        "" => return Ok(None),
        "console" => AuditTarget::Console,
        _ => AuditTarget::File(PathBuf::from(parameters.text(Parameter::AuditPath))),
    };
    let filter = matcher(&parameters.text(Parameter::AuditFilter)).map_err(io::Error::other)?;
    let log = Arc::clone(log);
    let writer = AuditWriter::start(target, move |place, error| end_process(&log, place, error))?;
    Ok(Some(Arc::new(AuditLog::new(Arc::new(writer), filter))))
}

/// What cannot be told must not go on: the process ends, and whoever waits for a line gets no answer.
fn end_process(log: &Log, place: &str, error: &io::Error) {
    /// What the log's thread gets if it is behind.
    const FOR_THE_LOG: Duration = Duration::from_millis(200);
    tracing::error!(target: "control", id = 24_187, path = place, %error,
        "The audit log cannot be written: the process ends, so that nothing happens untold");
    log.flush();
    std::thread::sleep(FOR_THE_LOG);
    std::process::abort();
}

#[cfg(test)]
mod tests {
    use super::*;
    use dispatch::parameters::Setting;

    fn check_options(given: &[(Parameter, &str)], expect: &str) {
        let parameters = Parameters::default();
        for (parameter, text) in given {
            parameters.set(*parameter, Setting::Text((*text).to_owned())).expect("a value it takes");
        }
        let found = check(&parameters).map_or_else(|error| error.to_string(), |()| String::new());
        assert!(found.starts_with(expect) && found.is_empty() == expect.is_empty(), "{given:?}: {found}");
    }

    #[test]
    fn options_that_promise_what_is_not_there_are_refused() {
        use Parameter::{AuditDestination, AuditFilter, AuditFormat, AuditPath};
        check_options(&[], "");
        check_options(&[(AuditDestination, "console")], "");
        check_options(&[(AuditDestination, "syslog")], "auditLog.destination: syslog");
        check_options(&[(AuditDestination, "file")], "auditLog.destination: file needs auditLog.path");
        check_options(&[(AuditPath, "a.json")], "auditLog.path needs auditLog.destination");
        let file = [(AuditDestination, "file"), (AuditPath, "a.json")];
        check_options(&[&file[..], &[(AuditFormat, "BSON")]].concat(), "auditLog.format:");
        let filter = "{ atype: { $in: [ 'createUser', \"dropUser\" ] }, 'param.db': /^te/ }";
        check_options(&[&file[..], &[(AuditFormat, "JSON"), (AuditFilter, filter)]].concat(), "");
        check_options(&[&file[..], &[(AuditFilter, "{ a: ")]].concat(), "auditLog.filter:");
        check_options(&[&file[..], &[(AuditFilter, "{ a: { $nothing: 1 } }")]].concat(), "auditLog.filter:");
    }
}
