//! `planCacheClear` and its like: plans are chosen anew for every query, so that there is nothing to clear or
//! to filter.

use super::{Command, OnSecondary, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use document::DocumentBuilder;

const fn entry(name: &'static str, help: &'static str, run: Run) -> Command {
    Command { on_secondary: OnSecondary::IfAllowed, ..Command::diagnostic(name, help, run) }
}

pub(crate) static CLEAR: Command =
    entry("planCacheClear", "Forgets cached plans; there are none.", Run::Now(clear));

pub(crate) static CLEAR_FILTERS: Command =
    entry("planCacheClearFilters", "Removes index filters; there are none.", Run::Now(clear));

pub(crate) static LIST_FILTERS: Command =
    entry("planCacheListFilters", "Lists index filters; there are none.", Run::Now(list));

fn clear(context: &mut CommandContext<'_>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.collection_namespace()?;
    context.fields.ignore(&["query", "sort", "projection", "collation"]);
    context.fields.finish()
}

fn list(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.collection_namespace()?;
    context.fields.finish()?;
    reply.start_array("filters").finish();
    Ok(())
}
