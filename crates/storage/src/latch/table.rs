//! Latches by key: one operation at a time per document.
//!
//! ```text
//!        lock, lock_latest            pass_on: the unit is enqueued           the unit is settled
//!  free ──────────────────▶ held ───────────────────────────────▶ enqueued ─────────────────────▶ free
//!                            ▲ └──── guard dropped ──▶ free           │
//!                            └────────── lock_latest ─────────────────┘  goes on from what the unit puts
//! ```
//! An operation that changes a document lets the next one go on as soon as its own place in the order of
//! writes is fixed, and not only when it is written. See `docs/design/hot-documents.md`.
//!
//! Invariant: while a latch is not held, nobody waits for it, or the oldest waiter wants it alone and units
//! are enqueued with it, or somebody in front of him has been called and has not come yet.

use std::collections::VecDeque;
use std::collections::hash_map::Entry as MapEntry;
use std::future::{Future, poll_fn};
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rustc_hash::{FxHashMap, FxHasher};
use slab::Slab;

use crate::pipeline::group::{QueuePlace, Wakers};
use crate::sync::{Mutex, MutexGuard};

/// Shards bound contention on the table itself; 64 is far above the number of processors that write.
const SHARDS: usize = 64;
const SHARD_KEYS: usize = 16;
const NO_MORE_HELD: &str = "no more latches are held than are to be taken";

/// How those who wait for the latest version of a document get its latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// Each in his turn: the latch is his before he is woken.
    InOrder,
    /// All that wait are woken at once, and have the latch if it is free when they are polled. For threads
    /// that serve many tasks in turns: these poll them one after the other, where handing over in order would
    /// cost a turn each.
    Together,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    /// The latch when no enqueued unit has it any more: what is stored is the latest version then.
    Alone,
    /// The latch; the latest version may be in an enqueued unit.
    Latest(Queueing),
}

#[derive(PartialEq, Eq)]
enum LatchStage {
    /// In the queue.
    Waiting,
    /// Taken out of the queue and woken, to try again.
    Called,
    /// The latch is his.
    Granted,
}

struct LatchWaiter {
    waker: Waker,
    wants: Wants,
    stage: LatchStage,
}

/// A latch that is not free.
#[derive(Default)]
struct Latch {
    /// Whether somebody has it and has not passed it on.
    held: bool,
    /// Units that have it besides: it was passed on when they were enqueued, and they are not settled yet.
    enqueued: usize,
    /// The last of them.
    last: Option<QueuePlace>,
    /// Who waits, oldest first.
    queue: VecDeque<usize>,
}

impl Latch {
    fn admits(&self, wants: Wants) -> bool {
        !self.held && (self.enqueued == 0 || wants != Wants::Alone)
    }

    fn is_free(&self) -> bool {
        !self.held && self.enqueued == 0 && self.queue.is_empty()
    }
}

#[derive(Default)]
struct Shard {
    latches: FxHashMap<u64, Latch>,
    waiters: Slab<LatchWaiter>,
}

/// Exclusive latches of hashed keys. Two keys with the same hash share a latch, which costs waiting and
/// nothing else, as long as an operation that needs several takes them with [`LatchTable::lock_many`].
/// Clones are the same table; guards own a share of it, so that they can travel with a write unit.
#[derive(Clone)]
pub struct LatchTable {
    /// Taken after the queue of the commits, when both are.
    shards: Arc<[Mutex<Shard>; SHARDS]>,
}

impl Default for LatchTable {
    fn default() -> LatchTable {
        LatchTable::new()
    }
}

impl LatchTable {
    /// A table in which nothing is held.
    pub fn new() -> LatchTable {
        let shard = |_| {
            let mut shard = Shard::default();
            shard.latches.reserve(SHARD_KEYS);
            Mutex::new(shard)
        };
        LatchTable { shards: Arc::new(std::array::from_fn(shard)) }
    }

    /// The hash by which `key` is latched. Put what separates key spaces (a collection id) into the key.
    pub fn hash(key: &[u8]) -> u64 {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        hasher.finish()
    }

    /// Takes the latch of `key`, when every unit that was enqueued with it is settled.
    pub fn lock(&self, key: &[u8]) -> LatchFuture<'_> {
        self.lock_hash(LatchTable::hash(key))
    }

    /// Takes the latch of a hash from [`LatchTable::hash`], when every unit that was enqueued with it is
    /// settled.
    pub fn lock_hash(&self, hash: u64) -> LatchFuture<'_> {
        LatchFuture { request: self.request(hash, Wants::Alone) }
    }

    /// Takes the latch of a hash from [`LatchTable::hash`] without waiting for units that were enqueued with
    /// it. Tells the place of the last of these, which puts the latest version of the key unless it was
    /// settled meanwhile (or another key has the same hash): see
    /// [`Store::enqueued_version`](crate::Store::enqueued_version).
    pub fn lock_latest(&self, hash: u64, queueing: Queueing) -> LatestFuture<'_> {
        LatestFuture { request: self.request(hash, Wants::Latest(queueing)) }
    }

    /// Takes the latch of `key` when that needs no waiting.
    pub fn try_lock(&self, key: &[u8]) -> Option<LatchGuard> {
        self.try_lock_hash(LatchTable::hash(key))
    }

    /// Takes the latch of a hash from [`LatchTable::hash`] when that needs no waiting.
    pub fn try_lock_hash(&self, hash: u64) -> Option<LatchGuard> {
        let taken = self.shard(hash).try_take(hash, Wants::Alone).is_some();
        // Not `then_some`: a guard that is made and dropped would release somebody else's latch.
        taken.then(|| self.guard(hash))
    }

    fn request(&self, hash: u64, wants: Wants) -> LatchRequest<'_> {
        LatchRequest { table: self, hash, wants, ticket: None }
    }

    fn guard(&self, hash: u64) -> LatchGuard {
        LatchGuard { table: self.clone(), hash, passed_on: false }
    }

    /// Takes the latches of several hashes in one global order, so that no two operations wait for each
    /// other. The caller must hold no other latch of this table.
    pub async fn lock_many(&self, mut hashes: Vec<u64>) -> LatchGuards {
        hashes.sort_unstable();
        hashes.dedup();
        let mut guards = LatchGuards { table: self.clone(), hashes, held: 0 };
        loop {
            guards.take_free();
            let Some(hash) = guards.hashes.get(guards.held).copied() else { return guards };
            let mut request = self.request(hash, Wants::Alone);
            poll_fn(|context| request.poll(context.waker())).await;
            guards.held += 1;
        }
    }

    /// The same when that needs no waiting: for who holds others of this table.
    pub fn try_lock_many(&self, mut hashes: Vec<u64>) -> Option<LatchGuards> {
        hashes.sort_unstable();
        hashes.dedup();
        let mut guards = LatchGuards { table: self.clone(), hashes, held: 0 };
        guards.take_free();
        (guards.held == guards.hashes.len()).then_some(guards)
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        match self.shards.get(shard_of(hash)) {
            Some(shard) => shard.lock(),
            None => unreachable!("there are {SHARDS} shards"),
        }
    }

    fn shard_of_all(&self, hashes: &[u64]) -> MutexGuard<'_, Shard> {
        self.shard(*hashes.first().expect("hashes of one shard are not none"))
    }
}

impl Shard {
    /// Takes a latch for somebody who has not waited. Answers with the place of the last unit enqueued with
    /// it.
    fn try_take(&mut self, hash: u64, wants: Wants) -> Option<Option<QueuePlace>> {
        match self.latches.entry(hash) {
            MapEntry::Vacant(free) => {
                free.insert(Latch { held: true, ..Latch::default() });
                Some(None)
            }
            MapEntry::Occupied(mut latch) => {
                let latch = latch.get_mut();
                (latch.queue.is_empty() && latch.admits(wants)).then(|| {
                    latch.held = true;
                    latch.last
                })
            }
        }
    }

    /// The holder goes.
    fn release(&mut self, hash: u64) -> Wakers {
        let latch = self.latches.get_mut(&hash).expect("a latch is there while it is held");
        assert!(latch.held, "a latch is let go that nobody holds");
        latch.held = false;
        self.advance(hash)
    }

    /// A unit that was enqueued with the latch is settled.
    fn settle(&mut self, hash: u64) -> Wakers {
        let latch = self.latches.get_mut(&hash).expect("a latch is there while units were enqueued with it");
        assert!(latch.enqueued > 0, "a unit is settled that was not enqueued");
        latch.enqueued -= 1;
        if latch.enqueued == 0 {
            latch.last = None;
        }
        self.advance(hash)
    }

    /// The holder's unit is enqueued at `place`.
    fn pass_on(&mut self, hash: u64, place: QueuePlace) -> Wakers {
        let latch = self.latches.get_mut(&hash).expect("a latch is there while it is held");
        assert!(latch.held, "a latch is passed on that nobody holds");
        latch.held = false;
        latch.enqueued += 1;
        latch.last = Some(place);
        self.advance(hash)
    }

    /// Lets those go on who may, or forgets a latch that is free; returns whom to wake.
    fn advance(&mut self, hash: u64) -> Wakers {
        let mut wakers = Wakers::new();
        let Some(latch) = self.latches.get_mut(&hash) else { return wakers };
        while let Some(waiter) = latch.queue.front().and_then(|oldest| self.waiters.get_mut(*oldest)) {
            let together = waiter.wants == Wants::Latest(Queueing::Together);
            // Those who were called come first: were the latch given away at once, they might come in vain
            // for ever.
            let others_come = !wakers.is_empty();
            if !latch.admits(waiter.wants) || (others_come && !together) {
                break;
            }
            latch.queue.pop_front();
            if together {
                waiter.stage = LatchStage::Called;
            } else {
                waiter.stage = LatchStage::Granted;
                latch.held = true;
            }
            wakers.push(waiter.waker.clone());
        }
        if latch.is_free() {
            self.latches.remove(&hash);
        }
        wakers
    }
}

/// A place in the queue of a latch.
struct LatchRequest<'a> {
    table: &'a LatchTable,
    hash: u64,
    wants: Wants,
    ticket: Option<usize>,
}

impl<'a> LatchRequest<'a> {
    /// Waits for the latch. Answers with the place of the last unit enqueued with it.
    fn poll(&mut self, waker: &Waker) -> Poll<Option<QueuePlace>> {
        let mut shard = self.table.shard(self.hash);
        match self.ticket {
            None => self.arrive(&mut shard, waker),
            Some(ticket) => self.come_again(&mut shard, ticket, waker),
        }
    }

    fn poll_guard(&mut self, waker: &Waker) -> Poll<(LatchGuard, Option<QueuePlace>)> {
        self.poll(waker).map(|last| (self.table.guard(self.hash), last))
    }

    fn arrive(&mut self, shard: &mut Shard, waker: &Waker) -> Poll<Option<QueuePlace>> {
        if let Some(last) = shard.try_take(self.hash, self.wants) {
            return Poll::Ready(last);
        }
        let waiter = LatchWaiter { waker: waker.clone(), wants: self.wants, stage: LatchStage::Waiting };
        let ticket = shard.waiters.insert(waiter);
        shard.latches.entry(self.hash).or_default().queue.push_back(ticket);
        self.ticket = Some(ticket);
        Poll::Pending
    }

    fn come_again(&mut self, shard: &mut Shard, ticket: usize, waker: &Waker) -> Poll<Option<QueuePlace>> {
        let waiter = shard.waiters.get_mut(ticket).expect("a request keeps its place while it waits");
        let latch = shard.latches.entry(self.hash).or_default();
        match waiter.stage {
            LatchStage::Granted => {}
            LatchStage::Called if !latch.held => latch.held = true,
            // Somebody was faster: the next time it is his turn before those who have come since.
            LatchStage::Called => {
                waiter.stage = LatchStage::Waiting;
                waiter.waker.clone_from(waker);
                latch.queue.push_front(ticket);
                return Poll::Pending;
            }
            LatchStage::Waiting => {
                waiter.waker.clone_from(waker);
                return Poll::Pending;
            }
        }
        let last = latch.last;
        shard.waiters.remove(ticket);
        self.ticket = None;
        Poll::Ready(last)
    }
}

impl Drop for LatchRequest<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let mut shard = self.table.shard(self.hash);
        let waiter = shard.waiters.remove(ticket);
        let wakers = match waiter.stage {
            LatchStage::Granted => shard.release(self.hash),
            // One that was called, or wants the latch alone, may have held up others behind it.
            LatchStage::Called => shard.advance(self.hash),
            LatchStage::Waiting => {
                if let Some(latch) = shard.latches.get_mut(&self.hash) {
                    latch.queue.retain(|queued| *queued != ticket);
                }
                shard.advance(self.hash)
            }
        };
        drop(shard);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Waits for a latch; dropping it gives up the place in the queue.
#[must_use = "a latch is not taken before the future is awaited"]
pub struct LatchFuture<'a> {
    request: LatchRequest<'a>,
}

impl Future for LatchFuture<'_> {
    type Output = LatchGuard;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<LatchGuard> {
        self.request.poll_guard(context.waker()).map(|(guard, _)| guard)
    }
}

/// As [`LatchFuture`], for [`LatchTable::lock_latest`].
#[must_use = "a latch is not taken before the future is awaited"]
pub struct LatestFuture<'a> {
    request: LatchRequest<'a>,
}

impl Future for LatestFuture<'_> {
    type Output = (LatchGuard, Option<QueuePlace>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.request.poll_guard(context.waker())
    }
}

/// A held latch; dropping it passes the latch on.
#[must_use = "the latch is released when the guard is dropped"]
pub struct LatchGuard {
    table: LatchTable,
    hash: u64,
    passed_on: bool,
}

impl LatchGuard {
    /// The unit that owns the guard is enqueued: the next one that wants the latest version may have the
    /// latch, those who want the latch alone have it when the guard is dropped. Returns whom to wake.
    pub(crate) fn pass_on(&mut self, place: QueuePlace) -> Wakers {
        if std::mem::replace(&mut self.passed_on, true) {
            return Wakers::new();
        }
        self.table.shard(self.hash).pass_on(self.hash, place)
    }
}

impl Drop for LatchGuard {
    fn drop(&mut self) {
        let mut shard = self.table.shard(self.hash);
        let wakers = if self.passed_on { shard.settle(self.hash) } else { shard.release(self.hash) };
        drop(shard);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Several held latches; dropping it passes all of them on.
#[must_use = "the latches are released when the guards are dropped"]
pub struct LatchGuards {
    table: LatchTable,
    /// Ascending, and so those of a shard are side by side.
    hashes: Vec<u64>,
    /// How many of them are held, from the first on.
    held: usize,
}

impl LatchGuards {
    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Takes latches until one has to be waited for. Each shard is locked once for all that are its own.
    fn take_free(&mut self) {
        let free = hashes_by_shard(self.hashes.get(self.held..).expect(NO_MORE_HELD));
        for of_shard in free {
            let mut shard = self.table.shard_of_all(of_shard);
            for hash in of_shard {
                if shard.try_take(*hash, Wants::Alone).is_none() {
                    return;
                }
                self.held += 1;
            }
        }
    }
}

impl Drop for LatchGuards {
    fn drop(&mut self) {
        let mut wakers = Wakers::new();
        for of_shard in hashes_by_shard(self.hashes.get(..self.held).expect(NO_MORE_HELD)) {
            let mut shard = self.table.shard_of_all(of_shard);
            for hash in of_shard {
                wakers.extend(shard.release(*hash));
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

fn hashes_by_shard(ascending: &[u64]) -> impl Iterator<Item = &[u64]> {
    ascending.chunk_by(|one, other| shard_of(*one) == shard_of(*other))
}

/// The low bits choose the bucket inside a shard's map, the high ones the shard.
const fn shard_of(hash: u64) -> usize {
    (hash >> 58) as usize % SHARDS
}
