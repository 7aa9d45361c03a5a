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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use storage::{ProposalWindow, Proposals};

/// What is logged should be answered in this time, beside what it takes when little waits.
const ANSWER_TIME: Duration = Duration::from_millis(100);
/// For so long the shortest answer counts as what it takes when little waits, and the largest unit as what
/// comes.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);
/// Units as large as the largest that may be on their way: of one alone the members would wait for the next
/// one.
const LARGEST_UNITS: u64 = 2;
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

/// Groups that were logged at about one time.
#[derive(Debug, Clone, Copy)]
struct Logged {
    at: Duration,
    last: LogIndex,
    /// Bytes of all groups before them, and up to them.
    after: u64,
    through: u64,
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
    /// Bytes that were logged, and of them those that were applied here, and by a majority.
    logged: u64,
    answered: u64,
    applied: u64,
    answer_rate: Rate,
    apply_rate: Rate,
    operation_rate: Rate,
    /// The shortest one, and the largest unit.
    answer_time: Lately<Duration>,
    unit_bytes: Lately<u64>,
    probe: Probe,
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
            logged: 0,
            answered: 0,
            applied: 0,
            answer_rate: Rate::default(),
            apply_rate: Rate::default(),
            operation_rate: Rate::default(),
            answer_time: Lately::default(),
            unit_bytes: Lately::default(),
            probe: Probe::default(),
            allowed: 0,
            told_at: Duration::ZERO,
            figures: FlowFigures::default(),
        }
    }

    /// The largest unit of a group that is logged.
    pub(crate) fn unit_logged(&mut self, now: Now, bytes: u64) {
        self.unit_bytes.note(now.monotonic, bytes, u64::max);
    }

    /// A group was logged.
    pub(crate) fn logged(
        &mut self,
        now: Now,
        last: LogIndex,
        bytes: u64,
        (units, operations): (usize, usize),
    ) {
        self.logged += bytes;
        self.figures.units += units as u64;
        self.figures.operations += operations as u64;
        let (at, is_full) = (now.monotonic, self.groups.len() >= REMEMBERED_MAX);
        match self.groups.back_mut() {
            Some(back)
                if at.saturating_sub(back.at) < GRAIN && self.logged - back.after <= GRAIN_BYTES
                    || is_full =>
            {
                (back.last, back.through) = (last, self.logged);
            }
            _ => self.groups.push_back(Logged { at, last, after: self.logged - bytes, through: self.logged }),
        }
    }

    /// This member does not lead any more.
    pub(crate) fn end(&mut self) {
        self.groups.clear();
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

    /// Sets what may be enqueued, where this member has applied up to `own` and a majority up to `majority`.
    pub(crate) fn control(
        &mut self,
        now: Now,
        (own, majority): (LogIndex, LogIndex),
        settings: &FlowSettings,
        proposals: &Proposals,
    ) {
        let window = self.window(now.monotonic, (own, majority), settings, || proposals.are_held());
        if window.is_some() || self.figures.window.is_some() {
            proposals.set_window(window);
        }
        self.figures.window = window.map(|window| window.window);
    }

    fn window(
        &mut self,
        now: Duration,
        (own, majority): (LogIndex, LogIndex),
        settings: &FlowSettings,
        are_held: impl FnOnce() -> bool,
    ) -> Option<ProposalWindow> {
        let ((answered, unanswered), (applied, unapplied)) = (self.done(own), self.done(majority));
        if answered > self.answered
            && let Some(latest) = self.groups.iter().rev().find(|group| group.last <= own)
        {
            self.answer_time.note(now, now.saturating_sub(latest.at), Duration::min);
        }
        (self.answered, self.applied) = (answered.max(self.answered), applied.max(self.applied));
        while self.groups.pop_front_if(|group| group.last <= own.min(majority)).is_some() {}
        let (in_flight, behind) = (self.logged - self.answered, self.logged - self.applied);
        self.answer_rate.note(now, self.answered, in_flight > 0);
        self.apply_rate.note(now, self.applied, behind > 0);
        self.operation_rate.note(now, majority, behind > 0);

        let age = |first: Option<Logged>| first.map_or(Duration::ZERO, |group| now.saturating_sub(group.at));
        let lag = age(unapplied);
        let target_lag = settings.target_lag();
        let is_lagged = settings.is_on() && lag * 2 >= target_lag;
        let elapsed = self.tell(now, lag, is_lagged);
        (self.figures.unanswered_bytes, self.figures.unapplied_bytes) = (in_flight, behind);
        if !settings.is_on() {
            return None;
        }

        let answer_time = ANSWER_TIME + self.answer_time.get(Duration::min).unwrap_or_default();
        let units = LARGEST_UNITS * self.unit_bytes.get(u64::max).unwrap_or_default();
        let window = self.answer_rate.within(answer_time).max(units).clamp(self.window_min, self.window_max);
        let was_limited = self.figures.window.is_some();
        let is_slow = age(unanswered) > answer_time && in_flight >= window;
        let goes_on = was_limited && (in_flight > window / 2 || are_held());
        if !is_lagged && !is_slow && !goes_on {
            self.probe = Probe { at: now + PROBE_EVERY, logged: None };
            return None;
        }
        // What is larger than it passes alone, also while only a part is used.
        let window = self.probed(now, window, in_flight);
        let mut room = window.saturating_sub(in_flight);
        if is_lagged {
            // Less than what is worked off in the target, for the limit is set from half of it on.
            let may_wait = self.apply_rate.within(target_lag * 3 / 4);
            let more = (LEAST_RATE as f64 * elapsed.as_secs_f64()).ceil() as u64;
            // Enough for what is larger than the window, in the end.
            self.allowed = (self.allowed.max(self.logged) + more).min(self.logged + window);
            room = room.min(may_wait.saturating_sub(behind).max(self.allowed - self.logged));
        } else {
            self.allowed = self.logged;
        }
        Some(ProposalWindow { room, window })
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
        self.flow.control(now, (self.applied, majority), &shared.flow_settings, proposals);
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
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A leader whose clients log what they may, and members that work off so many bytes a second.
    struct Set {
        flow: Flow,
        settings: FlowSettings,
        now: Duration,
        last: LogIndex,
        /// Clients' bytes that wait for room.
        limited: bool,
        room: Option<ProposalWindow>,
        /// Each group has so many bytes, and one entry.
        group: u64,
    }

    const STEP: Duration = Duration::from_millis(20);

    impl Set {
        fn new() -> Self {
            let flow = Flow::new(MIB, 256 * MIB);
            let settings = FlowSettings::default();
            Set { flow, settings, now: Duration::ZERO, last: 0, limited: false, room: None, group: 16 << 10 }
        }

        /// What happens in a time: `brought`, and what the members do, in bytes a second.
        fn run(&mut self, time: Duration, brought: u64, (own, majority): (u64, u64)) {
            let (end, group) = (self.now + time, self.group);
            let groups = |rate: u64| rate as f64 * STEP.as_secs_f64() / group as f64;
            let (mut waiting, mut done) = (0.0, [self.applied().0 as f64, self.applied().1 as f64]);
            while self.now < end {
                self.now += STEP;
                let now = Now { monotonic: self.now, wall: self.now };
                waiting += groups(brought);
                while waiting >= 1.0 && self.room.is_none_or(|room| room.room >= group.min(room.window)) {
                    waiting -= 1.0;
                    self.last += 1;
                    self.flow.unit_logged(now, group);
                    self.flow.logged(now, self.last, group, (1, 1));
                    if let Some(room) = &mut self.room {
                        room.room = room.room.saturating_sub(group);
                    }
                }
                done[0] = (done[0] + groups(own)).min(self.last as f64);
                done[1] = (done[1] + groups(majority)).min(done[0]);
                let applied = (done[0] as LogIndex, done[1] as LogIndex);
                let window = self.flow.window(self.now, applied, &self.settings, || waiting >= 1.0);
                self.flow.figures.window = window.map(|window| window.window);
                self.room = window;
                self.limited |= window.is_some();
            }
        }

        fn applied(&self) -> (LogIndex, LogIndex) {
            (self.flow.answered / self.group, self.flow.applied / self.group)
        }
    }

    #[test]
    fn who_keeps_up_limits_nobody() {
        let mut set = Set::new();
        for brought in [MIB, 50 * MIB, 0, 99 * MIB] {
            set.run(Duration::from_secs(3), brought, (100 * MIB, 100 * MIB));
        }
        assert!(!set.limited, "{:?}", set.flow);
        assert_eq!(set.flow.figures().lagged_count, 0);
    }

    #[test]
    fn a_slow_majority_has_no_more_on_its_way_than_it_answers_soon() {
        let mut set = Set::new();
        set.run(Duration::from_secs(5), 200 * MIB, (20 * MIB, 20 * MIB));
        let figures = set.flow.figures();
        assert!(figures.window.is_some(), "clients are held: {figures:?}");
        assert!(figures.unanswered_bytes <= 5 * MIB, "a quarter of a second: {figures:?}");
        // And it has enough to do.
        let before = set.flow.answered;
        set.run(Duration::from_secs(5), 200 * MIB, (20 * MIB, 20 * MIB));
        let rate = (set.flow.answered - before) / 5;
        assert!(rate > 19 * MIB, "{} MiB a second", rate / MIB);
        set.run(Duration::from_secs(5), MIB, (20 * MIB, 20 * MIB));
        assert_eq!(set.flow.figures().window, None, "{:?}", set.flow);
    }

    #[test]
    fn groups_larger_than_any_window_go_on() {
        let mut set = Set { group: 4 * MIB, ..Set::new() };
        set.run(Duration::from_secs(60), 20 * MIB, (2 * MIB, 2 * MIB));
        let rate = set.flow.answered / 60;
        assert!(rate > MIB, "{rate} bytes a second: {:?}", set.flow);
    }

    #[test]
    fn while_one_large_unit_is_answered_the_next_is_on_its_way() {
        // Who answers at intervals only answers all that is there by then.
        let mut set = Set { group: 8 * MIB, ..Set::new() };
        let mut run = |intervals: u32| {
            let before = set.flow.answered;
            for _ in 0..intervals {
                set.run(STEP, 1_000 * MIB, (1_000 * MIB, 1_000 * MIB));
                set.run(STEP * 9, 1_000 * MIB, (0, 0));
            }
            (set.flow.answered - before) / set.group
        };
        run(50);
        let answered = run(100);
        assert!((150..250).contains(&answered), "{answered} units in 100 intervals: {:?}", set.flow);
    }

    #[test]
    fn secondaries_that_apply_slowly_lag_no_longer_than_the_target() {
        let mut set = Set::new();
        set.run(Duration::from_secs(60), 50 * MIB, (100 * MIB, 10 * MIB));
        let figures = set.flow.figures();
        assert!(
            figures.lag <= Duration::from_secs(11) && figures.lag >= Duration::from_secs(3),
            "{figures:?}"
        );
        assert!(figures.lagged_count > 0 && figures.lagged_time > Duration::from_secs(1), "{figures:?}");
        set.settings.set_target_lag(Duration::from_secs(2));
        set.run(Duration::from_secs(30), 50 * MIB, (100 * MIB, 10 * MIB));
        assert!(set.flow.figures().lag <= Duration::from_secs(3), "{:?}", set.flow.figures());
        set.settings.switch(false);
        set.run(Duration::from_secs(30), 50 * MIB, (100 * MIB, 10 * MIB));
        assert!(set.flow.figures().lag > Duration::from_secs(20), "{:?}", set.flow.figures());
        assert_eq!(set.flow.figures().window, None);
    }

    #[test]
    fn secondaries_that_apply_nothing_do_not_end_the_set() {
        let mut set = Set::new();
        set.run(Duration::from_secs(10), MIB, (100 * MIB, 100 * MIB));
        set.run(Duration::from_secs(60), MIB, (100 * MIB, 0));
        let before = set.flow.logged;
        set.run(Duration::from_secs(60), MIB, (100 * MIB, 0));
        let rate = (set.flow.logged - before) / 60;
        assert!((LEAST_RATE / 2..LEAST_RATE * 2).contains(&rate), "{rate} bytes a second");
    }

    #[test]
    fn most_of_a_set_is_a_majority() {
        assert_eq!(majority(vec![7]), 7);
        assert_eq!(majority(vec![7, 3]), 3);
        assert_eq!(majority(vec![3, 9, 7]), 7);
        assert_eq!(majority(vec![1, 9, 7, 8]), 7);
    }
}
