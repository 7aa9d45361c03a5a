//! Reads that say how old the data may be which they get, and a server that answers for it.
//!
//! Drivers choose members by what they have heard of them some seconds ago (`maxStalenessSeconds`, at least
//! 90). Here the member itself looks, when it answers: `$readFreshness: {maxStalenessMS, waitMS}` in a
//! command, or in a document as its `comment`, which every driver lets through; else the set's own
//! `settings.readFreshness`.

use crate::command::Command;
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use crate::fields::Fields;
use crate::generic::GenericArguments;
use crate::node::Node;
use crate::role::{OWN_DATABASE, OnSecondary, Role};
use document::{RawDocument, doc};
use std::time::Duration;
use wire::ErrorCode;

/// The name of the argument.
pub(crate) const READ_FRESHNESS: &str = "$readFreshness";
/// How long a primary waits at least for a majority to answer: if none does it has stepped down by then.
const PRIMARY_WAIT: Duration = Duration::from_secs(2);
/// What tells a stale member's refusal from one of a member that is no secondary.
const STALENESS_MAX: &str = "maxStalenessMS";

/// How fresh a read wants the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadFreshness {
    /// What was acknowledged by any member longer ago is seen.
    pub staleness_max: Duration,
    /// How long fresher data are waited for.
    pub wait: Duration,
}

impl ReadFreshness {
    pub(crate) fn parse(document: RawDocument<'_>) -> CommandResult<Self> {
        let mut fields = Fields::nested(READ_FRESHNESS, document)?;
        let mut milliseconds = |name: &'static str| {
            let number = fields.integer_at_least(name, 0)?;
            Ok::<_, CommandError>(number.map(|number| Duration::from_millis(number.unsigned_abs())))
        };
        let (staleness_max, wait) = (milliseconds(STALENESS_MAX)?, milliseconds("waitMS")?);
        let staleness_max = staleness_max.ok_or_else(|| fields.missing(STALENESS_MAX))?;
        fields.finish()?;
        Ok(ReadFreshness { staleness_max, wait: wait.unwrap_or_default() })
    }
}

/// Refuses the argument where there is nothing to be fresh. A comment may stand in any command.
pub(crate) fn check<N: Node>(command: &Command<N>, generic: &GenericArguments<'_>) -> CommandResult {
    if generic.freshness.is_some() && command.on_secondary != OnSecondary::IfAllowed {
        let message = format!("Command {} does not support {READ_FRESHNESS}", command.name);
        return Err(CommandError::invalid_options(message));
    }
    Ok(())
}

/// What a command of a member wants, itself or by the set's configuration.
#[inline]
pub(crate) fn wanted<N: Node>(context: &CommandContext<'_, N>) -> Option<ReadFreshness> {
    if context.command.on_secondary != OnSecondary::IfAllowed || context.database == OWN_DATABASE {
        return None;
    }
    let generic = &context.generic;
    generic.freshness.or(generic.freshness_in_comment).or_else(|| context.server.node.read_freshness())
}

/// Waits until the data are as fresh, and not for too long.
pub(crate) async fn await_freshness<N: Node>(
    context: &CommandContext<'_, N>,
    wanted: ReadFreshness,
) -> CommandResult {
    let ReadFreshness { staleness_max, mut wait } = wanted;
    let (node, counters) = (&context.server.node, &context.server.counters);
    let Some(role) = node.role() else { return Ok(()) };
    counters.fresh_reads.add(1);
    if node.staleness().is_some_and(|staleness| staleness <= staleness_max) {
        return Ok(());
    }
    counters.waits_for_fresh_data.add(1);
    if role == Role::Primary {
        wait = wait.max(PRIMARY_WAIT);
    }
    if context.within_wait(node.fresh(staleness_max), wait).await?.is_some() {
        return Ok(());
    }
    counters.refused_as_stale.add(1);
    Err(too_stale(node.staleness(), staleness_max))
}

/// Drivers send a read that fails so to another member: they take this one for unknown until they have asked
/// it.
fn too_stale(staleness: Option<Duration>, staleness_max: Duration) -> CommandError {
    let milliseconds = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let allowed = milliseconds(staleness_max);
    let (age, told) = match staleness.map(milliseconds) {
        Some(age) => (format!("may be {age} ms old"), doc! { "stalenessMS": age, STALENESS_MAX: allowed }),
        None => ("are of an unknown age".to_owned(), doc! { STALENESS_MAX: allowed }),
    };
    let message = format!("the data of this member {age}, and the read allows {allowed} ms");
    CommandError::new(ErrorCode::NotPrimaryOrSecondary as i32, message).with_extra(told)
}

/// Whether an error is this one. It tells nothing about the topology, by which drivers would take it for old
/// news.
pub(crate) fn is_too_stale(error: &CommandError) -> bool {
    error.extra.as_ref().is_some_and(|extra| extra.contains(STALENESS_MAX))
}
