//! Documents that expire by a TTL index, and some that are given another date shortly before.

use super::{Dead, Done, SimulatedClient, Verdict, number};
use crate::mortal::Outcome;
use crate::observer::{MORTAL, batch};
use crate::world::now_ms;
use document::{Document, Value, doc};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

/// Steps of the monitor while a command is carried out: it comes to its second index.
const MONITOR_STEPS: usize = 4;
/// Later than any run.
const LATE_MS: i64 = 3_600_000;
/// Dates that come within a run.
const SOON_MS: u64 = 1_500;

impl SimulatedClient {
    pub(super) async fn use_mortals(&mut self) -> Done {
        match self.random.below(10) {
            0..3 => self.insert_mortal().await,
            3..8 => self.postpone_mortal().await,
            _ => self.look_at_mortals().await,
        }
    }

    /// A date that comes soon or was a moment ago, one that is late, several, or none.
    fn some_date(&mut self) -> Value {
        let soon = Value::DateTime(now_ms() - 500 + self.random.below(SOON_MS) as i64);
        let late = Value::DateTime(now_ms() + LATE_MS + self.random.below(1000) as i64);
        match self.random.below(10) {
            0..6 => soon,
            6 => late,
            7 => Value::from(vec![late, soon]),
            8 => Value::from(vec![Value::from("no date"), late]),
            _ => Value::from("no date"),
        }
    }

    async fn insert_mortal(&mut self) -> Done {
        let id = format!("m{:06}", self.world.tag());
        let at = self.some_date();
        let document = doc! { "_id": (id.as_str()), "owner": (self.number as i64), "at": (at.clone()) };
        let command = doc! { "insert": MORTAL, "documents": [(Value::from(document))] };
        if let Some((outcome, _)) = self.write_mortal(command, &id, &at).await? {
            self.wrote(&id, at, outcome);
        }
        Ok(())
    }

    /// Gives a document another date. If it is still there, the one before counts no more.
    async fn postpone_mortal(&mut self) -> Done {
        let living = self.mortals(|mortals| mortals.living());
        let chosen = self.random.below(living.len() as u64) as usize;
        let Some(id) = living.get(chosen).cloned() else { return self.insert_mortal().await };
        let at = match self.random.chance(700) {
            true => Value::DateTime(now_ms() + LATE_MS + self.world.tag()),
            false => self.some_date(),
        };
        let update = doc! { "q": { "_id": (id.as_str()) }, "u": { "$set": { "at": (at.clone()) } } };
        let command = doc! { "update": MORTAL, "updates": [update] };
        match self.write_mortal(command, &id, &at).await? {
            Some((Outcome::Acknowledged { .. }, 0)) => self.found(&id, None),
            Some((outcome, _)) => self.wrote(&id, at, outcome),
            None => {}
        }
        Ok(())
    }

    /// What became of a write, and how many documents it met; `None` when nothing happened.
    async fn write_mortal(
        &mut self,
        mut command: Document,
        id: &str,
        at: &Value,
    ) -> Done<Option<(Outcome, i64)>> {
        let (concern, is_journaled) = self.concern();
        let is_unacknowledged = concern.get("w") == Some(&Value::Int32(0));
        command.push("writeConcern", concern);
        let expires_meanwhile = self.random.chance(400);
        let Ok(reply) = self.call_as_time_passes(command, expires_meanwhile).await else {
            self.wrote(id, at.clone(), Outcome::Unknown);
            return Err(Dead);
        };
        Ok(match self.judge(&reply) {
            _ if is_unacknowledged => Some((Outcome::Unknown, 0)),
            Verdict::Acknowledged => Some((Outcome::Acknowledged { is_journaled }, number(&reply, "n"))),
            Verdict::Unsure => Some((Outcome::Unknown, 0)),
            Verdict::Refused => None,
            verdict @ Verdict::Failed(_) => {
                self.fail(format!("a write of {id} ends with {verdict:?}"));
                None
            }
        })
    }

    /// Sends a command; what expires soon may do so while it is carried out.
    async fn call_as_time_passes(&self, command: Document, passes: bool) -> Done<Document> {
        let (mut call, mut is_left) = (pin!(self.call(command)), passes);
        poll_fn(|task| {
            let poll = call.as_mut().poll(task);
            if poll.is_pending() && std::mem::take(&mut is_left) {
                self.world.skip(Duration::from_secs(1));
                (0..MONITOR_STEPS).for_each(|_| self.world.node.expire());
            }
            poll
        })
        .await
    }

    async fn look_at_mortals(&mut self) -> Done {
        let living = self.mortals(|mortals| mortals.living());
        let find = match self.random.chance(500) {
            true => doc! { "find": MORTAL, "filter": { "owner": (self.number as i64) }, "batchSize": 10_000 },
            false => doc! { "find": MORTAL, "filter": { "_id": { "$in": (ids(&living)) } } },
        };
        let Some(reply) = self.ask(find).await? else { return Ok(()) };
        let found = batch(&reply);
        for id in living {
            let is_it =
                |document: &&Document| document.get("_id").and_then(Value::as_str) == Some(id.as_str());
            self.found(&id, found.iter().find(is_it));
        }
        Ok(())
    }

    fn mortals<T>(&self, use_them: impl FnOnce(&mut crate::mortal::Mortals) -> T) -> T {
        let own = self.world.mortals.get(self.number).expect("each client has some");
        use_them(&mut own.borrow_mut())
    }

    fn wrote(&self, id: &str, at: Value, outcome: Outcome) {
        self.mortals(|mortals| mortals.wrote(id, at, outcome));
    }

    fn found(&self, id: &str, document: Option<&Document>) {
        let found = self.mortals(|mortals| mortals.found(id, document, now_ms()));
        found.unwrap_or_else(|failure| self.fail(failure));
    }
}

fn ids(living: &[String]) -> Vec<Value> {
    living.iter().map(|id| Value::from(id.as_str())).collect()
}
