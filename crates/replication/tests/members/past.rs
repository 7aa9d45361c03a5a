//! Reads of the past: at one time every member shows the same, whoever is asked, and however often.

use crate::checker::documents;
use crate::client;
use crate::member::Running;
use crate::world::World;
use document::{DocumentBuf, Timestamp};
use replication::set::Moment;
use wire::ErrorCode;

/// The documents as of a time.
type Shown = Vec<DocumentBuf>;

fn shown(running: &Running, moment: &Moment) -> Shown {
    documents().map(|document| client::document(&running.catalog, &moment.view, document)).collect()
}

impl World {
    /// Reads on a member what is there now, or what was there at a time.
    pub(crate) fn read_past(&mut self, id: usize) {
        let Some(running) = self.nodes[id].running.as_ref() else { return };
        if !running.set.topology().state.is_readable() {
            return;
        }
        let applied = running.set.last_applied().timestamp;
        let known = self.pasts.range(..=applied).count();
        // How long the past is kept goes by the process's own clock: nothing else may depend on what is
        // known.
        let (place, after) = (self.random.u32(..) as usize % (known + 1), self.random.u32(..3));
        let moment = match place {
            0 => running.set.moment(),
            place => {
                let (time, _) = self.pasts.range(..=applied).nth(place - 1).expect("one of those");
                // Mostly the member has nothing of just this time.
                let later = Timestamp { increment: time.increment + after, ..*time };
                running.set.moment_at(later.min(applied))
            }
        };
        match moment {
            Ok(moment) => {
                let now = shown(running, &moment);
                self.figures.pasts += 1;
                let before = self.pasts.entry(moment.timestamp).or_insert_with(|| now.clone());
                assert!(
                    *before == now,
                    "as of {:?} member {id} shows {now:?}, and it was {before:?}",
                    moment.timestamp
                );
            }
            Err(error) => assert!(
                matches!(error.code, ErrorCode::SnapshotTooOld | ErrorCode::SnapshotUnavailable),
                "member {id} does not show the past: {error:?}"
            ),
        }
    }
}
