//! The command table: one file per command, one row per file, sorted by name.

use crate::context::CommandContext;
use crate::counters::OperationClass;
use crate::error::CommandResult;
use document::DocumentBuilder;
use hashbrown::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;

mod build_info;
mod hello;
mod ping;

/// The future of a command.
pub type CommandFuture<'a> = Pin<Box<dyn Future<Output = CommandResult> + Send + 'a>>;

/// How a command runs. Both append the fields of the reply; `ok` is appended for them.
pub enum Run {
    /// Never waits: no future is made.
    Now(for<'a, 'c, 'r> fn(&'a mut CommandContext<'c>, &'a mut DocumentBuilder<'r>) -> CommandResult),
    /// May wait. Written as `Run::Later(|context, reply| Box::pin(run(context, reply)))`.
    Later(for<'a, 'c, 'r> fn(&'a mut CommandContext<'c>, &'a mut DocumentBuilder<'r>) -> CommandFuture<'a>),
}

impl fmt::Debug for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Run::Now(_) => "Now",
            Run::Later(_) => "Later",
        })
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct CommandEntry {
    /// The canonical name.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// What it does, in a sentence.
    pub help: &'static str,
    /// Only on the database `admin`.
    pub admin_only: bool,
    /// How `serverStatus.opcounters` counts it. Insert, update and delete count their documents themselves.
    pub class: OperationClass,
    /// Member of API version 1.
    pub api_version_1: bool,
    /// Takes a write concern.
    pub takes_write_concern: bool,
    /// May come in the retired OP_QUERY form and without `apiVersion`.
    pub accepts_op_query: bool,
    /// Not listed and refused unless `enableTestCommands` is on.
    pub only_for_tests: bool,
    /// How it runs.
    pub run: Run,
}

impl CommandEntry {
    /// A row with everything off; the files fill in what differs.
    pub const fn new(name: &'static str, help: &'static str, run: Run) -> Self {
        CommandEntry {
            name,
            aliases: &[],
            help,
            admin_only: false,
            class: OperationClass::Command,
            api_version_1: false,
            takes_write_concern: false,
            accepts_op_query: false,
            only_for_tests: false,
            run,
        }
    }
}

/// Every command, sorted by name.
pub static COMMANDS: &[&CommandEntry] =
    &[&build_info::COMMAND, &hello::COMMAND, &hello::IS_MASTER, &ping::COMMAND];

type ByName = HashMap<&'static [u8], (usize, &'static CommandEntry), rustc_hash::FxBuildHasher>;

static BY_NAME: LazyLock<ByName> = LazyLock::new(|| {
    let rows = COMMANDS.iter().copied().enumerate();
    rows.flat_map(|(position, entry)| {
        let names = std::iter::once(&entry.name).chain(entry.aliases);
        names.map(move |name| (name.as_bytes(), (position, entry)))
    })
    .collect()
});

/// The row of a command and its position.
#[inline]
pub(crate) fn find(name: &[u8]) -> Option<(usize, &'static CommandEntry)> {
    BY_NAME.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_are_unique() {
        assert!(COMMANDS.is_sorted_by(|one, other| one.name < other.name), "sort COMMANDS by name");
        let names: usize = COMMANDS.iter().map(|entry| 1 + entry.aliases.len()).sum();
        assert_eq!(BY_NAME.len(), names, "a name or alias is there twice");
        for entry in COMMANDS {
            assert!(entry.help.ends_with('.'), "{} needs a sentence of help", entry.name);
        }
    }
}
