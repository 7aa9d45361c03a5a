//! Latches of several kinds that are given up together.

use std::fmt;

use smallvec::SmallVec;

use super::shared::{ExclusiveGuard, SharedGuard};
use super::table::{LatchGuard, LatchGuards};
use crate::pipeline::group::{QueuePlace, Wakers};

/// Latches an operation has gathered; dropping it gives up all of them.
#[derive(Default)]
pub struct HeldLatches {
    /// A collection and a document: what most writes need.
    latches: SmallVec<[OneLatch; 2]>,
}

#[expect(dead_code, reason = "held for their drop")]
enum OneLatch {
    Shared(SharedGuard),
    Exclusive(ExclusiveGuard),
    Key(LatchGuard),
    Keys(LatchGuards),
    Document(LatchGuard),
}

impl HeldLatches {
    /// Holds a collection's latch together with others.
    pub fn add_shared(&mut self, guard: SharedGuard) {
        self.latches.push(OneLatch::Shared(guard));
    }

    /// Holds a collection's latch, alone, together with others.
    pub fn add_exclusive(&mut self, guard: ExclusiveGuard) {
        self.latches.push(OneLatch::Exclusive(guard));
    }

    /// Holds the latch of a key.
    pub fn add_key(&mut self, guard: LatchGuard) {
        self.latches.push(OneLatch::Key(guard));
    }

    /// Holds the latch of the document that the unit puts. It is passed on as soon as the unit is enqueued:
    /// the next one that changes the document goes on from what the unit puts.
    pub fn add_document(&mut self, guard: LatchGuard) {
        self.latches.push(OneLatch::Document(guard));
    }

    /// Holds the latches of several keys.
    pub fn add_keys(&mut self, guards: LatchGuards) {
        if !guards.is_empty() {
            self.latches.push(OneLatch::Keys(guards));
        }
    }

    pub(crate) fn append(&mut self, mut others: HeldLatches) {
        self.latches.append(&mut others.latches);
    }

    /// The unit that holds the latches is enqueued. Returns whom to wake.
    pub(crate) fn pass_on(&mut self, place: QueuePlace) -> Wakers {
        let mut wakers = Wakers::new();
        for latch in &mut self.latches {
            if let OneLatch::Document(guard) = latch {
                wakers.extend(guard.pass_on(place));
            }
        }
        wakers
    }
}

impl fmt::Debug for HeldLatches {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} latches", self.latches.len())
    }
}
