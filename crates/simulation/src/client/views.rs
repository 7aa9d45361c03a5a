//! A view of each client on its own documents, which comes, changes and goes.

use super::{Done, Plan, SimulatedClient, VALUES, key, number};
use crate::model::Change;
use crate::observer::{batch, view_of};
use document::{Document, Value, doc};

impl SimulatedClient {
    pub(super) async fn use_view(&mut self) -> Done {
        let name = view_of(self.number);
        let about = self.state().get(&key(&name, "")).cloned();
        match (about, self.random.below(10)) {
            (None, _) => self.define_view(doc! { "create": (name.as_str()) }).await,
            (Some(_), 0) => self.change_view(doc! { "drop": (name.as_str()) }, None).await,
            (Some(_), 1..4) => self.define_view(doc! { "collMod": (name.as_str()) }).await,
            (Some(about), 4..6) => self.count_view(&name, number(&about, "from")).await,
            (Some(about), _) => self.find_in_view(&name, number(&about, "from")).await,
        }
    }

    async fn define_view(&mut self, mut command: Document) -> Done {
        let from = self.random.below(VALUES) as i64;
        let filter = doc! { "$match": { "owner": (self.number as i64), "v": { "$gte": from } } };
        command.extend(doc! { "viewOn": "private", "pipeline": [(Value::from(filter))] });
        self.change_view(command, Some(doc! { "from": from })).await
    }

    async fn change_view(&mut self, command: Document, after: Option<Document>) -> Done {
        let changes = vec![Change { key: key(&view_of(self.number), ""), after }];
        let plan = Plan { command, changes, is_atomic: true, reply: Document::new(), errors: Vec::new() };
        self.write(plan).await.map(drop)
    }

    /// The client's documents with values in this range, by value and id.
    fn shown(&self, from: i64, to: i64) -> Vec<Document> {
        let mut shown = self.own();
        shown.retain(|document| (from..to).contains(&number(document, "v")));
        shown.sort_by_key(|document| number(document, "v"));
        shown
    }

    async fn find_in_view(&mut self, name: &str, from: i64) -> Done {
        let (to, limit) = (self.random.below(2 * VALUES) as i64, 1 + self.random.below(20) as i64);
        let find = doc! {
            "find": name, "filter": { "v": { "$lt": to } }, "sort": { "v": 1, "_id": 1 }, "limit": limit,
            "batchSize": 1000,
        };
        let Some(reply) = self.ask(find).await? else { return Ok(()) };
        let mut expected = self.shown(from, to);
        expected.truncate(limit as usize);
        self.check(&format!("the find of v in {from}..{to} in the view"), &expected, &batch(&reply));
        Ok(())
    }

    async fn count_view(&mut self, name: &str, from: i64) -> Done {
        let to = self.random.below(2 * VALUES) as i64;
        let count = doc! { "count": name, "query": { "v": { "$lt": to } } };
        let Some(reply) = self.ask(count).await? else { return Ok(()) };
        let expected = self.shown(from, to).len() as i64;
        if number(&reply, "n") != expected {
            self.fail(format!("the count of v in {from}..{to} in the view is {expected} and not {reply:?}"));
        }
        Ok(())
    }
}
