//! `getParameter`: the tunables and a few facts that clients ask for in this way.

use super::build_info::FEATURE_VERSION;
use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::{CommandResult, code};
use crate::failpoints::FailPoint;
use crate::fields::integer;
use crate::node::Node;
use crate::parameters::{self, ABSENT, Absent, Parameter, Setting};
use crate::server::ServiceContext;
use document::{Document, DocumentBuilder, RawValue, Value, doc};

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        admin_only: true,
        ..Command::diagnostic("getParameter", "Tells the values of server parameters.", Run::Now(run))
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let ask = read_target(context)?;
    let server = context.server;
    let names: Vec<&str> = context.fields.rest().iter().map(document::Element::name).collect();
    context.fields.ignore_rest();
    let mut found = 0;
    for (name, value) in all(server) {
        let definition = Parameter::by_name(&name).map(Parameter::definition);
        let at_runtime = match definition {
            Some(definition) => definition.changes_at_runtime,
            None => Absent::by_name(&name).is_none(),
        };
        let is_named = ask.all || names.contains(&name.as_str());
        if !is_named || (ask.only_runtime && !at_runtime) || (ask.only_startup && at_runtime) {
            continue;
        }
        found += 1;
        if ask.details {
            let detailed =
                doc! { "value": (value), "settableAtRuntime": at_runtime, "settableAtStartup": true };
            reply.append_value(&name, &detailed.into());
        } else {
            reply.append_value(&name, &value);
        }
    }
    if found == 0 && !ask.all {
        return Err(crate::error::CommandError::new(code::INVALID_OPTIONS, "no option found to get"));
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Ask {
    all: bool,
    details: bool,
    only_startup: bool,
    only_runtime: bool,
}

/// `getParameter: 1`, `"*"` or `{showDetails, allParameters, setAt}`.
fn read_target<N: Node>(context: &CommandContext<'_, N>) -> CommandResult<Ask> {
    let mut ask = Ask::default();
    match context.fields.target() {
        RawValue::String("*") => ask.all = true,
        RawValue::Document(options) => {
            let mut fields = crate::fields::Fields::nested("getParameter", options)?;
            ask.details = fields.flexible_boolean("showDetails")?.unwrap_or(false);
            ask.all = fields.flexible_boolean("allParameters")?.unwrap_or(false);
            match fields.string("setAt")? {
                Some("startup") => ask.only_startup = true,
                Some("runtime") => ask.only_runtime = true,
                _ => {}
            }
            fields.finish()?;
        }
        number if integer(number).is_some() => {}
        RawValue::Boolean(_) => {}
        other => {
            return Err(crate::error::CommandError::type_mismatch(format!(
                "getParameter must be a number, '*' or a document, found {}",
                other.kind().alias()
            )));
        }
    }
    Ok(ask)
}

/// The form in which users would be stored: that of SCRAM.
const AUTHENTICATION_SCHEMA: i32 = 5;

/// Every parameter that can be read, by name.
fn all<N: Node>(server: &ServiceContext<N>) -> Vec<(String, Value)> {
    let table = parameters::ALL.iter().filter(|parameter| parameter.definition().is_server_parameter);
    let value = |parameter: &Parameter| Value::from(&server.parameters.get(*parameter));
    let mut all: Vec<(String, Value)> =
        table.map(|parameter| (parameter.definition().name.to_owned(), value(parameter))).collect();
    all.push(("featureCompatibilityVersion".to_owned(), doc! { "version": FEATURE_VERSION }.into()));
    all.push(("logComponentVerbosity".to_owned(), verbosities(server).into()));
    all.push(("authSchemaVersion".to_owned(), AUTHENTICATION_SCHEMA.into()));
    all.extend(ABSENT.iter().map(|absent| (absent.name.to_owned(), absent.value.clone())));
    all.push(("authenticationMechanisms".to_owned(), Value::Array(document::Array::new())));
    if server.parameters.is_on(Parameter::EnableTestCommands) {
        let shown = |point: FailPoint| {
            (format!("failpoint.{}", point.name()), server.failpoints.describe(point).into())
        };
        all.extend(FailPoint::ALL.map(shown));
    }
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    all
}

/// `{verbosity: 0, network: {verbosity: -1}, storage: {verbosity: -1, journal: {verbosity: -1}}}`.
fn verbosities<N: Node>(server: &ServiceContext<N>) -> Document {
    let mut root = Document::new();
    for (path, level) in server.host.log.verbosities() {
        let parts: Vec<&str> = path.split('.').filter(|part| !part.is_empty()).collect();
        place_verbosity(&mut root, &parts, level);
    }
    root
}

fn place_verbosity(document: &mut Document, path: &[&str], level: i32) {
    let Some((part, rest)) = path.split_first() else {
        document.push("verbosity", level);
        return;
    };
    if !document.contains(part) {
        document.push(*part, Document::new());
    }
    if let Some(Value::Document(inner)) = document.get_mut(part) {
        place_verbosity(inner, rest, level);
    }
}

/// Changes `logComponentVerbosity` from a document of that shape.
pub(crate) fn set_verbosities<N: Node>(
    server: &ServiceContext<N>,
    path: &str,
    document: document::RawDocument<'_>,
) -> CommandResult {
    for element in document {
        match (element.name(), element.value()) {
            ("verbosity", value) => {
                let level = integer(value).and_then(|level| i32::try_from(level).ok());
                let level = level.filter(|level| (-1..=5).contains(level)).ok_or_else(|| {
                    crate::error::CommandError::bad_value(format!(
                        "invalid verbosity for log component '{path}': must be -1 to 5"
                    ))
                })?;
                let level = if path.is_empty() { level.max(0) } else { level };
                server.host.log.set_verbosity(path, level).map_err(crate::error::CommandError::bad_value)?;
                if path.is_empty() {
                    server.parameters.set(Parameter::LogLevel, Setting::Integer(level.into()))?;
                }
            }
            (name, RawValue::Document(inner)) => {
                let inner_path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                set_verbosities(server, &inner_path, inner)?;
            }
            (name, value) => {
                let message = format!("invalid type {} for log component '{name}'", value.kind().alias());
                return Err(crate::error::CommandError::bad_value(message));
            }
        }
    }
    Ok(())
}
