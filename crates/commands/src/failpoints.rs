//! Faults on demand, for testing clients: `configureFailPoint: "failCommand"`.
//!
//! Source: MongoDB driver specifications, "Transactions / Server Fail Point".

use crate::connection::Connection;
use crate::error::{CommandError, CommandResult, code};
use crate::fields::Fields;
use document::{Document, DocumentBuf, RawDocument, RawValue};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Commands that the fail point leaves alone whatever it says.
const NEVER_FAIL: [&str; 4] = ["configureFailPoint", "getLastError", "shutdown", "replSetStepDown"];

/// The only fail point there is.
pub const FAIL_COMMAND: &str = "failCommand";

/// What a fail point does to one command.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fault {
    /// Wait so long first.
    pub block: Option<Duration>,
    /// Close the connection.
    pub close_connection: bool,
    /// Answer with this error.
    pub error: Option<(i32, Vec<String>)>,
    /// Add this to the reply of the command.
    pub write_concern_error: Option<Document>,
}

/// The fail points and their states.
#[derive(Debug, Default)]
pub struct FailPoints {
    /// Whether there is anything to look at: the only cost when there is not.
    armed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    mode: Mode,
    data: DocumentBuf,
    entered: i32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Mode {
    #[default]
    Off,
    AlwaysOn,
    Times(i64),
    Skip(i64),
    Probability(f64),
}

impl FailPoints {
    /// Sets mode and data. Returns how often the fail point was entered before.
    ///
    /// # Errors
    /// An unknown name or mode, unknown fields of the data.
    pub fn configure(
        &self,
        name: &str,
        mode: RawValue<'_>,
        data: Option<RawDocument<'_>>,
    ) -> CommandResult<i32> {
        if name != FAIL_COMMAND {
            return Err(CommandError::new(
                wire::ErrorCode::FailPointSetFailed as i32,
                format!("{name} not found"),
            ));
        }
        let mode = parse_mode(mode)?;
        let data = data.unwrap_or(RawDocument::EMPTY);
        if mode != Mode::Off {
            parse_data(data)?;
        }
        let mut state = self.state.lock();
        let entered = state.entered;
        *state = State { mode, data: data.to_buf(), entered };
        self.armed.store(mode != Mode::Off, Ordering::Release);
        Ok(entered)
    }

    /// `{mode, data, timesEntered}` for `getParameter: "failpoint.failCommand"`.
    pub fn describe(&self) -> Document {
        let state = self.state.lock();
        let mode = match state.mode {
            Mode::Off => 0,
            Mode::AlwaysOn => 1,
            Mode::Probability(_) => 2,
            Mode::Times(_) => 3,
            Mode::Skip(_) => 4,
        };
        document::doc! { "mode": mode, "data": (state.data.as_raw().to_document()), "timesEntered": (state.entered) }
    }

    /// The fault for this command, if its turn has come.
    #[inline]
    pub fn fault(&self, command: &str, connection: &Connection) -> Option<Fault> {
        if !self.armed.load(Ordering::Acquire) || NEVER_FAIL.contains(&command) {
            return None;
        }
        self.fault_when_armed(command, connection.application_name())
    }

    fn fault_when_armed(&self, command: &str, application: Option<&str>) -> Option<Fault> {
        let mut state = self.state.lock();
        let data = parse_data(state.data.as_raw()).ok()?;
        let names_command = data.commands.iter().any(|name| name.eq_ignore_ascii_case(command));
        let other_application = data.application.as_deref().is_some_and(|name| Some(name) != application);
        if !names_command || other_application {
            return None;
        }
        let strikes = match &mut state.mode {
            Mode::Off => false,
            Mode::AlwaysOn => true,
            Mode::Times(left) => {
                *left -= 1;
                if *left <= 0 {
                    state.mode = Mode::Off;
                    self.armed.store(false, Ordering::Release);
                }
                true
            }
            Mode::Skip(left) => {
                *left -= 1;
                *left < 0
            }
            Mode::Probability(probability) => random_fraction() < *probability,
        };
        if strikes {
            state.entered = state.entered.saturating_add(1);
        }
        strikes.then_some(data.fault)
    }
}

/// A number of [0, 1).
fn random_fraction() -> f64 {
    let bytes = *uuid::Uuid::new_v4().as_bytes();
    let number = bytes.first_chunk().map_or(0, |chunk| u32::from_le_bytes(*chunk));
    f64::from(number) / (f64::from(u32::MAX) + 1.0)
}

fn parse_mode(mode: RawValue<'_>) -> CommandResult<Mode> {
    let unknown = |found: String| CommandError::bad_value(format!("unknown mode: {found}"));
    match mode {
        RawValue::String("off") => Ok(Mode::Off),
        RawValue::String("alwaysOn") => Ok(Mode::AlwaysOn),
        RawValue::String(other) => Err(unknown(other.to_owned())),
        RawValue::Document(document) => {
            let Some(element) = document.first() else { return Err(unknown("{}".to_owned())) };
            let name = element.name();
            let number = || {
                let number = crate::fields::integer(element.value()).filter(|number| *number >= 0);
                number.ok_or_else(|| {
                    CommandError::type_mismatch(format!(
                        "'{name}' option must be a number that is not negative"
                    ))
                })
            };
            match (name, element.value()) {
                ("times", _) => Ok(Mode::Times(number()?)),
                ("skip", _) => Ok(Mode::Skip(number()?)),
                ("activationProbability", RawValue::Double(value)) if (0.0..=1.0).contains(&value) => {
                    Ok(Mode::Probability(value))
                }
                ("activationProbability", value @ (RawValue::Int32(0 | 1) | RawValue::Int64(0 | 1))) => {
                    Ok(Mode::Probability(if crate::fields::integer(value) == Some(1) { 1.0 } else { 0.0 }))
                }
                ("activationProbability", _) => {
                    Err(CommandError::bad_value("activationProbability must be between 0.0 and 1.0"))
                }
                _ => Err(unknown(name.to_owned())),
            }
        }
        other => Err(CommandError::type_mismatch(format!(
            "'mode' must be a string or JSON object, found {}",
            other.kind().alias()
        ))),
    }
}

#[derive(Debug, Default)]
struct Data {
    commands: Vec<String>,
    application: Option<String>,
    fault: Fault,
}

fn parse_data(data: RawDocument<'_>) -> CommandResult<Data> {
    let mut fields = Fields::nested("data", data)?;
    let mut parsed = Data::default();
    if let Some(names) = fields.array("failCommands")? {
        parsed.commands = names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
    }
    parsed.application = fields.string("appName")?.map(str::to_owned);
    parsed.fault.close_connection = fields.boolean("closeConnection")?.unwrap_or(false);
    let labels: Vec<String> = fields
        .array("errorLabels")?
        .map(|labels| labels.iter().filter_map(|label| label.as_str().map(str::to_owned)).collect())
        .unwrap_or_default();
    if let Some(number) = fields.integer("errorCode")? {
        let number = i32::try_from(number)
            .map_err(|_| CommandError::bad_value("errorCode must be a 32-bit number"))?;
        parsed.fault.error = Some((number, labels.clone()));
    }
    let blocks = fields.boolean("blockConnection")?.unwrap_or(false);
    let block_ms = fields.integer_at_least("blockTimeMS", 0)?;
    match (blocks, block_ms) {
        (true, None) => {
            return Err(CommandError::new(
                code::INVALID_OPTIONS,
                "blockTimeMS is required when blockConnection is set",
            ));
        }
        (true, Some(milliseconds)) => {
            parsed.fault.block = Some(Duration::from_millis(milliseconds.unsigned_abs()))
        }
        (false, _) => {}
    }
    parsed.fault.write_concern_error = fields.document("writeConcernError")?.map(|error| {
        let mut error = error.to_document();
        if !labels.is_empty() && parsed.fault.error.is_none() {
            error.push(
                "errorLabels",
                labels.iter().map(|label| label.as_str().into()).collect::<Vec<document::Value>>(),
            );
        }
        error
    });
    fields.ignore(&[
        "failInternalCommands",
        "failLocalClients",
        "namespace",
        "threadName",
        "failAllCommands",
    ]);
    fields.finish()?;
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::{Value, doc, doc_buf};

    /// How `times` calls of `insert` by `application` end under this mode: `x` for a fault.
    fn check(mode: Value, application: Option<&str>, expect: &str) {
        let points = FailPoints::default();
        let data = doc_buf! { "failCommands": ["insert"], "errorCode": 91, "appName": "tester" };
        mode.with_raw(|mode| points.configure(FAIL_COMMAND, mode, Some(data.as_raw()))).expect("valid");
        let mut seen = String::new();
        for _ in 0..expect.len() {
            let armed = points.armed.load(Ordering::Relaxed);
            let fault = if armed { points.fault_when_armed("insert", application) } else { None };
            seen.push(if fault.is_some() { 'x' } else { '.' });
        }
        assert_eq!(seen, expect);
        assert!(points.fault_when_armed("find", application).is_none(), "find is not named");
    }

    #[test]
    fn modes() {
        check("alwaysOn".into(), Some("tester"), "xxx");
        check("off".into(), Some("tester"), "...");
        check(doc! { "times": 2 }.into(), Some("tester"), "xx..");
        check(doc! { "skip": 1 }.into(), Some("tester"), ".xx");
        check(doc! { "activationProbability": 1.0 }.into(), Some("tester"), "xx");
        check("alwaysOn".into(), Some("other"), "..");
    }

    #[test]
    fn bad_configurations_are_refused() {
        let points = FailPoints::default();
        let configure = |name, mode: Value| {
            mode.with_raw(|mode| points.configure(name, mode, None).map_err(|error| error.code))
        };
        assert_eq!(configure("noSuch", "off".into()), Err(266));
        assert_eq!(configure(FAIL_COMMAND, "sometimes".into()), Err(2));
        assert_eq!(configure(FAIL_COMMAND, 1.into()), Err(14));
    }
}
