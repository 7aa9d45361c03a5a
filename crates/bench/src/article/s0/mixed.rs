//! Fast requests beside slow ones.
//!
//! A closed loop says how many fast requests get through; it says little about their latency, because fewer are sent when they
//! wait. So an open loop follows: fast requests at one rate, timed from their intended starts, alone, beside the slow ones, and
//! beside threads that only spin, at the priority of the server's pool threads. The spinning ones touch no server: what they cost is
//! the price of a busy machine, of its scheduler and of its host, and what the slow ones cost beyond it is the server's.

use super::Situation;
use crate::article::Subject;
use crate::article::figures::{Column, Measurement};
use crate::error::BenchError;
use crate::generator::{Arrivals, GroupSpec, Outcome, Pacing};
use crate::scenario::Scenario;

/// Share of the rate reached in the closed loop that the open loop asks for.
const OPEN_LOOP_SHARE: f64 = 0.8;

const FAST_RATE: Column = Column::median("fast/s", 0);
const FAST_P99: Column = Column::median("fast p99 ms", 2);
const FAST_LONGEST: Column = Column::most("fast max ms", 1);
const SLOW_RATE: Column = Column::median("slow/s", 0);
const SLOW_P99: Column = Column::median("slow p99 ms", 1);
const PACED_RATE: Column = Column::median("paced fast/s", 0);
const P99_ALONE: Column = Column::median("paced p99 alone ms", 2);
const P99_BESIDE: Column = Column::median("paced p99 beside slow ms", 2);
const TIMES: Column = Column::median("times alone", 2);
const P99_SPUN: Column = Column::median("paced p99 beside spinners ms", 2);
const TIMES_SPUN: Column = Column::median("times spinners", 2);

impl Situation<'_> {
    pub(super) fn mixed(
        &self,
        subject: Subject,
        connections: usize,
        seed: u64,
    ) -> Result<Measurement, BenchError> {
        let settings = self.settings;
        let mut served = settings.serve(subject, Scenario::Find)?;
        let window = settings.window();
        let run = |groups: &[GroupSpec]| settings.rig.run(served.address(), groups, seed, &window);
        let fast = settings.closed(Scenario::Find, connections);
        let slow = settings.closed(Scenario::Range, self.slow_connections);
        let [fast_outcome, slow_outcome] = run(&[fast.clone(), slow.clone()])?.split()?;
        let measurement = Measurement::default()
            .with(FAST_RATE, fast_outcome.rate())
            .with(FAST_P99, fast_outcome.quantile_ms(0.99))
            .with(FAST_LONGEST, fast_outcome.longest_ms())
            .with(SLOW_RATE, slow_outcome.rate())
            .with(SLOW_P99, slow_outcome.quantile_ms(0.99))
            .counting(&fast_outcome)
            .counting(&slow_outcome);
        let rate = self.fast_rate.unwrap_or(OPEN_LOOP_SHARE * fast_outcome.rate());
        if rate < 1.0 {
            return Ok(measurement);
        }
        let paced = GroupSpec { pacing: Pacing::Open(Arrivals::constant(rate)), ..fast };
        let [alone] = run(std::slice::from_ref(&paced))?.split()?;
        let spinners = settings.rig.spinners()?;
        let [spun] = run(std::slice::from_ref(&paced))?.split()?;
        drop(spinners);
        let [beside, slow_outcome] = run(&[paced, slow])?.split()?;
        served.check_alive()?;
        let p99 = |outcome: &Outcome| outcome.quantile_ms(0.99);
        let times = |base: &Outcome| p99(&beside) / p99(base).max(f64::MIN_POSITIVE);
        Ok(measurement
            .with(PACED_RATE, beside.rate())
            .with(P99_ALONE, p99(&alone))
            .with(P99_SPUN, p99(&spun))
            .with(P99_BESIDE, p99(&beside))
            .with(TIMES, times(&alone))
            .with(TIMES_SPUN, times(&spun))
            .counting(&alone)
            .counting(&spun)
            .counting(&beside)
            .counting(&slow_outcome))
    }
}
