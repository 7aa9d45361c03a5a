//! The set of live connections at a shutdown: connections come while the server closes, and none is missed.

use crate::check;
use crate::live_set::LiveSet;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::thread;
use std::sync::Arc;
use std::time::{Duration, Instant};

const DAY: Duration = Duration::from_secs(24 * 3600);

struct Connection {
    number: u64,
    ending: AtomicBool,
}

/// Counts the connections that have left.
type Connections = LiveSet<Connection, usize>;

/// One connection: it lasts until it is told to end.
fn serve(connections: &Connections, connection: &Connection) {
    while !connection.ending.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    connections.leave(connection.number, |left| *left += 1);
}

/// A listener that accepts two connections, each of which gets a thread. Answers with how many were let in.
fn accept(connections: &Arc<Connections>, numbers: &AtomicUsize, limit: usize) -> usize {
    let mut threads = Vec::new();
    for _ in 0..2 {
        let entered = connections.enter(limit, || {
            let number = numbers.fetch_add(1, Ordering::SeqCst) as u64;
            (number, Connection { number, ending: AtomicBool::new(false) })
        });
        assert!(connections.count() <= limit, "more are inside than may be");
        let Some(connection) = entered else { continue };
        let connections = Arc::clone(connections);
        threads.push(thread::spawn(move || serve(&connections, &connection)));
    }
    let admitted = threads.len();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    admitted
}

#[test]
fn a_shutdown_misses_nobody() {
    for limit in [1, usize::MAX] {
        check(move || {
            let connections = Arc::new(Connections::new());
            let numbers = Arc::new(AtomicUsize::new(0));
            let listeners = [(); 2].map(|()| {
                let (connections, numbers) = (Arc::clone(&connections), Arc::clone(&numbers));
                thread::spawn(move || accept(&connections, &numbers, limit))
            });
            thread::yield_now();
            connections.close();
            for connection in connections.all() {
                connection.ending.store(true, Ordering::SeqCst);
            }
            assert_eq!(connections.wait_empty(Instant::now() + DAY), 0, "somebody is left");
            let left = connections.look(|_, left| *left);
            assert_eq!(connections.count(), 0);
            let admitted: usize = listeners.map(|listener| listener.join().expect("no panic")).iter().sum();
            assert_eq!(connections.look(|live, _| live.len()), 0, "somebody was let in after the shutdown");
            assert_eq!(left, admitted, "the shutdown returned before everybody had left");
        });
    }
}

#[test]
fn a_deadline_ends_the_wait() {
    check(|| {
        let connections = Arc::new(Connections::new());
        let connection = connections
            .enter(1, || (7, Connection { number: 7, ending: AtomicBool::new(false) }))
            .expect("the connections is open");
        let served = Arc::clone(&connections);
        let thread = thread::spawn(move || serve(&served, &connection));
        connections.close();
        // The connection does not end by itself: the wait must.
        assert_eq!(connections.wait_empty(Instant::now()), 1);
        connections.all().iter().for_each(|connection| connection.ending.store(true, Ordering::SeqCst));
        assert_eq!(connections.wait_empty(Instant::now() + DAY), 0);
        thread.join().expect("no panic");
    });
}
