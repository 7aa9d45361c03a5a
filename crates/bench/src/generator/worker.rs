//! A generator process that another one directs: orders come as lines of JSON on standard input, and reports
//! go as lines of JSON to standard output.

use crate::error::BenchError;
use crate::generator::clock::monotonic;
use crate::generator::crew::{Crew, Load};
use crate::generator::outcome::RunOutcome;
use crate::generator::progress::{Snapshot, snapshot_of};
use crate::generator::spec::Window;
use crate::interrupt::Interrupt;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How often progress is reported.
const REPORT_EVERY: Duration = Duration::from_millis(500);

/// From the directing process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Order {
    /// Open the connections of this process's part.
    Open { load: Box<Load>, process: u32 },
    /// Begin to send at this time of the machine's monotonic clock, in nanoseconds.
    Run { window: Window, start_at: u64 },
    /// End the run with what was seen.
    Stop,
}

/// To the directing process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Report {
    Opened,
    Progress(Snapshot),
    Outcome(Box<RunOutcome>),
    /// Why the order could not be carried out.
    Failed(String),
}

/// Carries out orders until standard input ends.
pub(crate) fn serve_worker() -> Result<(), BenchError> {
    let interrupt = Interrupt::default();
    let orders = listen(&interrupt);
    let mut crew = None;
    while let Ok(order) = orders.recv() {
        let report = match order? {
            Order::Open { load, process } => Crew::open(&load, process, &interrupt).map(|opened| {
                crew = Some(opened);
                Report::Opened
            }),
            Order::Run { window, start_at } => run(crew.as_mut(), &window, start_at),
            Order::Stop => continue,
        };
        tell(&report.unwrap_or_else(|error| Report::Failed(error.to_string())))?;
    }
    Ok(())
}

fn run(crew: Option<&mut Crew>, window: &Window, start_at: u64) -> Result<Report, BenchError> {
    let Some(crew) = crew else {
        return Err(BenchError::Usage("the order to run came before the one to open".to_owned()));
    };
    std::thread::sleep(Duration::from_nanos(start_at.saturating_sub(monotonic())));
    let gauges = crew.gauges();
    // A directing process that has gone is noticed by the end of standard input.
    let mut tick = || drop(tell(&Report::Progress(snapshot_of(&gauges))));
    Ok(Report::Outcome(Box::new(crew.run(window, REPORT_EVERY, &mut tick)?)))
}

/// Reads orders on a thread of its own, so that the one to stop comes through while a run goes on.
fn listen(interrupt: &Interrupt) -> Receiver<Result<Order, BenchError>> {
    let (sender, orders) = channel();
    let interrupt = interrupt.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let order = line.map_err(BenchError::io("read an order")).and_then(|line| {
                serde_json::from_str(&line)
                    .map_err(|error| BenchError::Usage(format!("no order for a generator process: {error}")))
            });
            if matches!(order, Ok(Order::Stop)) {
                interrupt.raise();
            }
            if sender.send(order).is_err() {
                return;
            }
        }
        interrupt.raise();
    });
    orders
}

fn tell(report: &Report) -> Result<(), BenchError> {
    let mut line = serde_json::to_vec(report)
        .map_err(|error| BenchError::Usage(format!("a report cannot be written: {error}")))?;
    line.push(b'\n');
    let mut output = std::io::stdout().lock();
    output.write_all(&line).and_then(|()| output.flush()).map_err(BenchError::io("report"))
}
