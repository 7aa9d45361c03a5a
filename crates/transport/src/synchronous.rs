//! The `synchronous` thread model: one thread per connection, blocking I/O, a parked thread while a service waits.

use crate::executors::{Newcomer, drive};
use crate::placement::Placement;
use crate::statistics::{ExecutorStatistics, Figure};
use crate::{BlockingStream, Service, ServiceExecutor};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// The model's counts.
#[derive(Default)]
pub(crate) struct Synchronous {
    threads: Arc<Threads>,
}

#[derive(Default)]
struct Threads {
    running: AtomicU64,
    started: AtomicU64,
    refused: AtomicU64,
}

impl Synchronous {
    /// Runs a connection on a new thread.
    ///
    /// # Errors
    /// The kernel has no thread left; the connection is then dropped.
    pub(crate) fn adopt<H: Service>(&self, newcomer: Newcomer, service: &Arc<H>) -> io::Result<()> {
        let Newcomer { admission, socket, input } = newcomer;
        let session = Arc::clone(admission.session());
        let shared = Arc::clone(&session.shared);
        session.place(Placement::Anywhere);
        socket.set_nonblocking(false)?;
        let builder = thread::Builder::new()
            .name(format!("conn{}", session.id()))
            .stack_size(shared.options.thread_stack_bytes);
        let service = Arc::clone(service);
        let threads = Arc::clone(&self.threads);
        let spawned = builder.spawn(move || {
            threads.running.fetch_add(1, Ordering::Relaxed);
            session.looked_at();
            let stream = BlockingStream::new(socket, shared);
            block_on(drive(&session, stream, service, input));
            threads.running.fetch_sub(1, Ordering::Relaxed);
            drop(admission);
        });
        match spawned {
            Ok(_) => self.threads.started.fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                self.threads.refused.fetch_add(1, Ordering::Relaxed);
                return Err(error);
            }
        };
        Ok(())
    }

    pub(crate) fn statistics(&self) -> ExecutorStatistics {
        let count = |counter: &AtomicU64| Figure::Count(counter.load(Ordering::Relaxed));
        let figures = vec![
            ("threadsRunning", count(&self.threads.running)),
            ("threadsStarted", count(&self.threads.started)),
            ("threadsRefusedBySystem", count(&self.threads.refused)),
        ];
        ExecutorStatistics { executor: ServiceExecutor::Synchronous.statistics_name(), figures }
    }
}

/// Polls a future on this thread until it is ready. The thread sleeps while the future waits; a future that never waits costs
/// one poll.
pub fn block_on<F: Future>(future: F) -> F::Output {
    thread_local! {
        static WAKER: Waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    }
    let mut future = pin!(future);
    let waker = WAKER.with(Waker::clone);
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}

/// Wakes a thread that [`block_on`] parked. A wake-up before the parking is not lost: it makes the parking return at once.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
