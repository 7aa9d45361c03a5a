//! `testVersion2` and its like: commands whose only property is the API versions that have them, for testing
//! clients.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::generic::ApiVersion;
use crate::node::Node;
use document::DocumentBuilder;

const fn entry<N: Node>(name: &'static str, help: &'static str) -> CommandEntry<N> {
    CommandEntry { only_for_tests: true, ..CommandEntry::diagnostic(name, help, Run::Now(run)) }
}

pub(crate) const fn deprecation<N: Node>() -> CommandEntry<N> {
    CommandEntry {
        api_version_1: true,
        deprecated_in: Some(ApiVersion::One),
        ..entry("testDeprecation", "Is deprecated in API version 1.")
    }
}

pub(crate) const fn deprecation_in_version_2<N: Node>() -> CommandEntry<N> {
    CommandEntry {
        api_version_1: true,
        api_version_2: true,
        deprecated_in: Some(ApiVersion::Two),
        ..entry("testDeprecationInVersion2", "Is deprecated in API version 2.")
    }
}

pub(crate) const fn removal<N: Node>() -> CommandEntry<N> {
    CommandEntry { api_version_1: true, ..entry("testRemoval", "Is in API version 1 and no later one.") }
}

pub(crate) const fn version_2<N: Node>() -> CommandEntry<N> {
    CommandEntry { api_version_2: true, ..entry("testVersion2", "Is in API version 2 only.") }
}

pub(crate) const fn versions_1_and_2<N: Node>() -> CommandEntry<N> {
    CommandEntry {
        api_version_1: true,
        api_version_2: true,
        ..entry("testVersions1And2", "Is in API versions 1 and 2.")
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()
}
