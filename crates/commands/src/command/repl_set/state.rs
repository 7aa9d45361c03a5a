//! `replSetStepDown` and the others by which an operator says who is primary, and who is read from.

use super::*;
use replication::set::{MemberState, normal_host};

pub(crate) static STEP_DOWN: Command = waiting(
    "replSetStepDown",
    "Makes the primary a secondary, and another member primary.",
    Run::Later(|context, _| Box::pin(step_down(context))),
);

pub(crate) static STEP_UP: Command = waiting(
    "replSetStepUp",
    "Makes this member the primary, if the others elect it.",
    Run::Later(|context, _| Box::pin(step_up(context))),
);

pub(crate) static FREEZE: Command = waiting(
    "replSetFreeze",
    "Keeps a secondary from standing for election for some seconds.",
    Run::Later(|context, reply| Box::pin(freeze(context, reply))),
);

pub(crate) static MAINTENANCE: Command = waiting(
    "replSetMaintenance",
    "Takes a secondary out of service, or puts it in again.",
    Run::Later(|context, _| Box::pin(maintain(context))),
);

pub(crate) static SYNC_FROM: Command = diagnostic(
    "replSetSyncFrom",
    "Chooses from whom a member without a vote gets the log.",
    Run::Now(sync_from),
);

pub(crate) static ABORT_CATCH_UP: Command = diagnostic(
    "replSetAbortPrimaryCatchUp",
    "Ends the catching up of a new primary, who has nothing to catch up with.",
    Run::Now(abort_catch_up),
);

/// For how long a primary that steps down does not stand for election, in seconds.
const STEP_DOWN_SECONDS: i64 = 60;
/// Of a source that is so far behind its follower the operator is warned.
const SOURCE_LAG_SECONDS: u32 = 10;
/// How long it waits for a secondary to catch up, in seconds.
const CATCH_UP_SECONDS: i64 = 10;

async fn step_down(context: &mut CommandContext<'_>) -> CommandResult {
    let set = set_of(context)?;
    let force = context.fields.flexible_boolean("force")?.unwrap_or(false);
    let lasts = match seconds(context)? {
        0 => STEP_DOWN_SECONDS,
        lasts => lasts,
    };
    let catch_up = context.fields.integer("secondaryCatchUpPeriodSecs")?;
    let catch_up = catch_up.unwrap_or(if force { 0 } else { CATCH_UP_SECONDS });
    context.fields.finish()?;
    if lasts < 0 {
        return Err(CommandError::bad_value("stepdown period must be a positive integer"));
    }
    if catch_up < 0 {
        return Err(CommandError::bad_value(
            "secondaryCatchUpPeriodSecs period must be a positive or absent",
        ));
    }
    if lasts < catch_up {
        return Err(CommandError::bad_value(
            "stepdown period must be longer than secondaryCatchUpPeriodSecs",
        ));
    }
    tracing::info!(target: "COMMAND", id = 21_579, lasts, catch_up, force,
        "Attempting to step down in response to replSetStepDown command");
    asked(context, set.step_down(length(catch_up), length(lasts), force)).await
}

async fn step_up(context: &mut CommandContext<'_>) -> CommandResult {
    let set = set_of(context)?;
    context.fields.ignore(&["skipDryRun"]);
    context.fields.finish()?;
    asked(context, set.step_up()).await
}

async fn freeze(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let set = set_of(context)?;
    let lasts = seconds(context)?;
    context.fields.finish()?;
    if lasts < 0 {
        return Err(CommandError::bad_value("freeze period must be a positive integer"));
    }
    asked(context, set.freeze(length(lasts))).await?;
    match lasts {
        0 => drop(reply.append("info", "unfreezing")),
        1 => drop(reply.append("warning", "you really want to freeze for only 1 second?")),
        _ => {}
    }
    Ok(())
}

async fn maintain(context: &mut CommandContext<'_>) -> CommandResult {
    let set = set_of(context)?;
    let is_on = match context.fields.target() {
        RawValue::Boolean(is_on) => is_on,
        other => crate::fields::integer(other).is_some_and(|number| number != 0),
    };
    context.fields.finish()?;
    if set.topology().state == MemberState::Arbiter {
        let message = "arbiters can't modify maintenance mode";
        return Err(CommandError::new(ErrorCode::NotSecondary as i32, message));
    }
    asked(context, set.set_maintenance(is_on)).await
}

fn sync_from(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let set = set_of(context)?;
    let target = context.fields.target();
    let Some(host) = target.as_str() else {
        return Err(context.fields.wrong_type("replSetSyncFrom", target.kind(), &["string"]));
    };
    context.fields.finish()?;
    let host = normal_host(host).map_err(refused)?;
    let topology = set.topology();
    let (Some(config), Some(own)) = (&topology.config, topology.own_member()) else {
        return Err(not_initiated("New sync source cannot be set before the set is initiated"));
    };
    if topology.state == MemberState::Primary {
        return Err(CommandError::new(ErrorCode::NotSecondary as i32, "primaries don't sync"));
    }
    if own.arbiter_only {
        return Err(CommandError::new(ErrorCode::NotSecondary as i32, "arbiters don't sync"));
    }
    let Some(source) = config.members.iter().find(|member| member.host == host) else {
        let message = format!("Could not find member \"{host}\" in replica set");
        return Err(CommandError::new(ErrorCode::NodeNotFound as i32, message));
    };
    if source.id == own.id {
        return Err(CommandError::invalid_options("I cannot sync from myself"));
    }
    if source.arbiter_only {
        let message = format!("Cannot sync from \"{host}\" because it is an arbiter");
        return Err(CommandError::invalid_options(message));
    }
    let primary = topology.primary_member().map(|member| member.id);
    let is_primary = Some(source.id) == primary;
    if !is_primary && (own.votes || !source.votes || !source.delay.is_zero()) {
        let message = "a member that votes gets the log from the primary, and any other from a member that \
                       votes and is not delayed";
        return Err(CommandError::new(ErrorCode::CommandNotSupported as i32, message));
    }
    let members = set.members();
    let status = |id: i32| members.iter().find(|member| member.id == id);
    let applied = |id: i32| status(id).map_or(0, |member| member.optime.timestamp.time);
    if !status(source.id).is_some_and(|source| source.health) {
        let message = format!("I cannot reach the requested member: {host}");
        return Err(CommandError::new(ErrorCode::HostUnreachable as i32, message));
    }
    if applied(own.id).saturating_sub(applied(source.id)) > SOURCE_LAG_SECONDS {
        let warning = format!("requested member \"{host}\" is more than 10 seconds behind us");
        reply.append("warning", warning.as_str());
    }
    reply.append("syncFromRequested", host.as_str());
    if let Some(before) = set.sync_source().and_then(|id| config.member(id)) {
        reply.append("prevSyncTarget", before.host.as_str());
    }
    set.sync_from(source.id);
    Ok(())
}

fn abort_catch_up(context: &mut CommandContext<'_>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    set_of(context)?;
    context.fields.finish()?;
    // Who is elected has everything that was committed.
    Err(CommandError::new(ErrorCode::IllegalOperation as i32, "The node is not in catch-up mode."))
}
