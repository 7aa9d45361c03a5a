//! What the command line says of a workload: enough to build it again in another process.

use crate::error::BenchError;
use crate::workload::builtin;
use crate::workload::model::Workload;
use serde::{Deserialize, Serialize};

/// Largest document of a message with room for the rest of the insert.
const MOST_DOCUMENT_BYTES: usize = 16 * 1024 * 1024 - 16 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Settings {
    /// A named workload; none: the mix or the file says everything.
    pub(crate) workload: Option<String>,
    pub(crate) file: Option<WorkloadFile>,
    /// `read=50,update=50`.
    pub(crate) mix: Option<String>,
    pub(crate) distribution: Option<String>,
    pub(crate) database: Option<String>,
    pub(crate) collection: Option<String>,
    pub(crate) records: Option<u64>,
    /// Size of a document's BSON.
    pub(crate) document_bytes: Option<usize>,
    /// Fields of a document, `_id` not counted.
    pub(crate) fields: Option<u32>,
    /// Least and most seconds until a document expires.
    pub(crate) ttl_seconds: Option<(u64, u64)>,
}

/// A workload file that has been read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkloadFile {
    /// For messages.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Settings {
    pub(crate) fn build(&self) -> Result<Workload, BenchError> {
        if self.document_bytes.is_some_and(|bytes| bytes > MOST_DOCUMENT_BYTES) {
            return Err(BenchError::Usage(format!(
                "--document-bytes: at most {MOST_DOCUMENT_BYTES} are possible"
            )));
        }
        let mut workload = match &self.file {
            Some(read) => {
                self.check_beside_file()?;
                Workload::parse(&read.path, &read.text)?
            }
            None => builtin::build(self)?,
        };
        workload.database = self.database.clone().unwrap_or(workload.database);
        workload.records_wanted = self.records.or(workload.records_wanted);
        if let Some(distribution) = &self.distribution {
            workload.distribution =
                distribution.parse().map_err(|error| BenchError::Usage(format!("--distribution {error}")))?;
        }
        workload.validate()?;
        Ok(workload)
    }

    fn check_beside_file(&self) -> Result<(), BenchError> {
        let given = [
            ("--workload", self.workload.is_some()),
            ("--mix", self.mix.is_some()),
            ("--collection", self.collection.is_some()),
            ("--document-bytes", self.document_bytes.is_some()),
            ("--fields", self.fields.is_some()),
            ("--ttl", self.ttl_seconds.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(BenchError::Usage(format!(
                "{option} does not go with a workload file, which says it itself"
            ))),
            None => Ok(()),
        }
    }
}
