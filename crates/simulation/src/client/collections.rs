//! Collections that only this client makes, fills, renames and drops; and an index of all clients' documents
//! that comes and goes.

use super::{Done, Plan, SimulatedClient, key};
use crate::model::{Change, State};
use crate::observer::{normal, own_collection};
use document::{Document, Value, doc};

/// Documents of a capped collection, at most.
const CAPPED_DOCUMENTS: usize = 4;

const CAPPED: &str = "capped";

impl SimulatedClient {
    pub(super) async fn change_collection(&mut self) -> Done {
        let name = match self.random.chance(700) {
            true => own_collection(self.number),
            false => format!("{}b", own_collection(self.number)),
        };
        let about = self.state().get(&key(&name, "")).cloned();
        match (about, self.random.below(10)) {
            (_, 0) => self.index_of_all().await,
            (None, 1..4) => {
                let is_capped = self.random.chance(400);
                self.create(&name, is_capped).await
            }
            (None, _) => self.aggregate_into(&name, None).await,
            (Some(_), 1) => self.drop_collection(&name).await,
            (Some(_), 2 | 3) => self.rename(&name).await,
            (Some(about), 4..6) if is_capped(&about) => self.tail(&name, &about).await,
            (Some(about), 4..6) => self.aggregate_into(&name, Some(about)).await,
            (Some(about), 6) => self.change_indexes(&name, about).await,
            (Some(about), _) => self.insert_own(&name, &about).await,
        }
    }

    /// Reads the end of a capped collection, which it makes first if there is none.
    pub(super) async fn tail_some(&mut self) -> Done {
        let name = format!("{}b", own_collection(self.number));
        match self.state().get(&key(&name, "")).cloned() {
            Some(about) if is_capped(&about) => self.tail(&name, &about).await,
            Some(_) => self.drop_collection(&name).await,
            None => self.create(&name, true).await,
        }
    }

    async fn create(&mut self, name: &str, is_capped: bool) -> Done {
        let mut command = doc! { "create": name };
        if is_capped {
            command.extend(doc! { "capped": true, "size": 100_000, "max": (CAPPED_DOCUMENTS as i32) });
        }
        self.ddl(command, vec![Change { key: key(name, ""), after: Some(about(is_capped, &[])) }], true).await
    }

    async fn drop_collection(&mut self, name: &str) -> Done {
        let state = self.state();
        let changes = keys_of(&state, name).map(|key| Change { key, after: None }).collect();
        self.ddl(doc! { "drop": name }, changes, true).await
    }

    async fn rename(&mut self, name: &str) -> Done {
        let target = match name.strip_suffix('b') {
            Some(plain) => plain.to_owned(),
            None => format!("{name}b"),
        };
        let state = self.state();
        let mut changes: Vec<Change> = keys_of(&state, name).map(|key| Change { key, after: None }).collect();
        changes.extend(keys_of(&state, &target).map(|key| Change { key, after: None }));
        let moved = state.iter().filter(|((collection, _), _)| collection == name);
        changes.extend(
            moved.map(|((_, id), document)| Change { key: key(&target, id), after: Some(document.clone()) }),
        );
        let command = doc! {
            "renameCollection": (format!("{}.{name}", crate::world::DATABASE)),
            "to": (format!("{}.{target}", crate::world::DATABASE)), "dropTarget": true, "$db": "admin",
        };
        self.ddl(command, last_of_each(changes), true).await
    }

    /// `$out` replaces the collection as a whole, `$merge` changes document after document.
    async fn aggregate_into(&mut self, name: &str, before: Option<Document>) -> Done {
        let replaces = self.random.chance(500);
        let stage = match replaces {
            true => doc! { "$out": name },
            false => {
                doc! { "$merge": { "into": name, "whenMatched": "replace", "whenNotMatched": "insert" } }
            }
        };
        let state = self.state();
        let mut changes: Vec<Change> = Vec::new();
        if replaces {
            let old = keys_of(&state, name).filter(|(_, id)| !id.is_empty());
            changes.extend(old.map(|key| Change { key, after: None }));
        }
        let mut documents = self.documents("private");
        let mut stages = vec![doc! { "$match": { "owner": (self.number as i64) } }];
        if self.random.chance(400) {
            let (skip, limit) = (self.random.below(3) as usize, 1 + self.random.below(12) as usize);
            documents = documents.into_iter().skip(skip).take(limit).collect();
            stages.extend([
                doc! { "$sort": { "_id": 1 } },
                doc! { "$skip": (skip as i64) },
                doc! { "$limit": (limit as i64) },
            ]);
        }
        stages.push(stage);
        if before.is_none() && (replaces || !documents.is_empty()) {
            changes.push(Change { key: key(name, ""), after: Some(about(false, &[])) });
        }
        let copies = documents.into_iter();
        changes.extend(copies.map(|(id, document)| Change { key: key(name, &id), after: Some(document) }));
        let stages: Vec<Value> = stages.into_iter().map(Value::from).collect();
        let command = doc! { "aggregate": "private", "cursor": {}, "pipeline": stages };
        let plan = Plan {
            command,
            changes: last_of_each(changes),
            is_atomic: replaces,
            reply: Document::new(),
            errors: Vec::new(),
        };
        self.write(plan).await.map(drop)
    }

    pub(super) async fn insert_own(&mut self, name: &str, about: &Document) -> Done {
        let is_capped = is_capped(about);
        let tag = self.world.tag();
        let id = format!("o{tag:06}");
        let document = doc! { "_id": (id.as_str()), "v": tag };
        let mut changes = vec![Change { key: key(name, &id), after: Some(normal(&document)) }];
        let state = self.state();
        // Ids ascend, and so does the order of insertion.
        let present: Vec<_> = keys_of(&state, name).filter(|(_, id)| !id.is_empty()).collect();
        if is_capped && present.len() >= CAPPED_DOCUMENTS {
            let pushed_out = present.into_iter().take(1).map(|key| Change { key, after: None });
            changes.extend(pushed_out);
        }
        let plan = Plan {
            command: doc! { "insert": name, "documents": [(Value::from(document))] },
            is_atomic: changes.len() == 1,
            changes,
            reply: doc! { "n": 1 },
            errors: Vec::new(),
        };
        self.write(plan).await.map(drop)
    }

    async fn change_indexes(&mut self, name: &str, before: Document) -> Done {
        let names = before.get("indexes").and_then(Value::as_array).unwrap_or_default();
        let has = names.iter().any(|index| index.as_str() == Some("v"));
        let is_capped = is_capped(&before);
        let (command, after) = match has {
            true => (doc! { "dropIndexes": name, "index": "v" }, about(is_capped, &[])),
            false => {
                let index = doc! { "key": { "v": 1 }, "name": "v" };
                (doc! { "createIndexes": name, "indexes": [index] }, about(is_capped, &["v"]))
            }
        };
        self.ddl(command, vec![Change { key: key(name, ""), after: Some(after) }], true).await
    }

    async fn ddl(&mut self, command: Document, changes: Vec<Change>, is_atomic: bool) -> Done {
        self.write(Plan { command, changes, is_atomic, reply: Document::new(), errors: Vec::new() })
            .await
            .map(drop)
    }

    /// Makes or drops an index of the documents of all clients.
    async fn index_of_all(&mut self) -> Done {
        let command = match self.random.chance(500) {
            true => {
                doc! {
                    "createIndexes": "private", "indexes": [{ "key": { "v": 1, "tag": -1 }, "name": "v_tag" }]
                }
            }
            false => doc! { "dropIndexes": "private", "index": "v_tag" },
        };
        let reply = self.call(command).await?;
        /// `IndexNotFound`, `IndexBuildAborted`: others do the same.
        const EXPECTED: [i64; 2] = [27, 276];
        let code = super::number(&reply, "code");
        let is_expected = EXPECTED.contains(&code)
            || super::INTERRUPTIONS.contains(&code)
            || super::together::tells_of_fault(&reply);
        if !crate::observer::is_ok(&reply) && !is_expected {
            self.fail(format!("the index of all fails: {reply:?}"));
        }
        Ok(())
    }
}

fn is_capped(about: &Document) -> bool {
    about.get(CAPPED) == Some(&Value::Boolean(true))
}

/// What is noted of a collection itself.
fn about(is_capped: bool, indexes: &[&str]) -> Document {
    let mut names = vec![Value::from("_id_")];
    names.extend(indexes.iter().map(|name| Value::from(*name)));
    doc! { "capped": is_capped, "indexes": names }
}

fn keys_of<'s>(state: &'s State, collection: &'s str) -> impl Iterator<Item = (String, String)> + 's {
    state.keys().filter(move |(name, _)| name == collection).cloned()
}

/// One change of each key: the last one.
fn last_of_each(changes: Vec<Change>) -> Vec<Change> {
    let mut last: std::collections::BTreeMap<_, Option<Document>> = std::collections::BTreeMap::new();
    last.extend(changes.into_iter().map(|change| (change.key, change.after)));
    last.into_iter().map(|(key, after)| Change { key, after }).collect()
}
