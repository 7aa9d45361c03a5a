//! Which files make a copy.

use super::CopyError;
use crate::entry::LogIndex;
use document::{DocumentBuf, DocumentBuilder, RawDocument, RawValue};
use std::io::Write;
use std::path::{Path, PathBuf};
use storage::Vault;
use storage::files::{CheckpointFile, is_checkpoint_file};

/// Within the directory of the copy.
const FILE: &str = "plan";

/// Whether all of a file is there: it gets its name when it is whole and on the disk.
pub(super) fn is_in(file: &CheckpointFile, copy: &Path, vault: &Vault) -> bool {
    vault.length(&copy.join(&file.name)).is_ok_and(|found| found == file.bytes)
}

/// A copy that can be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CopyPlan {
    /// The source's name for it.
    pub(super) id: String,
    /// Who has it, as the member knows it.
    pub(super) host: String,
    /// The entries behind this one are not in it; 0: it is not known.
    pub(super) at: LogIndex,
    pub(super) files: Vec<CheckpointFile>,
}

/// Whether a name of a copy is one: it names a directory.
pub(super) fn is_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

impl CopyPlan {
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// As the source tells it.
    pub(super) fn encode(&self) -> DocumentBuf {
        let mut bytes = Vec::new();
        let mut builder = DocumentBuilder::new(&mut bytes);
        builder.append("id", self.id.as_str()).append("host", self.host.as_str());
        builder.append("at", i64::try_from(self.at).unwrap_or(i64::MAX));
        let mut files = builder.start_array("files");
        for file in &self.files {
            files
                .start_document()
                .append("name", file.name.as_str())
                .append("bytes", i64::try_from(file.bytes).unwrap_or(i64::MAX));
        }
        files.finish();
        builder.finish();
        DocumentBuf::trusted(bytes)
    }

    pub(super) fn decode(document: RawDocument<'_>) -> Result<Self, CopyError> {
        let malformed = || CopyError("expected a list of files".to_owned());
        let text = |document: RawDocument<'_>, name: &str| {
            document.get(name).and_then(RawValue::as_str).map(str::to_owned).ok_or_else(malformed)
        };
        let files = document.get("files").and_then(RawValue::as_array).ok_or_else(malformed)?;
        let file = |file: RawValue<'_>| {
            let file = file.as_document().ok_or_else(malformed)?;
            let bytes = file.get("bytes").and_then(RawValue::as_i64_exact).ok_or_else(malformed)?;
            Ok(CheckpointFile {
                name: text(file, "name").and_then(|name| match is_checkpoint_file(&name) {
                    true => Ok(name),
                    false => Err(CopyError(format!("'{name}' is no file of a data directory"))),
                })?,
                bytes: u64::try_from(bytes).map_err(|_| malformed())?,
            })
        };
        let files = files.iter().map(file).collect::<Result<_, CopyError>>()?;
        let id = Some(text(document, "id")?).filter(|id| is_id(id)).ok_or_else(malformed)?;
        let at = document.get("at").and_then(RawValue::as_i64_exact);
        let at = at.and_then(|at| u64::try_from(at).ok()).unwrap_or(0);
        Ok(CopyPlan { id, host: text(document, "host").unwrap_or_default(), at, files })
    }

    fn path(directory: &Path) -> PathBuf {
        directory.join(FILE)
    }

    /// That of an initial sync that was begun.
    pub(super) fn load(directory: &Path) -> Option<Self> {
        let bytes = std::fs::read(CopyPlan::path(directory)).ok()?;
        CopyPlan::decode(RawDocument::parse(&bytes).ok()?).ok()
    }

    pub(super) fn store(&self, directory: &Path) -> Result<(), CopyError> {
        let draft = directory.join("plan.new");
        let mut file = std::fs::File::create(&draft)?;
        file.write_all(self.encode().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(draft, CopyPlan::path(directory))?;
        Ok(super::sync_directory(directory)?)
    }
}
