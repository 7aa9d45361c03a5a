//! `listCommands`: this table.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::generic::ApiVersion;
use crate::node::Node;
use crate::parameters::Parameter;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command::diagnostic("listCommands", "Tells every command with a sentence of help.", Run::Now(run))
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()?;
    let tests = context.server.parameters.is_on(Parameter::EnableTestCommands);
    let mut commands = reply.start_document("commands");
    for command in context.server.commands().iter().filter(|command| tests || !command.only_for_tests) {
        let mut row = commands.start_document(command.name);
        row.append("help", command.help).append("requiresAuth", false).append("secondaryOk", true);
        row.append("adminOnly", command.admin_only);
        let mut versions = row.start_array("apiVersions");
        for version in
            [ApiVersion::One, ApiVersion::Two].into_iter().filter(|version| command.is_in(*version))
        {
            versions.push(version.name());
        }
        drop(versions);
        let mut deprecated = row.start_array("deprecatedApiVersions");
        if let Some(version) = command.deprecated_in {
            deprecated.push(version.name());
        }
        drop(deprecated);
        if !command.aliases.is_empty() {
            let mut aliases = row.start_array("aliases");
            for alias in command.aliases {
                aliases.push(*alias);
            }
        }
    }
    Ok(())
}
