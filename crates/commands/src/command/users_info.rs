//! `usersInfo`: there is no authentication yet, hence no users.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use document::DocumentBuilder;

pub(crate) static COMMAND: CommandEntry =
    CommandEntry::diagnostic("usersInfo", "Tells the users of a database.", Run::Now(run));

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.ignore_rest();
    reply.start_array("users").finish();
    Ok(())
}
