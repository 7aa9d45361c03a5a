//! The model's statistics, under MongoDB's names where it has one
//! (`serverStatus().network.serviceExecutorTaskStats`).

use super::core::Core;
use super::record::{KINDS, Kind, KindTotals, Totals};
use crate::statistics::Figure;
use std::time::Duration;

type Figures = Vec<(&'static str, Figure)>;

fn count(number: impl TryInto<u64>) -> Figure {
    Figure::Count(number.try_into().unwrap_or(u64::MAX))
}

fn micros(time: Duration) -> Figure {
    count(time.as_micros())
}

const fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Start => "startSession",
        Kind::Ready => "processMessage",
        Kind::Resumed => "resumeMessage",
    }
}

/// Tasks that wait, by kind.
#[derive(Clone, Copy, Default)]
struct WaitingTasks {
    tasks: u64,
    time: Duration,
}

pub(super) fn figures(core: &Core) -> Figures {
    let now = core.now();
    let mut in_use = 0_u64;
    let mut executing = Duration::ZERO;
    let (counts, totals) = core.roster.observe(|workers, ended| {
        let mut totals: Totals = *ended;
        executing = ended.all_kinds().executing;
        for worker in workers {
            totals.add(worker.totals(now));
            executing += worker.executing(now);
            in_use += u64::from(worker.executing_since().is_some());
        }
        totals
    });
    let mut waiting = [WaitingTasks::default(); 3];
    core.queues.for_each(|queued| {
        if let Some(waiting) = waiting.get_mut(queued.kind as usize) {
            waiting.tasks += 1;
            waiting.time += now.saturating_sub(queued.since);
        }
    });
    let all = totals.all_kinds();
    let tasks_queued: u64 = waiting.iter().map(|waiting| waiting.tasks).sum();
    let by_task = KINDS.into_iter().zip(totals.kinds).zip(waiting);
    let by_task =
        by_task.map(|((kind, totals), waiting)| (name(kind), Figure::Group(of_kind(totals, waiting))));
    let creations = counts.creations;
    vec![
        ("threadsInUse", count(in_use)),
        ("threadsRunning", count(counts.running)),
        ("threadsPending", count(counts.pending)),
        ("totalExecuted", count(all.executed)),
        ("tasksQueued", count(tasks_queued)),
        ("deferredTasksQueued", count(core.deferred())),
        ("totalTimeRunningMicros", micros(totals.running)),
        ("totalTimeExecutingMicros", micros(executing)),
        ("totalTimeQueuedMicros", micros(all.queued)),
        ("metricsByTask", Figure::Group(by_task.collect())),
        (
            "threadCreationCauses",
            Figure::Group(vec![
                ("stuckDetection", count(creations.stuck_detection)),
                ("starvation", count(creations.starvation)),
                ("belowReserve", count(creations.below_reserve)),
                ("replacement", count(creations.replacement)),
            ]),
        ),
        ("threadsEndedIdle", count(counts.ended_idle)),
        ("threadsRefusedBySystem", count(counts.start_failures)),
        ("queues", count(core.queues.count())),
        ("clientsInTotal", count(core.connections())),
    ]
}

fn of_kind(totals: KindTotals, waiting: WaitingTasks) -> Figures {
    vec![
        ("totalQueued", count(totals.begun + waiting.tasks)),
        ("totalExecuted", count(totals.executed)),
        ("tasksQueued", count(waiting.tasks)),
        ("totalTimeExecutingMicros", micros(totals.executing)),
        ("totalTimeQueuedMicros", micros(totals.queued + waiting.time)),
    ]
}
