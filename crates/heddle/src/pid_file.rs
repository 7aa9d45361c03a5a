//! The file that tells the process id to scripts.

use std::path::{Path, PathBuf};

/// Removes the file when the server ends.
#[derive(Debug)]
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file. `None` when no path is given.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(path: &str) -> std::io::Result<Option<Self>> {
        if path.is_empty() {
            return Ok(None);
        }
        std::fs::write(path, format!("{}\n", std::process::id()))?;
        Ok(Some(PidFile(Path::new(path).to_owned())))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
