//! Views in time: states of the store that are kept, to be read from while writes go on. See
//! `docs/design/views.md`.

use std::collections::VecDeque;

use parking_lot::RwLock;

use crate::store::Store;
use crate::view::ReadView;

/// Why no view can be opened at a sequence number.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ViewUnavailable {
    /// What it would see, or what was written since, is not known any more.
    #[error("what is known goes back to sequence number {oldest}")]
    TooOld {
        /// The first one that can be opened.
        oldest: u64,
    },
    /// Nobody has published a view of it yet.
    #[error("no view of that sequence number has been published yet")]
    NotPublished,
}

/// The published views that are kept.
#[derive(Default)]
pub(crate) struct PublishedViews {
    /// Oldest first.
    kept: RwLock<VecDeque<ReadView>>,
}

impl PublishedViews {
    /// Nobody publishes while `pin` takes the view, so that later ones see more.
    fn publish(&self, pin: impl FnOnce() -> ReadView) -> ReadView {
        let mut kept = self.kept.write();
        let view = pin();
        match kept.back() {
            Some(newest) if newest.sequence() == view.sequence() => newest.clone(),
            _ => {
                kept.push_back(view.clone());
                view
            }
        }
    }

    fn newest(&self) -> Option<ReadView> {
        self.kept.read().back().cloned()
    }

    fn at(&self, sequence: u64) -> Result<ReadView, ViewUnavailable> {
        let kept = self.kept.read();
        let (Some(oldest), Some(newest)) = (kept.front(), kept.back()) else {
            return Err(ViewUnavailable::NotPublished);
        };
        if sequence > newest.sequence() {
            return Err(ViewUnavailable::NotPublished);
        }
        let later = kept.partition_point(|view| view.sequence() <= sequence);
        let view = later.checked_sub(1).and_then(|index| kept.get(index));
        view.cloned().ok_or_else(|| ViewUnavailable::TooOld { oldest: oldest.sequence() })
    }

    fn retire(&self, sequence: u64) {
        let mut kept = self.kept.write();
        let later = kept.partition_point(|view| view.sequence() <= sequence);
        let retired: VecDeque<ReadView> = kept.drain(..later.saturating_sub(1)).collect();
        drop(kept);
        // The engine lets go of a state here, without the lock.
        drop(retired);
    }

    fn withdraw(&self) {
        let withdrawn = std::mem::take(&mut *self.kept.write());
        // As above.
        drop(withdrawn);
    }
}

impl Store {
    /// Publishes a view of everything applied. It is kept until it is [retired](Store::retire_views), and so
    /// is what it sees: whoever publishes also retires. Publishing twice without a write in between is
    /// publishing once.
    ///
    /// A group of the pipeline is seen whole or not at all. A batch of several groups is, too, where its
    /// writer publishes between batches and its readers take [`Store::published_view`].
    pub fn publish_view(&self) -> ReadView {
        self.inner.views.publish(|| self.pinned_view())
    }

    /// The view that was published last.
    pub fn published_view(&self) -> Option<ReadView> {
        self.inner.views.newest()
    }

    /// The newest published view that sees no write after `sequence`. As long as it is kept, the answer stays
    /// the same.
    ///
    /// # Errors
    /// When there is none any more, or later ones may still be published.
    pub fn view_at(&self, sequence: u64) -> Result<ReadView, ViewUnavailable> {
        self.inner.views.at(sequence)
    }

    /// Gives up the published views that are not needed for [`Store::view_at`] `sequence` and later. Whoever
    /// holds one goes on reading from it.
    pub fn retire_views(&self, sequence: u64) {
        self.inner.views.retire(sequence);
    }

    /// Gives up all published views: from now on the latest versions are read. What they see would be kept for as
    /// long as nothing newer is published.
    pub fn withdraw_views(&self) {
        self.inner.views.withdraw();
    }
}
