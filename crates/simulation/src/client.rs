//! A client: one command after the other, chosen by its seed, each reply compared with what the client knows.

mod collections;
mod ends;
mod mortals;
mod reads;
mod together;
mod views;
mod writes;

use crate::model::{Change, Key, Span, State, Write};
use crate::observer::{documents_of, is_ok, normal};
use crate::random::SeededRandom;
use crate::server::Port;
use crate::shared::integer;
use crate::world::World;
use document::{Document, Value, doc};
use std::rc::Rc;

/// Ids of one client: few enough that inserts, updates and deletes meet again and again.
const IDS: u64 = 10;
/// Those of large batches.
const MORE_IDS: u64 = 40;
const VALUES: u64 = 12;

/// The server is dead.
#[derive(Debug)]
struct Dead;

type Done<T = ()> = Result<T, Dead>;

/// What a reply says of a write.
#[derive(Debug)]
enum Verdict {
    Acknowledged,
    /// Nothing of it happened, or of the part of it that failed.
    Refused,
    /// It may have happened.
    Unsure,
    /// An error that has nothing to do with faults: the codes of the errors with their positions.
    Failed(Vec<(usize, i64)>),
}

/// A write that is going to be asked for.
struct Plan {
    command: Document,
    changes: Vec<Change>,
    is_atomic: bool,
    /// Fields that the reply must have.
    reply: Document,
    /// Errors that the reply must have: positions and codes.
    errors: Vec<(usize, i64)>,
}

struct SimulatedClient {
    world: Rc<World>,
    number: usize,
    name: String,
    port: Port,
    starts: u64,
    random: SeededRandom,
    /// The logical session of its commands, if they have one.
    session: Option<u64>,
}

/// Works until the run ends.
pub(crate) async fn run(world: Rc<World>, number: usize, seed: u64) {
    let mut random = SeededRandom::new(seed);
    let port = world.node.connect(number as i64 + 1, random.chance(600));
    let starts = world.node.starts();
    let mut client = SimulatedClient {
        name: format!("client {number}"),
        world,
        number,
        port,
        starts,
        random,
        session: None,
    };
    while !client.world.is_ending() {
        if let Err(Dead) = client.act().await {
            client.world.restarted(number, client.starts).await;
            client.starts = client.world.node.starts();
            client.port = client.world.node.connect(number as i64 + 1, client.random.chance(600));
        }
    }
}

impl SimulatedClient {
    async fn act(&mut self) -> Done {
        match self.random.below(142) {
            0..13 => self.insert().await,
            13..27 => self.update_one().await,
            27..32 => self.update_many().await,
            32..36 => self.change_unique().await,
            36..41 => self.delete().await,
            41..47 => self.find_and_modify().await,
            47..62 => self.append().await,
            62..66 => self.read_shared().await,
            66..71 => self.claim().await,
            71..87 => self.read().await,
            100..105 => self.end_cursor().await,
            105..113 => self.kill_others().await,
            113..120 => self.use_view().await,
            120..130 => self.tail_some().await,
            130..142 => self.use_mortals().await,
            _ => self.change_collection().await,
        }
    }

    fn lsid(&self) -> Option<Value> {
        let bytes = self.session?.to_le_bytes().repeat(2);
        Some(doc! { "id": (Value::binary(4, bytes)) }.into())
    }

    async fn call(&self, mut command: Document) -> Done<Document> {
        if let Some(lsid) = self.lsid() {
            command.push("lsid", lsid);
        }
        self.world.call(&self.port, &self.name, command).await.ok_or(Dead)
    }

    fn fail(&self, text: String) {
        self.world.fail(format!("{}: {text}", self.name));
    }

    /// A write concern, and whether it asks for the journal.
    fn concern(&mut self) -> (Document, bool) {
        match self.random.below(6) {
            0 => (doc! { "w": 1, "j": true }, true),
            1 => (doc! { "w": "majority" }, true),
            2 => (doc! { "w": 1, "j": false }, false),
            3 => (doc! { "w": 0 }, false),
            _ => (doc! { "w": 1 }, false),
        }
    }

    /// The client's documents in a collection.
    fn documents(&self, collection: &str) -> Vec<(String, Document)> {
        let model =
            self.world.models.get(self.number).map(|model| model.borrow().now.clone()).unwrap_or_default();
        let own = model.into_iter().filter(|((name, id), _)| name == collection && !id.is_empty());
        own.map(|((_, id), document)| (id, document)).collect()
    }

    fn state(&self) -> State {
        self.world.models.get(self.number).map(|model| model.borrow().now.clone()).unwrap_or_default()
    }

    fn some_id(&mut self, ids: u64) -> String {
        format!("c{}-{:02}", self.number, self.random.below(ids))
    }

    /// Asks for a write and notes what became of it.
    async fn write(&mut self, mut plan: Plan) -> Done<Option<Document>> {
        let (concern, mut is_journaled) = self.concern();
        let unacknowledged = concern.get("w") == Some(&Value::Int32(0));
        plan.command.push("writeConcern", concern);
        if self.random.chance(60) {
            plan.command.push("maxTimeMS", 1);
        }
        let text = format!("{} {}", self.name, document::json::to_string(plan.command.to_buf().as_raw()));
        let asked = self.world.tick();
        let changes_something = {
            let model = self.world.models.get(self.number);
            model.is_some_and(|model| model.borrow().is_changed_by(&plan.changes))
        };
        is_journaled &= changes_something;
        let mut write = Write {
            text,
            changes: std::mem::take(&mut plan.changes),
            is_atomic: plan.is_atomic,
            is_journaled,
            is_unknown: false,
            span: Span { asked, acknowledged: None },
        };
        let batch = inserted_tags(&plan.command);
        let is_ordered = plan.command.get("ordered") == Some(&Value::Boolean(true));
        let Ok(reply) = self.call(plan.command).await else {
            write.is_unknown = true;
            self.happened(write);
            return Err(Dead);
        };
        match self.judge(&reply) {
            _ if unacknowledged => self.look_what_happened(write).await?,
            Verdict::Unsure => self.look_what_happened(write).await?,
            Verdict::Refused if write.is_atomic => {}
            Verdict::Refused => {
                let text = write.text.clone();
                self.look_what_happened(write).await?;
                self.check_told(&text, &batch, is_ordered, &reply);
            }
            Verdict::Acknowledged if plan.errors.is_empty() => {
                self.acknowledged(write, &plan.reply, &reply);
                return Ok(Some(reply));
            }
            Verdict::Failed(errors) if errors == plan.errors => {
                self.acknowledged(write, &plan.reply, &reply);
                return Ok(Some(reply));
            }
            verdict => {
                self.fail(format!(
                    "`{}` must end with the errors {:?} and ends with {verdict:?}",
                    write.text, plan.errors
                ));
            }
        }
        Ok(None)
    }

    fn acknowledged(&self, mut write: Write, expected: &Document, reply: &Document) {
        for (name, value) in expected.iter() {
            let found = reply.get(name);
            let same = found.map(comparable) == Some(comparable(value));
            if !same {
                self.fail(format!("`{}`: {name} must be {value:?} and is {found:?}", write.text));
            }
        }
        let model = self.world.models.get(self.number);
        let changes_something = model.is_some_and(|model| model.borrow().is_changed_by(&write.changes));
        if changes_something && self.world.is_poisoned_since(write.span.asked) {
            self.fail(format!("`{}` is acknowledged after a sync has failed", write.text));
        }
        write.span.acknowledged = Some(self.world.step());
        self.happened(write);
    }

    fn happened(&self, write: Write) {
        if let Some(model) = self.world.models.get(self.number) {
            model.borrow_mut().happened(write);
        }
    }

    /// A write may have happened in part: what is there says it.
    async fn look_what_happened(&self, write: Write) -> Done {
        loop {
            let starts = self.world.node.starts();
            match documents_of(&self.world, &self.port, self.number).await {
                Ok(found) => {
                    if let Some(model) = self.world.models.get(self.number) {
                        let outcome = model.borrow_mut().happened_partly(write, found);
                        outcome.unwrap_or_else(|failure| self.fail(failure));
                    }
                    return Ok(());
                }
                Err(_) if self.world.node.starts() != starts || !self.world.node.is_running() => {
                    self.happened(Write { is_unknown: true, ..write });
                    return Err(Dead);
                }
                Err(failure) if !is_fault(&failure) => {
                    self.fail(failure);
                    return Ok(());
                }
                Err(_) => {}
            }
        }
    }

    /// What a batch of inserts tells after a fault: `n` counts those that are there, and of an unordered one
    /// each other document has an error.
    fn check_told(&self, text: &str, batch: &[Value], is_ordered: bool, reply: &Document) {
        let Some(n) = reply.get("n").and_then(integer).filter(|_| !batch.is_empty()) else { return };
        let tags = |document: &Document| document.get("tag").is_some_and(|tag| batch.contains(tag));
        let there = self.state().values().filter(|document| tags(document)).count() as i64;
        let errors = reply.get("writeErrors").and_then(Value::as_array).unwrap_or_default().len() as i64;
        let told = if is_ordered { errors == 1 } else { n + errors == batch.len() as i64 };
        if n != there || !told {
            self.fail(format!("`{text}`: {there} are there, n is {n}, and there are {errors} errors"));
        }
    }

    fn judge(&self, reply: &Document) -> Verdict {
        let mut errors = Vec::new();
        let mut texts = Vec::new();
        let list = reply.get("writeErrors").and_then(Value::as_array).unwrap_or_default();
        let single = if is_ok(reply) { None } else { Some(reply.clone()) };
        let concern = match reply.get("writeConcernError") {
            Some(Value::Document(error)) => Some(error.clone()),
            _ => None,
        };
        let waits_in_vain = concern.is_some();
        let listed = list.iter().filter_map(|error| match error {
            Value::Document(error) => Some(error.clone()),
            _ => None,
        });
        for error in listed.chain(single).chain(concern) {
            let number = |name| error.get(name).and_then(integer).unwrap_or_default();
            errors.push((number("index") as usize, number("code")));
            texts.push(error.get("errmsg").and_then(Value::as_str).unwrap_or_default().to_owned());
        }
        if errors.is_empty() {
            return Verdict::Acknowledged;
        }
        if errors.iter().any(|(_, code)| INTERRUPTIONS.contains(code)) {
            return Verdict::Unsure;
        }
        if texts.iter().any(|text| text.contains("the journal could not be synced")) {
            self.world.poisoned();
            return Verdict::Unsure;
        }
        if texts.iter().any(|text| is_fault(text)) {
            // Of the write concern's errors nobody knows more than that the write may not last.
            return if waits_in_vain { Verdict::Unsure } else { Verdict::Refused };
        }
        Verdict::Failed(errors)
    }

    /// A reply to a read; `None` when a fault has ended it.
    async fn ask(&self, command: Document) -> Done<Option<Document>> {
        let text = format!("{command:?}");
        let reply = self.call(command).await?;
        if is_ok(&reply) {
            return Ok(Some(reply));
        }
        let message = reply.get("errmsg").and_then(Value::as_str).unwrap_or_default();
        /// The index that the plan used is gone.
        const QUERY_PLAN_KILLED: i64 = 175;
        let code = number(&reply, "code");
        let is_killed = code == QUERY_PLAN_KILLED || INTERRUPTIONS.contains(&code);
        if !is_killed && !is_fault(message) {
            self.fail(format!("{text} fails: {reply:?}"));
        }
        Ok(None)
    }
}

/// What tells the documents of an insert from others.
fn inserted_tags(command: &Document) -> Vec<Value> {
    let documents = command.get("documents").and_then(Value::as_array).unwrap_or_default();
    let tags = documents.iter().filter_map(|document| match document {
        Value::Document(document) => document.get("tag").cloned(),
        _ => None,
    });
    tags.collect()
}

/// `MaxTimeMSExpired` and `Interrupted`: what the operation did before stays.
const INTERRUPTIONS: [i64; 2] = [50, 11_601];

/// Whether an error comes from a fault of the disk, or from another client who ended the operation.
fn is_fault(message: &str) -> bool {
    const FAULTS: [&str; 5] = [
        "simulated",
        "the disk is full",
        "the disk is nearly full",
        "journal could not be synced",
        "operation was interrupted",
    ];
    FAULTS.iter().any(|part| message.contains(part))
}

/// Numbers of all types as one, documents without an order of fields.
fn comparable(value: &Value) -> Value {
    match value {
        Value::Document(document) => normal(document)
            .iter()
            .map(|(name, value)| (name, comparable(value)))
            .collect::<Document>()
            .into(),
        Value::Array(_) => {
            value.as_array().unwrap_or_default().iter().map(comparable).collect::<Vec<Value>>().into()
        }
        number => integer(number).map_or_else(|| number.clone(), Value::Int64),
    }
}

fn key(collection: &str, id: &str) -> Key {
    (collection.to_owned(), id.to_owned())
}

fn number(document: &Document, name: &str) -> i64 {
    document.get(name).and_then(integer).unwrap_or_default()
}
