//! The published view: a state of the store that is kept, to be read from while writes go on. See
//! `docs/design/views.md`.

use parking_lot::RwLock;

use crate::store::Store;
use crate::view::ReadView;

/// The view that was published last.
#[derive(Default)]
pub(crate) struct PublishedView(RwLock<Option<ReadView>>);

impl Store {
    /// Publishes a view of everything applied, in the place of the one before. Publishing twice without a
    /// write in between is publishing once.
    ///
    /// A group of the pipeline is seen whole or not at all. A batch of several groups is, too, where its
    /// writer publishes between batches and its readers take [`Store::published_view`].
    pub fn publish_view(&self) -> ReadView {
        let mut published = self.inner.published.0.write();
        // Nobody else publishes meanwhile: later ones see more.
        let view = self.pinned_view();
        if let Some(before) = published.as_ref().filter(|before| before.sequence() == view.sequence()) {
            return before.clone();
        }
        let before = published.replace(view.clone());
        drop(published);
        // The engine lets go of a state here, without the lock.
        drop(before);
        view
    }

    /// The view that was published last.
    pub fn published_view(&self) -> Option<ReadView> {
        self.inner.published.0.read().clone()
    }

    /// Gives up the published view: from now on the latest versions are read. What it sees would be kept for
    /// as long as nothing newer is published.
    pub fn withdraw_view(&self) {
        let withdrawn = self.inner.published.0.write().take();
        drop(withdrawn);
    }
}
