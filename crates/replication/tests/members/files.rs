//! The files of a store in memory: one for each keyspace, as they are linked, copied and opened again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::{
    CursorOptions, Direction, Engine, EngineFailure, EngineHooks, HookedEngine, KeyRange, Keyspace,
    MemoryEngine, MutationLog,
};

/// Writes down all that is in an engine.
pub(crate) fn store(memory: &MemoryEngine, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let reader = memory.pinned_reader();
    for keyspace in Keyspace::ALL {
        let (all, options) = (KeyRange::all(), CursorOptions::default());
        let cursor = reader.cursor(keyspace, all, Direction::Forward, options);
        let (mut cursor, mut bytes) = (cursor.expect("memory"), Vec::new());
        while let Some((key, value)) = cursor.next().expect("memory") {
            for part in [key, value] {
                bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
                bytes.extend_from_slice(part);
            }
        }
        fs::write(directory.join(keyspace.name()), bytes)?;
    }
    Ok(())
}

/// What is in them.
pub(crate) fn load(directory: &Path) -> MutationLog {
    let mut all = MutationLog::default();
    for keyspace in Keyspace::ALL {
        let bytes = fs::read(directory.join(keyspace.name())).expect("a whole copy");
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (key, value) = (part(&mut rest), part(&mut rest));
            all.put(keyspace, key, value);
        }
    }
    all
}

fn part<'b>(rest: &mut &'b [u8]) -> &'b [u8] {
    let (length, tail) = rest.split_first_chunk().expect("a length");
    let (part, tail) = tail.split_at(u32::from_le_bytes(*length) as usize);
    *rest = tail;
    part
}

/// An engine with what is in them; a sync writes them anew.
pub(crate) fn open(directory: PathBuf) -> Arc<dyn Engine> {
    let memory = MemoryEngine::new();
    memory.write(&[], &load(&directory)).expect("memory takes every write");
    Arc::new(HookedEngine::new(memory, Arc::new(Files(directory))))
}

struct Files(PathBuf);

impl EngineHooks for Files {
    fn sync_journal(&self, memory: &MemoryEngine, _: bool) -> Result<(), EngineFailure> {
        store(memory, &self.0).map_err(|error| EngineFailure::Failed(error.to_string().into()))
    }
}
