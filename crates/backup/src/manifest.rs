//! What a generation consists of.

use crate::{About, BackupError};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use storage::files::checksum;

/// Within a generation.
pub(crate) const FILE: &str = "manifest.json";
/// The newest format that is understood.
const VERSION: u32 = 1;
const GENERATION: &str = "generation-";
/// What of a backup directory is none yet, or none any more.
pub(crate) const INCOMPLETE: &str = "incomplete-";

/// A file of a generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Its path within the generation.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// CRC-32C, 8 hexadecimal digits.
    pub crc32c: String,
}

/// Up to where a member of a set had come when its backup began: everything up to there is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupPlace {
    /// The name of the set.
    pub set: String,
    /// The place of the last applied operation in the log, and the term of that.
    pub term: u64,
    /// Its number.
    pub index: u64,
    /// Its cluster time: seconds since 1970, and a count within the second.
    pub time: u32,
    /// That count.
    pub increment: u32,
}

/// The list of a generation's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupManifest {
    /// The version of this format.
    pub heddle_backup: u32,
    /// Which generation it is.
    pub generation: u64,
    /// When it began, in milliseconds since 1970.
    pub began_millis: u64,
    /// The release that took it.
    pub release: String,
    /// The sequence number of the store's last write before it began: all up to there is in it.
    pub sequence: u64,
    /// Of a member of a set.
    pub place: Option<BackupPlace>,
    /// Its files.
    pub files: Vec<ManifestFile>,
    /// CRC-32C of the manifest with an empty text here.
    pub crc32c: String,
}

/// A checksum as the manifest has it.
pub(crate) fn sum_text(sum: u32) -> String {
    format!("{sum:08x}")
}

impl BackupManifest {
    pub(crate) const VERSION: u32 = VERSION;

    fn encode(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("a manifest is JSON");
        bytes.push(b'\n');
        bytes
    }

    fn sealed(mut self) -> Self {
        self.crc32c.clear();
        self.crc32c = sum_text(checksum(&self.encode()));
        self
    }

    /// Writes it into a generation.
    pub(crate) fn write(self, directory: &Path) -> Result<Self, BackupError> {
        let sealed = self.sealed();
        let path = directory.join(FILE);
        let mut file = File::create(&path).about(&path)?;
        file.write_all(&sealed.encode()).and_then(|()| file.sync_all()).about(&path)?;
        Ok(sealed)
    }

    /// Reads that of a generation; every byte of it counts.
    ///
    /// # Errors
    /// [`BackupError::Damaged`]; [`BackupError::Refused`] for a newer format.
    pub fn read(directory: &Path) -> Result<Self, BackupError> {
        let path = directory.join(FILE);
        let damaged = |what: &str| BackupError::Damaged(format!("{} is damaged: {what}", path.display()));
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(damaged("it is missing")),
            bytes => bytes.about(&path)?,
        };
        let read: BackupManifest =
            serde_json::from_slice(&bytes).map_err(|error| damaged(&error.to_string()))?;
        if read.heddle_backup > VERSION {
            return Err(BackupError::Refused(format!(
                "{} has version {}, this release understands versions up to {VERSION}: use a newer one",
                path.display(),
                read.heddle_backup
            )));
        }
        match read.encode() == bytes && read.clone().sealed() == read {
            true => Ok(read),
            false => Err(damaged("its checksum does not agree")),
        }
    }

    /// The size of all files together.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// The directory of a generation.
pub(crate) fn generation_path(backups: &Path, generation: u64) -> PathBuf {
    backups.join(format!("{GENERATION}{generation:06}"))
}

/// The generations in a backup directory, oldest first.
pub(crate) fn generations(backups: &Path) -> Result<Vec<u64>, BackupError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(backups).about(backups)? {
        let name = entry.about(backups)?.file_name().to_string_lossy().into_owned();
        found.extend(name.strip_prefix(GENERATION).and_then(|number| number.parse::<u64>().ok()));
    }
    found.sort_unstable();
    Ok(found)
}
