//! Which events are written: a level for each component, inherited from its parent when −1.

use std::sync::atomic::{AtomicI32, Ordering};
use tracing::Level;

/// A component: its path in options, its name in lines, its parent's position.
struct Component {
    path: &'static str,
    name: &'static str,
    parent: usize,
}

const fn component(path: &'static str, name: &'static str, parent: usize) -> Component {
    Component { path, name, parent }
}

/// Parents come before children; the first is the default of all.
const COMPONENTS: [Component; 14] = [
    component("", "-", 0),
    component("accessControl", "ACCESS", 0),
    component("command", "COMMAND", 0),
    component("control", "CONTROL", 0),
    component("ftdc", "FTDC", 0),
    component("geo", "GEO", 0),
    component("index", "INDEX", 0),
    component("network", "NETWORK", 0),
    component("query", "QUERY", 0),
    component("replication", "REPL", 0),
    component("sharding", "SHARDING", 0),
    component("storage", "STORAGE", 0),
    component("storage.journal", "JOURNAL", 11),
    component("write", "WRITE", 0),
];

/// Crates whose events name no component.
const CRATES: [(&str, usize); 6] =
    [("storage", 11), ("catalog", 11), ("transport", 7), ("query", 8), ("commands", 2), ("heddle", 3)];

/// What a component inherits its level with.
const INHERITS: i32 = -1;

/// The levels of all components.
#[derive(Debug)]
pub(super) struct Verbosity {
    levels: [AtomicI32; COMPONENTS.len()],
}

impl Default for Verbosity {
    fn default() -> Self {
        let level = |position| AtomicI32::new(if position == 0 { 0 } else { INHERITS });
        Verbosity { levels: std::array::from_fn(level) }
    }
}

/// Whether there is a component of this path.
pub(crate) fn is_component(path: &str) -> bool {
    !path.is_empty() && COMPONENTS.iter().any(|component| component.path == path)
}

/// The component of an event's target: its name in any case, or a crate's module path.
fn position(target: &str) -> usize {
    let first = target.split("::").next().unwrap_or(target);
    let by_name = COMPONENTS.iter().position(|component| component.name.eq_ignore_ascii_case(first));
    let by_path = || COMPONENTS.iter().position(|component| component.path == first);
    let by_crate = || CRATES.iter().find(|(name, _)| *name == first).map(|(_, position)| *position);
    by_name.or_else(by_path).or_else(by_crate).unwrap_or(0)
}

/// The name of an event's component in its line.
pub(super) fn component_name(target: &str) -> &'static str {
    COMPONENTS.get(position(target)).map_or("-", |component| component.name)
}

impl Verbosity {
    /// Sets a level. False when there is no such component.
    pub(super) fn set(&self, path: &str, level: i32) -> bool {
        let position = COMPONENTS.iter().position(|component| component.path == path);
        let Some(slot) = position.and_then(|position| self.levels.get(position)) else { return false };
        slot.store(level, Ordering::Relaxed);
        true
    }

    /// The level in force at a position.
    fn effective(&self, position: usize) -> i32 {
        let own = self.levels.get(position).map_or(0, |level| level.load(Ordering::Relaxed));
        match COMPONENTS.get(position) {
            Some(component) if own == INHERITS => self.effective(component.parent),
            _ => own,
        }
    }

    /// Whether events of this target and level are written.
    pub(super) fn allows(&self, target: &str, level: Level) -> bool {
        let needed = needed(level);
        needed == 0 || self.effective(position(target)) >= needed
    }

    /// Every component with its own level.
    pub(super) fn all(&self) -> Vec<(String, i32)> {
        let levels = self.levels.iter().map(|level| level.load(Ordering::Relaxed));
        COMPONENTS.iter().map(|component| component.path.to_owned()).zip(levels).collect()
    }
}

/// The verbosity an event needs to be written.
fn needed(level: Level) -> i32 {
    match level {
        Level::ERROR | Level::WARN | Level::INFO => 0,
        Level::DEBUG => 1,
        Level::TRACE => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(set: &[(&str, i32)], target: &str, level: Level, expect: bool) {
        let verbosity = Verbosity::default();
        for (path, level) in set {
            assert!(verbosity.set(path, *level), "{path} is a component");
        }
        assert_eq!(verbosity.allows(target, level), expect, "{set:?} {target} {level}");
    }

    #[test]
    fn levels_are_inherited() {
        check(&[], "NETWORK", Level::INFO, true);
        check(&[], "NETWORK", Level::DEBUG, false);
        check(&[("", 1)], "network", Level::DEBUG, true);
        check(&[("", 1)], "network", Level::TRACE, false);
        check(&[("", 2), ("network", 0)], "network", Level::DEBUG, false);
        check(&[("storage", 1)], "JOURNAL", Level::DEBUG, true);
        check(&[("storage", 1)], "storage::background", Level::DEBUG, true);
        check(&[("storage", 1), ("storage.journal", 0)], "JOURNAL", Level::DEBUG, false);
    }

    #[test]
    fn parents_come_first() {
        for (position, component) in COMPONENTS.iter().enumerate() {
            assert!(component.parent <= position);
            assert_eq!(super::position(component.name), position, "{} is found", component.name);
        }
        assert_eq!(component_name("catalog::indexes"), "STORAGE");
        assert_eq!(component_name("elsewhere"), "-");
    }
}
