//! The task queues with one worker and sockets that the test makes ready.

use crate::adaptive::task_queues::{QueueCursor, Queues, SocketPoller, WaitEnd};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Duration;

/// Queues of named tasks over sockets that wake tasks when they are polled.
struct World {
    queues: Queues<&'static str>,
    sockets: Vec<Mutex<VecDeque<&'static str>>>,
    /// A task that every poll of queue 0 finds ready.
    always_ready: Option<&'static str>,
    polls: Mutex<Vec<usize>>,
    /// How often somebody was looked for in vain.
    nobody_free: Mutex<usize>,
}

impl World {
    fn new(queues: usize) -> Self {
        let sockets = (0..queues).map(|_| Mutex::default()).collect();
        Self {
            queues: Queues::new(queues),
            sockets,
            always_ready: None,
            polls: Mutex::default(),
            nobody_free: Mutex::default(),
        }
    }

    fn push(&self, queue: usize, task: &'static str) {
        self.queues.push(self, queue, task);
    }

    fn socket_is_ready(&self, queue: usize, task: &'static str) {
        self.sockets[queue].lock().push_back(task);
    }

    /// Takes tasks, which queue themselves again in `home`, until `wanted` comes; answers with how many
    /// others came before.
    #[track_caller]
    fn takes_until(&self, cursor: &mut QueueCursor, home: usize, wanted: &str) -> usize {
        for others in 0..10_000 {
            match self.queues.take(self, cursor) {
                Some(task) if task == wanted => return others,
                Some(task) => self.push(home, task),
                None => panic!("the queues are empty, and {wanted} never came"),
            }
        }
        panic!("{wanted} starves");
    }
}

impl SocketPoller for World {
    fn poll(&self, queue: usize) -> bool {
        self.polls.lock().push(queue);
        if queue == 0 {
            self.always_ready.into_iter().for_each(|task| self.queues.push_quietly(queue, task));
        }
        self.sockets[queue].lock().drain(..).for_each(|task| self.queues.push_quietly(queue, task));
        false
    }

    fn wait(&self, _timeout: Duration, ready: &mut Vec<usize>) {
        ready.extend((0..self.sockets.len()).filter(|queue| !self.sockets[*queue].lock().is_empty()));
    }

    fn notify(&self) {}

    fn nobody_is_free(&self) {
        *self.nobody_free.lock() += 1;
    }
}

const TASKS: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

#[test]
fn network_events_do_not_starve_behind_tasks() {
    let world = World::new(1);
    TASKS.into_iter().for_each(|task| world.push(0, task));
    world.socket_is_ready(0, "event");
    let before = world.takes_until(&mut QueueCursor::new(0), 0, "event");
    assert!(before <= 2 * TASKS.len(), "{before} tasks ran before the network event");
}

#[test]
fn tasks_do_not_starve_behind_polling() {
    let world = World { always_ready: Some("event"), ..World::new(1) };
    let mut cursor = QueueCursor::new(0);
    world.push(0, "first");
    world.queues.take(&world, &mut cursor);
    TASKS.into_iter().for_each(|task| world.push(0, task));
    let mut events = 0;
    for task in TASKS {
        while let Some(taken) = world.queues.take(&world, &mut cursor) {
            if taken == task {
                break;
            }
            assert_eq!(taken, "event", "the tasks run in their order");
            events += 1;
        }
    }
    assert!(events <= 1, "{events} events of a socket that is always ready ran before tasks queued earlier");
}

#[test]
fn a_marker_goes_behind_what_is_queued() {
    let world = World::new(1);
    let mut cursor = QueueCursor::new(0);
    TASKS.into_iter().for_each(|task| world.push(0, task));
    for task in TASKS {
        assert_eq!(world.queues.take(&world, &mut cursor), Some(task));
    }
    assert_eq!(*world.polls.lock(), [0], "one poll in a round, however long the queue");
    assert_eq!(world.queues.take(&world, &mut cursor), None);
    assert_eq!(*world.polls.lock(), [0], "a marker alone is left alone");
}

#[test]
fn quiet_queues_do_not_starve_beside_a_busy_one() {
    for own in 0..4 {
        let world = World::new(4);
        TASKS.into_iter().for_each(|task| world.push(0, task));
        for queue in 0..4 {
            let mut cursor = QueueCursor::new(own);
            world.socket_is_ready(queue, "event");
            let before = world.takes_until(&mut cursor, 0, "event");
            assert!(
                before <= 16 * 4,
                "{before} tasks of queue 0 before the socket of queue {queue}, worker {own}"
            );
            world.push(queue, "task");
            let before = world.takes_until(&mut cursor, 0, "task");
            assert!(
                before <= 16 * 4,
                "{before} tasks of queue 0 before the task of queue {queue}, worker {own}"
            );
        }
    }
}

#[test]
fn a_queue_whose_worker_is_slow_is_served_by_another() {
    let world = World::new(2);
    (0..100).for_each(|_| world.push(0, "fast"));
    (0..100).for_each(|_| world.push(1, "slow"));
    let mut cursor = QueueCursor::new(0);
    let mut waiting = [100_usize, 100];
    // The other queue's worker does not come.
    for _ in 0..150 {
        match world.queues.take(&world, &mut cursor) {
            Some("slow") => waiting[1] -= 1,
            _ => waiting[0] -= 1,
        }
    }
    assert_eq!(waiting[0] + waiting[1], 50);
    assert!(waiting[1] <= 2 * waiting[0] + 20, "{waiting:?} wait in the queues");
}

#[test]
fn idle_workers_take_from_other_queues() {
    let world = World::new(3);
    world.push(2, "task");
    assert_eq!(world.queues.take(&world, &mut QueueCursor::new(1)), Some("task"));
    assert_eq!(world.queues.queued(), 0);
}

#[test]
fn a_resting_worker_is_told_which_sockets_are_ready() {
    let world = World::new(3);
    let mut cursor = QueueCursor::new(0);
    assert_eq!(world.queues.wait_for_work(&world, &mut cursor, Duration::ZERO), WaitEnd::TimedOut);
    world.socket_is_ready(1, "event");
    assert_eq!(world.queues.wait_for_work(&world, &mut cursor, Duration::ZERO), WaitEnd::Woken);
    assert_eq!(world.queues.take(&world, &mut cursor), Some("event"));
    assert_eq!(*world.polls.lock(), [1], "only the queue whose sockets are ready is polled");
}

#[test]
fn a_worker_does_not_rest_while_there_are_tasks() {
    let world = World::new(3);
    world.push(2, "task");
    assert_eq!(world.queues.wait_for_work(&world, &mut QueueCursor::new(0), Duration::MAX), WaitEnd::Woken);
}

#[test]
fn the_controller_hears_of_tasks_for_which_nobody_is_free() {
    let world = World::new(1);
    let mut cursor = QueueCursor::new(0);
    world.push(0, "task");
    assert_eq!(*world.nobody_free.lock(), 1, "a pushed task");
    world.queues.take(&world, &mut cursor);
    assert_eq!(*world.nobody_free.lock(), 1, "nothing is left");
    world.push(0, "task");
    world.socket_is_ready(0, "a");
    world.socket_is_ready(0, "b");
    assert_eq!(*world.nobody_free.lock(), 2, "another");
    world.queues.take(&world, &mut cursor);
    assert_eq!(*world.nobody_free.lock(), 3, "two events of one poll stay behind");
    world.queues.take(&world, &mut cursor);
    assert_eq!(*world.nobody_free.lock(), 4, "one of them does");
}

#[test]
fn closed_queues_let_nobody_rest_and_give_their_tasks_back() {
    let world = World::new(2);
    world.push(0, "a");
    world.push(1, "b");
    world.queues.close(&world);
    assert_eq!(world.queues.wait_for_work(&world, &mut QueueCursor::new(0), Duration::MAX), WaitEnd::Closed);
    assert_eq!(world.queues.drain(), ["a", "b"]);
    assert_eq!(world.queues.queued(), 0);
}
