//! The command table: one file per command, one row per file, sorted by name.

use crate::context::CommandContext;
use crate::counters::OperationClass;
use crate::error::CommandResult;
use crate::generic::ApiVersion;
use document::{DocumentBuilder, Element, RawDocument, RawValue};
use hashbrown::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;

mod aggregate;
mod api_version_tests;
mod authentication;
pub(crate) mod build_info;
mod coll_mod;
pub(crate) mod coll_stats;
mod compact;
mod configure_fail_point;
mod conn_pool_stats;
mod connection_status;
mod count;
mod create;
mod create_indexes;
pub(crate) mod current_op;
mod data_size;
mod db_stats;
mod delete;
mod distinct;
mod drop;
mod drop_database;
mod drop_indexes;
mod end_sessions;
mod explain;
mod feature_version;
mod features;
mod find;
mod find_and_modify;
mod fsync;
mod get_cmd_line_opts;
mod get_diagnostic_data;
mod get_log;
mod get_more;
mod get_parameter;
mod hello;
pub(crate) mod host_info;
mod insert;
mod kill_all_sessions;
mod kill_cursors;
mod kill_op;
mod kill_sessions;
mod list_collections;
mod list_commands;
mod list_databases;
mod list_indexes;
mod lock_info;
mod log_rotate;
mod ping;
mod plan_cache;
mod profile;
mod re_index;
mod refresh_sessions;
mod rename_collection;
mod repl_set;
mod roles_info;
mod rw_concern;
mod server_status;
mod set_parameter;
mod shutdown;
mod start_session;
mod top;
mod transactions;
mod update;
mod users_info;
mod validate;
mod validate_db_metadata;
mod wait_for_fail_point;
mod whatsmyuri;

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

/// Where a command runs when an event loop serves its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// In the loop, and in the diagnostic lane, which no user's work keeps busy: it is quick, touches no disk and waits for
    /// nothing but time.
    Diagnostic,
    /// It begins in the loop and moves to a thread that may block when what it needs is not in memory or takes long.
    InlineFirst,
    /// It moves to a thread that may block before it begins.
    Pool,
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
    /// Member of API version 2, which has commands for tests only.
    pub api_version_2: bool,
    /// The API version that has it and wants it to be used no more.
    pub deprecated_in: Option<ApiVersion>,
    /// Own fields that are no part of any API version.
    pub unstable_fields: &'static [&'static str],
    /// Takes a write concern.
    pub takes_write_concern: bool,
    /// May come in the retired OP_QUERY form and without `apiVersion`.
    pub accepts_op_query: bool,
    /// Not listed and refused unless `enableTestCommands` is on.
    pub only_for_tests: bool,
    /// Where it runs.
    pub execution: Execution,
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
            api_version_2: false,
            deprecated_in: None,
            unstable_fields: &[],
            takes_write_concern: false,
            accepts_op_query: false,
            only_for_tests: false,
            execution: Execution::Pool,
            run,
        }
    }

    /// How `serverStatus.opLatencies` counts it: by what it does with data.
    pub(crate) fn latency_class(&self) -> OperationClass {
        match self.name {
            "aggregate" | "count" | "distinct" => OperationClass::Query,
            "findAndModify" => OperationClass::Update,
            _ => self.class,
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
    pub const fn diagnostic(name: &'static str, help: &'static str, run: Run) -> Self {
        CommandEntry { execution: Execution::Diagnostic, ..Self::new(name, help, run) }
    }

    /// Where this very command runs. A report on everything that is idle is a diagnostic one, but too long for a loop; so may be what
    /// the client has computed from a report.
    pub(crate) fn execution_of(&self, body: RawDocument<'_>) -> Execution {
        match self.name {
            "currentOp" if reports_idle(body) || filters_operations(body) => Execution::Pool,
            "aggregate" => match report_of_operations(body) {
                Some(report) if !report.is_shaped && !reports_idle(report.operand) => Execution::Diagnostic,
                _ => Execution::Pool,
            },
            _ => self.execution,
        }
    }

    /// Whether the diagnostic lane answers it.
    fn is_diagnostic(&self, body: RawDocument<'_>) -> bool {
        self.execution == Execution::Diagnostic
            || (self.name == "aggregate" && report_of_operations(body).is_some())
    }

    /// Whether an overloaded server may refuse it: operators are always heard, and what frees resources is welcome.
    pub(crate) fn is_refused_under_overload(&self, body: RawDocument<'_>) -> bool {
        self.name != "getMore" && !self.is_diagnostic(body)
    }
}

/// Whether connections or cursors without an operation are asked for: there may be thousands.
fn reports_idle(options: RawDocument<'_>) -> bool {
    ["$all", "idleConnections", "idleCursors"].iter().any(|name| {
        options.get(name).is_some_and(|value| {
            value.as_bool().unwrap_or_else(|| crate::fields::integer(value).is_some_and(|number| number != 0))
        })
    })
}

/// Whether `currentOp` is given a filter on the operations.
fn filters_operations(body: RawDocument<'_>) -> bool {
    const NO_FILTERS: [&str; 8] =
        ["$all", "$clusterTime", "$db", "$ownOps", "$readPreference", "$truncateOps", "comment", "lsid"];
    body.iter().skip(1).any(|field| !NO_FILTERS.contains(&field.name()))
}

/// `$currentOp` in an aggregation.
struct OperationsReport<'a> {
    operand: RawDocument<'a>,
    /// Stages follow.
    is_shaped: bool,
}

/// What shells send for `db.currentOp()`, if this aggregation is that: the report and stages that only shape it.
fn report_of_operations(body: RawDocument<'_>) -> Option<OperationsReport<'_>> {
    const SHAPING: [&str; 8] =
        ["$match", "$project", "$addFields", "$set", "$unset", "$sort", "$limit", "$count"];
    let target = body.first().map(|first| first.value());
    let (true, Some(RawValue::Array(pipeline))) =
        (target.is_some_and(RawValue::is_number), body.get("pipeline"))
    else {
        return None;
    };
    let mut stages = pipeline.iter().map(|stage| stage.as_document().and_then(RawDocument::first));
    let report = stages.next().flatten().filter(|stage| stage.name() == "$currentOp")?;
    let operand = report.value().as_document()?;
    let mut is_shaped = false;
    let shapes = |stage: Option<Element<'_>>| {
        is_shaped = true;
        stage.is_some_and(|stage| SHAPING.contains(&stage.name()))
    };
    stages.all(shapes).then_some(OperationsReport { operand, is_shaped })
}

/// Whether the diagnostic lane answers this command. The body may still be malformed behind its first field.
pub fn is_diagnostic(body: RawDocument<'_>) -> bool {
    let entry = body.first().and_then(|first| find(first.name_bytes()));
    entry.is_some_and(|(_, entry)| entry.is_diagnostic(body))
}

/// Whether the reply to this command may be large: neither a write's nor a diagnostic command's is.
pub fn may_reply_large(body: RawDocument<'_>) -> bool {
    let entry = body.first().and_then(|first| find(first.name_bytes()));
    entry.is_some_and(|(_, entry)| {
        let writes =
            matches!(entry.class, OperationClass::Insert | OperationClass::Update | OperationClass::Delete);
        !writes && !entry.is_diagnostic(body)
    })
}

/// Every command, sorted by name.
pub static COMMANDS: &[&CommandEntry] = &[
    &transactions::ABORT,
    &aggregate::COMMAND,
    &authentication::AUTHENTICATE,
    &build_info::COMMAND,
    &coll_mod::COMMAND,
    &coll_stats::COMMAND,
    &transactions::COMMIT,
    &compact::COMMAND,
    &configure_fail_point::COMMAND,
    &conn_pool_stats::COMMAND,
    &connection_status::COMMAND,
    &count::COMMAND,
    &create::COMMAND,
    &create_indexes::COMMAND,
    &current_op::COMMAND,
    &data_size::COMMAND,
    &db_stats::COMMAND,
    &delete::COMMAND,
    &distinct::COMMAND,
    &drop::COMMAND,
    &roles_info::DROP_ALL,
    &users_info::DROP_ALL,
    &drop_database::COMMAND,
    &drop_indexes::COMMAND,
    &users_info::DROP,
    &end_sessions::COMMAND,
    &explain::COMMAND,
    &features::COMMAND,
    &find::COMMAND,
    &find_and_modify::COMMAND,
    &fsync::COMMAND,
    &get_cmd_line_opts::COMMAND,
    &rw_concern::GET,
    &get_diagnostic_data::COMMAND,
    &get_log::COMMAND,
    &get_more::COMMAND,
    &get_parameter::COMMAND,
    &hello::COMMAND,
    &host_info::COMMAND,
    &insert::COMMAND,
    &hello::IS_MASTER,
    &kill_all_sessions::COMMAND,
    &kill_all_sessions::BY_PATTERN,
    &kill_cursors::COMMAND,
    &kill_op::COMMAND,
    &kill_sessions::COMMAND,
    &list_collections::COMMAND,
    &list_commands::COMMAND,
    &list_databases::COMMAND,
    &list_indexes::COMMAND,
    &lock_info::COMMAND,
    &log_rotate::COMMAND,
    &authentication::LOGOUT,
    &ping::COMMAND,
    &plan_cache::CLEAR,
    &plan_cache::CLEAR_FILTERS,
    &plan_cache::LIST_FILTERS,
    &profile::COMMAND,
    &re_index::COMMAND,
    &refresh_sessions::COMMAND,
    &rename_collection::COMMAND,
    &repl_set::ABORT_CATCH_UP,
    &repl_set::FREEZE,
    &repl_set::GET_CONFIG,
    &repl_set::GET_RBID,
    &repl_set::GET_STATUS,
    &repl_set::INITIATE,
    &repl_set::MAINTENANCE,
    &repl_set::RECONFIG,
    &repl_set::RESIZE_OPLOG,
    &repl_set::STEP_DOWN,
    &repl_set::STEP_UP,
    &repl_set::SYNC_FROM,
    &roles_info::COMMAND,
    &authentication::SASL_CONTINUE,
    &authentication::SASL_START,
    &server_status::COMMAND,
    &rw_concern::SET,
    &feature_version::COMMAND,
    &set_parameter::COMMAND,
    &shutdown::COMMAND,
    &start_session::COMMAND,
    &api_version_tests::DEPRECATION,
    &api_version_tests::DEPRECATION_IN_VERSION_2,
    &api_version_tests::REMOVAL,
    &api_version_tests::VERSION_2,
    &api_version_tests::VERSIONS_1_AND_2,
    &top::COMMAND,
    &update::COMMAND,
    &users_info::COMMAND,
    &validate::COMMAND,
    &validate_db_metadata::COMMAND,
    &wait_for_fail_point::COMMAND,
    &whatsmyuri::COMMAND,
];

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
