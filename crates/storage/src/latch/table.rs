//! Latches by key: one operation at a time per document.

use std::collections::VecDeque;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rustc_hash::{FxHashMap, FxHasher};
use slab::Slab;

use crate::sync::{Mutex, MutexGuard};

/// Shards bound contention on the table itself; 64 is far above the number of processors that write.
const SHARDS: usize = 64;
const SHARD_KEYS: usize = 16;

struct Waiter {
    waker: Waker,
    granted: bool,
}

#[derive(Default)]
struct Shard {
    /// Held keys and who waits for each.
    held: FxHashMap<u64, VecDeque<usize>>,
    waiters: Slab<Waiter>,
}

/// Exclusive latches of hashed keys. Two keys with the same hash share a latch, which costs waiting and
/// nothing else, as long as an operation that needs several takes them with [`LatchTable::lock_many`].
/// Clones are the same table; guards own a share of it, so that they can travel with a write unit.
#[derive(Clone)]
pub struct LatchTable {
    shards: Arc<[Mutex<Shard>]>,
}

impl Default for LatchTable {
    fn default() -> LatchTable {
        LatchTable::new()
    }
}

impl LatchTable {
    /// A table in which nothing is held.
    pub fn new() -> LatchTable {
        let shard = || {
            let mut shard = Shard::default();
            shard.held.reserve(SHARD_KEYS);
            Mutex::new(shard)
        };
        LatchTable { shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    /// The hash by which `key` is latched. Put what separates key spaces (a collection id) into the key.
    pub fn hash(key: &[u8]) -> u64 {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        hasher.finish()
    }

    /// Takes the latch of `key`.
    pub fn lock(&self, key: &[u8]) -> LatchFuture<'_> {
        self.lock_hash(LatchTable::hash(key))
    }

    /// Takes the latch of a hash from [`LatchTable::hash`].
    pub fn lock_hash(&self, hash: u64) -> LatchFuture<'_> {
        LatchFuture { table: self, hash, ticket: None }
    }

    /// Takes the latch of `key` when that needs no waiting.
    pub fn try_lock(&self, key: &[u8]) -> Option<LatchGuard> {
        self.try_lock_hash(LatchTable::hash(key))
    }

    /// Takes the latch of a hash from [`LatchTable::hash`] when that needs no waiting.
    pub fn try_lock_hash(&self, hash: u64) -> Option<LatchGuard> {
        let held = self.shard(hash).try_hold(hash);
        // Not `then_some`: a guard that is made and dropped would release somebody else's latch.
        held.then(|| self.guard(hash))
    }

    fn guard(&self, hash: u64) -> LatchGuard {
        LatchGuard { table: self.clone(), hash }
    }

    /// Takes the latches of several hashes in one global order, so that no two operations wait for each
    /// other. The caller must hold no other latch of this table.
    pub async fn lock_many(&self, hashes: &[u64]) -> LatchGuards {
        let mut ordered = hashes.to_vec();
        ordered.sort_unstable();
        ordered.dedup();
        let mut guards = Vec::with_capacity(ordered.len());
        for hash in ordered {
            guards.push(self.lock_hash(hash).await);
        }
        LatchGuards { guards }
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // The low bits choose the bucket inside a shard's map, the high ones the shard.
        let index = (hash >> 58) as usize % SHARDS;
        match self.shards.get(index) {
            Some(shard) => shard.lock(),
            None => unreachable!("there are {SHARDS} shards"),
        }
    }
}

impl Shard {
    fn try_hold(&mut self, hash: u64) -> bool {
        match self.held.entry(hash) {
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(VecDeque::new());
                true
            }
            std::collections::hash_map::Entry::Occupied(_) => false,
        }
    }

    /// Grants the latch to the next waiter or frees it; returns whom to wake.
    fn release(&mut self, hash: u64) -> Option<Waker> {
        let Some(next) = self.held.get_mut(&hash).and_then(VecDeque::pop_front) else {
            self.held.remove(&hash);
            return None;
        };
        let waiter = self.waiters.get_mut(next)?;
        waiter.granted = true;
        Some(waiter.waker.clone())
    }
}

/// Waits for a latch; dropping it gives up the place in the queue.
#[must_use = "a latch is not taken before the future is awaited"]
pub struct LatchFuture<'a> {
    table: &'a LatchTable,
    hash: u64,
    ticket: Option<usize>,
}

impl Future for LatchFuture<'_> {
    type Output = LatchGuard;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<LatchGuard> {
        let (table, hash) = (self.table, self.hash);
        let mut shard = table.shard(hash);
        let Some(ticket) = self.ticket else {
            if shard.try_hold(hash) {
                return Poll::Ready(table.guard(hash));
            }
            let ticket = shard.waiters.insert(Waiter { waker: context.waker().clone(), granted: false });
            shard.held.entry(hash).or_default().push_back(ticket);
            self.ticket = Some(ticket);
            return Poll::Pending;
        };
        if shard.waiters.get(ticket).is_some_and(|waiter| waiter.granted) {
            shard.waiters.remove(ticket);
            self.ticket = None;
            return Poll::Ready(table.guard(hash));
        }
        if let Some(waiter) = shard.waiters.get_mut(ticket) {
            waiter.waker.clone_from(context.waker());
        }
        Poll::Pending
    }
}

impl Drop for LatchFuture<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let mut shard = self.table.shard(self.hash);
        let waiter = shard.waiters.remove(ticket);
        let successor = if waiter.granted {
            shard.release(self.hash)
        } else {
            if let Some(queue) = shard.held.get_mut(&self.hash) {
                queue.retain(|queued| *queued != ticket);
            }
            None
        };
        drop(shard);
        successor.into_iter().for_each(Waker::wake);
    }
}

/// A held latch; dropping it passes the latch on.
#[must_use = "the latch is released when the guard is dropped"]
pub struct LatchGuard {
    table: LatchTable,
    hash: u64,
}

impl Drop for LatchGuard {
    fn drop(&mut self) {
        let successor = self.table.shard(self.hash).release(self.hash);
        successor.into_iter().for_each(Waker::wake);
    }
}

/// Several held latches; dropping it passes all of them on.
#[must_use = "the latches are released when the guards are dropped"]
pub struct LatchGuards {
    guards: Vec<LatchGuard>,
}

impl LatchGuards {
    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }
}
