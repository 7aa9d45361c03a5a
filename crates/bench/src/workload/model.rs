//! What a workload is: documents, operations, their weights. Workload files are written in the same terms;
//! `docs/bench-workload.toml` is the example and the manual.

use crate::error::BenchError;
use crate::workload::distribution::Distribution;
use crate::workload::keys::KeyFormat;
use crate::workload::template::{Fields, Generator, Template, fields};
use document::{Document, Value};
use serde::Deserialize;

pub(crate) const DATABASE: &str = "heddle_bench";
/// Documents that are loaded when nobody says how many.
pub(crate) const RECORDS: u64 = 100_000;
/// Kinds of operations are told apart by a byte.
const MOST_OPERATIONS: usize = 200;

/// Documents and what is done with them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workload {
    #[serde(default = "unnamed")]
    pub(crate) name: String,
    /// One sentence without a full stop.
    #[serde(default = "undescribed")]
    pub(crate) description: String,
    #[serde(default = "usual_database")]
    pub(crate) database: String,
    #[serde(default = "usual_collection")]
    pub(crate) collection: String,
    /// Documents to load, when that was said.
    #[serde(rename = "records")]
    pub(crate) records_wanted: Option<u64>,
    #[serde(default)]
    pub(crate) key: KeyFormat,
    /// The template of a document without its `_id`.
    #[serde(default, deserialize_with = "fields")]
    pub(crate) document: Fields,
    /// How operations choose documents, unless they say otherwise.
    #[serde(default)]
    pub(crate) distribution: Distribution,
    /// What `createIndexes` gets, before documents are loaded.
    #[serde(default)]
    pub(crate) indexes: Vec<Index>,
    pub(crate) operations: Vec<Operation>,
}

fn unnamed() -> String {
    "workload".to_owned()
}

fn undescribed() -> String {
    "a workload file".to_owned()
}

fn usual_database() -> String {
    DATABASE.to_owned()
}

fn usual_collection() -> String {
    "documents".to_owned()
}

/// An index; a name is made of the key where none is given.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Template")]
pub(crate) struct Index(pub(crate) Document);

impl TryFrom<Template> for Index {
    type Error = String;

    fn try_from(template: Template) -> Result<Self, String> {
        let Some(Value::Document(mut index)) = template.value() else {
            return Err("an index is a table without generators".to_owned());
        };
        let Some(Value::Document(key)) = index.get("key") else {
            return Err("an index has a table 'key', such as { customer = 1 }".to_owned());
        };
        let part = |(field, direction): (&str, &Value)| match direction {
            Value::Int32(direction) => format!("{field}_{direction}"),
            Value::String(kind) => format!("{field}_{kind}"),
            _ => field.to_owned(),
        };
        let name: Vec<String> = key.iter().map(part).collect();
        if !index.contains("name") {
            index.push("name", name.join("_"));
        }
        Ok(Index(index))
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "WrittenOperation")]
pub(crate) struct Operation {
    pub(crate) name: String,
    /// Its share, in proportion to the weights of the others.
    pub(crate) weight: f64,
    pub(crate) subject: Subject,
    /// Commands, one after the other; the latency is that of all of them.
    pub(crate) steps: Vec<Step>,
}

/// As a file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOperation {
    name: String,
    weight: Option<f64>,
    followers: Option<u64>,
    distribution: Option<Distribution>,
    #[serde(default, deserialize_with = "fields")]
    command: Fields,
    #[serde(default)]
    expect: Expect,
    #[serde(default)]
    steps: Vec<Step>,
}

impl TryFrom<WrittenOperation> for Operation {
    type Error = String;

    fn try_from(written: WrittenOperation) -> Result<Self, String> {
        let WrittenOperation { name, weight, followers, distribution, command, expect, steps } = written;
        let steps = match (command.is_empty(), steps.is_empty()) {
            (false, true) => vec![Step { command, expect }],
            (true, false) if expect == Expect::OK && steps.len() <= usize::from(u8::MAX) => steps,
            _ => return Err("an operation has either 'command' or up to 255 'steps'".to_owned()),
        };
        if steps.iter().any(|step| step.command.is_empty()) {
            return Err("a command has at least its name as the first key".to_owned());
        }
        let subject = Subject::of(&steps, followers.unwrap_or(0), distribution);
        let chooses = matches!(subject, Subject::Present { .. });
        if !chooses && (followers.is_some() || distribution.is_some()) {
            return Err(
                "'followers' and 'distribution' are for operations that use { gen = \"key\" }".to_owned()
            );
        }
        Ok(Operation { name, weight: weight.unwrap_or(1.0), subject, steps })
    }
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

impl Subject {
    /// It follows from what the commands use.
    fn of(steps: &[Step], followers: u64, distribution: Option<Distribution>) -> Self {
        let uses = |wanted: &dyn Fn(&Generator) -> bool| {
            steps.iter().flat_map(|step| &step.command).any(|(_, value)| value.contains(wanted))
        };
        if uses(&|generator| *generator == Generator::Document {}) {
            Subject::New
        } else if uses(&|generator| matches!(generator, Generator::Key {} | Generator::Sequence { .. })) {
            Subject::Present { followers, distribution }
        } else {
            Subject::None
        }
    }
}

/// One command of an operation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// The command; `$db` and concerns are added.
    #[serde(deserialize_with = "fields")]
    pub(crate) command: Fields,
    #[serde(default)]
    pub(crate) expect: Expect,
}

/// What a good reply holds besides `ok: 1` and no errors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    pub(crate) n: Option<Bounds>,
    /// Documents in the cursor's first batch.
    pub(crate) documents: Option<Bounds>,
}

/// A number, or the least and the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Bounds {
    Exactly(u64),
    Between(u64, u64),
}

impl Bounds {
    pub(crate) const fn range(self) -> (u64, u64) {
        match self {
            Bounds::Exactly(number) => (number, number),
            Bounds::Between(least, most) => (least, most),
        }
    }
}

impl Expect {
    pub(crate) const OK: Expect = Expect { n: None, documents: None };
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

    const fn chooses(&self) -> bool {
        matches!(self.subject, Subject::Present { .. })
    }
}

impl Workload {
    /// Reads a workload file.
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self, BenchError> {
        let problem = |place: usize, problem: &str| {
            let line = 1 + text.bytes().take(place).filter(|byte| *byte == b'\n').count();
            BenchError::Usage(format!("{path}:{line}: {}", problem.replace('\n', "; ")))
        };
        let mut workload: Workload = toml::from_str(text)
            .map_err(|error| problem(error.span().map_or(0, |span| span.start), error.message()))?;
        if workload.document.iter().any(|(name, _)| name == "_id") {
            let text = "'_id' is made from the document's number; say how with the key 'key' at the top";
            return Err(problem(0, text));
        }
        if workload.document.iter().any(|(_, value)| value.contains(&|one| *one == Generator::Document {})) {
            return Err(problem(0, "a document cannot hold itself"));
        }
        // It is the key, so that whoever loads or reads knows it.
        workload.document.insert(0, ("_id".to_owned(), Template::Generated(Generator::Key {})));
        Ok(workload)
    }

    pub(crate) fn records(&self) -> u64 {
        let usual = if self.operations.iter().any(Operation::chooses) { RECORDS } else { 0 };
        self.records_wanted.unwrap_or(usual)
    }

    /// Whether operations insert documents that later ones may choose.
    pub(crate) fn inserts(&self) -> bool {
        self.operations.iter().any(|operation| operation.subject == Subject::New)
    }

    /// # Errors
    /// When no run could be made of it.
    pub(crate) fn validate(&self) -> Result<(), BenchError> {
        let usage = |text: String| Err(BenchError::Usage(text));
        let (name, operations) = (&self.name, &self.operations);
        if operations.is_empty() || operations.len() > MOST_OPERATIONS {
            let found = operations.len();
            return usage(format!(
                "workload '{name}' has {found} operations; from 1 to {MOST_OPERATIONS} are possible"
            ));
        }
        for (index, Operation { name, weight, .. }) in operations.iter().enumerate() {
            if !(weight.is_finite() && *weight >= 0.0) {
                return usage(format!("the weight of '{name}' is {weight}, not a number from 0"));
            }
            if operations.iter().take(index).any(|other| other.name == *name) {
                return usage(format!("two operations are called '{name}'"));
            }
        }
        if operations.iter().all(|operation| operation.weight == 0.0) {
            return usage(format!("workload '{name}' has no operation with a weight above 0"));
        }
        let needs_documents = |operation: &&Operation| operation.weight > 0.0 && operation.chooses();
        match operations.iter().find(needs_documents) {
            Some(operation) if self.records() == 0 => usage(format!(
                "'{}' chooses among documents, and there are none: give --records",
                operation.name
            )),
            _ => Ok(()),
        }
    }

    /// The share of the operations that a secondary could carry out.
    pub(crate) fn share_of_reads(&self) -> f64 {
        let reads = self.operations.iter().filter(|operation| operation.only_reads());
        reads.map(|operation| operation.weight).sum::<f64>() / self.weights()
    }

    fn weights(&self) -> f64 {
        self.operations.iter().map(|operation| operation.weight).sum()
    }

    /// The operations and their shares, which add up to 1.
    pub(crate) fn mix(&self) -> Vec<(String, f64)> {
        let share = |operation: &Operation| (operation.name.clone(), operation.weight / self.weights());
        self.operations.iter().map(share).collect()
    }
}
