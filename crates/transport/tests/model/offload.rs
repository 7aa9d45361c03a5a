//! The offload cell: a connection that moves to a pool for a request, from one pool to the other, and comes
//! home for the next, while others wake it.

use crate::Session;
use crate::check;
use crate::placement::{Placement, PlacementCell};
use crate::pool::{Pool, Pools, options};
use crate::queue::Worker;
use crate::runs::{Signal, drive, own_queue};
use crate::task::spawn;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::thread;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

shuttle::thread_local! {
    static WORKS_FOR: Cell<Option<Placement>> = Cell::new(None);
}

/// Which pool the calling thread belongs to.
pub(crate) fn works_for() -> Option<Placement> {
    WORKS_FOR.with(Cell::get)
}

/// Asserts at every poll that the task is where it belongs, and nowhere else at the same time.
async fn guarded(session: Arc<Session>, future: impl Future<Output = ()>) {
    let polled = AtomicBool::new(false);
    let mut future = pin!(future);
    poll_fn(|context| {
        assert!(!polled.swap(true, Ordering::SeqCst), "polled twice at once");
        let placement = session.placement();
        let wanted = placement.is_on_pool().then_some(placement);
        assert_eq!(works_for(), wanted, "polled in the wrong place");
        let result = future.as_mut().poll(context);
        polled.store(false, Ordering::SeqCst);
        result
    })
    .await;
}

/// Two requests: each is received at home, worked on by the pool, and answered.
async fn serve(session: Arc<Session>, request: Arc<Signal>, answered: Arc<AtomicUsize>) {
    for _ in 0..2 {
        request.wait().await;
        poll_fn(|context| session.placement.poll_offload_briefly(context)).await;
        assert_eq!(works_for(), Some(Placement::Brief), "blocking work on the event loop");
        thread::yield_now();
        session.placement.come_home();
        answered.fetch_add(1, Ordering::SeqCst);
    }
}

fn start_pools() -> (Arc<Pools>, [thread::JoinHandle<()>; 2]) {
    let [brief, long] = [Placement::Brief, Placement::Long].map(|name| Pool::new(name, options(0, 2)));
    let pools = Arc::new(Pools { brief, long });
    let controllers = [Placement::Brief, Placement::Long].map(|name| {
        let pools = Arc::clone(&pools);
        thread::spawn(move || control(&pools, name))
    });
    (pools, controllers)
}

fn control(pools: &Arc<Pools>, name: Placement) {
    let mut workers = Vec::new();
    while pools.of(name).expect("a pool").watch() {
        let pools = Arc::clone(pools);
        workers.push(thread::spawn(move || {
            WORKS_FOR.with(|works_for| works_for.set(Some(name)));
            let mut worker = Worker::new();
            while let Some(task) = pools.of(name).expect("a pool").next(&mut worker) {
                task.run();
            }
        }));
    }
    workers.into_iter().for_each(|worker| worker.join().expect("tasks do not panic"));
}

fn stop(pools: &Pools, controllers: [thread::JoinHandle<()>; 2]) {
    [&pools.brief, &pools.long].into_iter().for_each(Pool::stop);
    controllers.into_iter().for_each(|controller| controller.join().expect("no panic"));
}

#[test]
fn a_connection_is_polled_where_it_belongs() {
    check(|| {
        let (pools, controllers) = start_pools();
        let home = own_queue();
        let session = Arc::new(Session { placement: PlacementCell::new(Placement::Home) });
        let (request, answered) = (Arc::new(Signal::default()), Arc::new(AtomicUsize::new(0)));
        let served = serve(Arc::clone(&session), Arc::clone(&request), Arc::clone(&answered));
        spawn(
            guarded(Arc::clone(&session), served),
            Arc::clone(&session),
            Arc::clone(&home),
            Some(Arc::clone(&pools)),
        );
        let client = {
            let (request, answered, owner) = (Arc::clone(&request), Arc::clone(&answered), thread::current());
            thread::spawn(move || {
                for sent in 1..=2 {
                    request.set();
                    while answered.load(Ordering::SeqCst) < sent {
                        thread::yield_now();
                    }
                }
                owner.unpark();
            })
        };
        // Wake-ups that mean nothing come at any time.
        let disturber = thread::spawn(move || {
            for _ in 0..3 {
                request.wake();
                thread::yield_now();
            }
        });
        drive(&home, || answered.load(Ordering::SeqCst) == 2);
        client.join().expect("no panic");
        disturber.join().expect("no panic");
        stop(&pools, controllers);
    });
}

/// Yields to whoever polls next, as a scan does at the end of its slice.
async fn requeue() {
    let mut queued = false;
    poll_fn(|context| {
        if std::mem::replace(&mut queued, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn what_turns_out_long_changes_pools_stays_there_and_ends_at_home() {
    check(|| {
        let (pools, controllers) = start_pools();
        let home = own_queue();
        let answered = Arc::new(AtomicUsize::new(0));
        for _ in 0..2 {
            let session = Arc::new(Session { placement: PlacementCell::new(Placement::Home) });
            let (working, answered) = (Arc::clone(&session), Arc::clone(&answered));
            let scan = async move {
                poll_fn(|context| working.placement.poll_offload_briefly(context)).await;
                poll_fn(|context| working.placement.poll_offload(context)).await;
                requeue().await;
                poll_fn(|context| working.placement.poll_offload_briefly(context)).await;
                assert_eq!(works_for(), Some(Placement::Long), "a slice elsewhere");
                working.placement.come_home();
                requeue().await;
                assert_eq!(works_for(), None, "the next request on a pool");
                answered.fetch_add(1, Ordering::SeqCst);
            };
            let guarded = guarded(Arc::clone(&session), scan);
            spawn(guarded, session, Arc::clone(&home), Some(Arc::clone(&pools)));
        }
        drive(&home, || answered.load(Ordering::SeqCst) == 2);
        stop(&pools, controllers);
    });
}
