//! What one client knows of its documents that expire by a TTL index: from a date on each may be gone, and
//! after a pass it must be; before, it must not be, whatever date it had until it was changed.

use crate::disk::Crash;
use document::{Document, Value};
use std::collections::BTreeMap;

/// What such a document was at some time.
#[derive(Clone, Debug, PartialEq)]
struct Version {
    at: Value,
    /// From when on it may be deleted, in milliseconds since 1970; `None`: never.
    expires_ms: Option<i64>,
}

impl Version {
    fn new(at: Value) -> Version {
        let date = |value: &Value| match value {
            Value::DateTime(date) => Some(*date),
            _ => None,
        };
        let expires_ms = match at.as_array() {
            Some(dates) => dates.iter().filter_map(date).min(),
            None => date(&at),
        };
        Version { at, expires_ms }
    }
}

/// All that a document was; `None`: it was not there.
#[derive(Debug)]
struct History {
    versions: Vec<Option<Version>>,
    /// It is one of those from here on.
    possible_from: usize,
    /// A power cut leaves one of those from here on.
    durable_from: usize,
}

impl History {
    fn possible(&self) -> &[Option<Version>] {
        self.versions.get(self.possible_from..).expect("a version is possible")
    }

    fn may_be_gone(&self, now_ms: i64) -> bool {
        let is_gone = |version: &Option<Version>| match version {
            None => true,
            Some(version) => version.expires_ms.is_some_and(|expires| expires <= now_ms),
        };
        self.possible().iter().any(is_gone)
    }

    /// It is this now.
    fn is_now(&mut self, version: Option<Version>) {
        self.possible_from = self.versions.len();
        self.versions.push(version);
    }
}

/// One client's documents with dates.
#[derive(Debug, Default)]
pub(crate) struct Mortals {
    documents: BTreeMap<String, History>,
}

/// What is known of a write of such a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It happened.
    Acknowledged { is_journaled: bool },
    /// It may have.
    Unknown,
}

impl Mortals {
    /// Ids of documents that may be there.
    pub(crate) fn living(&self) -> Vec<String> {
        let living = |history: &History| history.possible().iter().any(Option::is_some);
        self.documents.iter().filter(|(_, history)| living(history)).map(|(id, _)| id.clone()).collect()
    }

    /// A document was inserted or given this date.
    pub(crate) fn wrote(&mut self, id: &str, at: Value, outcome: Outcome) {
        let new = || History { versions: vec![None], possible_from: 0, durable_from: 0 };
        let history = self.documents.entry(id.to_owned()).or_insert_with(new);
        let version = Some(Version::new(at));
        match outcome {
            Outcome::Unknown => history.versions.push(version),
            Outcome::Acknowledged { is_journaled } => {
                history.is_now(version);
                if is_journaled {
                    history.durable_from = history.possible_from;
                }
            }
        }
    }

    /// A read of this moment or earlier has found this.
    ///
    /// # Errors
    /// When it cannot be.
    pub(crate) fn found(&mut self, id: &str, found: Option<&Document>, now_ms: i64) -> Result<(), String> {
        let Some(history) = self.documents.get_mut(id) else {
            return Err(format!("nobody has inserted {id}"));
        };
        let Some(document) = found else {
            if !history.may_be_gone(now_ms) {
                return Err(format!("{id} is gone at {now_ms}, and was {:?}", history.possible()));
            }
            history.is_now(None);
            return Ok(());
        };
        let version = Version::new(document.get("at").cloned().unwrap_or(Value::Null));
        let position = history.possible().iter().position(|possible| possible.as_ref() == Some(&version));
        match position {
            Some(position) => history.possible_from += position,
            None => return Err(format!("{id} is {version:?}, and was {:?}", history.possible())),
        }
        Ok(())
    }

    /// The server was started again after this, and has these.
    ///
    /// # Errors
    /// When that is not what may be left.
    pub(crate) fn recovered(
        &mut self,
        crash: Crash,
        found: &BTreeMap<String, Document>,
        now_ms: i64,
    ) -> Result<(), String> {
        if crash == Crash::PowerCut {
            self.documents.values_mut().for_each(|history| history.possible_from = history.durable_from);
        }
        self.compare(found, now_ms)?;
        for history in self.documents.values_mut() {
            history.versions.drain(..history.possible_from);
            history.versions.truncate(1);
            (history.possible_from, history.durable_from) = (0, 0);
        }
        self.documents.retain(|_, history| history.versions != [None]);
        Ok(())
    }

    /// All documents there are.
    ///
    /// # Errors
    /// When one of them cannot be, or one is missing.
    pub(crate) fn compare(&mut self, found: &BTreeMap<String, Document>, now_ms: i64) -> Result<(), String> {
        if let Some(stranger) = found.keys().find(|id| !self.documents.contains_key(*id)) {
            return Err(format!("nobody has inserted {stranger}, or it was gone before"));
        }
        let ids: Vec<String> = self.documents.keys().cloned().collect();
        ids.iter().try_for_each(|id| self.found(id, found.get(id), now_ms))
    }

    /// A pass that began after this moment has ended, and these are there.
    ///
    /// # Errors
    /// Which one should be gone.
    pub(crate) fn check_after_pass(
        &self,
        found: &BTreeMap<String, Document>,
        moment_ms: i64,
    ) -> Result<(), String> {
        let expires =
            |document: &Document| document.get("at").cloned().and_then(|at| Version::new(at).expires_ms);
        let overdue = |(_, document): &(&String, &Document)| {
            expires(document).is_some_and(|expires| expires <= moment_ms)
        };
        match found.iter().find(overdue) {
            Some((id, document)) => {
                Err(format!("{id} has expired before {moment_ms}, and a pass left it: {document:?}"))
            }
            None => Ok(()),
        }
    }
}
