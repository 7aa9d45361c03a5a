//! Every kind of request on Heddle as it is started without options, each beside a bare echo of the same
//! sizes.

use super::findings::Column;
use super::{Experiment, Kind, Load, Subject, What};

pub(super) const DOCUMENTS: Column = Column::other("M documents/s", 2);
pub(super) const ECHO: Column = Column::rate("echo/s");
pub(super) const OF_ECHO: Column = Column::other("% of the echo", 0);

const fn kind(name: &'static str, title: &'static str, clients: &'static [usize], load: Load) -> Kind {
    Kind { name, title, clients, what: What::BesideEcho(load), comparisons: &[], panels: super::SWEEP }
}

pub(crate) static EXPERIMENT: Experiment = Experiment {
    name: "raw",
    title: "requests beside an echo of the same sizes",
    about: "Each kind of request, and right after it an echo with a thread per connection that answers with replies of the same \
            size: the ceiling on this machine.",
    subjects: &[Subject::Auto],
    document_bytes: 1_024,
    kinds: &[
        kind("find", "Find by _id", &[64], Load::Read),
        kind("update", "Update of one field", &[64], Load::Update),
        kind("update-journaled", "Update, j: true", &[1_000], Load::Journaled),
        kind("range", "Range of 2,000, projected", &[64], Load::Range),
        kind("scan", "Scan, nothing matches", &[1], Load::Search),
    ],
    usual: "find,update,update-journaled,range,scan",
    published: None,
    statements: &[],
};
