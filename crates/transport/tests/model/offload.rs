//! The offload cell: a connection that moves to the pool for a request and comes home for the next, while
//! others wake it.

use crate::Session;
use crate::check;
use crate::placement::{Placement, PlacementCell};
use crate::pool::{Pool, options};
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
    static ON_POOL: Cell<bool> = Cell::new(false);
}

/// Whether the calling thread belongs to the pool.
pub(crate) fn on_pool() -> bool {
    ON_POOL.with(Cell::get)
}

/// Asserts at every poll that the task is where it belongs, and nowhere else at the same time.
async fn guarded(session: Arc<Session>, future: impl Future<Output = ()>) {
    let polled = AtomicBool::new(false);
    let mut future = pin!(future);
    poll_fn(|context| {
        assert!(!polled.swap(true, Ordering::SeqCst), "polled twice at once");
        let wanted = session.placement() == Placement::Pool;
        assert_eq!(on_pool(), wanted, "polled in the wrong place: {:?}", session.placement());
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
        poll_fn(|context| session.placement.poll_offload(context)).await;
        assert!(on_pool(), "blocking work on the event loop");
        thread::yield_now();
        session.placement.come_home();
        answered.fetch_add(1, Ordering::SeqCst);
    }
}

fn start_pool() -> (Arc<Pool>, thread::JoinHandle<()>) {
    let pool = Arc::new(Pool::new(options(0, 2)));
    let controlled = Arc::clone(&pool);
    let controller = thread::spawn(move || {
        let mut workers = Vec::new();
        while controlled.watch() {
            let pool = Arc::clone(&controlled);
            workers.push(thread::spawn(move || {
                ON_POOL.with(|on_pool| on_pool.set(true));
                let mut worker = Worker::new();
                while let Some(task) = pool.next(&mut worker) {
                    task.run();
                }
            }));
        }
        workers.into_iter().for_each(|worker| worker.join().expect("tasks do not panic"));
    });
    (pool, controller)
}

#[test]
fn a_connection_is_polled_where_it_belongs() {
    check(|| {
        let (pool, controller) = start_pool();
        let home = own_queue();
        let session = Arc::new(Session { placement: PlacementCell::new(Placement::Home) });
        let (request, answered) = (Arc::new(Signal::default()), Arc::new(AtomicUsize::new(0)));
        let served = serve(Arc::clone(&session), Arc::clone(&request), Arc::clone(&answered));
        spawn(
            guarded(Arc::clone(&session), served),
            Arc::clone(&session),
            Arc::clone(&home),
            Some(Arc::clone(&pool)),
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
        pool.stop();
        controller.join().expect("no panic");
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
fn slices_stay_on_the_pool_and_end_at_home() {
    check(|| {
        let (pool, controller) = start_pool();
        let home = own_queue();
        let answered = Arc::new(AtomicUsize::new(0));
        for _ in 0..2 {
            let session = Arc::new(Session { placement: PlacementCell::new(Placement::Home) });
            let (working, answered) = (Arc::clone(&session), Arc::clone(&answered));
            let scan = async move {
                poll_fn(|context| working.placement.poll_offload(context)).await;
                requeue().await;
                assert!(on_pool(), "a slice on the event loop");
                working.placement.come_home();
                requeue().await;
                assert!(!on_pool(), "the next request on the pool");
                answered.fetch_add(1, Ordering::SeqCst);
            };
            let guarded = guarded(Arc::clone(&session), scan);
            spawn(guarded, session, Arc::clone(&home), Some(Arc::clone(&pool)));
        }
        drive(&home, || answered.load(Ordering::SeqCst) == 2);
        pool.stop();
        controller.join().expect("no panic");
    });
}
