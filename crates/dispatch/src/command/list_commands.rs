//! `listCommands`: this table.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::generic::ApiVersion;
use crate::node::Node;
use crate::parameters::Parameter;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> CommandEntry<N> {
    CommandEntry::diagnostic("listCommands", "Tells every command with a sentence of help.", Run::Now(run))
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()?;
    let tests = context.server.parameters.is_on(Parameter::EnableTestCommands);
    let mut commands = reply.start_document("commands");
    for entry in context.server.commands().entries().filter(|entry| tests || !entry.only_for_tests) {
        let mut row = commands.start_document(entry.name);
        row.append("help", entry.help).append("requiresAuth", false).append("secondaryOk", true);
        row.append("adminOnly", entry.admin_only);
        let mut versions = row.start_array("apiVersions");
        for version in [ApiVersion::One, ApiVersion::Two].into_iter().filter(|version| entry.is_in(*version))
        {
            versions.push(version.name());
        }
        drop(versions);
        let mut deprecated = row.start_array("deprecatedApiVersions");
        if let Some(version) = entry.deprecated_in {
            deprecated.push(version.name());
        }
        drop(deprecated);
        if !entry.aliases.is_empty() {
            let mut aliases = row.start_array("aliases");
            for alias in entry.aliases {
                aliases.push(*alias);
            }
        }
    }
    Ok(())
}
