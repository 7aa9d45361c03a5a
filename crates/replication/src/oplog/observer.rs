//! Who tells the log of the changes of a write unit: an observer at catalog's door.

use super::entry::StatementOrigin;
use super::unit;
use catalog::{Change, ChangeObserver};
use storage::WriteUnit;

/// Gives a unit the entries of its changes. It has no state: what is told waits in the unit.
#[derive(Debug, Clone, Copy, Default)]
pub struct OplogObserver;

impl ChangeObserver for OplogObserver {
    fn observe(&self, change: Change<'_>, unit: &mut WriteUnit) {
        if is_logged(&change) {
            unit::append_parts(change, None, unit.entries_mut());
        }
    }

    fn end_unit(&self, unit: &mut WriteUnit) {
        end_unit(unit, None, wall());
    }
}

/// Whether other members are to do the same: not where each has its own.
pub(crate) fn is_logged(change: &Change<'_>) -> bool {
    let namespace = &change.definition().namespace;
    namespace.database() != "local" && namespace.collection() != "system.profile"
}

/// Makes entries of what has been told of a unit.
pub(crate) fn end_unit(unit: &mut WriteUnit, origin: Option<&StatementOrigin>, wall: i64) {
    let parts = std::mem::take(unit.entries_mut());
    if !parts.is_empty() {
        *unit.entries_mut() = unit::entries_of_parts(parts, origin, wall);
    }
}

/// The clock, in milliseconds since 1970.
pub(crate) fn wall() -> i64 {
    i64::try_from(ambient::since_epoch().as_millis()).expect("the clock shows a time of these ages")
}
