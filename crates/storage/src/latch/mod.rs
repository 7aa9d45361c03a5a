//! Short asynchronous locks. Fair (first come, first served), safe to drop while waiting, without a
//! runtime, and without allocation or system call when nobody else is there.
//!
//! Ownership is handed over directly: a release grants the latch to the next waiter before it wakes it,
//! so nobody can barge in between, and a granted waiter that is dropped before it runs releases again.
//! ([`Queueing::Together`](table::Queueing::Together) is the exception.)
//!
//! A guard may move into a [`WriteUnit`](crate::WriteUnit): then the latch is held until the unit is written
//! or refused, whatever becomes of the operation that built it. That of a document goes to the next one that
//! changes the document as soon as the unit is enqueued.
//!
//! Lock order for callers: first a [`SharedLatch`](shared::SharedLatch) of a collection, then latches of
//! a [`LatchTable`](table::LatchTable); several of one table only through `lock_many`.

pub(crate) mod held;
pub(crate) mod shared;
pub(crate) mod table;
