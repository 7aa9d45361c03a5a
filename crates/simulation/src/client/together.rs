//! Writes of documents that all clients write: what others do meanwhile is not known, but how it fits
//! together is.

use super::{Dead, Done, Plan, SimulatedClient, Verdict, is_fault, key};
use crate::bug::Bug;
use crate::model::Change;
use crate::observer::{batch, is_ok, normal};
use document::{Document, Value, doc};

const SHARED: &str = "shared";
const SHARED_IDS: u64 = 3;
const CLAIMS: u64 = 4;
const DUPLICATE_KEY: i64 = 11_000;

impl SimulatedClient {
    /// Appends a number to a document's list, or to those of all documents.
    pub(super) async fn append(&mut self) -> Done {
        let tag = self.world.tag();
        let id = format!("s{}", self.random.below(SHARED_IDS));
        let to_all = self.random.chance(80);
        let (concern, is_journaled) = self.concern();
        let is_unacknowledged = concern.get("w") == Some(&Value::Int32(0));
        let change = doc! { "$inc": { "n": 1 }, "$push": { "log": tag } };
        let reads_back = !to_all && self.random.chance(400);
        let mut command = match (to_all, reads_back) {
            (true, _) => doc! { "update": SHARED, "updates": [{ "q": {}, "u": change, "multi": true }] },
            (false, true) => doc! {
                "findAndModify": SHARED, "query": { "_id": (id.as_str()) }, "update": change, "upsert": true,
                "new": true,
            },
            (false, false) => {
                doc! {
                    "update": SHARED, "updates": [{ "q": { "_id": (id.as_str()) }, "u": change,
                        "upsert": true }]
                }
            }
        };
        command.push("writeConcern", concern);
        let text = format!("{} appends {tag} to {}", self.name, if to_all { "all" } else { &id });
        let asked = self.world.tick();
        let expected = {
            let mut shared = self.world.shared.borrow_mut();
            shared.asked(tag, (!to_all).then_some(id.as_str()), asked, is_journaled, text.clone());
            shared.reads(asked)
        };
        if self.world.bug == Some(Bug::UpdateWithoutLatch) && !to_all {
            command = self.without_latch(&id, tag).await?;
        }
        let reply = self.call(command).await?;
        let step = self.world.step();
        match self.judge(&reply) {
            Verdict::Acknowledged if is_unacknowledged => {}
            Verdict::Acknowledged => {
                if self.world.is_poisoned_since(asked) && !to_all {
                    self.fail(format!("`{text}` is acknowledged after a sync has failed"));
                }
                self.world.shared.borrow_mut().acknowledged(tag, step);
                if let (true, Some(Value::Document(value))) = (reads_back, reply.get("value")) {
                    let read = self.world.shared.borrow_mut().read(&expected, value);
                    read.unwrap_or_else(|failure| self.fail(failure));
                    let log = value.get("log").and_then(Value::as_array).unwrap_or_default();
                    if log.last() != Some(&Value::Int64(tag)) {
                        self.fail(format!("`{text}` answers with {value:?}"));
                    }
                }
            }
            Verdict::Refused if !to_all => self.world.shared.borrow_mut().refused(tag),
            // The upsert of another client was faster, every time.
            Verdict::Failed(errors) if !to_all && errors.iter().all(|(_, code)| *code == DUPLICATE_KEY) => {
                self.world.shared.borrow_mut().refused(tag);
            }
            Verdict::Refused | Verdict::Unsure => {}
            verdict => self.fail(format!("`{text}` ends with {verdict:?}")),
        }
        Ok(())
    }

    /// A planted fault: reads, and makes the command that writes what follows from it.
    async fn without_latch(&self, id: &str, tag: i64) -> Done<Document> {
        let reply = self.call(doc! { "find": SHARED, "filter": { "_id": id } }).await?;
        let new = doc! { "_id": id, "n": 0, "log": [] };
        let mut after = batch(&reply).pop().unwrap_or(new);
        let mut log = after.get("log").and_then(Value::as_array).unwrap_or_default().to_vec();
        log.push(Value::Int64(tag));
        after.insert("n", log.len() as i64);
        after.insert("log", log);
        Ok(doc! {
            "findAndModify": SHARED, "query": { "_id": id }, "update": after, "upsert": true, "new": true,
        })
    }

    pub(super) async fn read_shared(&mut self) -> Done {
        let expected = self.world.shared.borrow().reads(self.world.tick());
        let find = match self.random.chance(300) {
            true => doc! { "find": SHARED },
            false => {
                doc! { "find": SHARED, "filter": { "_id": (format!("s{}", self.random.below(SHARED_IDS))) } }
            }
        };
        let Some(reply) = self.ask(find).await? else { return Ok(()) };
        for document in batch(&reply) {
            let read = self.world.shared.borrow_mut().read(&expected, &document);
            read.unwrap_or_else(|failure| self.fail(failure));
        }
        Ok(())
    }

    /// Takes what only one may hold, or gives back what this client holds.
    pub(super) async fn claim(&mut self) -> Done {
        let held = self.documents("claims");
        if let Some((id, document)) = held.first()
            && self.random.chance(600)
        {
            let claimed = super::number(document, "k");
            self.world.claims.borrow_mut().remove(&claimed);
            let plan = Plan {
                command: doc! {
                    "delete": "claims", "deletes": [{ "q": { "_id": (id.as_str()) }, "limit": 1 }]
                },
                changes: vec![Change { key: key("claims", id), after: None }],
                is_atomic: true,
                reply: doc! { "n": 1 },
                errors: Vec::new(),
            };
            return self.write(plan).await.map(drop);
        }
        let claimed = self.random.below(CLAIMS) as i64;
        let id = format!("claim {}", self.world.tag());
        let document = doc! { "_id": (id.as_str()), "owner": (self.number as i64), "k": claimed };
        self.insert_claim(claimed, &id, &document).await
    }

    async fn insert_claim(&mut self, claimed: i64, id: &str, document: &Document) -> Done {
        let command = doc! {
            "insert": "claims", "documents": [(Value::from(document.clone()))],
            "writeConcern": { "w": 1, "j": (self.random.chance(300)) },
        };
        let is_journaled = command.get("writeConcern") == Some(&doc! { "w": 1, "j": true }.into());
        let changes = vec![Change { key: key("claims", id), after: Some(normal(document)) }];
        let mut write = crate::model::Write {
            text: format!("{} claims {claimed} by {id}", self.name),
            changes,
            is_atomic: true,
            is_journaled,
            is_unknown: false,
            span: crate::model::Span { asked: self.world.tick(), acknowledged: None },
        };
        let Ok(reply) = self.call(command).await else {
            write.is_unknown = true;
            self.happened(write);
            return Err(Dead);
        };
        match self.judge(&reply) {
            Verdict::Acknowledged => {
                self.acknowledged(write, &doc! { "n": 1 }, &reply);
                let other = self.world.claims.borrow_mut().insert(claimed, id.to_owned());
                if let Some(other) = other {
                    self.fail(format!("{id} gets {claimed}, which {other} holds"));
                }
            }
            Verdict::Failed(errors) if errors == [(0, DUPLICATE_KEY)] => {}
            Verdict::Refused => {}
            Verdict::Unsure => self.look_what_happened(write).await?,
            verdict => self.fail(format!("`{}` ends with {verdict:?}", write.text)),
        }
        Ok(())
    }
}

/// Whether a reply tells of a fault of the disk.
pub(super) fn tells_of_fault(reply: &Document) -> bool {
    !is_ok(reply) && reply.get("errmsg").and_then(Value::as_str).is_some_and(is_fault)
}
