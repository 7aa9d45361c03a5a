//! What is looked at before a store is opened.

use crate::check::FileDefect;
use crate::directory::DataDirectory;
use crate::engine::rocks;
use crate::error::OpenError;

/// Tells of damage that does not keep the store from being opened: of what is replayed no further, and of
/// what nobody needs. Refuses to open it where something is lost and the engine does not see it.
pub(crate) fn look(directory: &DataDirectory) -> Result<(), OpenError> {
    let engine = directory.engine_path();
    if directory.is_new() {
        return Ok(());
    }
    let mut found = Vec::new();
    let looked = rocks::text_files::check(&engine, directory.vault(), &mut found)
        .and_then(|()| rocks::examine::before_start(&engine, directory.path(), directory.vault()));
    let facts = looked.unwrap_or_else(|error| {
        tracing::warn!(%error, path = %engine.display(), "files could not be checked before the start");
        rocks::examine::StartFacts::default()
    });
    found.extend(facts.journals);
    for FileDefect { file, defect, is_harmless, .. } in &found {
        match is_harmless {
            true => tracing::info!(file, defect, "the journal ends with a write that was not completed"),
            false => {
                tracing::error!(file, defect, "a file is damaged: what cannot be read of it is left out")
            }
        }
    }
    match facts.forbids {
        Some(FileDefect { file, defect, .. }) => {
            Err(OpenError::Corrupt { path: directory.path().to_owned(), detail: format!("{file}: {defect}") })
        }
        None => Ok(()),
    }
}
