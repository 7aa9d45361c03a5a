//! `replSetGetStatus` and `replSetGetRBID`: how the members are.

use super::*;
use crate::replica_set::{date_of, shown_optime};
use document::{Document, Value, doc};
use replication::OpTime;
use replication::set::{MemberStatus, ReplSetConfig};

pub(crate) static GET_STATUS: Command = diagnostic(
    "replSetGetStatus",
    "Tells the state of the replica set as this member sees it.",
    Run::Now(status),
);

pub(crate) static GET_RBID: Command = diagnostic(
    "replSetGetRBID",
    "Tells the number of rollbacks, of which there are none.",
    Run::Now(rollback_id),
);

fn rollback_id(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    set_of(context)?;
    context.fields.finish()?;
    // Counted from one, and nothing is ever rolled back.
    reply.append("rbid", 1);
    Ok(())
}

fn status(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let set = set_of(context)?;
    context.fields.ignore(&["initialSync"]);
    context.fields.finish()?;
    let topology = set.topology();
    let Some(config) = &topology.config else {
        if copy::write_status(set, context.server.now_ms(), reply) {
            reply.append("set", set.set_name()).append("myState", topology.state.number());
            return Ok(());
        }
        return Err(not_initiated("no replset config has been received"));
    };
    if topology.own.is_none() {
        let message = "Our replica set config is invalid or we are not a member of it";
        return Err(CommandError::new(ErrorCode::InvalidReplicaSetConfig as i32, message));
    }
    let members = set.members();
    let source = members.iter().find(|member| member.is_self).and_then(|member| member.sync_source);
    let source_host = source.and_then(|id| config.member(id)).map_or("", |member| member.host.as_str());
    // Who votes by now; `writeMajorityCount` is of the configuration.
    let voters = topology.voters as i32;
    let writable = voters.min(config.writable_voters().count() as i32);
    let (majority, write_majority) = (voters / 2 + 1, config.write_majority() as i32);
    reply.append("set", config.set_name.as_str());
    reply.append("date", RawValue::DateTime(context.server.now_ms()));
    reply.append("myState", topology.state.number()).append("term", topology.term as i64);
    reply.append("syncSourceHost", source_host).append("syncSourceId", source.unwrap_or(-1));
    reply.append("heartbeatIntervalMillis", config.settings.heartbeat_interval.as_millis() as i64);
    reply.append("majorityVoteCount", majority).append("writeMajorityCount", write_majority);
    reply.append("votingMembersCount", voters).append("writableVotingMembersCount", writable);
    write_optimes(reply.start_document("optimes"), set);
    let uptime = ambient::elapsed(context.server.started).as_secs() as i32;
    elections::write(set, reply);
    copy::write_status(set, context.server.now_ms(), reply);
    let mut shown = reply.start_array("members");
    for member in &members {
        let info = if member.is_self { copy::hindrance(set) } else { String::new() };
        let mut described = describe(member, config, uptime, info);
        if member.is_self && topology.maintenance > 0 {
            described.push("maintenanceMode", topology.maintenance as i32);
        }
        shown.push_value(&described.into());
    }
    Ok(())
}

fn write_optimes(mut optimes: DocumentBuilder<'_>, set: &ReplicaSet) {
    let [applied, committed, durable] = [set.last_applied(), set.last_committed(), set.last_durable()];
    optimes.append_value("lastCommittedOpTime", &shown_optime(committed).into());
    optimes.append("lastCommittedWallTime", date_of(committed));
    optimes.append_value("readConcernMajorityOpTime", &shown_optime(committed).into());
    optimes.append_value("appliedOpTime", &shown_optime(applied).into());
    optimes.append_value("durableOpTime", &shown_optime(durable).into());
    optimes.append("lastAppliedWallTime", date_of(applied));
    optimes.append("lastDurableWallTime", date_of(durable));
}

/// One of `members`.
fn describe(member: &MemberStatus, config: &ReplSetConfig, uptime: i32, info: String) -> Document {
    let mut shown = doc! {
        "_id": (member.id), "name": (member.host.as_str()), "health": (f64::from(u8::from(member.health))),
        "state": (member.state.number()), "stateStr": (member.state.name()),
    };
    let now_ms = ambient::since_epoch().as_millis() as i64;
    let since = |began: i64| (now_ms.saturating_sub(began) / 1000) as i32;
    shown.push("uptime", if member.is_self { uptime } else { member.up_since.map_or(0, since) });
    if !config.member(member.id).is_some_and(|member| member.arbiter_only) {
        describe_data(member, &mut shown);
    }
    if let Some(heard) = member.last_heartbeat.filter(|_| !member.is_self) {
        shown.push("lastHeartbeat", Value::DateTime(heard));
    }
    if let Some(asked) = member.last_asked.filter(|_| !member.is_self) {
        shown.push("lastHeartbeatRecv", Value::DateTime(asked));
    }
    if let Some(ping) = member.ping.filter(|_| !member.is_self) {
        shown.push("pingMs", ping.as_millis() as i64);
    }
    shown.push("lastHeartbeatMessage", member.heartbeat_message.as_str());
    let source = member.sync_source.and_then(|id| config.member(id));
    shown.push("syncSourceHost", source.map_or("", |source| source.host.as_str()));
    shown.push("syncSourceId", member.sync_source.unwrap_or(-1));
    shown.push("infoMessage", info);
    if let Some(time) = member.election_time {
        shown.push("electionTime", time);
        shown.push("electionDate", Value::DateTime(i64::from(time.time) * 1000));
    }
    shown.push("configVersion", member.config_version);
    shown.push("configTerm", member.config_term);
    if member.is_self {
        shown.push("self", true);
    }
    shown
}

/// How far its data and its log are.
fn describe_data(member: &MemberStatus, shown: &mut Document) {
    let date = |optime: OpTime| Value::DateTime(i64::from(optime.timestamp.time) * 1000);
    shown.push("optime", shown_optime(member.optime));
    if !member.is_self {
        shown.push("optimeDurable", shown_optime(member.durable));
    }
    shown.push("optimeDate", date(member.optime));
    if !member.is_self {
        shown.push("optimeDurableDate", date(member.durable));
    }
    shown.push("lastAppliedWallTime", date(member.optime));
    shown.push("lastDurableWallTime", date(member.durable));
}
