//! What sorts, groups and joins hold in memory: the account of one operation, and the pool that all
//! operations of a process have their accounts from.
//!
//! ```text
//!  pool ──lends, by the grain──▶ account of an operation ──▶ its parts: sort, group, join, …
//! ```
//! A user may have a pool of its own beside that of the process: what is used is borrowed from both.
//!
//! Each part has a limit of its own, as in MongoDB. A pipeline can have a thousand of them, though, and a
//! server thousands of operations: when all parts of an operation hold more than it may, or all operations
//! more than the pool has, whoever wants more puts aside what it has, or is refused as if it had passed its
//! own limit. While the pool is full each operation may keep a part of it, so that its size is passed by no
//! more than half; when even that is used up, what would begin now waits, and is refused after a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What the pool lends at a time. Operations that hold less change nothing that others look at.
const GRAIN: usize = 64 << 10;
/// Holders tell the bytes of keys, values and states. Tables, what the allocator rounds up, and what is
/// copied while they grow take about as much again: a million groups of 159 MiB took 279, and more while they
/// grew.
const REAL: usize = 2;
/// So much an operation has without asking.
const FREE: usize = 4 << 10;
/// Holders of less are left alone: what they put aside would hardly make a difference.
const SMALL_BYTES: usize = 1 << 20;

/// What all operations may hold together; see the module.
#[derive(Debug)]
pub struct MemoryPool {
    most: AtomicUsize,
    used: AtomicUsize,
    /// Operations that have something of it.
    holders: AtomicUsize,
    refuses: AtomicBool,
    gave_way: AtomicU64,
    refused: AtomicU64,
}

/// Figures of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryPoolFigures {
    /// Bytes that are lent; what holders have told, with what that takes in the end.
    pub used: usize,
    /// Bytes that there are to lend.
    pub most: usize,
    /// Operations that have some of them.
    pub holders: usize,
    /// Operations that put something aside, or failed, because the pool was full.
    pub gave_way: u64,
    /// Requests that were refused because the process has no memory left.
    pub refused: u64,
}

impl MemoryPool {
    /// A pool of so many bytes.
    pub fn new(most: usize) -> Self {
        MemoryPool {
            most: AtomicUsize::new(most),
            used: AtomicUsize::new(0),
            holders: AtomicUsize::new(0),
            refuses: AtomicBool::new(false),
            gave_way: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// A pool without a bound.
    pub fn unlimited() -> Self {
        MemoryPool::new(usize::MAX)
    }

    /// Changes its size. Who holds more than there is puts it aside when it next wants more.
    pub fn set_most(&self, bytes: usize) {
        self.most.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that there are to lend.
    pub fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// The process has no memory left, or has some again: no request that may need some is to begin.
    pub fn set_refuses(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }

    /// Whether requests that may need memory are refused.
    #[inline]
    pub fn refuses(&self) -> bool {
        self.refuses.load(Ordering::Relaxed)
    }

    /// A request was refused for want of memory.
    pub fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether an operation that may come to hold much can begin: not when twice the size is lent, which only
    /// happens when very many hold little each.
    pub fn has_room(&self) -> bool {
        self.used.load(Ordering::Relaxed) < self.most().saturating_mul(2) && !self.refuses()
    }

    /// How it stands.
    pub fn figures(&self) -> MemoryPoolFigures {
        MemoryPoolFigures {
            used: self.used.load(Ordering::Relaxed),
            most: self.most(),
            holders: self.holders.load(Ordering::Relaxed),
            gave_way: self.gave_way.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Whether a holder of so many bytes has to give way.
    fn presses(&self, bytes: usize) -> bool {
        let most = self.most();
        if self.used.load(Ordering::Relaxed) <= most {
            return false;
        }
        let kept = most / 2 / self.holders.load(Ordering::Relaxed).max(1);
        bytes > kept.max(GRAIN)
    }

    /// An operation had so many bytes of it and has so many now.
    fn change(&self, before: usize, now: usize) {
        if now >= before {
            self.used.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.used.fetch_sub(before - now, Ordering::Relaxed);
        }
        match (before, now) {
            (0, 1..) => self.holders.fetch_add(1, Ordering::Relaxed),
            (1.., 0) => self.holders.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }
}

/// What one operation holds.
#[derive(Debug, Clone)]
pub struct Memory(Arc<Account>);

#[derive(Debug)]
struct Account {
    most: usize,
    /// One thread at a time works on an operation; it need not be the same one.
    used: AtomicUsize,
    /// That of the process and that of a user.
    pools: [Option<Arc<MemoryPool>>; 2],
    /// What the operation has of each pool.
    lent: AtomicUsize,
    gave_way: AtomicBool,
}

impl Memory {
    /// An account of this many bytes.
    pub fn of(most: usize) -> Self {
        Memory::in_pools(most, [None, None])
    }

    /// An account of this many bytes, of which the pool has to have those that are used.
    pub fn within(pool: &Arc<MemoryPool>, most: usize) -> Self {
        Memory::in_pools(most, [Some(Arc::clone(pool)), None])
    }

    /// The same, of which the pool of a user has to have those that are used as well.
    pub fn within_both(pool: &Arc<MemoryPool>, of_user: Option<Arc<MemoryPool>>, most: usize) -> Self {
        Memory::in_pools(most, [Some(Arc::clone(pool)), of_user])
    }

    fn in_pools(most: usize, pools: [Option<Arc<MemoryPool>>; 2]) -> Self {
        let (used, lent, gave_way) = Default::default();
        Memory(Arc::new(Account { most, used, pools, lent, gave_way }))
    }

    /// Bytes that are held now.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The part of one holder, which holds nothing yet.
    pub fn part(&self) -> MemoryPart {
        MemoryPart { account: self.clone(), bytes: 0 }
    }
}

impl Default for Memory {
    /// An account without a limit.
    fn default() -> Self {
        Memory::of(usize::MAX)
    }
}

impl Account {
    /// Has the pools know what is used now, in grains.
    #[inline]
    fn settle(&self, used: usize) {
        let used = used.saturating_mul(REAL);
        let lent = self.lent.load(Ordering::Relaxed);
        if used > lent.max(FREE) || lent > 0 && (used <= FREE || used + 2 * GRAIN <= lent) {
            self.borrow(used);
        }
    }

    #[cold]
    fn borrow(&self, used: usize) {
        let wanted = if used <= FREE { 0 } else { used.saturating_add(GRAIN - 1) / GRAIN * GRAIN };
        let before = self.lent.swap(wanted, Ordering::Relaxed);
        self.pools.iter().flatten().for_each(|pool| pool.change(before, wanted));
    }

    /// Whether a holder of so many bytes has to give way to other operations.
    #[inline]
    fn is_pressed(&self, bytes: usize) -> bool {
        let real = bytes.saturating_mul(REAL);
        let Some(pool) = self.pools.iter().flatten().find(|pool| pool.presses(real)) else { return false };
        if !self.gave_way.swap(true, Ordering::Relaxed) {
            pool.gave_way.fetch_add(1, Ordering::Relaxed);
        }
        true
    }
}

/// What one holder has of an account; given back when it is dropped.
#[derive(Debug)]
pub struct MemoryPart {
    account: Memory,
    bytes: usize,
}

impl MemoryPart {
    /// Says how many bytes are held now.
    #[inline]
    pub fn set(&mut self, bytes: usize) {
        let account = &*self.account.0;
        let used = if bytes >= self.bytes {
            let more = bytes - self.bytes;
            account.used.fetch_add(more, Ordering::Relaxed) + more
        } else {
            let less = self.bytes - bytes;
            account.used.fetch_sub(less, Ordering::Relaxed) - less
        };
        self.bytes = bytes;
        account.settle(used);
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether this holder has to give way: it has more than `most`, or the operation has more than it may,
    /// or all operations together, and this holder a part of it that counts.
    #[inline]
    pub fn is_over(&self, most: usize) -> bool {
        let account = &*self.account.0;
        self.bytes > most
            || self.bytes > SMALL_BYTES.min(most / 8) && self.account.used() > account.most
            || self.bytes > GRAIN / REAL && account.is_pressed(self.bytes)
    }
}

impl Drop for MemoryPart {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_together() {
        let account = Memory::of(1_000);
        let (mut one, mut other) = (account.part(), account.part());
        one.set(600);
        other.set(300);
        assert!(!one.is_over(800) && !other.is_over(800), "together 900 of 1,000");
        other.set(500);
        assert!(one.is_over(800) && other.is_over(800), "together 1,100");
        let mut small = account.part();
        small.set(50);
        assert!(!small.is_over(800), "there is nothing to be gained from so little");
        drop(one);
        assert_eq!(account.used(), 550);
        assert!(!other.is_over(800) && other.is_over(400));
    }

    /// So many bytes told make one grain.
    const TOLD: usize = GRAIN / REAL;

    #[test]
    fn operations_share_a_pool() {
        let pool = Arc::new(MemoryPool::new(16 * GRAIN));
        let (one, other) = (Memory::within(&pool, usize::MAX), Memory::within(&pool, usize::MAX));
        let (mut first, mut second) = (one.part(), other.part());
        first.set(12 * TOLD);
        second.set(3 * TOLD + 1);
        assert!(!first.is_over(usize::MAX) && !second.is_over(usize::MAX), "16 grains of 16");
        second.set(4 * TOLD + 1);
        assert_eq!((pool.figures().used, pool.figures().holders), (17 * GRAIN, 2));
        assert!(first.is_over(usize::MAX), "12 of 17 grains is more than each of two may keep");
        assert!(second.is_over(usize::MAX), "and so is a little more than a quarter of the pool");
        second.set(3 * TOLD);
        assert!(!first.is_over(usize::MAX), "there is room again");
        first.set(14 * TOLD);
        assert!(first.is_over(usize::MAX) && !second.is_over(usize::MAX), "a quarter may be kept");
        assert_eq!(pool.figures().gave_way, 2, "each operation counts once");
        drop(first);
        assert_eq!((pool.figures().used, pool.figures().holders), (3 * GRAIN, 1));
        drop((second, one, other));
        assert_eq!((pool.figures().used, pool.figures().holders), (0, 0));
    }

    #[test]
    fn a_user_has_a_pool_beside_that_of_all() {
        let all = Arc::new(MemoryPool::new(16 * GRAIN));
        let own = Arc::new(MemoryPool::new(4 * GRAIN));
        let account = || Memory::within_both(&all, Some(Arc::clone(&own)), usize::MAX);
        let (mut first, mut second) = (account().part(), account().part());
        first.set(3 * TOLD);
        second.set(TOLD);
        assert_eq!((all.figures().used, own.figures().used), (4 * GRAIN, 4 * GRAIN));
        assert!(!first.is_over(usize::MAX), "4 grains of 4");
        second.set(2 * TOLD);
        assert!(first.is_over(usize::MAX), "5 of 4, of which one of two may keep one");
        assert_eq!((all.figures().gave_way, own.figures().gave_way), (0, 1), "the user's pool is full");
        let mut of_another = Memory::within(&all, usize::MAX).part();
        of_another.set(4 * TOLD);
        assert!(!of_another.is_over(usize::MAX), "others have what there is");
        own.set_most(usize::MAX);
        assert!(!first.is_over(usize::MAX), "a bound that goes holds nobody who has begun");
        drop((first, second));
        assert_eq!((all.figures().used, own.figures().used), (4 * GRAIN, 0));
    }

    #[test]
    fn very_many_small_holders_keep_others_from_beginning() {
        let pool = Arc::new(MemoryPool::new(4 * GRAIN));
        let hold = || {
            let mut part = Memory::within(&pool, usize::MAX).part();
            part.set(FREE / REAL + 1);
            assert!(!part.is_over(usize::MAX), "so little is not worth a file");
            part
        };
        let mut held: Vec<_> = std::iter::from_fn(|| pool.has_room().then(hold)).take(1_000).collect();
        assert_eq!(held.len(), 8, "twice the pool's size, in grains");
        held.pop();
        assert!(pool.has_room());
        pool.set_most(GRAIN);
        assert!(!pool.has_room(), "a smaller pool is full sooner");
        held.clear();
        assert!(pool.has_room());
        pool.set_refuses(true);
        assert!(!pool.has_room() && pool.refuses());
    }

    #[test]
    fn what_is_small_does_not_reach_the_pool() {
        let pool = Arc::new(MemoryPool::new(GRAIN));
        let mut part = Memory::within(&pool, usize::MAX).part();
        for bytes in 0..=FREE / REAL {
            part.set(bytes);
        }
        assert_eq!(pool.figures().used, 0);
        part.set(3 * TOLD);
        part.set(2 * TOLD);
        assert_eq!(pool.figures().used, 3 * GRAIN, "a grain more or less is not given back at once");
        part.set(TOLD);
        assert_eq!(pool.figures().used, GRAIN);
    }
}
