//! Writes of documents that belong to this client alone: what they do is known beforehand.

use super::{Done, IDS, MORE_IDS, Plan, SimulatedClient, VALUES, comparable, key, number};
use crate::model::Change;
use crate::observer::normal;
use document::{Document, Value, doc};

const PRIVATE: &str = "private";
const DUPLICATE_KEY: i64 = 11_000;

fn change(id: &str, after: Option<&Document>) -> Change {
    Change { key: key(PRIVATE, id), after: after.map(normal) }
}

impl SimulatedClient {
    /// A new document.
    fn fresh(&mut self, id: &str) -> Document {
        let list: Vec<Value> =
            (0..self.random.below(4)).map(|_| Value::Int64(self.random.below(6) as i64)).collect();
        doc! {
            "_id": id, "owner": (self.number as i64), "v": (self.random.below(VALUES) as i64),
            "tag": (self.world.tag()), "list": list, "s": ("s".repeat(self.random.below(60) as usize)),
        }
    }

    /// A value that only one of the client's documents may have.
    fn unique(&mut self) -> String {
        format!("c{}-{}", self.number, self.random.below(5))
    }

    pub(super) async fn insert(&mut self) -> Done {
        let is_large = self.random.chance(80);
        let wanted = if is_large { 18 + self.random.below(20) } else { 1 + self.random.below(4) };
        let ordered = self.random.chance(500);
        let mut present = self.documents(PRIVATE);
        let (mut documents, mut changes, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for position in 0..wanted as usize {
            let id = self.some_id(if is_large { MORE_IDS } else { IDS });
            let mut document = self.fresh(&id);
            if self.random.chance(150) {
                document.push("u", self.unique());
            }
            documents.push(Value::from(document.clone()));
            if ordered && !errors.is_empty() {
                continue;
            }
            let unique = document.get("u");
            let clashes = |(other, there): &(String, Document)| {
                *other == id || (unique.is_some() && there.get("u") == unique)
            };
            if present.iter().any(clashes) {
                errors.push((position, DUPLICATE_KEY));
                continue;
            }
            changes.push(change(&id, Some(&document)));
            present.push((id, document));
        }
        let command = doc! { "insert": PRIVATE, "documents": documents, "ordered": ordered };
        let reply = doc! { "n": (changes.len() as i64) };
        let is_atomic = wanted == 1;
        self.write(Plan { command, changes, is_atomic, reply, errors }).await.map(drop)
    }

    /// The document with this change, or a new one; the update that does it.
    fn changed(&mut self, id: &str, before: Option<&Document>) -> (Value, Document) {
        let tag = self.world.tag();
        if self.random.chance(250) {
            let mut document = self.fresh(id);
            if let Some(unique) = before.and_then(|before| before.get("u")) {
                document.push("u", unique.clone());
            }
            return (document.clone().into(), document);
        }
        let (more, item) = (self.random.below(5) as i64, self.random.below(6) as i64);
        let new =
            doc! { "_id": id, "owner": (self.number as i64), "v": 0_i64, "tag": 0_i64, "list": [], "s": "" };
        let is_new = before.is_none();
        let mut after = before.cloned().unwrap_or(new);
        after.insert("v", number(&after, "v") + more);
        after.insert("tag", tag);
        if !is_new && self.random.chance(200) {
            let pipeline = vec![Value::from(doc! { "$set": { "v": { "$add": ["$v", more] }, "tag": tag } })];
            return (pipeline.into(), after);
        }
        let mut list = after.get("list").and_then(Value::as_array).unwrap_or_default().to_vec();
        list.push(Value::Int64(item));
        after.insert("list", list);
        let update = doc! {
            "$inc": { "v": more }, "$set": { "tag": tag }, "$push": { "list": item },
            "$setOnInsert": { "owner": (self.number as i64), "s": "" },
        };
        (update.into(), after)
    }

    pub(super) async fn update_one(&mut self) -> Done {
        let id = self.some_id(IDS);
        let documents = self.documents(PRIVATE);
        let before = documents.iter().find(|(other, _)| *other == id).map(|(_, document)| document);
        let upsert = self.random.chance(500);
        let (update, after) = self.changed(&id, before);
        let statement = doc! { "q": { "_id": (id.as_str()) }, "u": update, "upsert": upsert };
        let happens = before.is_some() || upsert;
        let reply = doc! { "n": (i64::from(happens)), "nModified": (i64::from(before.is_some())) };
        let plan = Plan {
            command: doc! { "update": PRIVATE, "updates": [(Value::from(statement))] },
            changes: if happens { vec![change(&id, Some(&after))] } else { Vec::new() },
            is_atomic: true,
            reply,
            errors: Vec::new(),
        };
        self.write(plan).await.map(drop)
    }

    pub(super) async fn update_many(&mut self) -> Done {
        let (least, tag) = (self.random.below(VALUES) as i64, self.world.tag());
        let step = if self.random.chance(500) { 1 } else { -1_i64 };
        let mut matched = self.documents(PRIVATE);
        matched.retain(|(_, document)| number(document, "v") >= least);
        let changes: Vec<Change> = matched
            .into_iter()
            .map(|(id, mut document)| {
                document.insert("v", number(&document, "v") + step);
                document.insert("tag", tag);
                change(&id, Some(&document))
            })
            .collect();
        let statement = doc! {
            "q": { "owner": (self.number as i64), "v": { "$gte": least } },
            "u": { "$inc": { "v": step }, "$set": { "tag": tag } }, "multi": true,
        };
        let count = changes.len() as i64;
        let plan = Plan {
            command: doc! { "update": PRIVATE, "updates": [(Value::from(statement))] },
            // The walk may fail behind what it has changed.
            is_atomic: count == 0,
            changes,
            reply: doc! { "n": count, "nModified": count },
            errors: Vec::new(),
        };
        self.write(plan).await.map(drop)
    }

    /// Sets the unique field, or takes it away.
    pub(super) async fn change_unique(&mut self) -> Done {
        let documents = self.documents(PRIVATE);
        let Some((id, mut after)) = documents.get(self.random.below(IDS) as usize).cloned() else {
            return Ok(());
        };
        let tag = self.world.tag();
        after.insert("tag", tag);
        let (update, clashes) = match self.random.chance(300) {
            true => {
                after.remove("u");
                (doc! { "$unset": { "u": 1 }, "$set": { "tag": tag } }, false)
            }
            false => {
                let unique = Value::from(self.unique());
                after.insert("u", unique.clone());
                let clashes = documents
                    .iter()
                    .any(|(other, document)| *other != id && document.get("u") == Some(&unique));
                (doc! { "$set": { "u": unique, "tag": tag } }, clashes)
            }
        };
        let statement = doc! { "q": { "_id": (id.as_str()) }, "u": update };
        let plan = Plan {
            command: doc! { "update": PRIVATE, "updates": [(Value::from(statement))] },
            changes: if clashes { Vec::new() } else { vec![change(&id, Some(&after))] },
            is_atomic: true,
            reply: doc! { "n": (i64::from(!clashes)) },
            errors: if clashes { vec![(0, DUPLICATE_KEY)] } else { Vec::new() },
        };
        self.write(plan).await.map(drop)
    }

    pub(super) async fn delete(&mut self) -> Done {
        let mut doomed = self.documents(PRIVATE);
        let (filter, limit) = match self.random.chance(700) {
            true => {
                let id = self.some_id(IDS);
                doomed.retain(|(other, _)| *other == id);
                (doc! { "_id": (id.as_str()) }, 1)
            }
            false => {
                let bound = self.random.below(VALUES / 2) as i64;
                doomed.retain(|(_, document)| number(document, "v") < bound);
                (doc! { "owner": (self.number as i64), "v": { "$lt": bound } }, 0)
            }
        };
        let plan = Plan {
            command: doc! { "delete": PRIVATE, "deletes": [{ "q": filter, "limit": limit }] },
            changes: doomed.iter().map(|(id, _)| change(id, None)).collect(),
            is_atomic: doomed.is_empty() || limit == 1,
            reply: doc! { "n": (doomed.len() as i64) },
            errors: Vec::new(),
        };
        self.write(plan).await.map(drop)
    }

    pub(super) async fn find_and_modify(&mut self) -> Done {
        let mut id = self.some_id(IDS);
        let documents = self.documents(PRIVATE);
        let mut command = doc! { "findAndModify": PRIVATE, "query": { "_id": (id.as_str()) } };
        let least = self.random.below(VALUES) as i64;
        let above = documents.iter().filter(|(_, document)| number(document, "v") >= least);
        if self.random.chance(300)
            && let Some((first, _)) = above.min_by_key(|(id, document)| (number(document, "v"), id.clone()))
        {
            id = first.clone();
            let filter = doc! { "owner": (self.number as i64), "v": { "$gte": least } };
            command = doc! { "findAndModify": PRIVATE, "query": filter, "sort": { "v": 1, "_id": 1 } };
        }
        let before = documents.iter().find(|(other, _)| *other == id).map(|(_, document)| document);
        let (changes, value) = match self.random.below(4) {
            0 => {
                command.push("remove", true);
                (before.map(|_| change(&id, None)).into_iter().collect(), before.cloned())
            }
            choice => {
                let (update, after) = self.changed(&id, before);
                let (new, upsert) = (choice == 1, self.random.chance(500));
                command.extend(doc! { "update": update, "new": new, "upsert": upsert });
                let happens = before.is_some() || upsert;
                let value = if new && happens { Some(after.clone()) } else { before.cloned() };
                (if happens { vec![change(&id, Some(&after))] } else { Vec::new() }, value)
            }
        };
        let reply = doc! { "value": (comparable(&value.into())) };
        self.write(Plan { command, changes, is_atomic: true, reply, errors: Vec::new() }).await.map(drop)
    }
}
