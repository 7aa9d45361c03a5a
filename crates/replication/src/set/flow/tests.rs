//! Models of sets whose members keep up, or do not.

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

/// Whether a unit passes the gate, which takes what it brings from the window.
fn passes(window: &mut Option<ProposalWindow>, bytes: u64) -> bool {
    let Some(ProposalWindow { room, room_for_small, budget }) = window else { return true };
    let is_small = bytes <= SMALL_UNIT_BYTES && bytes <= *room_for_small;
    let is_paid = budget.is_none_or(|budget| budget.bytes >= bytes.min(budget.enough));
    let passes = (*room > 0 || is_small) && is_paid;
    if passes {
        *room = room.saturating_sub(bytes);
        *room_for_small = room_for_small.saturating_sub(bytes);
        if let Some(budget) = budget {
            budget.bytes = budget.bytes.saturating_sub(bytes);
        }
    }
    passes
}

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
            while waiting >= 1.0 && passes(&mut self.room, group) {
                waiting -= 1.0;
                self.last += 1;
                self.flow.logged(now, (self.last, self.last), group, 1);
            }
            done[0] = (done[0] + groups(own)).min(self.last as f64);
            done[1] = (done[1] + groups(majority)).min(done[0]);
            let (own, majority) = (done[0] as LogIndex, done[1] as LogIndex);
            let reached = Reached { committed: own, own, majority };
            self.room = self.flow.window(self.now, reached, &self.settings, || waiting >= 1.0);
            self.limited |= self.room.is_some();
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
    assert!(set.flow.figures().window.is_some(), "whoever loads may be between two units");
    set.run(Duration::from_secs(10), MIB, (20 * MIB, 20 * MIB));
    assert_eq!(set.flow.figures().window, None, "{:?}", set.flow);
}

#[test]
fn groups_larger_than_any_window_go_on() {
    let mut set = Set { group: 4 * MIB, ..Set::new() };
    set.run(Duration::from_secs(60), 20 * MIB, (2 * MIB, 2 * MIB));
    let rate = set.flow.answered / 60;
    assert!(rate > MIB, "{rate} bytes a second: {:?}", set.flow);
}

/// Some that load and some that bring little, and a way to the members that is narrow.
struct Way {
    flow: Flow,
    settings: FlowSettings,
    window: Option<ProposalWindow>,
    now: Duration,
    /// Entries with their bytes, as far as they have not come through the way.
    log: VecDeque<(u64, LogIndex)>,
    last: LogIndex,
    /// The ends of groups, who waits for them, and since when, until they are applied here.
    groups: VecDeque<(LogIndex, Option<usize>, Duration)>,
    /// What comes through is known to the leader later.
    arrived: VecDeque<(Duration, LogIndex)>,
    committed: LogIndex,
    own: LogIndex,
    credit: f64,
    /// Who waits at the gate, and since when.
    loads: VecDeque<usize>,
    small: VecDeque<Duration>,
    times: Vec<Duration>,
    loaded: u64,
    /// Small units that had to wait at the gate.
    held: usize,
}

impl Way {
    const BYTES_PER_SECOND: u64 = 8 * MIB;
    const DELAY: Duration = Duration::from_millis(50);
    const LOADS: usize = 4;
    const UNIT: (u64, u64) = (256, 16 << 10);
    const STEP: Duration = Duration::from_millis(1);

    fn new(is_on: bool) -> Self {
        let settings = FlowSettings::default();
        settings.switch(is_on);
        Way {
            flow: Flow::new(256 << 10, 256 * MIB),
            settings,
            window: None,
            now: Duration::ZERO,
            log: VecDeque::new(),
            last: 0,
            groups: VecDeque::new(),
            arrived: VecDeque::new(),
            committed: 0,
            own: 0,
            credit: 0.0,
            loads: (0..Self::LOADS).collect(),
            small: VecDeque::new(),
            times: Vec::new(),
            loaded: 0,
            held: 0,
        }
    }

    fn log(&mut self, (entries, bytes): (u64, u64), load: Option<usize>, since: Duration) {
        let first = self.last + 1;
        for _ in 0..entries {
            self.last += 1;
            self.log.push_back((bytes, self.last));
        }
        let now = Now { monotonic: self.now, wall: self.now };
        self.flow.logged(now, (first, self.last), entries * bytes, 1);
        self.groups.push_back((self.last, load, since));
    }

    fn step(&mut self) {
        self.now += Self::STEP;
        if self.now.as_millis().is_multiple_of(10) {
            self.small.push_back(self.now);
        }
        // In the order of the gate: who brings little is before who brings much.
        while let Some(since) = self.small.front().copied().filter(|_| passes(&mut self.window, 200)) {
            self.small.pop_front();
            self.log((1, 200), None, since);
        }
        self.held += self.small.len();
        let unit = Self::UNIT.0 * Self::UNIT.1;
        while let Some(load) = self.loads.front().copied().filter(|_| passes(&mut self.window, unit)) {
            self.loads.pop_front();
            self.log(Self::UNIT, Some(load), self.now);
        }
        self.credit += Self::BYTES_PER_SECOND as f64 * Self::STEP.as_secs_f64();
        while let Some((bytes, index)) = self.log.pop_front_if(|(bytes, _)| *bytes as f64 <= self.credit) {
            self.credit -= bytes as f64;
            self.arrived.push_back((self.now + Self::DELAY, index));
        }
        if self.log.is_empty() {
            // Nobody gives back what the way has not carried.
            self.credit = 0.0;
        }
        while let Some((_, index)) = self.arrived.pop_front_if(|(at, _)| *at <= self.now) {
            self.committed = index;
        }
        while let Some((end, load, since)) = self.groups.pop_front_if(|(end, ..)| *end <= self.committed) {
            self.own = end;
            match load {
                Some(load) => {
                    self.loads.push_back(load);
                    self.loaded += unit;
                }
                None => self.times.push(self.now - since),
            }
        }
        let reached = Reached { committed: self.committed, own: self.own, majority: self.own };
        let are_held = !self.loads.is_empty() || !self.small.is_empty();
        self.window = self.flow.window(self.now, reached, &self.settings, || are_held);
    }

    /// How long those wait who bring little, at the half and the last hundredth, and how much of the way is
    /// used, once it has settled.
    fn run(&mut self) -> (Duration, Duration, f64) {
        let end = self.now + Duration::from_secs(40);
        while self.now < Duration::from_secs(10) {
            self.step();
        }
        (self.times, self.loaded, self.held) = (Vec::new(), 0, 0);
        while self.now < end {
            self.step();
        }
        self.times.sort();
        let used = self.loaded as f64 / (Self::BYTES_PER_SECOND * 30) as f64;
        let at = |part: usize| self.times[self.times.len() * part / 100];
        (at(50), at(99), used)
    }
}

#[test]
fn who_brings_little_waits_for_one_large_unit_and_the_way_is_full() {
    let ms = Duration::from_millis;
    let mut way = Way::new(true);
    let (half, most, used) = way.run();
    // A unit takes half a second, an answer the delay, and the window that and a tenth.
    assert!(half <= ms(250 + 50 + 150) && most <= ms(500 + 50 + 150), "{half:?}, {most:?}");
    assert!(used > 0.97, "{used} of the way");
    // It waits behind what is on its way, and not beside the next large one.
    assert_eq!(way.held, 0, "small units were held");
    let (half, _, used) = Way::new(false).run();
    assert!(half >= ms(1_500) && used > 0.97, "the way is what is narrow: {half:?}, {used}");
}

#[test]
fn between_two_large_units_of_few_clients_the_window_stays() {
    let mut way = Way::new(true);
    while way.now < Duration::from_secs(10) {
        way.step();
    }
    // One of them loads on, and waits for no one else.
    way.loads.truncate(0);
    for _ in 0..5_000 {
        way.step();
        way.loads.truncate(1);
        assert!(way.window.is_some(), "a window at {:?}", way.now);
    }
    way.loads.clear();
    for _ in 0..12_000 {
        way.step();
        way.loads.clear();
    }
    assert!(way.window.is_none(), "nobody loads any more");
}

#[test]
fn secondaries_that_apply_slowly_lag_no_longer_than_the_target() {
    let mut set = Set::new();
    set.run(Duration::from_secs(60), 50 * MIB, (100 * MIB, 10 * MIB));
    let figures = set.flow.figures();
    assert!(figures.lag <= Duration::from_secs(11) && figures.lag >= Duration::from_secs(3), "{figures:?}");
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
