//! What the command line says of a workload: enough to build it again in another process.

use crate::arguments::Time;
use crate::error::BenchError;
use crate::workload::builtin;
use crate::workload::model::Workload;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Largest document of a message with room for the rest of the insert.
const MOST_DOCUMENT_BYTES: usize = 16 * 1024 * 1024 - 16 * 1024;

/// What is asked of the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Args)]
#[serde(rename_all = "camelCase", default)]
#[command(next_help_heading = "Workload")]
pub(crate) struct Settings {
    /// a, b, c, d, e, f (YCSB), point-read, range-N, insert-only, update-only, ttl-insert, or with
    /// documents as they are found: events, orders, repositories [default: a]
    #[arg(long, short, value_name = "NAME")]
    pub(crate) workload: Option<String>,
    /// A workload file (TOML) with documents and commands of one's own, as docs/bench-workload.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<WorkloadFile>,
    /// Operations and their weights: read, update, insert, scan, read-modify-write, range-N
    #[arg(long, value_name = "read=50,update=50,…")]
    pub(crate) mix: Option<String>,
    /// How documents are chosen: uniform, zipfian[:EXPONENT], latest, hotspot[:DOCUMENTS,REQUESTS],
    /// sequential
    #[arg(long, value_name = "NAME")]
    pub(crate) distribution: Option<String>,
    /// Database [default: that of the connection string, or heddle_bench]
    #[arg(long, value_name = "NAME")]
    pub(crate) database: Option<String>,
    /// Collection [default: the workload's own]
    #[arg(long, value_name = "NAME")]
    pub(crate) collection: Option<String>,
    // These two are options of every measurement.
    #[arg(skip)]
    pub(crate) records: Option<u64>,
    #[arg(skip)]
    pub(crate) document_bytes: Option<usize>,
    /// Fields of a document, _id not counted [default: 10]
    #[arg(long, value_name = "N")]
    pub(crate) fields: Option<u32>,
    /// Times from insert to expiry in ttl-insert, spread evenly [default: 60s,600s]
    #[arg(long = "ttl", value_name = "LEAST,MOST", value_parser = ttl)]
    pub(crate) ttl_seconds: Option<(u64, u64)>,
}

/// `60s,600s`, or one time for all.
fn ttl(text: &str) -> Result<(u64, u64), String> {
    let (least, most) = text.split_once(',').unwrap_or((text, text));
    let (Time(least), Time(most)) = (least.parse()?, most.parse()?);
    if most < least {
        return Err("the second time is below the first".to_owned());
    }
    Ok((least.as_secs(), most.as_secs()))
}

/// A workload file that has been read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkloadFile {
    /// For messages.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl FromStr for WorkloadFile {
    type Err = String;

    fn from_str(path: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read the workload file: {error}"))?;
        Ok(WorkloadFile { path: path.to_owned(), text })
    }
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
            None => match self.workload.as_deref().and_then(builtin::corpus) {
                Some(text) => {
                    self.check_beside_corpus()?;
                    builtin::build_corpus(text, self.mix.as_deref())?
                }
                None => builtin::build(self)?,
            },
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

    fn check_beside_corpus(&self) -> Result<(), BenchError> {
        let given = self.document_bytes.is_some() || self.fields.is_some() || self.collection.is_some();
        if given || self.ttl_seconds.is_some() {
            return Err(BenchError::Usage(
                "events, orders and repositories say themselves what their documents are".to_owned(),
            ));
        }
        Ok(())
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
