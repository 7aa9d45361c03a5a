//! The controller before a simulated queue: one server, first in, first out, and a clock that only the
//! simulation moves.

use super::*;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// 10,000 requests a second.
const SERVICE: Duration = Duration::from_micros(100);
/// Refusing is cheaper than answering, and not free.
const REFUSAL: Duration = Duration::from_micros(10);
const SECOND: Duration = Duration::from_secs(1);

/// A repeatable source of exponentially distributed times.
struct Randomness(fastrand::Rng);

impl Randomness {
    fn exponential(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-(1.0 - self.0.f64()).ln())
    }
}

/// What happened in one second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    arrived: u64,
    answered: u64,
    refused: u64,
    longest: Duration,
    /// Delays of answered requests, summed.
    delays: Duration,
}

impl Second {
    fn mean_delay(&self) -> Duration {
        self.delays / u32::try_from(self.answered.max(1)).expect("few requests in a second")
    }
}

struct Simulation {
    origin: Instant,
    admitter: Admitter,
    /// When the server is free again, after `origin`.
    free_at: Duration,
    served: Served,
    service: Duration,
    /// Clients that understand a refusal, in percent.
    polite_percent: u64,
    seconds: Vec<Second>,
    checked: u64,
    /// Waits that [`Simulation::pooled_request`] has not told of yet, each with its end.
    waits: VecDeque<(Duration, Duration)>,
}

impl Simulation {
    fn new(setting: OverloadTarget) -> Self {
        let origin = Instant::now();
        Self {
            origin,
            admitter: Admitter::new(setting, origin),
            free_at: Duration::ZERO,
            served: Served::default(),
            service: SERVICE,
            polite_percent: 100,
            seconds: Vec::new(),
            checked: 0,
            waits: VecDeque::new(),
        }
    }

    /// One request that arrives (not before those before it); answers with when it was through, and whether
    /// it was refused.
    fn request(&mut self, arrives: Duration) -> (Duration, Option<Overload>) {
        let begins = self.free_at.max(arrives);
        let delay = begins - arrives;
        let served = self.served;
        self.checked += 1;
        let polite = self.checked % 100 < self.polite_percent;
        let verdict = self.admitter.check(delay, self.origin + begins, || served).filter(|_| polite);
        let second = arrives.as_secs() as usize;
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, Second::default());
        }
        let second = &mut self.seconds[second];
        second.arrived += 1;
        if verdict.is_some() {
            second.refused += 1;
            self.free_at = begins + REFUSAL;
            self.admitter.count_refused();
        } else {
            second.answered += 1;
            second.delays += delay;
            second.longest = second.longest.max(delay);
            self.free_at = begins + self.service;
            self.served.requests += 1;
            self.served.time += self.service;
        }
        (self.free_at, verdict)
    }

    /// One request that is judged when it arrives, and tells how long it waited when its work begins.
    fn pooled_request(&mut self, arrives: Duration) {
        while let Some(&(begins, wait)) = self.waits.front().filter(|(begins, _)| *begins <= arrives) {
            self.waits.pop_front();
            self.admitter.note_wait(wait, self.origin + begins, || self.served);
        }
        let second = arrives.as_secs() as usize;
        self.seconds.resize(self.seconds.len().max(second + 1), Second::default());
        let second = &mut self.seconds[second];
        second.arrived += 1;
        if self.admitter.foresee().is_some() {
            second.refused += 1;
            self.admitter.count_refused();
            return;
        }
        let begins = self.free_at.max(arrives);
        let wait = begins - arrives;
        second.answered += 1;
        second.delays += wait;
        second.longest = second.longest.max(wait);
        self.waits.push_back((begins, wait));
        self.free_at = begins + self.service;
        self.served.requests += 1;
        self.served.time += self.service;
    }

    /// Requests at random times, whatever becomes of them: `load` in parts of the capacity.
    fn open_loop(&mut self, from: Duration, to: Duration, load: f64) {
        let mut randomness = Randomness(fastrand::Rng::with_seed(0x5EED));
        let gap = self.service.div_f64(load);
        let mut at = from;
        while at < to {
            self.request(at);
            at += randomness.exponential(gap);
        }
    }

    /// Clients that each wait for their reply and ask again; refused ones back off as drivers do.
    fn closed_loop(&mut self, clients: usize, thinking: Duration, to: Duration) {
        let mut randomness = Randomness(fastrand::Rng::with_seed(0x5EED));
        let mut next: BinaryHeap<_> =
            (0..clients).map(|_| Reverse((randomness.exponential(thinking), 0_u32))).collect();
        while let Some(Reverse((at, attempt))) = next.pop() {
            if at >= to {
                return;
            }
            let (through, verdict) = self.request(at);
            match verdict {
                None => next.push(Reverse((through + randomness.exponential(thinking), 0))),
                Some(overload) => {
                    let ceiling = (overload.base_backoff * 2_u32.pow(attempt.min(8))).min(MOST_BACKOFF);
                    let pause = ceiling.mul_f64(randomness.0.f64());
                    next.push(Reverse((through + pause, attempt + 1)));
                }
            }
        }
    }

    fn refused(&self) -> u64 {
        self.seconds.iter().map(|second| second.refused).sum()
    }

    fn after(&self, from: usize) -> &[Second] {
        &self.seconds[from..]
    }

    fn state(&self) -> &'static str {
        match self.admitter.statistics()[0] {
            ("state", Figure::Text(state)) => state,
            ref other => panic!("the first figure is the state, not {other:?}"),
        }
    }

    fn figure(&self, wanted: &str) -> u64 {
        let figures = self.admitter.statistics();
        match figures.iter().find(|(name, _)| *name == wanted) {
            Some((_, Figure::Count(count))) => *count,
            other => panic!("{wanted} is {other:?}"),
        }
    }
}

#[test]
fn loads_under_the_capacity_are_never_refused() {
    for load in [0.5, 0.95] {
        let mut simulation = Simulation::new(OverloadTarget::Automatic);
        simulation.open_loop(Duration::ZERO, 60 * SECOND, load);
        assert_eq!(
            simulation.refused(),
            0,
            "at {load} of the capacity: {:?}",
            simulation.admitter.statistics()
        );
    }
}

#[test]
fn an_overload_is_held_at_the_target_and_the_server_stays_busy() {
    for load in [1.1, 1.5, 3.0] {
        let mut simulation = Simulation::new(OverloadTarget::Automatic);
        simulation.open_loop(Duration::ZERO, 30 * SECOND, load);
        assert_eq!(simulation.state(), "overloaded", "at {load} of the capacity");
        for (number, second) in simulation.seconds.iter().enumerate().skip(5) {
            assert!(second.mean_delay() < 2 * LEAST_TARGET, "at {load}, second {number}: {second:?}");
            assert!(second.longest < 4 * LEAST_TARGET, "at {load}, second {number}: {second:?}");
            // What answering and refusing together can do at most, less five percent.
            let refused = second.refused as f64 * (REFUSAL.as_secs_f64() / SERVICE.as_secs_f64());
            assert!(second.answered as f64 + refused > 9_500.0, "at {load}, second {number}: {second:?}");
        }
    }
}

#[test]
fn what_waits_elsewhere_is_refused_before_it_does() {
    for (load, refuses) in [(0.9, false), (1.5, true), (3.0, true)] {
        let mut simulation = Simulation::new(OverloadTarget::Automatic);
        let mut randomness = Randomness(fastrand::Rng::with_seed(0x5EED));
        let mut at = Duration::ZERO;
        while at < 30 * SECOND {
            simulation.pooled_request(at);
            at += randomness.exponential(SERVICE.div_f64(load));
        }
        assert_eq!(simulation.refused() > 0, refuses, "at {load}: {:?}", simulation.admitter.statistics());
        for (number, second) in simulation.seconds.iter().enumerate().skip(5).take(24) {
            assert!(second.longest < 4 * LEAST_TARGET, "at {load}, second {number}: {second:?}");
            assert!(!refuses || second.answered > 9_000, "at {load}, second {number}: {second:?}");
        }
    }
}

#[test]
fn an_overload_is_noticed_within_a_second() {
    let mut simulation = Simulation::new(OverloadTarget::Automatic);
    simulation.open_loop(Duration::ZERO, 4 * SECOND, 1.5);
    assert!(simulation.seconds[0].refused > 0, "{:?}", simulation.seconds);
    assert!(simulation.seconds[3].longest < 6 * LEAST_TARGET, "{:?}", simulation.seconds);
}

#[test]
fn bursts_that_pass_within_an_interval_are_never_refused() {
    let mut simulation = Simulation::new(OverloadTarget::Automatic);
    // A request each millisecond, and each second a burst of three times the target, at every position within
    // an interval.
    for millisecond in 0..100_000_u32 {
        let at = Duration::from_millis(u64::from(millisecond));
        simulation.request(at);
        if millisecond % 1_007 == 500 {
            for _ in 0..1_500 {
                simulation.request(at);
            }
        }
    }
    assert!(
        simulation.seconds.iter().any(|second| second.longest > 2 * LEAST_TARGET),
        "the bursts delay nobody"
    );
    assert_eq!(simulation.refused(), 0, "{:?}", simulation.admitter.statistics());
}

#[test]
fn who_did_not_wait_is_never_refused() {
    let mut simulation = Simulation::new(OverloadTarget::Automatic);
    simulation.open_loop(Duration::ZERO, 5 * SECOND, 3.0);
    let now = simulation.origin + simulation.free_at;
    let admitter = &simulation.admitter;
    let refused = |delay| (0..100).filter(|_| admitter.check(delay, now, Served::default).is_some()).count();
    assert_eq!(refused(LEAST_TARGET / 2), 0, "half a target is spared");
    assert!(refused(LEAST_TARGET) > 50, "two of three are too many");
}

#[test]
fn refusals_end_with_the_overload() {
    let mut simulation = Simulation::new(OverloadTarget::Automatic);
    simulation.open_loop(Duration::ZERO, 10 * SECOND, 2.0);
    simulation.open_loop(10 * SECOND, 20 * SECOND, 0.7);
    let late: u64 = simulation.after(11).iter().map(|second| second.refused).sum();
    assert_eq!(late, 0, "a second after the overload: {:?}", simulation.seconds);
    assert_eq!(simulation.state(), "normal", "{:?}", simulation.admitter.statistics());
}

#[test]
fn an_overload_that_is_over_is_soon_forgotten() {
    let mut simulation = Simulation::new(OverloadTarget::Automatic);
    simulation.open_loop(Duration::ZERO, 10 * SECOND, 3.0);
    simulation.open_loop(10 * SECOND, 12 * SECOND, 0.5);
    assert_eq!(simulation.state(), "normal", "{:?}", simulation.admitter.statistics());
}

#[test]
fn silence_ends_an_overload_at_once() {
    let mut simulation = Simulation::new(OverloadTarget::Automatic);
    simulation.open_loop(Duration::ZERO, 5 * SECOND, 2.0);
    assert_eq!(simulation.state(), "overloaded");
    let (_, verdict) = simulation.request(20 * SECOND);
    assert_eq!(verdict, None, "a request that did not wait is refused");
    assert_eq!(simulation.state(), "normal");
}

#[test]
fn clients_that_back_off_lose_no_throughput() {
    // 2,000 clients without a pause would wait for 200 ms each.
    let mut simulation = Simulation::new(OverloadTarget::Automatic);
    simulation.closed_loop(2_000, Duration::from_millis(1), 30 * SECOND);
    for (number, second) in simulation.seconds.iter().enumerate().skip(5).take(20) {
        assert!(second.answered > 8_500, "second {number}: {second:?}");
        assert!(second.mean_delay() < 2 * LEAST_TARGET, "second {number}: {second:?}");
    }
    // And those who fit in are left alone: 300 of them wait for 30 ms.
    let mut simulation = Simulation::new(OverloadTarget::Automatic);
    simulation.closed_loop(300, Duration::from_millis(1), 30 * SECOND);
    assert_eq!(simulation.refused(), 0, "{:?}", simulation.admitter.statistics());
}

#[test]
fn clients_that_do_not_understand_wait_and_are_counted_apart() {
    let mut simulation = Simulation::new(OverloadTarget::Automatic);
    simulation.polite_percent = 0;
    simulation.open_loop(Duration::ZERO, 5 * SECOND, 1.5);
    assert!(simulation.figure("wantedRefused") > 0, "nothing was to be refused");
    assert_eq!(simulation.refused(), 0);
}

#[test]
fn clients_that_understand_do_not_pay_for_those_that_do_not() {
    for (polite_percent, most_refused) in [(0, 500), (10, 550), (90, 920)] {
        let mut simulation = Simulation::new(OverloadTarget::Automatic);
        simulation.polite_percent = polite_percent;
        simulation.open_loop(Duration::ZERO, 20 * SECOND, 20.0);
        let permille = simulation.figure("refusedPermille");
        assert!(
            permille <= most_refused,
            "{permille} of 1,000 are refused, and {polite_percent} % understand it"
        );
        assert!(permille >= most_refused - 60, "{permille} of 1,000 are refused in a hopeless overload");
    }
}

#[test]
fn slow_requests_may_wait_longer() {
    let mut simulation = Simulation::new(OverloadTarget::Automatic);
    simulation.service = Duration::from_millis(2);
    simulation.open_loop(Duration::ZERO, 20 * SECOND, 0.5);
    assert_eq!(simulation.figure("targetMicros"), 200_000, "a hundred times two milliseconds");
    simulation.service = SECOND;
    simulation.open_loop(20 * SECOND, 60 * SECOND, 0.5);
    assert_eq!(simulation.figure("targetMicros"), 500_000, "and no longer than the most");
}

#[test]
fn the_target_can_be_set_and_switched_off() {
    let mut simulation = Simulation::new(OverloadTarget::Fixed(Duration::from_millis(5)));
    simulation.open_loop(Duration::ZERO, 10 * SECOND, 1.5);
    let settled = simulation.after(5).iter().map(Second::mean_delay).max().expect("ten seconds");
    assert!(settled < Duration::from_millis(40), "a target of 5 ms gives {settled:?}");
    simulation.admitter.set_target(OverloadTarget::Off, simulation.origin + 10 * SECOND);
    let before = simulation.refused();
    simulation.open_loop(10 * SECOND, 15 * SECOND, 1.5);
    assert_eq!(simulation.refused(), before, "refused although switched off");
    assert_eq!(simulation.state(), "off");
    simulation.admitter.set_target(OverloadTarget::Automatic, simulation.origin + 15 * SECOND);
    simulation.open_loop(15 * SECOND, 20 * SECOND, 1.5);
    assert!(simulation.refused() > before, "never refused again after it was switched on");
}

#[test]
fn the_hint_grows_with_the_delay_and_is_bounded() {
    let mut rules = Rules::new(OverloadTarget::Automatic);
    let mut hint = |delay: f64, admitted: f64| {
        (rules.minimum, rules.admitted) = (delay, admitted);
        rules.base_backoff()
    };
    assert_eq!(hint(0.0, 1.0), LEAST_BACKOFF);
    assert_eq!(hint(0.2, 1.0), Duration::from_millis(200));
    assert_eq!(hint(0.2, 0.5), Duration::from_millis(400));
    assert_eq!(hint(1e9, 0.05), MOST_BACKOFF);
    assert_eq!(hint(f64::MAX, 0.05), MOST_BACKOFF);
}

#[test]
fn refusals_hit_the_share_without_a_period() {
    let origin = Instant::now();
    let admitter = Admitter::new(OverloadTarget::Automatic, origin);
    admitter.spared_delay.store(0, Ordering::Relaxed);
    let share = u32::MAX / 10 * 3;
    // Clients that take turns are hit alike.
    let mut hits = [0_u32; 2];
    let mut recent = VecDeque::from([false; 10]);
    for number in 0..10_000 {
        let hit = admitter.draw(1, share).is_some();
        hits[number % 2] += u32::from(hit);
        recent.pop_front();
        recent.push_back(hit);
        let last_ten = recent.iter().filter(|hit| **hit).count();
        assert!(
            number < 10 || (1..=5).contains(&last_ten),
            "{last_ten} of ten requests in a row are refused"
        );
    }
    for hits in hits {
        assert!((1_450..=1_550).contains(&hits), "of 5,000 requests 30 % are to be refused, not {hits}");
    }
}
