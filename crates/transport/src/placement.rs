//! The offload cell: where a connection is polled next.

use crate::sync::{AtomicU8, Ordering};
use std::task::{Context, Poll};

/// Which threads may poll a connection, and so whether it may block there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Placement {
    /// An event loop: blocking would hold up others.
    Home = 0,
    /// The elastic pool for what is short.
    Brief = 1,
    /// The elastic pool for what computes for long.
    Long = 2,
    /// A thread model whose threads may block.
    Anywhere = 3,
}

impl Placement {
    /// Whether it is one of the elastic pools'.
    pub(crate) const fn is_on_pool(self) -> bool {
        matches!(self, Placement::Brief | Placement::Long)
    }
}

/// A connection's placement. Once the connection is a task only its own poll changes it, so that whoever
/// schedules the task afterwards sees where it belongs.
pub(crate) struct PlacementCell(AtomicU8);

impl PlacementCell {
    pub(crate) fn new(placement: Placement) -> Self {
        Self(AtomicU8::new(placement as u8))
    }

    #[inline]
    pub(crate) fn get(&self) -> Placement {
        match self.0.load(Ordering::Acquire) {
            0 => Placement::Home,
            1 => Placement::Brief,
            2 => Placement::Long,
            _ => Placement::Anywhere,
        }
    }

    pub(crate) fn set(&self, placement: Placement) {
        self.0.store(placement as u8, Ordering::Release);
    }

    /// What was offloaded for one request comes home before the next; true when it had been.
    #[inline]
    pub(crate) fn come_home(&self) -> bool {
        let was_offloaded = self.get().is_on_pool();
        if was_offloaded {
            self.set(Placement::Home);
        }
        was_offloaded
    }

    /// Ready when the connection may compute for long. Otherwise it is moved to the pool for that, and this
    /// is polled again there.
    pub(crate) fn poll_offload(&self, context: &mut Context<'_>) -> Poll<()> {
        match self.get() {
            Placement::Home | Placement::Brief => self.move_to(Placement::Long, context),
            Placement::Long | Placement::Anywhere => Poll::Ready(()),
        }
    }

    /// Ready when the connection may block. Otherwise it is moved to the pool for what is short, and this is
    /// polled again there.
    pub(crate) fn poll_offload_briefly(&self, context: &mut Context<'_>) -> Poll<()> {
        match self.get() {
            Placement::Home => self.move_to(Placement::Brief, context),
            Placement::Brief | Placement::Long | Placement::Anywhere => Poll::Ready(()),
        }
    }

    fn move_to(&self, placement: Placement, context: &Context<'_>) -> Poll<()> {
        self.set(placement);
        // Scheduled once the running poll has returned, and by then the placement counts.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
