//! `testVersion2` and its like: commands whose only property is the API versions that have them, for testing clients.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::generic::ApiVersion;
use document::DocumentBuilder;

const fn entry(name: &'static str, help: &'static str) -> CommandEntry {
    CommandEntry { only_for_tests: true, ..CommandEntry::diagnostic(name, help, Run::Now(run)) }
}

pub(crate) static DEPRECATION: CommandEntry = CommandEntry {
    api_version_1: true,
    deprecated_in: Some(ApiVersion::One),
    ..entry("testDeprecation", "Is deprecated in API version 1.")
};

pub(crate) static DEPRECATION_IN_VERSION_2: CommandEntry = CommandEntry {
    api_version_1: true,
    api_version_2: true,
    deprecated_in: Some(ApiVersion::Two),
    ..entry("testDeprecationInVersion2", "Is deprecated in API version 2.")
};

pub(crate) static REMOVAL: CommandEntry =
    CommandEntry { api_version_1: true, ..entry("testRemoval", "Is in API version 1 and no later one.") };

pub(crate) static VERSION_2: CommandEntry =
    CommandEntry { api_version_2: true, ..entry("testVersion2", "Is in API version 2 only.") };

pub(crate) static VERSIONS_1_AND_2: CommandEntry = CommandEntry {
    api_version_1: true,
    api_version_2: true,
    ..entry("testVersions1And2", "Is in API versions 1 and 2.")
};

fn run(context: &mut CommandContext<'_>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()
}
