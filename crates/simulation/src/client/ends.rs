//! What ends before its time: cursors that are killed or whose session ends, operations that somebody kills,
//! waits for documents that do not come.

use super::{Done, SimulatedClient, number};
use crate::observer::{batch, is_ok};
use document::{Document, Value, doc};
use std::time::Duration;

const PRIVATE: &str = "private";
const CURSOR_NOT_FOUND: i64 = 43;
/// A wait of this client's ends long before.
const WAIT_MAX: Duration = Duration::from_millis(500);

impl SimulatedClient {
    /// Ends a cursor, by itself or with its session: nothing more comes from it.
    pub(super) async fn end_cursor(&mut self) -> Done {
        let find = doc! { "find": PRIVATE, "filter": { "owner": (self.number as i64) }, "batchSize": 1 };
        let Some(reply) = self.ask(find).await? else { return Ok(()) };
        let id = cursor_id(&reply);
        if id == 0 {
            return Ok(());
        }
        let end = match self.lsid() {
            Some(lsid) if self.random.chance(500) => doc! { "endSessions": [lsid] },
            _ => doc! { "killCursors": PRIVATE, "cursors": [id] },
        };
        let Some(ended) = self.ask(end.clone()).await? else { return Ok(()) };
        let is_told =
            ended.get("cursorsKilled").is_none_or(|killed| *killed == vec![Value::Int64(id)].into());
        let reply = self.call(doc! { "getMore": id, "collection": PRIVATE }).await?;
        if !is_told || is_ok(&reply) || number(&reply, "code") != CURSOR_NOT_FOUND {
            self.fail(format!("a cursor goes on after {end:?}, answered by {ended:?}: {reply:?}"));
        }
        self.session = self.random.chance(500).then(|| self.random.seed());
        Ok(())
    }

    /// Tells the operations of other clients to end.
    pub(super) async fn kill_others(&mut self) -> Done {
        let reply = self.call(doc! { "currentOp": 1, "$db": "admin" }).await?;
        let own = self.number as i64 + 1;
        for operation in reply.get("inprog").and_then(Value::as_array).unwrap_or_default() {
            let Value::Document(operation) = operation else { continue };
            if number(operation, "connectionId") == own {
                continue;
            }
            let kill = doc! { "killOp": 1, "op": (number(operation, "opid")), "$db": "admin" };
            let reply = self.call(kill).await?;
            if !is_ok(&reply) {
                self.fail(format!("killOp fails: {reply:?}"));
            }
        }
        Ok(())
    }

    /// Reads a capped collection to its end, adds to it, and reads what is new, waiting for it or not.
    pub(super) async fn tail(&mut self, name: &str, about: &Document) -> Done {
        let before = self.documents(name);
        let awaits = self.random.chance(500);
        let find = doc! { "find": name, "tailable": true, "awaitData": awaits, "batchSize": 100 };
        let Some(reply) = self.ask(find).await? else { return Ok(()) };
        self.check("the tailable find", &documents(&before), &batch(&reply));
        let id = cursor_id(&reply);
        if (id == 0) != before.is_empty() {
            self.fail(format!("a tailable cursor over {before:?} is {id}"));
        }
        if id == 0 {
            return Ok(());
        }
        for _ in 0..self.random.below(3) {
            self.insert_own(name, about).await?;
        }
        let mut new = self.documents(name);
        new.retain(|(id, _)| before.iter().all(|(other, _)| other != id));
        let mut more = doc! { "getMore": id, "collection": name };
        if awaits {
            more.push("maxTimeMS", 1 + self.random.below(5) as i64);
        }
        let asked = self.world.elapsed();
        let Some(reply) = self.ask(more).await? else { return Ok(()) };
        self.check("the tail", &documents(&new), &batch(&reply));
        if self.world.elapsed() - asked > WAIT_MAX {
            self.fail(format!("a getMore with a limit of some milliseconds took longer than {WAIT_MAX:?}"));
        }
        self.ask(doc! { "killCursors": name, "cursors": [id] }).await.map(drop)
    }
}

fn documents(found: &[(String, Document)]) -> Vec<Document> {
    found.iter().map(|(_, document)| document.clone()).collect()
}

fn cursor_id(reply: &Document) -> i64 {
    match reply.get("cursor") {
        Some(Value::Document(cursor)) => number(cursor, "id"),
        _ => 0,
    }
}
