//! `setParameter`: changes tunables while the server runs.

use super::get_parameter::set_verbosities;
use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use crate::node::Node;
use crate::parameters::{Absent, Parameter, Setting};
use document::{DocumentBuilder, Element, RawValue, Value};

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        admin_only: true,
        ..Command::diagnostic("setParameter", "Changes server parameters.", Run::Now(run))
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let elements: Vec<Element<'_>> = context.fields.rest().to_vec();
    context.fields.ignore_rest();
    if elements.is_empty() {
        return Err(CommandError::invalid_options("no option found to set, use help:true to see options "));
    }
    let mut before = None;
    for element in elements {
        before = before.or(set(context, element)?);
    }
    if let Some(before) = before {
        reply.append_value("was", &before);
    }
    Ok(())
}

/// Sets one parameter; returns the value before.
fn set<N: Node>(context: &CommandContext<'_, N>, element: Element<'_>) -> CommandResult<Option<Value>> {
    let (name, value) = (element.name(), element.value());
    if name == "logComponentVerbosity" {
        let RawValue::Document(levels) = value else {
            return Err(CommandError::bad_value("logComponentVerbosity must be a document"));
        };
        set_verbosities(context.server, "", levels)?;
        return Ok(None);
    }
    if let Some(absent) = Absent::by_name(name) {
        absent.keep(value)?;
        return Ok(Some(absent.value.clone()));
    }
    let Some(parameter) = Parameter::by_name(name) else {
        let message =
            format!("attempted to set unrecognized parameter [{name}], use help:true to see options ");
        return Err(CommandError::invalid_options(message));
    };
    let setting = parameter.definition().convert(value)?;
    let before: Setting = context.server.parameters.change(parameter, setting)?;
    tracing::info!(target: "CONTROL", id = 23_435, parameter = name, old = %before,
        new = %context.server.parameters.get(parameter), "Successfully set parameter");
    Ok(Some(Value::from(&before)))
}
