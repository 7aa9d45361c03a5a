//! What a workload is: documents, operations, their weights.

use crate::error::BenchError;
use crate::workload::distribution::Distribution;
use crate::workload::keys::KeyFormat;
use crate::workload::template::Template;
use document::Document;

/// Kinds of operations are told apart by a byte.
const MOST_OPERATIONS: usize = 200;

/// A field of a document or a command.
pub(crate) type Fields = Vec<(String, Template)>;

/// Documents and what is done with them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Workload {
    pub(crate) name: String,
    /// One sentence without a full stop.
    pub(crate) description: String,
    pub(crate) database: String,
    pub(crate) collection: String,
    /// Documents to load.
    pub(crate) records: u64,
    pub(crate) key: KeyFormat,
    /// The template of a document; its first field is `_id`.
    pub(crate) document: Fields,
    /// How operations choose documents, unless they say otherwise.
    pub(crate) distribution: Distribution,
    pub(crate) operations: Vec<Operation>,
    /// What `createIndexes` gets, before documents are loaded.
    pub(crate) indexes: Vec<Document>,
}

/// A kind of operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operation {
    pub(crate) name: String,
    /// Its share, in proportion to the weights of the others.
    pub(crate) weight: f64,
    pub(crate) subject: Subject,
    /// Commands, one after the other; the latency is that of all of them.
    pub(crate) steps: Vec<Step>,
}

/// Which document an operation is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Subject {
    /// None, or one that the server finds.
    None,
    /// One that is there and is followed by so many in the order of their numbers.
    Present { followers: u64, distribution: Option<Distribution> },
    /// One that is there afterwards.
    New,
}

/// One command of an operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    /// The command; `$db` and concerns are added.
    pub(crate) command: Fields,
    pub(crate) expect: Expect,
}

/// What a good reply holds besides `ok: 1` and no errors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Expect {
    /// Least and most of the field `n`.
    pub(crate) n: Option<(u64, u64)>,
    /// Least and most documents in the cursor's first batch.
    pub(crate) documents: Option<(u64, u64)>,
}

impl Expect {
    pub(crate) const OK: Expect = Expect { n: None, documents: None };

    /// Exactly so many are counted in `n`.
    pub(crate) const fn n(count: u64) -> Self {
        Expect { n: Some((count, count)), documents: None }
    }

    pub(crate) const fn documents(least: u64, most: u64) -> Self {
        Expect { n: None, documents: Some((least, most)) }
    }
}

/// Which concerns and read preference a command takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandKind {
    Read,
    Write,
    Other,
}

impl Step {
    /// By the command's name, which is its first field.
    pub(crate) fn kind(&self) -> CommandKind {
        match self.command.first().map(|(name, _)| name.as_str()) {
            Some("find" | "aggregate" | "count" | "distinct") => CommandKind::Read,
            Some("insert" | "update" | "delete" | "findAndModify" | "findandmodify") => CommandKind::Write,
            _ => CommandKind::Other,
        }
    }
}

impl Operation {
    /// Whether a secondary could carry it out.
    pub(crate) fn only_reads(&self) -> bool {
        self.steps.iter().all(|step| step.kind() == CommandKind::Read)
    }
}

impl Workload {
    /// Whether operations insert documents that later ones may choose.
    pub(crate) fn inserts(&self) -> bool {
        self.operations.iter().any(|operation| operation.subject == Subject::New)
    }

    /// # Errors
    /// When no run could be made of it.
    pub(crate) fn validate(&self) -> Result<(), BenchError> {
        let usage = |text: String| Err(BenchError::Usage(text));
        let name = &self.name;
        if self.operations.is_empty() || self.operations.len() > MOST_OPERATIONS {
            return usage(format!(
                "workload '{name}' has {} operations; from 1 to {MOST_OPERATIONS} are possible",
                self.operations.len()
            ));
        }
        if let Some(operation) = self
            .operations
            .iter()
            .find(|operation| !(operation.weight.is_finite() && operation.weight >= 0.0))
        {
            return usage(format!(
                "the weight of '{}' is {}, not a number from 0",
                operation.name, operation.weight
            ));
        }
        if self.operations.iter().all(|operation| operation.weight == 0.0) {
            return usage(format!("workload '{name}' has no operation with a weight above 0"));
        }
        let needs_documents = |operation: &&Operation| {
            operation.weight > 0.0 && matches!(operation.subject, Subject::Present { .. })
        };
        match self.operations.iter().find(needs_documents) {
            Some(operation) if self.records == 0 => usage(format!(
                "'{}' chooses among documents, and there are none: give --records",
                operation.name
            )),
            _ => Ok(()),
        }
    }

    /// The share of the operations that a secondary could carry out.
    pub(crate) fn share_of_reads(&self) -> f64 {
        let of = |wanted: &dyn Fn(&Operation) -> bool| -> f64 {
            self.operations
                .iter()
                .filter(|operation| wanted(operation))
                .map(|operation| operation.weight)
                .sum()
        };
        of(&Operation::only_reads) / of(&|_| true)
    }

    /// The operations and their shares, which add up to 1.
    pub(crate) fn mix(&self) -> Vec<(String, f64)> {
        let whole: f64 = self.operations.iter().map(|operation| operation.weight).sum();
        self.operations.iter().map(|operation| (operation.name.clone(), operation.weight / whole)).collect()
    }
}
