//! Monitoring an overloaded server: every worker is stuck in slow requests and thousands of clients push, and a monitor asks.
//! The monitor has a thread of its own, with the highest priority it is allowed, so that the pushing clients delay it in the
//! server only.

use super::Situation;
use crate::article::Subject;
use crate::article::figures::{Column, Measurement};
use crate::error::BenchError;
use crate::generator::{Arrivals, GroupSpec, Pacing, Request, Requests};
use crate::scenario::Scenario;
use crate::template::Template;
use document::{Document, doc};

/// Requests of the monitor a second.
const MONITOR_RATE: f64 = 20.0;

/// As `nice` counts.
const HIGHEST_PRIORITY: i32 = -20;

const MONITORED: Column = Column::median("monitor replies", 0);
const MONITOR_P50: Column = Column::median("monitor p50 ms", 2);
const MONITOR_P99: Column = Column::median("monitor p99 ms", 2);
const MONITOR_LONGEST: Column = Column::most("monitor max ms", 1);
const PUSHED: Column = Column::median("pushed/s", 0);
const PUSHED_P99: Column = Column::median("pushed p99 ms", 1);
const SLOW: Column = Column::median("slow/s", 1);

impl Situation<'_> {
    pub(super) fn lane(
        &self,
        subject: Subject,
        connections: usize,
        seed: u64,
    ) -> Result<Measurement, BenchError> {
        let settings = self.settings;
        let mut served = settings.serve(subject, Scenario::Find)?;
        let pacing = Pacing::Open(Arrivals::constant(MONITOR_RATE));
        let monitor = GroupSpec::new(1, Requests::source(monitor_requests()), pacing);
        let mut monitor = settings.rig.generator(served.address(), &[monitor], seed)?;
        let pushing = [
            settings.closed(Scenario::Scan, self.slow_connections),
            settings.closed(Scenario::Find, connections),
        ];
        let mut pushing = settings.rig.generator(served.address(), &pushing, seed)?;
        let window = settings.window();
        let (monitored, pushed) = std::thread::scope(|scope| {
            let monitor = scope.spawn(|| {
                // Of this thread alone, and without the right to it the priority stays as it is.
                let _ = rustix::process::setpriority_process(None, HIGHEST_PRIORITY);
                monitor.run(&window)
            });
            let pushed = pushing.run(&window);
            (monitor.join(), pushed)
        });
        let ended =
            BenchError::Program { program: "the monitor's thread", problem: "it panicked".to_owned() };
        let [monitored] = monitored.map_err(|_| ended)??.split()?;
        let [slow, pushed] = pushed?.split()?;
        served.check_alive()?;
        Ok(Measurement::default()
            .with(MONITORED, monitored.timed() as f64)
            .with(MONITOR_P50, monitored.quantile_ms(0.5))
            .with(MONITOR_P99, monitored.quantile_ms(0.99))
            .with(MONITOR_LONGEST, monitored.longest_ms())
            .with(PUSHED, pushed.rate())
            .with(PUSHED_P99, pushed.quantile_ms(0.99))
            .with(SLOW, slow.rate())
            .counting(&monitored)
            .counting(&pushed)
            .counting(&slow))
    }
}

/// What monitors ask.
fn monitor_requests() -> Vec<Request> {
    let request =
        |command: Document| Request { template: Template::new(&command), ids: 1, least_reply_bytes: 0 };
    vec![
        request(doc! { "ping": 1, "$db": "admin" }),
        request(doc! { "serverStatus": 1, "$db": "admin" }),
        request(doc! { "currentOp": 1, "$db": "admin" }),
    ]
}
