//! Threads of a build: what can be divided is computed by several of them, while the operation waits.

use super::BuildProgress;
use crate::CatalogError;
use parking_lot::Mutex;
use query::checkpoint;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One thread's share of the work: it ends when nothing is left to be taken.
pub(super) type Job = Box<dyn FnOnce() -> Result<(), CatalogError> + Send>;

struct Crew {
    /// Threads that are not done.
    left: AtomicUsize,
    /// What went wrong first.
    failure: Mutex<Option<CatalogError>>,
    progress: Arc<BuildProgress>,
}

/// Ends a thread's part, also where it panics.
struct Member {
    crew: Arc<Crew>,
    outcome: Option<Result<(), CatalogError>>,
}

impl Member {
    fn finish(mut self, outcome: Result<(), CatalogError>) {
        self.outcome = Some(outcome);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or_else(|| {
            Err(CatalogError::IndexBuildAborted("Index build aborted: one of its threads panicked".into()))
        });
        if let Err(error) = outcome {
            self.crew.failure.lock().get_or_insert(error);
            self.crew.progress.stop();
        }
        self.crew.left.fetch_sub(1, Ordering::AcqRel);
        self.crew.progress.moved.notify();
    }
}

/// Does each job on a thread of its own, which is as nice as this one. Told to end, it waits until they have.
pub(super) async fn work(progress: &Arc<BuildProgress>, jobs: Vec<Job>) -> Result<(), CatalogError> {
    let left = AtomicUsize::new(jobs.len());
    let crew = Arc::new(Crew { left, failure: Mutex::default(), progress: Arc::clone(progress) });
    for job in jobs {
        let member = Member { crew: Arc::clone(&crew), outcome: None };
        let thread = std::thread::Builder::new().name("index-build".into());
        let spawned = thread.spawn(move || member.finish(job()));
        if let Err(error) = spawned {
            let words = format!("Index build aborted: no thread for it: {error}");
            crew.failure.lock().replace(CatalogError::IndexBuildAborted(words));
        }
    }
    let done = async {
        loop {
            let seen = progress.moved.generation();
            if crew.left.load(Ordering::Acquire) == 0 {
                return;
            }
            progress.moved.after(seen).await;
        }
    };
    let mut done = std::pin::pin!(done);
    let ended = checkpoint::wait(done.as_mut()).await;
    if let Err(end) = ended {
        progress.stop();
        checkpoint::to_the_end(done).await;
        return Err(end.into());
    }
    // A cancelled build says so itself, whatever its threads stumbled over then.
    progress.check_going_on()?;
    crew.failure.lock().take().map_or(Ok(()), Err)
}
