//! Initial sync: a member gets the files of another one's store where the log cannot bring it up to date.
//!
//! | on | is |
//! |---|---|
//! | the source | [`CopySource`]: a checkpoint of hard links, read in chunks by `_heddleCopy` |
//! | the member | [`Receiver`]: fetches the files into `initial-sync/`, and goes on with that after any end |
//! | the member, before its store is opened | [`adopt_copy`]: the copy takes the place of its store |
//!
//! What goes over the network is what the files hold: each member encrypts its own
//! (`docs/design/encryption.md`).
//!
//! `docs/design/initial-sync.md`.

mod adopt;
mod plan;
mod receive;
mod source;
mod status;
#[cfg(test)]
mod tests;

pub use adopt::{OpenStore, adopt_copy};
pub use receive::{CopyWanted, Receiver};
pub use source::CopySource;
pub use status::{CopyProgress, CopyStatus, FailedAttempt};

use std::io;
use std::path::Path;
use storage::files::{remove_tree as remove, sync_names as sync_directory};
use storage::{Store, Vault};

/// The command by which members copy.
pub const COPY_COMMAND: &str = "_heddleCopy";

/// Where a member collects the files, within the data directory.
const DIRECTORY: &str = "initial-sync";
/// What is no longer needed of that.
const RUBBISH: &str = "initial-sync.old";
/// Within [`DIRECTORY`]: what will be the data.
const COPY: &str = "copy";
/// Within [`DIRECTORY`]: all files are there.
const READY: &str = "ready";

/// Why files are not copied.
#[derive(Debug, thiserror::Error)]
#[error("the initial sync: {0}")]
pub struct CopyError(String);

impl From<io::Error> for CopyError {
    fn from(error: io::Error) -> Self {
        CopyError(error.to_string())
    }
}

/// How a file of a checkpoint is written: those of the engine as the store writes them.
fn vault_of(name: &str, store: &Store) -> Vault {
    if name.contains('/') { store.vault() } else { Vault::default() }
}

/// Removes what was collected, so that a crash leaves all of it or nothing that counts.
fn discard(data: &Path) -> io::Result<()> {
    let (collected, rubbish) = (data.join(DIRECTORY), data.join(RUBBISH));
    remove(&rubbish)?;
    if collected.exists() {
        std::fs::rename(&collected, &rubbish)?;
        sync_directory(data)?;
    }
    remove(&rubbish)
}
