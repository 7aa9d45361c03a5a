//! The ordered key-value engine, read views, the commit pipeline and the I/O budget.
//!
//! # Purpose
//!
//! Everything Heddle keeps is a sorted set of byte keys with byte values. This crate stores them, hands
//! out consistent [`ReadView`]s of them, and turns [`WriteUnit`]s into durable, atomic commits. It knows
//! neither documents nor indexes: the crate `catalog` gives the bytes their meaning.
//!
//! # Vocabulary
//!
//! * **keyspace** – one of a few separate key orders ([`Keyspace`]); a column family in RocksDB.
//! * **write unit** – puts, deletes and counter changes that happen together or not at all.
//! * **group** – the units one leader writes as one engine batch.
//! * **sequence number** – the engine's count of writes; a [`Receipt`] names the one that covers a unit.
//! * **view in time** – a state of the store, kept to be read from while writes go on; **published** ones can
//!   be opened by sequence number.
//! * **proposal** – a unit with entries for a log, written by the owner of the [`Proposals`] once these are
//!   committed.
//! * **applied** – in the engine and in the kernel's copy of the log: survives the death of the process.
//! * **journaled** – the log up to there is on stable storage: survives power loss.
//! * **gate** – where commits wait (without a thread) while flush and compaction catch up.
//! * **reserve** – room set aside on the data disk, given up when it is full so that deletions and compaction
//!   go on ([`Disk`]).
//! * **vault** – how files are encrypted, or that they are not ([`Vault`]).
//! * **latch** – a short, asynchronous lock of one key ([`LatchTable`]) or one collection ([`SharedLatch`]).
//!
//! ```text
//!                    ┌─▶ proposals ─▶ owner ─┐ (entries committed)
//!  WriteUnit ─▶ gate ─┴▶ queue ─▶ leader ──▶ Engine::write ──▶ applied ─▶ Receipt
//!               ▲                (one batch   (log, memtable)    │
//!      governor │                 per group)                     ▼ only Store::journaled
//!      (debt of flush                                     sync leader ─▶ Engine::sync_journal ─▶ Receipt
//!       and compaction)                                          ▲
//!                                             journal thread ────┘ every journal interval
//!
//!  ReadView (latest | in time) ─▶ get, Cursor ─▶ RocksEngine | MemoryEngine
//!                └─▶ get of a document ─▶ row cache ─▶ (miss) engine
//! ```
//!
//! # Invariants
//!
//! * A unit whose commit was acknowledged is in the log; a unit whose commit was refused is in no part
//!   in the engine, and neither is one that [follows](WriteUnit::follow) it.
//! * Dropping a commit future withdraws nothing and wedges nothing: an enqueued unit is written, and the
//!   latches it holds are held until then (that of a [document](HeldLatches::add_document) by who goes on
//!   from the unit).
//! * No thread is held while a commit waits for its turn, for the gate or for another one's sync.
//! * A commit never waits for a sync: who wants one waits for its receipt to be journaled.
//! * After a failed sync nothing is acknowledged any more until the store has been reopened. A full disk is
//!   no such failure.
//! * On a full disk what makes room is still written, and the store goes on by itself when there is room
//!   again.
//! * Counters are written as absolute values in the batch that changes them: they are exact after a crash.
//! * With a master key nothing that holds data is written but through the vault
//!   (`docs/design/encryption.md`).
//! * Nothing outside `engine/rocks` names a RocksDB type, and nothing here names an async runtime.
//!
//! # Not here
//!
//! Documents, key encoding, namespaces and unique checks (`catalog`); replication's acknowledgement
//! levels; choosing a thread to block on (`transport`).

mod background;
mod budget;
mod build_memory;
mod check;
mod counters;
mod directory;
mod engine;
mod engine_log;
mod error;
pub mod files;
mod gate;
mod journal_tail;
mod keyspace;
mod knobs;
mod latch;
mod layered;
mod memory;
mod options;
mod pace;
mod pipeline;
mod prefetch;
mod read_ahead;
mod reclaim;
mod row_cache;
mod seal;
mod space;
mod start;
mod statistics;
mod store;
mod sync;
mod unit;
mod vault;
mod view;
mod views;
mod watch;

pub use background::StoreTasks;
pub use budget::BudgetReason;
pub use budget::latency::{ForegroundLatency, work_in_background};
pub use build_memory::{BuildMemory, BuildPart};
pub use check::{
    DamagedRange, FileDefect, Salvage, SalvagedEntry, Scratch, check_files, stage, table_checksums,
};
pub use directory::{DirectoryLock, REPAIRED, REPAIRING, RESTORING, copy_keys, mark_ready, replace_engine};
pub use engine::hooked::{EngineHooks, HookedEngine};
pub use engine::image::StableImage;
pub use engine::memory::MemoryEngine;
pub use engine::rocks::{RocksEngine, RocksOpenFailure};
pub use engine::{
    Engine, EngineCursor, EngineFailure, EngineMemory, EngineReader, EngineShape, EngineStatistics,
    FinishedTable, MemtableState, Memtables, Pressure, RangeBytes, TableFile, TableRows,
};
pub use engine_log::{EngineLogError, write_engine_logs};
pub use error::{CommitError, OpenError, StorageError};
pub use gate::queue::{GateBudget, SMALL_UNIT_BYTES};
pub use gate::{Band, GateLimits};
pub use keyspace::{CounterId, CursorOptions, Direction, KeyRange, Keyspace, ReadTier};
pub use knobs::StorageKnobs;
pub use latch::held::HeldLatches;
pub use latch::shared::{ExclusiveGuard, SharedGuard, SharedLatch};
pub use latch::table::{LatchGuard, LatchGuards, LatchTable, Queueing};
pub use memory::StoreMemory;
pub use options::StorageOptions;
pub use pipeline::group::QueuePlace;
pub use pipeline::proposals::{HeldProposals, ProposalWindow, Proposals, ProposedGroup};
pub use pipeline::turn::{commit_inline, commits_are_deferred, defer_commits};
pub use pipeline::{CommitFuture, JournaledFuture, Receipt};
pub use read_ahead::AheadBatch;
pub use space::{Disk, Room, SpaceState, SpaceStatistics};
pub use statistics::{
    BudgetStatistics, CommitStatistics, ReadAheadStatistics, RowCacheStatistics, StorageStatistics,
};
pub use store::{EnqueuedVersion, Store};
pub use unit::{ENTRY_BYTES_MAX, Growth, Mutation, MutationLog, WriteUnit};
pub use vault::{
    InvalidMasterKey, KEYRING, KeysForgotten, MasterKey, Vault, VaultReader, VaultWriter, rotate_master_key,
};
pub use view::{Cursor, KeyValue, PinnedBytes, ReadSource, ReadView};
pub use watch::{TooOld, WatchedView};
