//! Updates of one document whose units an owner writes, several groups behind each other: whatever he refuses
//! and whenever, no acknowledged one is lost, no refused one is written, and nobody waits for ever.

use std::collections::VecDeque;

use shuttle::future::block_on;
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::thread;

use super::group::{CommitGroup, GroupOutcome, GroupWriter, Lead};
use super::handover::{Documents, REFUSED, Unit, leave, spawn_loop, spawn_updates, take_one};
use super::table::Queueing;
use super::{check, join_all};

const GROUPS_IN_FLIGHT_MAX: usize = 2;
const LATER: &str = "not primary";
const CLOSED: &str = "closed";

/// What becomes of groups.
#[derive(Clone, Copy, Default)]
struct Plan {
    /// Groups that are refused, with those behind them, while units are taken.
    refusals: usize,
    /// How often nothing is taken any more, and everything is refused, before it goes on.
    step_downs: usize,
    /// Whether it goes on writing what is in flight while nothing is taken.
    writes_in_flight: bool,
    /// Whether groups are refused from the last one on.
    refuses_backwards: bool,
}

struct Owner {
    documents: Arc<Documents>,
    in_flight: VecDeque<CommitGroup<Unit>>,
    refusals: AtomicUsize,
    step_downs: AtomicUsize,
    plan: Plan,
}

impl Owner {
    fn new(documents: &Arc<Documents>, plan: Plan) -> Owner {
        let (refusals, step_downs) = (AtomicUsize::new(plan.refusals), AtomicUsize::new(plan.step_downs));
        Owner { documents: Arc::clone(documents), in_flight: VecDeque::new(), refusals, step_downs, plan }
    }

    fn run(mut self, stop: &AtomicBool) {
        let documents = Arc::clone(&self.documents);
        loop {
            // Read first: whoever leaves does not wait for what it has left, and it may have come since the
            // last take.
            let stops = stop.load(Ordering::SeqCst);
            while self.in_flight.len() < GROUPS_IN_FLIGHT_MAX {
                let Some(group) = documents.group.take(&documents.disk) else { break };
                self.in_flight.push_back(group);
                thread::yield_now();
            }
            if self.in_flight.is_empty() {
                if stops {
                    return;
                }
                documents.bell.wait();
            } else if take_one(&self.step_downs) {
                self.step_down();
            } else if take_one(&self.refusals) {
                self.refuse_in_flight();
            } else {
                self.write_first();
            }
        }
    }

    fn write_first(&mut self) {
        let Some(group) = self.in_flight.pop_front() else { return };
        let disk = &self.documents.disk;
        let write = |units: &[Unit]| match disk.write(units) {
            GroupOutcome::Applied(sequence) => Ok(sequence),
            GroupOutcome::Failed(failure) => Err(failure),
            GroupOutcome::Stalled => unreachable!("nothing is planned to stall"),
        };
        self.documents.group.write_first(group, Unit::following(None), disk, write).unwrap();
    }

    fn refuse_in_flight(&mut self) {
        let refuse = |group| {
            self.documents.group.give_up(group, REFUSED, &self.documents.disk).unwrap();
            thread::yield_now();
        };
        match self.plan.refuses_backwards {
            true => self.in_flight.drain(..).rev().for_each(refuse),
            false => self.in_flight.drain(..).for_each(refuse),
        }
    }

    fn refuse_beside_the_write(&mut self) {
        let Some(first) = self.in_flight.pop_front() else { return };
        let documents = Arc::clone(&self.documents);
        let writing = thread::spawn(move || {
            let mut owner = Owner::new(&documents, Plan::default());
            owner.in_flight.push_back(first);
            owner.write_first();
        });
        self.refuse_in_flight();
        writing.join().unwrap();
    }

    fn step_down(&mut self) {
        let documents = Arc::clone(&self.documents);
        documents.group.refuse_waiting(REFUSED, LATER, &documents.disk).unwrap();
        thread::yield_now();
        if self.plan.writes_in_flight && self.plan.refuses_backwards {
            // Somebody else writes what the owner has committed before.
            self.refuse_beside_the_write();
        } else if self.plan.writes_in_flight {
            self.write_first();
        }
        self.refuse_in_flight();
        thread::yield_now();
        documents.group.accept(|| false);
    }
}

/// Runs an owner beside `threads`.
fn with_owner(documents: &Arc<Documents>, plan: Plan, threads: Vec<thread::JoinHandle<()>>) {
    let stop = Arc::new(AtomicBool::new(false));
    let owner = {
        let (owner, stop) = (Owner::new(documents, plan), Arc::clone(&stop));
        thread::spawn(move || owner.run(&stop))
    };
    join_all(threads);
    stop.store(true, Ordering::SeqCst);
    documents.bell.ring();
    owner.join().unwrap();
    documents.assert_consistent();
}

fn threads_and_a_loop(documents: &Arc<Documents>) -> Vec<thread::JoinHandle<()>> {
    vec![
        spawn_updates(documents, vec![0, 0]),
        spawn_loop(documents, vec![0; 3], 3, false),
        spawn_updates(documents, vec![0]),
    ]
}

#[test]
fn proposals_are_written_once_and_in_order() {
    check(|| {
        let documents = Documents::owned();
        with_owner(&documents, Plan::default(), threads_and_a_loop(&documents));
        assert_eq!(documents.stored(0).changes, 6, "none was refused");
    });
}

#[test]
fn refused_groups_take_along_those_that_went_on_from_them() {
    for refuses_backwards in [false, true] {
        check(move || {
            let documents = Documents::owned();
            let plan = Plan { refusals: 1, refuses_backwards, ..Plan::default() };
            with_owner(&documents, plan, threads_and_a_loop(&documents));
        });
    }
}

#[test]
fn a_member_that_steps_down_refuses_all_and_can_come_back() {
    for (writes_in_flight, refuses_backwards) in [(false, false), (true, false), (true, true)] {
        check(move || {
            let documents = Documents::owned();
            let plan = Plan { step_downs: 2, writes_in_flight, refuses_backwards, ..Plan::default() };
            with_owner(&documents, plan, threads_and_a_loop(&documents));
        });
    }
}

#[test]
fn dropped_proposals_wedge_nobody() {
    check(|| {
        let documents = Documents::owned();
        let leaving = {
            let documents = Arc::clone(&documents);
            thread::spawn(move || {
                for polls in [1, 2] {
                    leave(documents.update(0, Queueing::InOrder, Lead::Now), polls);
                    leave(documents.update(0, Queueing::Together, Lead::Now), polls);
                }
                leave(documents.change_alone(0, Lead::Now), 1);
            })
        };
        let threads = vec![leaving, spawn_loop(&documents, vec![0; 3], 1, false)];
        let plan = Plan { refusals: 1, step_downs: 1, ..Plan::default() };
        with_owner(&documents, plan, threads);
    });
}

#[test]
fn what_is_told_of_a_proposal_is_told_when_it_is_written() {
    check(|| {
        let documents = Documents::owned();
        let keeping = {
            let documents = Arc::clone(&documents);
            thread::spawn(move || {
                for _ in 0..2 {
                    block_on(documents.keep(0, Queueing::InOrder, Lead::Now));
                }
            })
        };
        let mut threads = threads_and_a_loop(&documents);
        threads.push(keeping);
        with_owner(&documents, Plan { refusals: 1, step_downs: 1, ..Plan::default() }, threads);
    });
}

#[test]
fn closing_beside_the_owner_refuses_nothing_that_is_written() {
    check(|| {
        let documents = Documents::owned();
        let closing = {
            let documents = Arc::clone(&documents);
            thread::spawn(move || {
                while !documents.group.close_owned(&CLOSED, &documents.disk) {
                    thread::yield_now();
                }
            })
        };
        let mut owner = Owner::new(&documents, Plan::default());
        let threads = threads_and_a_loop(&documents);
        while let Some(group) = documents.group.take(&documents.disk) {
            owner.in_flight.push_back(group);
        }
        for group in owner.in_flight.drain(..) {
            let write = |units: &[Unit]| match documents.disk.write(units) {
                GroupOutcome::Applied(sequence) => Ok(sequence),
                _ => unreachable!("nothing else is planned"),
            };
            let result = documents.group.write_first(group, Unit::following(None), &documents.disk, write);
            assert!(result.is_ok() || result == Err(CLOSED), "{result:?}");
        }
        closing.join().unwrap();
        join_all(threads);
        documents.assert_consistent();
    });
}
