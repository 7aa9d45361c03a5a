//! Flow control: how much clients may have on its way when a majority cannot keep up. Two things are bounded,
//! each in bytes of entries, and each to what is worked off in a time:
//!
//! ```text
//!  taken ──▶ logged ──▶ on a majority's disks, applied here ──▶ applied by a majority
//!      └─ answers: ANSWER_TIME ─────────────────────────┘                          │
//!      └─ views of secondaries: the target lag ────────────────────────────────────┘
//! ```
//! Who waits for room, and for how long, is decided by the gate before the proposals
//! ([`Proposals::set_window`]). No clock but the leader's own counts: lag is the age of the first entry that
//! a majority has not applied.

use crate::entry::{LogIndex, MemberId};
use crate::set::driver::Now;
use crate::set::participant::Participant;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use storage::{GateBudget, ProposalWindow, Proposals, SMALL_UNIT_BYTES};

/// What is logged should be answered in this time, beside what it takes when little waits.
const ANSWER_TIME: Duration = Duration::from_millis(100);
/// For so long the shortest answer counts as what it takes when little waits.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);
/// The window stays for so long after it was last full: a few that load are between two of their units now
/// and then, and would bring all at once what they bring next.
const RELEASED_AFTER: Duration = Duration::from_secs(10);
/// While clients are held, so often only this part of the window is used for a moment, to learn that again.
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBE_PART: u64 = 4;
/// Rates are means of about so long.
const RATE_TIME: Duration = Duration::from_secs(1);
/// Rates are taken this often.
const SAMPLE_TIME: Duration = Duration::from_millis(100);
/// Groups that are logged within so long, and have so many bytes, are remembered as one.
const GRAIN: Duration = Duration::from_millis(10);
const GRAIN_BYTES: u64 = 64 << 10;
/// No more are remembered one by one: a minute at 20 MB a second.
const REMEMBERED_MAX: usize = 1 << 15;
/// What passes each second, about, however far the majority lags: a set whose secondaries are stuck goes on.
const LEAST_RATE: u64 = 128 << 10;
/// A unit that has more bytes is paid for with so many while the majority lags, and no more are saved up.
const UNIT_BUDGET: u64 = 4 << 20;
/// `targetRateLimit` when nothing is limited.
const UNLIMITED: u64 = 1_000_000_000;

/// `enableFlowControl` and `flowControlTargetLagSeconds`, which change while the set runs.
#[derive(Debug)]
pub struct FlowSettings {
    is_on: AtomicBool,
    target_lag_ms: AtomicU64,
}

impl Default for FlowSettings {
    fn default() -> Self {
        FlowSettings { is_on: AtomicBool::new(true), target_lag_ms: AtomicU64::new(10_000) }
    }
}

impl FlowSettings {
    /// `enableFlowControl`.
    pub fn switch(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// `flowControlTargetLagSeconds`.
    pub fn set_target_lag(&self, lag: Duration) {
        self.target_lag_ms.store(u64::try_from(lag.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether anything is limited.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    fn target_lag(&self) -> Duration {
        Duration::from_millis(self.target_lag_ms.load(Ordering::Relaxed))
    }
}

/// `serverStatus.flowControl`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FlowFigures {
    /// Bytes a second that pass while the majority lags, else a number that is no limit.
    pub target_rate: u64,
    /// Operations a second that the slowest member of a majority applies.
    pub sustainer_rate: u64,
    /// Units of clients' writes, and operations that were logged for them.
    pub units: u64,
    /// The operations.
    pub operations: u64,
    /// Whether the majority lags by half of the target or more.
    pub is_lagged: bool,
    /// How often it came to that.
    pub lagged_count: u64,
    /// How long that lasted.
    pub lagged_time: Duration,
    /// The age of the first operation that a majority has not applied.
    pub lag: Duration,
    /// Bytes that may be on their way; `None` while nobody is held.
    pub window: Option<u64>,
    /// Bytes that are logged and not applied here.
    pub unanswered_bytes: u64,
    /// Bytes that are logged and not applied by a majority.
    pub unapplied_bytes: u64,
}

/// Up to where the log has come.
#[derive(Debug, Clone, Copy)]
struct Reached {
    /// On the disks of a majority.
    committed: LogIndex,
    /// Applied here, and by a majority.
    own: LogIndex,
    majority: LogIndex,
}

/// Groups that were logged at about one time.
#[derive(Debug, Clone, Copy)]
struct Logged {
    at: Duration,
    first: LogIndex,
    last: LogIndex,
    /// Bytes of all groups before them, and up to them.
    after: u64,
    through: u64,
}

impl Logged {
    /// The bytes before this entry's end, as if all had as many.
    fn bytes_through(&self, index: LogIndex) -> u64 {
        let (entries, done) = (self.last - self.first + 1, (index + 1).saturating_sub(self.first));
        self.after + ((self.through - self.after) as f64 * done as f64 / entries as f64) as u64
    }
}

/// Something that goes on at a rate.
#[derive(Debug, Default)]
struct Rate {
    since: Duration,
    count: u64,
    per_second: f64,
}

impl Rate {
    /// `count` so far. A time in which there was nothing to do tells nothing.
    fn note(&mut self, now: Duration, count: u64, is_busy: bool) {
        let elapsed = now.saturating_sub(self.since);
        if elapsed < SAMPLE_TIME {
            return;
        }
        if is_busy || count > self.count {
            // Who has forgotten what was not durable applies it again.
            let sample = count.saturating_sub(self.count) as f64 / elapsed.as_secs_f64();
            let weight = elapsed.div_duration_f64(RATE_TIME).min(1.0);
            self.per_second += (sample - self.per_second) * weight;
        }
        (self.since, self.count) = (now, count);
    }

    fn within(&self, time: Duration) -> u64 {
        (self.per_second * time.as_secs_f64()) as u64
    }
}

/// The best of what was noted lately.
#[derive(Debug, Default)]
struct Lately<T> {
    since: Duration,
    before: Option<T>,
    now: Option<T>,
}

impl<T: Copy> Lately<T> {
    fn note(&mut self, now: Duration, noted: T, best: impl FnOnce(T, T) -> T) {
        if now.saturating_sub(self.since) > REMEMBERED_FOR {
            (self.since, self.before) = (now, self.now.take());
        }
        self.now = Some(self.now.map_or(noted, |known| best(known, noted)));
    }

    fn get(&self, best: impl FnMut(T, T) -> T) -> Option<T> {
        self.now.into_iter().chain(self.before).reduce(best)
    }
}

/// What is logged while little is on its way tells how long an answer takes.
#[derive(Debug, Default)]
struct Probe {
    /// When the next one begins.
    at: Duration,
    /// Up to where was logged when little was on its way, in one that goes on.
    logged: Option<u64>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Flow {
    window_min: u64,
    window_max: u64,
    /// What a majority or this member has not applied.
    groups: VecDeque<Logged>,
    /// Where the bytes of large units begin and end that are not answered.
    large: VecDeque<Range<u64>>,
    /// Bytes that were logged, and of them those that were applied here, and by a majority.
    logged: u64,
    answered: u64,
    applied: u64,
    answer_rate: Rate,
    apply_rate: Rate,
    operation_rate: Rate,
    /// The shortest one.
    answer_time: Lately<Duration>,
    probe: Probe,
    /// When the window was full.
    full_at: Duration,
    /// Up to where [`LEAST_RATE`] has allowed.
    allowed: u64,
    told_at: Duration,
    figures: FlowFigures,
}

impl Flow {
    pub(crate) fn new(window_min: u64, window_max: u64) -> Self {
        Flow {
            window_min,
            window_max: window_max.max(window_min),
            groups: VecDeque::new(),
            large: VecDeque::new(),
            logged: 0,
            answered: 0,
            applied: 0,
            answer_rate: Rate::default(),
            apply_rate: Rate::default(),
            operation_rate: Rate::default(),
            answer_time: Lately::default(),
            probe: Probe::default(),
            full_at: Duration::ZERO,
            allowed: 0,
            told_at: Duration::ZERO,
            figures: FlowFigures::default(),
        }
    }

    /// A group was logged, which has the entries from the first to the last index.
    pub(crate) fn logged(&mut self, now: Now, (first, last): (LogIndex, LogIndex), bytes: u64, units: usize) {
        if units == 1 && bytes > SMALL_UNIT_BYTES {
            self.large.push_back(self.logged..self.logged + bytes);
        }
        self.logged += bytes;
        self.figures.units += units as u64;
        self.figures.operations += last - first + 1;
        let (at, is_full) = (now.monotonic, self.groups.len() >= REMEMBERED_MAX);
        match self.groups.back_mut() {
            Some(back)
                if at.saturating_sub(back.at) < GRAIN && self.logged - back.after <= GRAIN_BYTES
                    || is_full =>
            {
                (back.last, back.through) = (last, self.logged);
            }
            _ => {
                let (after, through) = (self.logged - bytes, self.logged);
                self.groups.push_back(Logged { at, first, last, after, through });
            }
        }
    }

    /// This member does not lead any more.
    pub(crate) fn end(&mut self) {
        self.groups.clear();
        self.large.clear();
        (self.answered, self.applied) = (self.logged, self.logged);
        let FlowFigures { units, operations, lagged_count, lagged_time, .. } = self.figures;
        self.figures = FlowFigures { units, operations, lagged_count, lagged_time, ..FlowFigures::default() };
    }

    /// The first group that is not done up to this index, with the bytes that are.
    fn done(&self, through: LogIndex) -> (u64, Option<Logged>) {
        let place = self.groups.partition_point(|group| group.last <= through);
        let before = place.checked_sub(1).and_then(|last| self.groups.get(last));
        // What is gone from the front is done here and by a majority.
        let least = self.answered.min(self.applied);
        (before.map_or(least, |group| group.through).max(least), self.groups.get(place).copied())
    }

    /// Sets what may be enqueued.
    fn control(&mut self, now: Now, reached: Reached, settings: &FlowSettings, proposals: &Proposals) {
        let was_limited = self.limits();
        let window = self.window(now.monotonic, reached, settings, || proposals.are_held());
        if window.is_some() || was_limited {
            proposals.set_window(window);
        }
    }

    /// Whether there is a window.
    pub(crate) fn limits(&self) -> bool {
        self.figures.window.is_some()
    }

    /// Notes how far all have come; returns since when the first groups wait that are not answered, and not
    /// applied by a majority.
    fn note(&mut self, now: Duration, reached: Reached) -> (Duration, Duration) {
        let ((answered, unanswered), (applied, unapplied)) =
            (self.done(reached.own), self.done(reached.majority));
        if answered > self.answered
            && let Some(latest) = self.groups.iter().rev().find(|group| group.last <= reached.own)
        {
            self.answer_time.note(now, now.saturating_sub(latest.at), Duration::min);
        }
        // Who waited for the end of what is large to let the next one in would let the way run empty. The
        // last entry counts when all are applied.
        let partly = unanswered.map_or(0, |group| group.bytes_through(reached.committed.min(group.last - 1)));
        self.answered = self.answered.max(answered).max(partly);
        self.applied = self.applied.max(applied);
        while self.large.pop_front_if(|large| large.end <= self.answered).is_some() {}
        while self.groups.pop_front_if(|group| group.last <= reached.own.min(reached.majority)).is_some() {}
        let age = |first: Option<Logged>| first.map_or(Duration::ZERO, |group| now.saturating_sub(group.at));
        (age(unanswered), age(unapplied))
    }

    fn window(
        &mut self,
        now: Duration,
        reached: Reached,
        settings: &FlowSettings,
        are_held: impl FnOnce() -> bool,
    ) -> Option<ProposalWindow> {
        let (waiting_for, lag) = self.note(now, reached);
        let (in_flight, behind) = (self.logged - self.answered, self.logged - self.applied);
        self.answer_rate.note(now, self.answered, in_flight > 0);
        self.apply_rate.note(now, self.applied, behind > 0);
        self.operation_rate.note(now, reached.majority, behind > 0);
        let is_lagged = settings.is_on() && lag * 2 >= settings.target_lag();
        let elapsed = self.tell(now, lag, is_lagged);
        let was_limited = self.limits();
        (self.figures.unanswered_bytes, self.figures.unapplied_bytes) = (in_flight, behind);
        self.figures.window = None;
        if !settings.is_on() {
            return None;
        }

        let answer_time = ANSWER_TIME + self.answer_time.get(Duration::min).unwrap_or_default();
        let window = self.answer_rate.within(answer_time).clamp(self.window_min, self.window_max);
        let is_full = in_flight >= window || (was_limited && are_held());
        if is_full {
            self.full_at = now;
        }
        let goes_on = was_limited && now.saturating_sub(self.full_at) < RELEASED_AFTER;
        let begins = is_full && waiting_for > answer_time;
        if !(is_lagged || goes_on || begins) {
            self.probe = Probe { at: now + PROBE_EVERY, logged: None };
            return None;
        }
        self.figures.window = Some(window);
        let large: u64 = self.large.iter().map(|large| large.end - large.start.max(self.answered)).sum();
        let window = self.probed(now, window, in_flight);
        Some(ProposalWindow {
            room: window.saturating_sub(in_flight),
            room_for_small: window.saturating_sub(in_flight - large),
            budget: self.budget(is_lagged, settings, behind, elapsed),
        })
    }

    /// What may pass while the majority lags.
    fn budget(
        &mut self,
        is_lagged: bool,
        settings: &FlowSettings,
        behind: u64,
        elapsed: Duration,
    ) -> Option<GateBudget> {
        if !is_lagged {
            self.allowed = self.logged;
            return None;
        }
        // Less than what is worked off in the target, for the limit is set from half of it on.
        let may_wait = self.apply_rate.within(settings.target_lag() * 3 / 4);
        let more = (LEAST_RATE as f64 * elapsed.as_secs_f64()).ceil() as u64;
        self.allowed = (self.allowed.max(self.logged) + more).min(self.logged + UNIT_BUDGET);
        let bytes = may_wait.saturating_sub(behind).max(self.allowed - self.logged);
        Some(GateBudget { bytes, enough: UNIT_BUDGET })
    }

    /// As much of the window as may be used now.
    fn probed(&mut self, now: Duration, window: u64, in_flight: u64) -> u64 {
        if now < self.probe.at {
            return window;
        }
        let part = window / PROBE_PART;
        match self.probe.logged {
            None if in_flight > part => {}
            None => self.probe.logged = Some(self.logged),
            Some(logged) if self.answered <= logged => {}
            Some(_) => {
                self.probe = Probe { at: now + PROBE_EVERY, logged: None };
                return window;
            }
        }
        part
    }

    /// Returns the time since it was told before.
    fn tell(&mut self, now: Duration, lag: Duration, is_lagged: bool) -> Duration {
        let elapsed = now.saturating_sub(std::mem::replace(&mut self.told_at, now));
        let figures = &mut self.figures;
        figures.lag = lag;
        figures.lagged_count += u64::from(is_lagged && !figures.is_lagged);
        if is_lagged && figures.is_lagged {
            figures.lagged_time += elapsed;
        }
        figures.is_lagged = is_lagged;
        figures.target_rate = match is_lagged {
            true => (self.apply_rate.per_second as u64).max(LEAST_RATE),
            false => UNLIMITED,
        };
        figures.sustainer_rate = self.operation_rate.per_second as u64;
        elapsed
    }

    pub(crate) fn figures(&self) -> FlowFigures {
        self.figures
    }
}

impl Participant {
    /// Has clients wait with what a majority could not keep up with.
    pub(crate) fn control_flow(&mut self, proposals: &Proposals, now: Now) {
        if !self.leading.is_open() {
            return;
        }
        let voters = self.member.membership().voters.iter();
        let majority = majority(voters.map(|number| self.applied_by(*number)).collect());
        let shared = &self.links.shared;
        let reached = Reached { committed: self.member.committed(), own: self.applied, majority };
        self.flow.control(now, reached, &shared.flow_settings, proposals);
        *shared.flow.lock() = self.flow.figures();
    }

    /// Up to where a member has applied the log; where it does not say so, or is to be late, what it has on
    /// its disk.
    fn applied_by(&self, number: MemberId) -> LogIndex {
        if number == self.number() {
            return self.applied;
        }
        let place = self.state.as_ref().and_then(|state| state.place(number));
        let member = place.and_then(|place| self.state.as_ref()?.config.members.get(place));
        let is_late = member.is_some_and(|member| !member.delay.is_zero());
        let heard = self.heard_applied(number).filter(|_| !is_late);
        heard.unwrap_or_else(|| self.leading.matched(number))
    }
}

/// Up to where a majority of these have applied.
fn majority(mut applied: Vec<LogIndex>) -> LogIndex {
    applied.sort_unstable_by(|one, other| other.cmp(one));
    *applied.get(applied.len() / 2).expect("a leader has voters")
}

#[cfg(test)]
mod tests;
