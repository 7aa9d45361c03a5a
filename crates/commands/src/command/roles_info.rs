//! `rolesInfo`: there is no authentication yet, hence no roles.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use document::DocumentBuilder;

pub(crate) static COMMAND: CommandEntry =
    CommandEntry::diagnostic("rolesInfo", "Tells the roles of a database.", Run::Now(run));

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.ignore_rest();
    reply.start_array("roles").finish();
    Ok(())
}
