//! `testVersion2` and its like: commands whose only property is the API versions that have them, for testing
//! clients.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::generic::ApiVersion;
use crate::node::Node;
use document::DocumentBuilder;

const fn row<N: Node>(name: &'static str, help: &'static str) -> Command<N> {
    Command { only_for_tests: true, ..Command::diagnostic(name, help, Run::Now(run)) }
}

pub(crate) const fn deprecation<N: Node>() -> Command<N> {
    Command {
        api_version_1: true,
        deprecated_in: Some(ApiVersion::One),
        ..row("testDeprecation", "Is deprecated in API version 1.")
    }
}

pub(crate) const fn deprecation_in_version_2<N: Node>() -> Command<N> {
    Command {
        api_version_1: true,
        api_version_2: true,
        deprecated_in: Some(ApiVersion::Two),
        ..row("testDeprecationInVersion2", "Is deprecated in API version 2.")
    }
}

pub(crate) const fn removal<N: Node>() -> Command<N> {
    Command { api_version_1: true, ..row("testRemoval", "Is in API version 1 and no later one.") }
}

pub(crate) const fn version_2<N: Node>() -> Command<N> {
    Command { api_version_2: true, ..row("testVersion2", "Is in API version 2 only.") }
}

pub(crate) const fn versions_1_and_2<N: Node>() -> Command<N> {
    Command {
        api_version_1: true,
        api_version_2: true,
        ..row("testVersions1And2", "Is in API versions 1 and 2.")
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()
}
