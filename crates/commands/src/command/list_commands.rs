//! `listCommands`: this table.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::parameters::Parameter;
use document::DocumentBuilder;

pub(crate) static COMMAND: CommandEntry =
    CommandEntry::diagnostic("listCommands", "Tells every command with a sentence of help.", Run::Now(run));

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()?;
    let tests = context.server.parameters.is_on(Parameter::EnableTestCommands);
    let mut commands = reply.start_document("commands");
    for entry in super::COMMANDS.iter().filter(|entry| tests || !entry.only_for_tests) {
        let mut row = commands.start_document(entry.name);
        row.append("help", entry.help).append("requiresAuth", false).append("secondaryOk", true);
        row.append("adminOnly", entry.admin_only);
        let mut versions = row.start_array("apiVersions");
        if entry.api_version_1 {
            versions.push("1");
        }
        drop(versions);
        if !entry.aliases.is_empty() {
            let mut aliases = row.start_array("aliases");
            for alias in entry.aliases {
                aliases.push(*alias);
            }
        }
    }
    Ok(())
}
