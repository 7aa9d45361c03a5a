//! `setFeatureCompatibilityVersion`: there is one version of what is stored.

use super::build_info::FEATURE_VERSION;
use super::{Command, OnSecondary, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use document::{DocumentBuilder, RawValue};

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::Never,
    admin_only: true,
    takes_write_concern: true,
    ..Command::new(
        "setFeatureCompatibilityVersion",
        "Confirms the version of what is stored; there is one.",
        Run::Now(run),
    )
};

/// The client did not say `confirm: true`.
const NOT_CONFIRMED: i32 = 7_369_100;

fn run(context: &mut CommandContext<'_>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let RawValue::String(wanted) = context.fields.target() else {
        let found = context.fields.target().kind();
        return Err(context.fields.wrong_type("setFeatureCompatibilityVersion", found, &["string"]));
    };
    let confirmed = context.fields.flexible_boolean("confirm")?.unwrap_or(false);
    context.fields.ignore(&["fromConfigServer", "phase", "changeTimestamp", "downgradeOnDiskChanges"]);
    context.fields.finish()?;
    if wanted != FEATURE_VERSION {
        return Err(CommandError::bad_value(format!(
            "Invalid feature compatibility version value '{wanted}'; expected '{FEATURE_VERSION}'"
        )));
    }
    if !confirmed {
        let message = format!(
            "The feature compatibility version is {FEATURE_VERSION} and cannot be lowered again. Run the \
            command with 'confirm: true' to acknowledge this"
        );
        return Err(CommandError::new(NOT_CONFIRMED, message));
    }
    Ok(())
}
