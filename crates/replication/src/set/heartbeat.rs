//! What members ask each other besides the log: whether they are there, what they do, how far they have come.

use crate::optime::OpTime;
use crate::set::driver::Now;
use crate::set::kept_log::LogNeed;
use crate::set::shared::Shared;
use crate::set::state::SetState;
use crate::set::{MemberState, ReplSetConfig, SetError, Topology};
use crate::{Answer, PeerError, Peers};
use document::{Document, DocumentBuf, ObjectId, RawDocument, RawValue, Timestamp, Value, doc};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use wire::ErrorCode;

/// The limit of a question before the set is there.
const INITIATE_LIMIT: Duration = Duration::from_secs(10);

/// A member as this one sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberStatus {
    /// `_id`.
    pub id: i32,
    /// `name`.
    pub host: String,
    /// Whether it is this one.
    pub is_self: bool,
    /// Whether it has answered lately.
    pub health: bool,
    /// What it does.
    pub state: MemberState,
    /// What it has applied; of the others as of the last word from them.
    pub optime: OpTime,
    /// What it has on its disk.
    pub durable: OpTime,
    /// The time of a question and its answer.
    pub ping: Option<Duration>,
    /// Since when it answers, in milliseconds since 1970.
    pub up_since: Option<i64>,
    /// When it answered last, in milliseconds since 1970.
    pub last_heartbeat: Option<i64>,
    /// When it asked last, likewise.
    pub last_asked: Option<i64>,
    /// When it was elected, of a primary.
    pub election_time: Option<Timestamp>,
    /// What went wrong.
    pub heartbeat_message: String,
    /// The `_id` of the member whose log it follows.
    pub sync_source: Option<i32>,
    /// The version of its configuration.
    pub config_version: i64,
    /// The term of its configuration.
    pub config_term: i64,
    /// What tells its disk from every other one, and to which set that belongs.
    pub(crate) disk: Option<(ObjectId, Option<ObjectId>)>,
}

/// What was last heard of the others, by `_id`.
pub(crate) type Statuses = Mutex<BTreeMap<i32, MemberStatus>>;

struct Asked {
    id: i32,
    host: String,
    at: Now,
    answer: Answer,
}

/// Asks the others, one after the other's answer.
#[derive(Default)]
pub(crate) struct Heartbeats {
    asked: Vec<Asked>,
    next: Duration,
    /// Of these members.
    config: Option<Arc<ReplSetConfig>>,
    /// A state of the set that somebody has applied and this member has not.
    newer: Option<SetState>,
    /// What members have said that they need of the log.
    needs: Vec<LogNeed>,
}

impl Heartbeats {
    /// Looks for answers, and asks again where it is time; when it will be.
    pub(crate) fn turn(
        &mut self,
        now: Now,
        peers: &dyn Peers,
        shared: &Shared,
        statuses: &Statuses,
        waker: &Waker,
    ) -> Option<Duration> {
        let topology = shared.topology();
        let config = topology.config.as_ref()?;
        self.collect(now, shared, statuses, waker);
        let is_the_same = self.config.as_ref().is_some_and(|known| Arc::ptr_eq(known, config));
        if is_the_same && now.monotonic < self.next {
            return Some(self.next);
        }
        self.config = Some(Arc::clone(config));
        self.next = now.monotonic + config.settings.heartbeat_interval;
        statuses
            .lock()
            .retain(|id, status| config.member(*id).is_some_and(|member| member.host == status.host));
        let own = topology.own_member().map(|member| member.id);
        for member in config.members.iter().filter(|member| Some(member.id) != own) {
            if self.asked.iter().any(|asked| asked.id == member.id) {
                continue;
            }
            let limit = config.settings.heartbeat_timeout;
            let mut request = request(config, own);
            if let Some(note) = &*shared.state_note.load() {
                // Of what is newer than this.
                request.push("wantsStateAfter", place_of(note.as_raw()).1);
            }
            let answer = peers.ask(&member.host, with_database(request), limit);
            self.asked.push(Asked { id: member.id, host: member.host.clone(), at: now, answer });
        }
        // An answer may be there at once, and its waker must be known.
        self.collect(now, shared, statuses, waker);
        Some(self.next)
    }

    /// What was heard of a state of the set that is newer than this member's.
    pub(crate) fn take_newer(&mut self) -> Option<SetState> {
        self.newer.take()
    }

    /// What others that copy need of this member's log.
    pub(crate) fn take_needs(&mut self) -> Vec<LogNeed> {
        std::mem::take(&mut self.needs)
    }

    fn collect(&mut self, now: Now, shared: &Shared, statuses: &Statuses, waker: &Waker) {
        let mut context = Context::from_waker(waker);
        let set_id = *shared.set_id.lock();
        self.asked.retain_mut(|asked| match asked.answer.as_mut().poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(answer) => {
                if let Some(state) = answer.as_ref().ok().and_then(|answer| newer_state(answer, set_id)) {
                    self.newer = Some(state);
                }
                self.needs.extend(answer.as_ref().ok().and_then(|answer| log_need(answer, set_id)));
                let mut statuses = statuses.lock();
                let status = heard(asked, answer, now, statuses.get(&asked.id));
                statuses.insert(asked.id, status);
                false
            }
        });
    }
}

fn request(config: &ReplSetConfig, own: Option<i32>) -> Document {
    let mut request = doc! {
        "replSetHeartbeat": (config.set_name.as_str()), "configVersion": (config.version),
        "configTerm": (config.term.unwrap_or(-1)), "hbv": 1,
    };
    if let Some(own) = own.and_then(|own| config.member(own)) {
        request.push("from", own.host.as_str());
        request.push("fromId", own.id);
    }
    request
}

fn with_database(mut command: Document) -> DocumentBuf {
    command.push("$db", "admin");
    command.to_buf()
}

/// By which states of a set are told apart: the version of the configuration, and how many numbers were given
/// and disks told.
fn place_of(note: RawDocument<'_>) -> (i64, i64) {
    let number = |field: &str| note.get(field).and_then(RawValue::as_i64_exact).unwrap_or(0);
    let disks =
        note.get("disks").and_then(RawValue::as_document).map_or(0, |disks| disks.into_iter().count());
    (number("version"), number("next") + disks as i64)
}

fn heard(
    asked: &Asked,
    answer: Result<DocumentBuf, PeerError>,
    now: Now,
    before: Option<&MemberStatus>,
) -> MemberStatus {
    let refusal = |reply: RawDocument<'_>| {
        let is_ok = reply.get("ok").is_none_or(|ok| ok.as_i64_exact() == Some(1));
        (!is_ok).then(|| reply.get("errmsg").and_then(RawValue::as_str).unwrap_or("refused").to_owned())
    };
    let unknown = MemberStatus {
        id: asked.id,
        host: asked.host.clone(),
        is_self: false,
        health: false,
        state: MemberState::Down,
        optime: OpTime::default(),
        durable: OpTime::default(),
        ping: None,
        up_since: None,
        last_heartbeat: before.and_then(|before| before.last_heartbeat),
        last_asked: None,
        election_time: None,
        heartbeat_message: String::new(),
        sync_source: None,
        config_version: -1,
        config_term: -1,
        disk: None,
    };
    match answer.as_ref().map(|reply| (reply.as_raw(), refusal(reply.as_raw()))) {
        Err(error) => MemberStatus { heartbeat_message: error.to_string(), ..unknown },
        Ok((_, Some(message))) => MemberStatus { heartbeat_message: message, ..unknown },
        Ok((reply, None)) => {
            let number = |field: &str| reply.get(field).and_then(RawValue::as_i64_exact);
            MemberStatus {
                health: true,
                state: number("state").and_then(MemberState::of_number).unwrap_or(MemberState::Unknown),
                optime: optime(reply, "opTime"),
                durable: optime(reply, "durableOpTime"),
                ping: Some(now.monotonic.saturating_sub(asked.at.monotonic)),
                up_since: before.and_then(|before| before.up_since).or(Some(now.wall.as_millis() as i64)),
                last_heartbeat: Some(now.wall.as_millis() as i64),
                election_time: match reply.get("electionTime") {
                    Some(RawValue::Timestamp(time)) => Some(time),
                    _ => None,
                },
                sync_source: number("syncSourceId").and_then(|id| i32::try_from(id).ok()),
                config_version: number("v").unwrap_or(-1),
                config_term: number("configTerm").unwrap_or(-1),
                disk: object_id(reply, "disk").map(|disk| (disk, object_id(reply, "setId"))),
                ..unknown
            }
        }
    }
}

fn object_id(reply: RawDocument<'_>, field: &str) -> Option<ObjectId> {
    match reply.get(field) {
        Some(RawValue::ObjectId(id)) => Some(id),
        _ => None,
    }
}

/// The state of the set that comes with an answer, to who has asked for a newer one.
fn newer_state(answer: &DocumentBuf, set_id: Option<ObjectId>) -> Option<SetState> {
    let note = answer.as_raw().get("stateOfSet")?.as_document()?;
    // There may be another set of this name.
    object_id(answer.as_raw(), "setId").filter(|id| Some(*id) == set_id)?;
    SetState::of_note(note)?
        .inspect_err(|error| tracing::warn!(%error, "a heartbeat with a damaged state"))
        .ok()
}

/// What a member of this set says that it needs of the log.
fn log_need(answer: &DocumentBuf, set_id: Option<ObjectId>) -> Option<LogNeed> {
    let need = answer.as_raw().get("needsLog")?.as_document()?;
    object_id(answer.as_raw(), "setId").filter(|id| Some(*id) == set_id)?;
    LogNeed::read(need, "number", "after")
}

fn optime(reply: RawDocument<'_>, field: &str) -> OpTime {
    let found = reply.get(field).and_then(RawValue::as_document).and_then(|optime| {
        let Some(RawValue::Timestamp(timestamp)) = optime.get("ts") else { return None };
        let term = optime.get("t").and_then(RawValue::as_i64_exact)?.max(0).unsigned_abs();
        Some(OpTime { timestamp, term })
    });
    found.unwrap_or_default()
}

/// `{ ts, t }`, as MongoDB shows an optime.
fn optime_document(optime: OpTime) -> Document {
    let is_none = optime.timestamp == Timestamp::default();
    doc! { "ts": (optime.timestamp), "t": (if is_none { -1 } else { optime.term as i64 }) }
}

/// The answer to `replSetHeartbeat`.
pub(crate) fn answer(
    shared: &Shared,
    set_name: &str,
    request: RawDocument<'_>,
) -> Result<DocumentBuf, SetError> {
    let asked = request.get("replSetHeartbeat").and_then(RawValue::as_str).unwrap_or_default();
    if asked != set_name {
        return Err(SetError::new(
            ErrorCode::InconsistentReplicaSetNames,
            format!("Our set name of {set_name} does not match name {asked} reported by remote node"),
        ));
    }
    let (topology, reached) = (shared.topology(), shared.reached());
    if request.get("checkEmpty").and_then(RawValue::as_bool) == Some(true) && topology.config.is_some() {
        return Err(SetError::new(ErrorCode::AlreadyInitialized, "this member belongs to a set already"));
    }
    let mut reply = doc! { "set": (set_name), "state": (topology.state.number()) };
    if let Some(time) = election_time(shared, &topology) {
        reply.push("electionTime", time);
    }
    if let Some(config) = &topology.config {
        let asks = request.get("fromId").and_then(RawValue::as_i64_exact);
        if let Some(id) = asks.and_then(|id| i32::try_from(id).ok()).filter(|id| config.member(*id).is_some())
        {
            shared.asked_by.lock().insert(id, ambient::since_epoch().as_millis() as i64);
        }
        reply.push("v", config.version);
        reply.push("configTerm", config.term.unwrap_or(-1));
    }
    let known = |field: &str| request.get(field).and_then(RawValue::as_i64_exact);
    if let (Some(version), Some(next)) = (known("configVersion"), known("wantsStateAfter"))
        && let Some(note) = &*shared.state_note.load()
        && place_of(note.as_raw()) > (version, next)
    {
        reply.push("stateOfSet", note.as_raw().to_document());
    }
    reply.push("term", topology.term as i64);
    let primary = topology.primary_member().map_or(-1, |primary| primary.id);
    reply.push("primaryId", primary);
    if !topology.is_writable {
        reply.push("syncSourceId", shared.source().unwrap_or(-1));
    }
    reply.push("opTime", Value::from(optime_document(reached.applied)));
    reply.push("durableOpTime", Value::from(optime_document(reached.durable)));
    if let Some(need) = *shared.log_need.lock() {
        reply.push("needsLog", need.to_document());
    }
    for (field, id) in [("disk", shared.disk.get().copied()), ("setId", *shared.set_id.lock())] {
        if let Some(id) = id {
            reply.push(field, id);
        }
    }
    Ok(reply.to_buf())
}

/// When this member was elected, where it is the primary.
fn election_time(shared: &Shared, topology: &Topology) -> Option<Timestamp> {
    topology.is_writable.then(|| shared.elections.lock().election_time())?
}

/// Asks all members of a new set but this one whether they are there, and free.
pub(crate) async fn check_all_answer(
    config: &ReplSetConfig,
    own: i32,
    peers: &dyn Peers,
) -> Result<(), SetError> {
    let others = config.members.iter().filter(|member| member.id != own);
    let mut asked: Vec<(String, Option<Answer>, String)> = others
        .map(|member| {
            let mut request = request(config, Some(own));
            request.push("checkEmpty", true);
            let answer = peers.ask(&member.host, with_database(request), INITIATE_LIMIT);
            (member.host.clone(), Some(answer), String::new())
        })
        .collect();
    poll_fn(|context| {
        for (_, waiting, failure) in &mut asked {
            let Some(answer) = waiting else { continue };
            let Poll::Ready(answer) = answer.as_mut().poll(context) else { continue };
            *waiting = None;
            *failure = match &answer {
                Err(error) => error.to_string(),
                Ok(reply) if reply.as_raw().get("ok").is_none_or(|ok| ok.as_i64_exact() == Some(1)) => {
                    continue;
                }
                Ok(reply) => {
                    let message = reply.as_raw().get("errmsg").and_then(RawValue::as_str);
                    message.unwrap_or("refused").to_owned()
                }
            };
        }
        if asked.iter().all(|(_, waiting, _)| waiting.is_none()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let failed = asked.iter().filter(|(.., failure)| !failure.is_empty());
    let failed: Vec<String> =
        failed.map(|(host, _, failure)| format!("{host} failed with {failure}")).collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(SetError::new(
        ErrorCode::NodeNotFound,
        format!(
            "replSetInitiate quorum check failed because not all proposed set members responded \
            affirmatively: {}",
            failed.join(", ")
        ),
    ))
}

/// The members of the configuration, as this one sees them.
pub(crate) fn members(shared: &Shared, statuses: &Statuses) -> Vec<MemberStatus> {
    let (topology, reached, copied) = (shared.topology(), shared.reached(), shared.copied());
    let Some(config) = &topology.config else { return Vec::new() };
    let asked_by = shared.asked_by.lock().clone();
    let (statuses, own) = (statuses.lock(), topology.own_member().map(|member| member.id));
    let status = |member: &crate::set::MemberConfig| {
        let unknown = MemberStatus {
            id: member.id,
            host: member.host.clone(),
            is_self: false,
            health: false,
            state: MemberState::Unknown,
            optime: OpTime::default(),
            durable: OpTime::default(),
            ping: None,
            up_since: None,
            last_heartbeat: None,
            last_asked: None,
            election_time: None,
            heartbeat_message: String::new(),
            sync_source: None,
            config_version: -1,
            config_term: -1,
            disk: None,
        };
        if Some(member.id) == own {
            return MemberStatus {
                is_self: true,
                health: true,
                state: topology.state,
                optime: reached.applied,
                durable: reached.durable,
                election_time: election_time(shared, &topology),
                sync_source: shared.source(),
                config_version: config.version,
                config_term: config.term.unwrap_or(-1),
                ..unknown
            };
        }
        let mut status = statuses.get(&member.id).cloned().unwrap_or(unknown);
        status.last_asked = asked_by.get(&member.id).copied();
        // A primary knows of the others' logs by each of their answers.
        if let Some(copied) = copied.get(&member.id).filter(|_| topology.is_writable) {
            status.durable = status.durable.max(*copied);
        }
        status
    };
    config.members.iter().map(status).collect()
}
