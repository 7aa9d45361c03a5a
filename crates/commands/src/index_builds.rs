//! Index builds that a crash, or the end of the server, has ended go on by themselves.
//!
//! ```text
//!  start ─▶ waiting builds? ──none──▶ done
//!             │ this server takes writes          │ another member is the primary
//!             ▼                                   ▼
//!           go on, one after the other         given up: no other member knows of them
//! ```
//! What the log of a set asked for waits for the log, which asks again. Like the TTL monitor, this is called
//! step by step: `heddle` does it on a thread of low priority.

use crate::calendar::{self, WorkKind};
use crate::own_work::{OwnWork, OwnWorkStep, OwnWorkSwitch};
use crate::server::ServiceContext;
use catalog::{BuildPhase, BuildProgress, Collection, Receipts};
use document::{Document, Value, doc};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long until it is looked again whether a build may go on.
const LOOK_EACH: Duration = Duration::from_millis(500);

/// Goes on with what is left.
#[derive(Debug)]
pub struct BuildResumer {
    /// Whose switch its waits look at.
    work: OwnWork,
}

/// The build that goes on in the background now, for `currentOp`.
#[derive(Debug, Default)]
pub(crate) struct ResumedBuild(Mutex<Option<BuildUnderWay>>);

/// What is built, how far it is, and since when.
type BuildUnderWay = (Arc<Collection>, Arc<BuildProgress>, Instant);

impl Default for BuildResumer {
    fn default() -> Self {
        BuildResumer { work: OwnWork::new("index builds") }
    }
}

impl BuildResumer {
    /// Ends it from another thread.
    pub fn switch(&self) -> OwnWorkSwitch {
        self.work.switch()
    }

    /// Goes on with one build, if one may, to its end. On a thread that may block.
    pub async fn step(&self, server: &ServiceContext) -> OwnWorkStep {
        let node = &server.node;
        let mut waiting = node.catalog.waiting_index_builds();
        if waiting.is_empty() || self.work.is_ended() || server.is_shutting_down() {
            return OwnWorkStep::Ended;
        }
        let now = ambient::now();
        let later = OwnWorkStep::Continues { at: now + LOOK_EACH };
        let of_log = |build: &BuildProgress| build.is_of_log() && node.replica_set().is_some();
        if node.replays() {
            if self.follows_another(server) {
                for (collection, build) in waiting.iter().filter(|(_, build)| !of_log(build)) {
                    self.give_up(server, collection, build).await;
                }
            }
            return later;
        }
        waiting.retain(|(_, build)| !of_log(build));
        let Some((collection, build)) = waiting.first() else { return later };
        match calendar::ask(server, WorkKind::IndexBuilds, None).rate() {
            Some(_) => self.go_on(server, collection, build).await,
            None => return later,
        }
        OwnWorkStep::Continues { at: now }
    }

    fn follows_another(&self, server: &ServiceContext) -> bool {
        server.node.replica_set().is_some_and(|set| {
            let topology = set.topology();
            topology
                .primary_member()
                .is_some_and(|primary| topology.own_member().is_some_and(|own| own.host != primary.host))
        })
    }

    async fn go_on(&self, server: &ServiceContext, collection: &Arc<Collection>, build: &Arc<BuildProgress>) {
        let receipts = Receipts::default();
        let writing = server.node.writing(&receipts);
        let shown = (Arc::clone(collection), Arc::clone(build), ambient::now());
        *server.node.resumed_build.0.lock() = Some(shown);
        let going_on = server.node.catalog.go_on_with_index_build(&writing, collection, build);
        let built = self.work.run(going_on).await;
        *server.node.resumed_build.0.lock() = None;
        let namespace = collection.definition().namespace.to_string();
        let indexes = build.names();
        match built {
            Ok(true) => tracing::info!(target: "INDEX", id = 8_800_203, namespace, ?indexes,
                behind = build.resumed_at(), "An index build that went on after a restart is done"),
            Ok(false) => {}
            Err(error) if server.is_shutting_down() => {
                tracing::debug!(target: "INDEX", namespace, ?indexes, errmsg = %error,
                    "an index build ends with the server");
            }
            Err(error) => {
                tracing::warn!(target: "INDEX", id = 8_800_204, namespace, ?indexes, code = error.code(),
                errmsg = %error, "An index build that went on after a restart has failed")
            }
        }
    }

    async fn give_up(&self, server: &ServiceContext, collection: &Collection, build: &Arc<BuildProgress>) {
        let receipts = Receipts::default();
        let writing = server.node.writing(&receipts);
        let given_up = server.node.catalog.give_up_index_build(&writing, collection, build);
        let outcome = self.work.run(given_up).await;
        tracing::info!(target: "INDEX", id = 8_800_205, namespace = %collection.definition().namespace,
            indexes = ?build.names(), error = outcome.err().map(|error| error.to_string()),
            "An index build of this member's time as primary was given up: another one leads now");
    }
}

impl ResumedBuild {
    /// Whether there is one that waits for its window.
    pub(crate) fn is_paused(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|(_, build, _)| build.is_paused())
    }

    /// As `currentOp` shows it.
    pub(crate) fn operation(&self) -> Option<Document> {
        let (collection, build, since) = self.0.lock().clone()?;
        let definition = collection.definition();
        let (message, done, total) = progress_of(&build);
        let took = ambient::elapsed(since);
        let names = build.names().iter().map(|name| Value::from(name.as_str())).collect::<Vec<_>>();
        let command = doc! { "createIndexes": (definition.namespace.collection()), "indexes": names,
        "$db": (definition.namespace.database()) };
        Some(doc! {
            "desc": "IndexBuildResumer", "active": true, "secs_running": (took.as_secs() as i64),
            "microsecs_running": (took.as_micros() as i64), "op": "command",
            "ns": (definition.namespace.to_string()), "command": command, "msg": message,
            "progress": { "done": (done as i64), "total": (total as i64) }
        })
    }
}

/// How far a build is: in words, done and total.
pub(crate) fn progress_of(build: &BuildProgress) -> (String, u64, u64) {
    let (done, total) = (build.done(), build.total());
    let percent = (done * 100).checked_div(total).unwrap_or(100).min(100);
    let step = match build.phase() {
        BuildPhase::Scan => "scanning collection",
        BuildPhase::Load => "inserting keys from external sorter into index",
        BuildPhase::Settle => "draining writes received during build",
    };
    let waits = if build.is_paused() { " (waits for its window in the calendar)" } else { "" };
    let resumed = build.resumed_at().map(|at| format!(" (resumed at document {at})")).unwrap_or_default();
    (format!("Index Build: {step}: {done}/{total} {percent}%{resumed}{waits}"), done, total)
}
