//! Reads of documents that belong to this client alone: their results are known beforehand.

use super::{Done, IDS, SimulatedClient, VALUES, comparable, number};
use crate::observer::{batch, normal};
use document::{Document, Value, doc};
use std::collections::BTreeMap;

const PRIVATE: &str = "private";

impl SimulatedClient {
    pub(super) async fn read(&mut self) -> Done {
        match self.random.below(9) {
            0 | 1 => self.find_by_id().await,
            2 | 3 => self.find_range().await,
            4 => self.find_item().await,
            5 => self.count().await,
            6 => self.distinct().await,
            7 => self.group().await,
            _ => self.find_in_batches().await,
        }
    }

    pub(super) fn check(&self, what: &str, expected: &[Document], found: &[Document]) {
        let plain = |documents: &[Document]| -> Vec<Value> {
            documents.iter().map(|document| comparable(&document.clone().into())).collect()
        };
        if plain(expected) != plain(found) {
            self.fail(format!("{what} must find {expected:#?} and finds {found:#?}"));
        }
    }

    pub(super) fn own(&self) -> Vec<Document> {
        self.documents(PRIVATE).into_iter().map(|(_, document)| document).collect()
    }

    async fn find_by_id(&mut self) -> Done {
        let id = self.some_id(IDS);
        let find = doc! { "find": PRIVATE, "filter": { "_id": (id.as_str()) } };
        let Some(reply) = self.ask(find).await? else { return Ok(()) };
        let expected: Vec<Document> = self
            .documents(PRIVATE)
            .into_iter()
            .filter(|(other, _)| *other == id)
            .map(|(_, document)| document)
            .collect();
        self.check(&format!("the find of {id}"), &expected, &batch(&reply));
        Ok(())
    }

    async fn find_range(&mut self) -> Done {
        let (from, to) = (self.random.below(VALUES) as i64, self.random.below(2 * VALUES) as i64);
        let direction = if self.random.chance(500) { 1 } else { -1 };
        let limit = 1 + self.random.below(30) as i64;
        let find = doc! {
            "find": PRIVATE, "filter": { "owner": (self.number as i64), "v": { "$gte": from, "$lt": to } },
            "sort": { "v": direction, "_id": 1 }, "limit": limit, "batchSize": 1000,
        };
        let Some(reply) = self.ask(find).await? else { return Ok(()) };
        let mut expected = self.own();
        expected.retain(|document| (from..to).contains(&number(document, "v")));
        // By id they are in order already.
        expected.sort_by_key(|document| number(document, "v") * i64::from(direction));
        expected.truncate(limit as usize);
        self.check(&format!("the sorted find of v in {from}..{to}"), &expected, &batch(&reply));
        Ok(())
    }

    async fn find_item(&mut self) -> Done {
        let item = Value::Int64(self.random.below(6) as i64);
        let find = doc! {
            "find": PRIVATE, "filter": { "list": (item.clone()), "owner": (self.number as i64) },
            "batchSize": 1000,
        };
        let find = if self.random.chance(500) { with(find, "hint", "list") } else { find };
        let Some(reply) = self.ask(find).await? else { return Ok(()) };
        let mut expected = self.own();
        expected.retain(|document| {
            document.get("list").and_then(Value::as_array).is_some_and(|list| list.contains(&item))
        });
        self.check(&format!("the find of {item:?} in lists"), &expected, &by_id(batch(&reply)));
        Ok(())
    }

    async fn find_in_batches(&mut self) -> Done {
        let size = 1 + self.random.below(6) as i64;
        let find = doc! { "find": PRIVATE, "filter": { "owner": (self.number as i64) }, "batchSize": size };
        let find = if self.random.chance(500) { with(find, "sort", doc! { "v": 1 }) } else { find };
        let Some(mut reply) = self.ask(find).await? else { return Ok(()) };
        let mut found = Vec::new();
        loop {
            found.extend(batch(&reply));
            let id = match reply.get("cursor") {
                Some(Value::Document(cursor)) => number(cursor, "id"),
                _ => 0,
            };
            if id == 0 {
                break;
            }
            let more = doc! { "getMore": id, "collection": PRIVATE, "batchSize": size };
            let Some(next) = self.ask(more).await? else { return Ok(()) };
            reply = next;
        }
        self.check("the find in batches", &self.own(), &by_id(found));
        Ok(())
    }

    async fn count(&mut self) -> Done {
        let bound = self.random.below(2 * VALUES) as i64;
        let count =
            doc! { "count": PRIVATE, "query": { "owner": (self.number as i64), "v": { "$lt": bound } } };
        let Some(reply) = self.ask(count).await? else { return Ok(()) };
        let expected = self.own().iter().filter(|document| number(document, "v") < bound).count() as i64;
        if number(&reply, "n") != expected {
            self.fail(format!("the count of v below {bound} must be {expected} and is {reply:?}"));
        }
        Ok(())
    }

    async fn distinct(&mut self) -> Done {
        let distinct = doc! { "distinct": PRIVATE, "key": "v", "query": { "owner": (self.number as i64) } };
        let Some(reply) = self.ask(distinct).await? else { return Ok(()) };
        let values = reply.get("values").and_then(Value::as_array).unwrap_or_default();
        let mut found: Vec<i64> = values.iter().filter_map(crate::shared::integer).collect();
        found.sort_unstable();
        let mut expected: Vec<i64> = self.own().iter().map(|document| number(document, "v")).collect();
        expected.sort_unstable();
        expected.dedup();
        if found != expected {
            self.fail(format!("the distinct values must be {expected:?} and are {found:?}"));
        }
        Ok(())
    }

    async fn group(&mut self) -> Done {
        let aggregate = doc! {
            "aggregate": PRIVATE, "cursor": {}, "pipeline": [
                { "$match": { "owner": (self.number as i64) } },
                { "$group": { "_id": { "$mod": ["$v", 3] }, "n": { "$sum": 1 }, "total": { "$sum": "$v" },
                    "latest": { "$max": "$tag" } } },
                { "$sort": { "_id": 1 } },
            ],
        };
        let Some(reply) = self.ask(aggregate).await? else { return Ok(()) };
        let mut groups: BTreeMap<i64, (i64, i64, i64)> = BTreeMap::new();
        for document in self.own() {
            let (value, tag) = (number(&document, "v"), number(&document, "tag"));
            let group = groups.entry(value % 3).or_insert((0, 0, i64::MIN));
            *group = (group.0 + 1, group.1 + value, group.2.max(tag));
        }
        let expected: Vec<Document> = groups
            .into_iter()
            .map(|(id, (count, total, latest))| {
                normal(&doc! { "_id": id, "n": count, "total": total, "latest": latest })
            })
            .collect();
        self.check("the groups", &expected, &batch(&reply));
        Ok(())
    }
}

fn with(mut document: Document, name: &str, value: impl Into<Value>) -> Document {
    document.push(name, value);
    document
}

fn by_id(mut documents: Vec<Document>) -> Vec<Document> {
    let id = |document: &Document| document.get("_id").and_then(Value::as_str).unwrap_or_default().to_owned();
    documents.sort_by_key(id);
    documents
}
