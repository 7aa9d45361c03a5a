//! A workload as the generator sends it.

use crate::error::BenchError;
use crate::generator::{Failure, Share, Ticket, Verdict, failure};
use crate::message::{BODY_OFFSET, reply_body};
use crate::workload::concerns::Concerns;
use crate::workload::distribution::KeyChooser;
use crate::workload::keys::{KeySpace, Lane, number_of_birth};
use crate::workload::model::{Bounds, Expect, Operation, Subject, Workload};
use crate::workload::plan::{Compiler, Context, Plan, patch_length};
use crate::workload::settings::Settings;
use document::{RawArray, RawValue};
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// How many messages are written between two looks at the clock of dates and ObjectIds.
const MESSAGES_PER_LOOK: u32 = 64;

/// The operations of a workload that a group of connections sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Part {
    All,
    /// Those that only read, for secondaries.
    Reads,
    /// All others, for the primary beside them.
    Rest,
}

impl Part {
    pub(crate) fn has(self, operation: &Operation) -> bool {
        match self {
            Part::All => true,
            Part::Reads => operation.only_reads(),
            Part::Rest => !operation.only_reads(),
        }
    }
}

/// Everything that another process needs to send the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Description {
    workload: Settings,
    concerns: Concerns,
    part: Part,
    /// Inserted documents are numbered from here on.
    first_inserted: u64,
    /// Whether replies that hold something else than was expected are failures.
    expects: bool,
}

/// A workload, ready to be sent by any number of threads and processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Description", into = "Description")]
pub(crate) struct WorkloadSource {
    description: Description,
    workload: Workload,
    /// What the threads of this process know of the documents; made by the first of them.
    keys: Arc<OnceLock<Arc<KeySpace>>>,
}

impl WorkloadSource {
    /// All operations of a workload.
    pub(crate) fn new(settings: &Settings, concerns: &Concerns) -> Result<Self, BenchError> {
        WorkloadSource::try_from(Description {
            workload: settings.clone(),
            concerns: concerns.clone(),
            part: Part::All,
            first_inserted: number_of_birth(unix_milliseconds()),
            expects: true,
        })
    }

    /// For a server whose replies are no answers.
    pub(crate) fn expecting_nothing(mut self) -> Self {
        self.description.expects = false;
        self
    }

    /// A part of the same run: all know the same documents.
    pub(crate) fn part(&self, part: Part) -> Self {
        let description = Description { part, ..self.description.clone() };
        WorkloadSource { description, workload: self.workload.clone(), keys: Arc::clone(&self.keys) }
    }

    pub(crate) fn traffic(&self, share: Share) -> WorkloadTraffic {
        // Threads are numbered through all processes: the number of a process's first thread is its own.
        let lane = Lane { index: share.index.into(), of: share.of.into() };
        let (records, first) = (self.workload.records(), self.description.first_inserted);
        let keys = self.keys.get_or_init(|| Arc::new(KeySpace::new(records, first, lane)));
        WorkloadTraffic::new(&self.workload, &self.description, Arc::clone(keys), share.seed)
    }

    /// What is known of the documents, once somebody has sent something.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> Arc<KeySpace> {
        Arc::clone(self.keys.get().expect("traffic"))
    }
}

impl TryFrom<Description> for WorkloadSource {
    type Error = BenchError;

    fn try_from(description: Description) -> Result<Self, BenchError> {
        let workload = description.workload.build()?;
        Ok(WorkloadSource { description, workload, keys: Arc::default() })
    }
}

impl From<WorkloadSource> for Description {
    fn from(source: WorkloadSource) -> Self {
        source.description
    }
}

#[derive(Debug)]
struct Compiled {
    name: String,
    /// Upper end of its part of 0 to 1.
    end: f64,
    subject: Subject,
    chooser: Option<KeyChooser>,
    steps: Vec<(Plan, Expect)>,
}

#[derive(Debug)]
pub(crate) struct WorkloadTraffic {
    operations: Vec<Compiled>,
    keys: Arc<KeySpace>,
    random: Rng,
    now: i64,
    messages_until_look: u32,
}

impl WorkloadTraffic {
    fn new(workload: &Workload, description: &Description, keys: Arc<KeySpace>, seed: u64) -> Self {
        let Description { concerns, part, expects, .. } = description;
        let compiler = Compiler { key: &workload.key, document: &workload.document };
        let chosen: Vec<&Operation> =
            workload.operations.iter().filter(|operation| part.has(operation)).collect();
        let whole: f64 = chosen.iter().map(|operation| operation.weight).sum();
        let grows = workload.inserts();
        let mut end = 0.0;
        let operations = chosen.into_iter().map(|operation| {
            end += operation.weight / whole;
            let chooser = match operation.subject {
                Subject::Present { distribution, .. } => {
                    let distribution = distribution.unwrap_or(workload.distribution);
                    Some(KeyChooser::new(distribution, workload.records(), grows))
                }
                Subject::None | Subject::New => None,
            };
            let compile = |step| compiler.document(&concerns.apply(step, &workload.database));
            let steps = operation
                .steps
                .iter()
                .map(|step| (compile(step), if *expects { step.expect } else { Expect::OK }));
            let steps = steps.collect();
            Compiled { name: operation.name.clone(), end, subject: operation.subject, chooser, steps }
        });
        let operations = operations.collect();
        WorkloadTraffic { operations, keys, random: Rng::with_seed(seed), now: 0, messages_until_look: 0 }
    }

    /// The kind of the next operation.
    #[inline]
    fn draw(&mut self) -> usize {
        if self.operations.len() == 1 {
            return 0;
        }
        let point = self.random.f64();
        let found = self.operations.iter().position(|operation| point < operation.end);
        // Rounding may leave a gap below 1: the last one with a weight has it.
        found.unwrap_or_else(|| self.operations.len().saturating_sub(1))
    }

    fn write(&mut self, ticket: Ticket, message: &mut Vec<u8>) {
        if self.messages_until_look == 0 {
            self.messages_until_look = MESSAGES_PER_LOOK;
            self.now = unix_milliseconds() as i64;
        }
        self.messages_until_look -= 1;
        let step = self.operations.get(usize::from(ticket.kind));
        let Some((plan, _)) = step.and_then(|operation| operation.steps.get(usize::from(ticket.step))) else {
            return;
        };
        let number = self.keys.number(ticket.key);
        write_message(plan, &mut Context { number, random: &mut self.random, now: self.now }, message);
    }

    /// What a good reply lacks.
    #[inline]
    fn judge_step(&self, ticket: Ticket, reply: &[u8]) -> Option<Failure> {
        if let Some(failure) = failure(reply) {
            return Some(failure);
        }
        let (_, expect) =
            self.operations.get(usize::from(ticket.kind))?.steps.get(usize::from(ticket.step))?;
        missing(*expect, reply)
    }

    fn settle(&self, ticket: Ticket, is_there: bool) {
        let subject = self.operations.get(usize::from(ticket.kind)).map(|operation| operation.subject);
        match (subject, is_there) {
            (Some(Subject::New), true) => self.keys.acknowledge(ticket.key),
            (Some(Subject::New), false) => self.keys.withdraw(ticket.key),
            _ => {}
        }
    }

    /// Names of the kinds of operations; a [`Ticket`]'s `kind` is an index into it.
    pub(crate) fn kinds(&self) -> Vec<String> {
        self.operations.iter().map(|operation| operation.name.clone()).collect()
    }

    /// Writes the next operation's first request, a whole OP_MSG, into `message`, which is empty. The
    /// generator fills in the request id.
    #[inline]
    pub(crate) fn next(&mut self, message: &mut Vec<u8>) -> Ticket {
        let kind = self.draw();
        let Some(operation) = self.operations.get_mut(kind) else { return Ticket::default() };
        let key = match (operation.subject, &mut operation.chooser) {
            (Subject::Present { followers, .. }, Some(chooser)) => {
                chooser.choose(&self.keys, followers, &mut self.random)
            }
            (Subject::New, _) => self.keys.issue(),
            _ => 0,
        };
        let ticket = Ticket { kind: kind as u8, step: 0, key };
        self.write(ticket, message);
        ticket
    }

    /// Judges a whole reply, header included and decompressed. For [`Verdict::Again`] a further request of
    /// the same operation is in `message`, which was empty; the operation's latency runs on.
    #[inline]
    pub(crate) fn judge(&mut self, ticket: &mut Ticket, reply: &[u8], message: &mut Vec<u8>) -> Verdict {
        if let Some(failure) = self.judge_step(*ticket, reply) {
            self.settle(*ticket, false);
            return Verdict::Failed(failure);
        }
        let steps =
            self.operations.get(usize::from(ticket.kind)).map_or(0, |operation| operation.steps.len());
        if usize::from(ticket.step) + 1 < steps {
            ticket.step += 1;
            self.write(*ticket, message);
            return Verdict::Again;
        }
        self.settle(*ticket, true);
        Verdict::Done
    }

    /// The connection died, or no reply came in time: the operation has no outcome. An insert's key may be
    /// there or not.
    pub(crate) fn lost(&mut self, ticket: Ticket) {
        self.settle(ticket, false);
    }
}

/// A whole OP_MSG; the request id is filled in by who sends it.
pub(crate) fn write_message(plan: &Plan, context: &mut Context<'_>, message: &mut Vec<u8>) {
    /// Length, request id, response to, operation code, flags and the kind of the section.
    const HEAD: [u8; BODY_OFFSET] = {
        const OP_MSG: [u8; 4] = 2013_i32.to_le_bytes();
        let mut head = [0; BODY_OFFSET];
        (head[12], head[13], head[14], head[15]) = (OP_MSG[0], OP_MSG[1], OP_MSG[2], OP_MSG[3]);
        head
    };
    let start = message.len();
    message.extend_from_slice(&HEAD);
    plan.write(context, message);
    patch_length(message, start);
}

/// What was expected of a good reply and is not there.
fn missing(expect: Expect, reply: &[u8]) -> Option<Failure> {
    if expect == Expect::OK {
        return None;
    }
    let Ok(body) = reply_body(reply) else { return None };
    if let Some((least, most)) = expect.n.map(Bounds::range) {
        let found = match body.get("n") {
            Some(RawValue::Int32(n)) => u64::try_from(n).ok(),
            Some(RawValue::Int64(n)) => u64::try_from(n).ok(),
            Some(RawValue::Double(n)) => Some(n as u64),
            _ => None,
        };
        if !found.is_some_and(|n| (least..=most).contains(&n)) {
            let found = found.map_or("nothing".to_owned(), |n| n.to_string());
            return Some(Failure::unexpected(format!("n is {found}, not {}", in_words(least, most))));
        }
    }
    let (least, most) = expect.documents?.range();
    let batch = body
        .get("cursor")
        .and_then(RawValue::as_document)
        .and_then(|cursor| cursor.get("firstBatch"))
        .and_then(RawValue::as_array);
    let found = batch.map(RawArray::len).unwrap_or_default() as u64;
    if (least..=most).contains(&found) {
        return None;
    }
    Some(Failure::unexpected(format!("{found} documents, not {}", in_words(least, most))))
}

fn in_words(least: u64, most: u64) -> String {
    match (least, most) {
        (least, most) if least == most => least.to_string(),
        (least, u64::MAX) => format!("{least} or more"),
        (least, most) => format!("{least} to {most}"),
    }
}

pub(crate) fn unix_milliseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
