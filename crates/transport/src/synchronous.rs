//! The `synchronous` thread model: one thread per connection, blocking I/O, a parked thread while a service waits.

use crate::connection::serve;
use crate::registry::Admission;
use crate::{BlockingStream, Service};
use socket2::Socket;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Runs a connection on a new thread.
///
/// # Errors
/// The kernel has no thread left; the connection is then dropped.
pub(crate) fn spawn<H: Service>(
    admission: Admission,
    socket: Arc<Socket>,
    service: Arc<H>,
) -> io::Result<()> {
    let shared = Arc::clone(&admission.session().shared);
    let builder = thread::Builder::new()
        .name(format!("conn{}", admission.session().id()))
        .stack_size(shared.options.thread_stack_bytes);
    builder.spawn(move || {
        let session = Arc::clone(admission.session());
        let stream = BlockingStream::new(socket, shared);
        match block_on(serve(Arc::clone(&session), stream, service)) {
            Ok(closed) => {
                tracing::debug!(target: "network", connection = session.id(), ?closed, "connection ended");
            }
            Err(error) => {
                tracing::info!(target: "network", connection = session.id(), peer = %session.peer(), %error, "connection ended with an error");
            }
        }
        drop(admission);
    })?;
    Ok(())
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
