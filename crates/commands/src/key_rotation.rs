//! Leaving old keys of encryption behind while the server runs: table by table, within the calendar and the
//! I/O budget, and when no file needs them any more they are forgotten.

use crate::calendar::{self, WorkKind, WorkPace};
use crate::own_work::{OwnWork, OwnWorkStep, OwnWorkSwitch};
use crate::server::ServiceContext;
use document::{Document, doc};
use parking_lot::Mutex;
use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;
use storage::{KeysForgotten, StorageError, TableFile};

/// How often it is asked whether it may go on.
const LOOK_EACH: Duration = Duration::from_secs(1);
/// After an error, and while a file that is not rewritten here needs an old key.
const UNTIL_TRIED_AGAIN: Duration = Duration::from_secs(60);

/// Rewrites what has an old key.
#[derive(Debug)]
pub struct KeyRotation {
    work: OwnWork,
    pace: WorkPace,
    /// `None`: nothing was looked at yet.
    tables: Option<VecDeque<TableFile>>,
    /// Names of those that were rewritten since the last look.
    rewritten: HashSet<String>,
    needed_by: Option<PathBuf>,
}

/// What one step has done.
enum Piece {
    /// So many bytes were rewritten.
    Rewritten(u64),
    /// A file that is not rewritten here needs an old key.
    NotYet,
    /// The old keys are gone.
    Forgotten,
}

/// What is left to do, for `serverStatus`; `None`: no file has an old key, as far as is known.
#[derive(Debug, Default)]
pub(crate) struct OldKeys(Mutex<Option<(usize, u64)>>);

impl OldKeys {
    /// As `serverStatus.encryptionAtRest.oldKeys` shows it.
    pub(crate) fn describe(&self) -> Option<Document> {
        let (tables, bytes) = (*self.0.lock())?;
        Some(doc! { "tables": (tables as i64), "bytes": (bytes as i64) })
    }
}

impl Default for KeyRotation {
    fn default() -> Self {
        let pace = WorkPace::default();
        let (work, rewritten) = (OwnWork::new("key rotation"), HashSet::new());
        KeyRotation { work, pace, tables: None, rewritten, needed_by: None }
    }
}

impl KeyRotation {
    /// Ends it from another thread.
    pub fn switch(&self) -> OwnWorkSwitch {
        self.work.switch()
    }

    /// Rewrites one table, if it may, or forgets the keys. On a thread that may block.
    pub fn step(&mut self, server: &ServiceContext) -> OwnWorkStep {
        if self.is_to_end(server) {
            return OwnWorkStep::Ended;
        }
        let Some(rate) = calendar::ask(server, WorkKind::KeyRotation, None).rate() else {
            return OwnWorkStep::Continues { at: ambient::now() + LOOK_EACH };
        };
        // What is rewritten is there twice for a while.
        if server.node.store.check_room().is_err() {
            return OwnWorkStep::Continues { at: ambient::now() + UNTIL_TRIED_AGAIN };
        }
        let at = match self.go_on(server) {
            Ok(Piece::Rewritten(bytes)) => {
                let by_rate = self.pace.rest_after(rate, 0, bytes);
                ambient::now() + by_rate.max(server.node.store.background_pause(bytes))
            }
            Ok(Piece::Forgotten) => return OwnWorkStep::Ended,
            Ok(Piece::NotYet) => ambient::now() + UNTIL_TRIED_AGAIN,
            Err(_) if self.is_to_end(server) => return OwnWorkStep::Ended,
            Err(error) => {
                tracing::warn!(target: "STORAGE", id = 8_800_402, %error,
                    "Files are not encrypted with the newest key yet: it is tried again");
                self.tables = None;
                ambient::now() + UNTIL_TRIED_AGAIN
            }
        };
        OwnWorkStep::Continues { at }
    }

    fn is_to_end(&self, server: &ServiceContext) -> bool {
        self.work.is_ended() || server.is_shutting_down()
    }

    fn go_on(&mut self, server: &ServiceContext) -> Result<Piece, StorageError> {
        let store = &server.node.store;
        if self.tables.is_none() && self.look(server)? {
            return Ok(Piece::NotYet);
        }
        let Some(table) = self.tables.as_mut().and_then(VecDeque::pop_front) else {
            return self.forget(server);
        };
        let is_allowed = || calendar::ask(server, WorkKind::KeyRotation, None).rate().is_some();
        let mut goes_on = || !self.work.is_ended() && !server.is_shutting_down() && is_allowed();
        let is_done = store.rewrite_table(&table, &mut goes_on)?;
        let left = self.tables.as_ref().expect("one was taken of them");
        // Those that one rewriting took along are not there any more.
        let bytes = left.iter().map(|table| table.bytes).sum();
        *server.node.old_keys.0.lock() = Some((left.len(), bytes));
        if left.is_empty() {
            self.tables = None;
        }
        if !is_done {
            return Ok(Piece::Rewritten(0));
        }
        self.rewritten.insert(table.name);
        Ok(Piece::Rewritten(table.bytes))
    }

    /// Whether a table is there still that was to be gone: its rewriting was broken off, or was none.
    fn look(&mut self, server: &ServiceContext) -> Result<bool, StorageError> {
        let tables = server.node.store.tables_of_old_keys()?;
        let (count, bytes) = (tables.len(), tables.iter().map(|table| table.bytes).sum());
        let is_first = server.node.old_keys.0.lock().replace((count, bytes)).is_none();
        if is_first {
            tracing::info!(target: "STORAGE", id = 8_800_400, tables = count, bytes,
                "Files are encrypted with the newest key, one by one: they have an older one");
        }
        let is_left = tables.iter().any(|table| self.rewritten.contains(&table.name));
        self.rewritten.clear();
        self.tables = Some(tables.into());
        Ok(is_left)
    }

    fn forget(&mut self, server: &ServiceContext) -> Result<Piece, StorageError> {
        // Anew the next time: what another file keeps it from may have become a table.
        self.tables = None;
        match server.node.store.forget_old_keys()? {
            KeysForgotten::Yes => {
                *server.node.old_keys.0.lock() = None;
                tracing::info!(target: "STORAGE", id = 8_800_401,
                    "All files are encrypted with the newest key, and older ones are forgotten");
                Ok(Piece::Forgotten)
            }
            KeysForgotten::NeededBy(file) => {
                if self.needed_by.as_ref() != Some(&file) {
                    tracing::info!(target: "STORAGE", id = 8_800_403, file = %file.display(),
                        "An older key is kept as long as this file needs it");
                    self.needed_by = Some(file);
                }
                Ok(Piece::NotYet)
            }
        }
    }
}
