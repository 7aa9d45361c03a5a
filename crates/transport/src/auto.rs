//! `auto`: each connection goes to the event-driven model that serves this load for less processor time.
//!
//! Rings save system calls, readiness saves the kernel's bookkeeping of operations; which is cheaper depends on the kernel, on
//! sizes and on how many requests come together. So it is measured: once per window the processor time that each model's threads
//! took is divided by the tasks they polled. New connections go to the cheaper model, but for one in [`EXPLORE_EVERY`], which
//! keeps the other's figure fresh. A connection is placed when it asks for the first time for more than diagnostics, and
//! stays. The other two models are never picked: at no load were they cheaper (`docs/design/thread-models.md`).

use crate::ServiceExecutor;
use crate::statistics::Figure;
use parking_lot::Mutex;
use std::iter::Sum;
use std::time::{Duration, Instant};

/// How long figures are collected at least before they are compared.
const WINDOW: Duration = Duration::from_secs(1);
/// Tasks that a model must have polled for its figure to say something; until it has, its window goes on.
const FEWEST_POLLS: u64 = 2_000;
/// Share of a new window in the smoothed cost.
const SMOOTHING: f64 = 0.3;
/// The other model must be cheaper by this factor to be preferred from now on: figures are noisy, moving costs.
const CLEARLY: f64 = 0.95;
/// One connection of so many goes to the model that is not preferred. It is dear: one of 1,000 connections took 8 % of the finds, and its loop a
/// fifth of a core; probably because, alone there, it is served at once each time and interrupts a loop that has hundreds of others.
const EXPLORE_EVERY: u64 = 16_384;

/// What a model's threads have done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Times that a connection's task was polled.
    pub(crate) polls: u64,
    /// Processor time of the model's threads.
    pub(crate) processor: Duration,
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            polls: sum.polls + one.polls,
            processor: sum.processor + one.processor,
        })
    }
}

/// The two models that are compared; the preferred one is known by its position.
const CANDIDATES: [ServiceExecutor; 2] = [ServiceExecutor::Coroutine, ServiceExecutor::Reactor];

/// The rule's state.
pub(crate) struct Auto {
    /// A leaf in the order of locks.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    placed: u64,
    preferred: usize,
    changes: u64,
    /// Of each candidate: its usage at the beginning of the window, and its smoothed nanoseconds per poll.
    measured: [(Usage, Option<f64>); 2],
    window_began: Option<Instant>,
}

impl Auto {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default() }
    }

    /// The model for a new connection. `usage` gives what the candidates' threads have done, in the order of their preference at
    /// the start: rings, then loops; it is asked once per window.
    pub(crate) fn place(&self, now: Instant, usage: impl FnOnce() -> [Usage; 2]) -> ServiceExecutor {
        let mut state = self.state.lock();
        state.placed += 1;
        if state.window_began.is_none_or(|began| now.saturating_duration_since(began) >= WINDOW) {
            state.end_window(usage());
            state.window_began = Some(now);
        }
        let explores = state.placed.is_multiple_of(EXPLORE_EVERY);
        let position = if explores { 1 - state.preferred } else { state.preferred };
        CANDIDATES.get(position).copied().unwrap_or(ServiceExecutor::Reactor)
    }

    /// The model that most connections get at the moment.
    pub(crate) fn preferred(&self) -> ServiceExecutor {
        CANDIDATES.get(self.state.lock().preferred).copied().unwrap_or(ServiceExecutor::Reactor)
    }

    pub(crate) fn figures(&self) -> Vec<(&'static str, Figure)> {
        let state = self.state.lock();
        let cost = |(_, cost): (Usage, Option<f64>)| Figure::Count(cost.unwrap_or_default() as u64);
        let [ring, readiness] = state.measured;
        vec![
            ("prefers", Figure::Text(CANDIDATES.get(state.preferred).map_or("", |model| model.name()))),
            ("placed", Figure::Count(state.placed)),
            ("changes", Figure::Count(state.changes)),
            ("coroutineNanosPerTask", cost(ring)),
            ("reactorNanosPerTask", cost(readiness)),
        ]
    }
}

impl State {
    fn end_window(&mut self, usage: [Usage; 2]) {
        for ((before, cost), now) in self.measured.iter_mut().zip(usage) {
            let polls = now.polls.saturating_sub(before.polls);
            if polls >= FEWEST_POLLS {
                let spent = now.processor.saturating_sub(before.processor).as_nanos() as f64 / polls as f64;
                *cost = Some(cost.map_or(spent, |known| known + SMOOTHING * (spent - known)));
                *before = now;
            }
        }
        let [(_, Some(ring)), (_, Some(readiness))] = self.measured else { return };
        let (own, other) = if self.preferred == 0 { (ring, readiness) } else { (readiness, ring) };
        if other < own * CLEARLY {
            self.preferred = 1 - self.preferred;
            self.changes += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places connections for `windows` windows in which each poll costs this much; answers with what is preferred then.
    #[track_caller]
    fn check(costs_ns: [u64; 2], polls: [u64; 2], windows: u32, expect: ServiceExecutor) {
        let auto = Auto::new();
        let start = Instant::now();
        let mut usage = [Usage::default(); 2];
        for window in 0..=windows {
            for (place, (cost, polls)) in usage.iter_mut().zip(costs_ns.into_iter().zip(polls)) {
                place.polls += polls;
                place.processor += Duration::from_nanos(cost * polls);
            }
            auto.place(start + WINDOW * window, || usage);
        }
        assert_eq!(auto.preferred(), expect, "at {costs_ns:?} ns for {polls:?} polls");
    }

    #[test]
    fn prefers_what_is_clearly_cheaper() {
        check([10_000, 20_000], [5_000; 2], 3, ServiceExecutor::Coroutine);
        check([20_000, 10_000], [5_000; 2], 3, ServiceExecutor::Reactor);
        check([10_000, 9_800], [5_000; 2], 30, ServiceExecutor::Coroutine);
    }

    #[test]
    fn does_not_judge_by_a_few() {
        check([20_000, 10_000], [5_000, 10], 30, ServiceExecutor::Coroutine);
        check([20_000, 10_000], [5_000, 100], 30, ServiceExecutor::Reactor);
    }

    #[test]
    fn goes_on_looking_at_the_other() {
        let auto = Auto::new();
        let now = Instant::now();
        let placed: Vec<_> = (0..2 * EXPLORE_EVERY).map(|_| auto.place(now, Default::default)).collect();
        let others = placed.iter().filter(|model| **model == ServiceExecutor::Reactor).count();
        assert_eq!(others, 2);
    }

    #[test]
    fn follows_a_load_that_changes() {
        let auto = Auto::new();
        let start = Instant::now();
        let mut usage = [Usage::default(); 2];
        for window in 0..40u32 {
            let reactor_cost = if window < 20 { 5_000 } else { 50_000 };
            for (place, cost) in usage.iter_mut().zip([10_000, reactor_cost]) {
                place.polls += 5_000;
                place.processor += Duration::from_nanos(cost * 5_000);
            }
            auto.place(start + WINDOW * window, || usage);
            if window == 19 {
                assert_eq!(auto.preferred(), ServiceExecutor::Reactor);
            }
        }
        assert_eq!(auto.preferred(), ServiceExecutor::Coroutine);
    }
}
