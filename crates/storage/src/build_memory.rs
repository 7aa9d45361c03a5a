//! Memory for the entries of index builds: so much for each, so much for all of them. Who has less of it
//! sorts in more runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A build may hold so much whatever others do, where that is not more than it may hold alone: with less it
/// would make more runs than can be merged at a time.
const LEAST: usize = 4 << 20;

/// What all builds of a store may hold.
#[derive(Debug)]
pub(crate) struct BuildPool {
    each: AtomicUsize,
    most: AtomicUsize,
    /// Builds that are under way.
    builds: AtomicUsize,
    held: AtomicUsize,
}

impl BuildPool {
    /// So many bytes for each build, without a bound for all of them.
    pub(crate) fn new(each: usize) -> BuildPool {
        BuildPool {
            each: AtomicUsize::new(each),
            most: AtomicUsize::new(usize::MAX),
            builds: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
        }
    }

    /// Changes what one build may hold alone.
    pub(crate) fn set_each(&self, bytes: usize) {
        self.each.store(bytes, Ordering::Relaxed);
    }

    /// Changes what all builds may hold together.
    pub(crate) fn set_most(&self, bytes: usize) {
        self.most.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that builds hold now.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn share(&self) -> usize {
        let share = self.most.load(Ordering::Relaxed) / self.builds.load(Ordering::Relaxed).max(1);
        share.max(LEAST).min(self.each.load(Ordering::Relaxed))
    }
}

/// What one index build may hold, from its beginning until its last part is gone.
#[derive(Debug)]
pub struct BuildMemory {
    pool: Arc<BuildPool>,
}

impl BuildMemory {
    pub(crate) fn of(pool: &Arc<BuildPool>) -> BuildMemory {
        pool.builds.fetch_add(1, Ordering::Relaxed);
        BuildMemory { pool: Arc::clone(pool) }
    }

    /// Bytes that the build may hold now; whoever holds more puts it aside soon.
    pub fn bytes(&self) -> usize {
        self.pool.share()
    }

    /// The account of one holder, who holds nothing yet.
    pub fn part(self: &Arc<Self>) -> BuildPart {
        BuildPart { memory: Arc::clone(self), bytes: 0 }
    }
}

impl Drop for BuildMemory {
    fn drop(&mut self) {
        self.pool.builds.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What one holder has of a build's memory; given back when it is dropped.
#[derive(Debug)]
pub struct BuildPart {
    memory: Arc<BuildMemory>,
    bytes: usize,
}

impl BuildPart {
    /// Says how many bytes are held now.
    pub fn set(&mut self, bytes: usize) {
        let held = &self.memory.pool.held;
        if bytes >= self.bytes {
            held.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            held.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for BuildPart {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn builds_share_what_all_may_hold() {
        let pool = Arc::new(BuildPool::new(20 * MIB));
        pool.set_most(30 * MIB);
        let one = Arc::new(BuildMemory::of(&pool));
        assert_eq!(one.bytes(), 20 * MIB, "no more than for each");
        let other = Arc::new(BuildMemory::of(&pool));
        assert_eq!((one.bytes(), other.bytes()), (15 * MIB, 15 * MIB));
        pool.set_most(MIB);
        assert_eq!(one.bytes(), LEAST);
        pool.set_each(MIB);
        assert_eq!(one.bytes(), MIB, "no more than it may hold alone");
        let (mut entries, mut readers) = (one.part(), one.part());
        entries.set(100);
        readers.set(50);
        entries.set(70);
        assert_eq!(pool.held(), 120);
        pool.set_each(20 * MIB);
        pool.set_most(30 * MIB);
        drop((entries, one));
        assert_eq!((pool.held(), other.bytes()), (50, 15 * MIB), "a part of it is left");
        drop(readers);
        assert_eq!((pool.held(), other.bytes()), (0, 20 * MIB));
    }
}
