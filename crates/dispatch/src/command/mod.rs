//! What is said about a command, the table of a server's commands, and those that need nothing of their node:
//! one file each.

use crate::concern::ReadConcerns;
use crate::context::CommandContext;
use crate::counters::OperationClass;
use crate::error::CommandResult;
use crate::generic::ApiVersion;
use crate::node::Node;
use crate::role::OnSecondary;
use access::{Requirement, requirement_of};
use document::{DocumentBuilder, RawDocument};
use hashbrown::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

mod api_version_tests;
mod authentication;
pub mod build_info;
mod configure_fail_point;
mod conn_pool_stats;
mod connection_status;
pub mod current_op;
mod features;
mod get_cmd_line_opts;
mod get_log;
mod get_more;
mod get_parameter;
mod hello;
pub mod host_info;
mod kill_cursors;
mod kill_op;
mod list_commands;
mod log_application_message;
mod log_rotate;
mod ping;
mod rotate_certificates;
mod sessions;
mod set_parameter;
mod shutdown;
mod top;
mod wait_for_fail_point;
mod whatsmyuri;

/// The future of a command.
pub type CommandFuture<'a> = Pin<Box<dyn Future<Output = CommandResult> + Send + 'a>>;

/// How a command runs. Both append the fields of the reply; `ok` is appended for them.
pub enum Run<N: Node> {
    /// Never waits: no future is made.
    Now(for<'a, 'c, 'r> fn(&'a mut CommandContext<'c, N>, &'a mut DocumentBuilder<'r>) -> CommandResult),
    /// May wait. Written as `Run::Later(|context, reply| Box::pin(run(context, reply)))`.
    Later(
        for<'a, 'c, 'r> fn(&'a mut CommandContext<'c, N>, &'a mut DocumentBuilder<'r>) -> CommandFuture<'a>,
    ),
}

impl<N: Node> fmt::Debug for Run<N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Run::Now(_) => "Now",
            Run::Later(_) => "Later",
        })
    }
}

/// Where a command runs when an event loop serves its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// In the loop, and in the diagnostic lane, which no user's work keeps busy: it is quick, touches no disk
    /// and waits for nothing but time.
    Diagnostic,
    /// The diagnostic lane answers it on a thread of its own pool: it goes over all connections, cursors,
    /// sessions or collections, of which there may be very many.
    DiagnosticPool,
    /// It begins in the loop and moves to a thread that may block when what it needs is not in memory or
    /// takes long.
    InlineFirst,
    /// It moves to a thread that may block before it begins, and on to one that may compute for long when it
    /// does.
    BriefPool,
    /// It moves to a thread that may block and compute for long before it begins.
    Pool,
}

impl Execution {
    /// Whether the diagnostic lane answers it, and an overloaded server does not refuse it.
    pub const fn is_diagnostic(self) -> bool {
        matches!(self, Execution::Diagnostic | Execution::DiagnosticPool)
    }
}

/// How the time of a command is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeLimit {
    /// By `maxTimeMS`.
    Given,
    /// By `maxTimeMS`, or by `defaultMaxTimeMS`: a read.
    GivenOrDefault,
    /// By the command itself: `maxTimeMS` says how long to wait for new documents.
    Own,
}

/// A row of the table.
#[derive(Debug)]
pub struct Command<N: Node> {
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
    /// Member of API version 2, which has commands for tests only.
    pub api_version_2: bool,
    /// The API version that has it and wants it to be used no more.
    pub deprecated_in: Option<ApiVersion>,
    /// Own fields that are no part of any API version.
    pub unstable_fields: &'static [&'static str],
    /// Takes a write concern.
    pub takes_write_concern: bool,
    /// Whether a member of a replica set that is not its primary answers it.
    pub on_secondary: OnSecondary,
    /// The read concerns that it takes.
    pub read_concerns: ReadConcerns,
    /// Takes a transaction number: a write that is done once however often it is sent.
    pub takes_txn_number: bool,
    /// May come in the retired OP_QUERY form and without `apiVersion`.
    pub accepts_op_query: bool,
    /// Not listed and refused unless `enableTestCommands` is on.
    pub only_for_tests: bool,
    /// How `serverStatus.opLatencies` counts it, where that is otherwise than `opcounters`: by what it does
    /// with data.
    pub latency_class: Option<OperationClass>,
    /// How its time is limited.
    pub time_limit: TimeLimit,
    /// Where it runs.
    pub execution: Execution,
    /// Its fields have secrets: they are shown nowhere.
    pub has_secrets: bool,
    /// Where it runs, when that depends on what is asked for.
    pub execution_of: Option<fn(RawDocument<'_>) -> Execution>,
    /// How it runs.
    pub run: Run<N>,
}

impl<N: Node> Command<N> {
    /// A row with everything off; the files fill in what differs.
    pub const fn new(name: &'static str, help: &'static str, run: Run<N>) -> Self {
        Command {
            name,
            aliases: &[],
            help,
            admin_only: false,
            class: OperationClass::Command,
            api_version_1: false,
            api_version_2: false,
            deprecated_in: None,
            unstable_fields: &[],
            takes_write_concern: false,
            on_secondary: OnSecondary::Always,
            read_concerns: ReadConcerns::Local,
            takes_txn_number: false,
            accepts_op_query: false,
            only_for_tests: false,
            latency_class: None,
            time_limit: TimeLimit::Given,
            execution: Execution::Pool,
            has_secrets: false,
            execution_of: None,
            run,
        }
    }

    /// Whether an API version has it.
    pub(crate) const fn is_in(&self, version: ApiVersion) -> bool {
        match version {
            ApiVersion::One => self.api_version_1,
            ApiVersion::Two => self.api_version_2,
        }
    }

    /// The same for a command of the diagnostic lane.
    pub const fn diagnostic(name: &'static str, help: &'static str, run: Run<N>) -> Self {
        Command { execution: Execution::Diagnostic, ..Self::new(name, help, run) }
    }

    /// The same for a command of the diagnostic lane that may take long.
    pub const fn diagnostic_walk(name: &'static str, help: &'static str, run: Run<N>) -> Self {
        Command { execution: Execution::DiagnosticPool, ..Self::new(name, help, run) }
    }

    /// Where this very command runs.
    #[inline]
    pub(crate) fn execution_of(&self, body: RawDocument<'_>) -> Execution {
        self.execution_of.map_or(self.execution, |of| of(body))
    }

    /// Whether an overloaded server may refuse it: operators are always heard, and what frees resources is
    /// welcome.
    pub(crate) fn is_refused_under_overload(&self, body: RawDocument<'_>) -> bool {
        self.class != OperationClass::GetMore && !self.execution_of(body).is_diagnostic()
    }
}

/// The commands of a server.
#[derive(Debug)]
pub struct CommandTable<N: Node> {
    /// Sorted by name.
    rows: Vec<&'static Command<N>>,
    /// What each row needs of who asks for it.
    requirements: Vec<&'static Requirement>,
    /// By name and alias: a row and its position. The keys are ours, so that the hash needs no seed.
    by_name: HashMap<&'static [u8], (usize, &'static Command<N>), rustc_hash::FxBuildHasher>,
}

impl<N: Node> CommandTable<N> {
    /// The commands that need nothing of the node.
    const GENERIC: &'static [Command<N>] = &[
        authentication::authenticate_entry(),
        authentication::logout_entry(),
        authentication::sasl_continue_entry(),
        authentication::sasl_start_entry(),
        api_version_tests::deprecation(),
        api_version_tests::deprecation_in_version_2(),
        api_version_tests::removal(),
        api_version_tests::version_2(),
        api_version_tests::versions_1_and_2(),
        build_info::command(),
        configure_fail_point::command(),
        conn_pool_stats::command(),
        connection_status::command(),
        current_op::command(),
        sessions::end(),
        features::command(),
        get_cmd_line_opts::command(),
        get_log::command(),
        get_more::command(),
        get_parameter::command(),
        hello::command(),
        hello::is_master(),
        host_info::command(),
        sessions::kill_all(),
        sessions::kill_all_by_pattern(),
        kill_cursors::command(),
        kill_op::command(),
        sessions::kill(),
        list_commands::command(),
        log_application_message::command(),
        log_rotate::command(),
        rotate_certificates::command(),
        ping::command(),
        sessions::refresh(),
        set_parameter::command(),
        shutdown::command(),
        sessions::start(),
        top::command(),
        wait_for_fail_point::command(),
        whatsmyuri::command(),
    ];

    /// The generic commands and those of the node.
    pub fn of_node() -> Self {
        let mut rows: Vec<_> = Self::GENERIC.iter().chain(N::commands().iter().copied()).collect();
        rows.sort_by_key(|command| command.name);
        let by_name = rows.iter().copied().enumerate().flat_map(|(position, command)| {
            let names = std::iter::once(&command.name).chain(command.aliases);
            names.map(move |name| (name.as_bytes(), (position, command)))
        });
        // What nobody has said is allowed to nobody.
        let requirement =
            |command: &&Command<N>| requirement_of(command.name).unwrap_or(&Requirement::Everything);
        let requirements = rows.iter().map(requirement).collect();
        CommandTable { by_name: by_name.collect(), requirements, rows }
    }

    /// Every command, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &'static Command<N>> {
        self.rows.iter().copied()
    }

    /// The row of a command, by its name or an alias.
    pub fn get(&self, name: &[u8]) -> Option<&'static Command<N>> {
        Some(self.find(name)?.1)
    }

    /// The row of a command and its position.
    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Option<(usize, &'static Command<N>)> {
        self.by_name.get(name).copied()
    }

    /// What the row at this position needs.
    #[inline]
    pub(crate) fn requirement(&self, position: usize) -> &'static Requirement {
        self.requirements.get(position).copied().unwrap_or(&Requirement::Everything)
    }

    fn of(&self, body: RawDocument<'_>) -> Option<&'static Command<N>> {
        self.get(body.first()?.name_bytes())
    }

    /// Whether the diagnostic lane answers this command. The body may still be malformed behind its first
    /// field.
    pub fn is_diagnostic(&self, body: RawDocument<'_>) -> bool {
        self.of(body).is_some_and(|command| command.execution_of(body).is_diagnostic())
    }

    /// Whether the reply to this command may be large: neither a write's nor a diagnostic command's is.
    pub fn may_reply_large(&self, body: RawDocument<'_>) -> bool {
        self.of(body).is_some_and(|command| {
            let writes = matches!(
                command.class,
                OperationClass::Insert | OperationClass::Update | OperationClass::Delete
            );
            !writes && !command.execution_of(body).is_diagnostic()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_explained() {
        let table = CommandTable::<()>::of_node();
        let names: usize = table.iter().map(|command| 1 + command.aliases.len()).sum();
        assert_eq!(table.by_name.len(), names, "a name or alias is there twice");
        for command in table.iter() {
            assert!(command.help.ends_with('.'), "{} needs a sentence of help", command.name);
        }
    }
}
