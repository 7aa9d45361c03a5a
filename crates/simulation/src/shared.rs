//! Documents that all clients change at the same time. Each change counts one up and appends its own number
//! to a list, so that every reader sees the document's whole history.

use crate::disk::Crash;
use crate::model::{CrashedWrites, Span};
use document::{Document, Value};
use std::collections::BTreeMap;

#[derive(Debug)]
struct Append {
    /// The document; `None`: any of them.
    document: Option<String>,
    span: Span,
    is_journaled: bool,
    text: String,
    /// A crash has lost it.
    is_lost: bool,
}

/// What is known of the documents that all share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    appends: BTreeMap<i64, Append>,
    /// The longest list that was read of each document.
    known: BTreeMap<String, Vec<i64>>,
}

/// What a reader knows when it begins.
#[derive(Debug)]
pub(crate) struct Expected {
    asked: u64,
    known: BTreeMap<String, Vec<i64>>,
}

impl Shared {
    /// Somebody begins to append this number.
    pub(crate) fn asked(
        &mut self,
        number: i64,
        document: Option<&str>,
        asked: u64,
        is_journaled: bool,
        text: String,
    ) {
        let span = Span { asked, acknowledged: None };
        let document = document.map(str::to_owned);
        self.appends.insert(number, Append { document, span, is_journaled, text, is_lost: false });
    }

    /// It was acknowledged.
    pub(crate) fn acknowledged(&mut self, number: i64, step: u64) {
        if let Some(append) = self.appends.get_mut(&number) {
            append.span.acknowledged = Some(step);
        }
    }

    /// It was refused: it must never be there.
    pub(crate) fn refused(&mut self, number: i64) {
        self.appends.remove(&number);
    }

    /// Somebody begins to read.
    pub(crate) fn reads(&self, asked: u64) -> Expected {
        Expected { asked, known: self.known.clone() }
    }

    /// Somebody has read a document.
    ///
    /// # Errors
    /// What its list contradicts.
    pub(crate) fn read(&mut self, expected: &Expected, document: &Document) -> Result<(), String> {
        let (id, list) = parse(document)?;
        let before = expected.known.get(&id).map_or(&[][..], Vec::as_slice);
        if !list.starts_with(before) {
            return Err(format!("{id} has {list:?}, and {before:?} was read before"));
        }
        self.check_history(&id, &list)?;
        for (number, append) in &self.appends {
            let done = append.span.acknowledged.is_some_and(|step| step < expected.asked);
            if done && !append.is_lost && append.document.as_ref() == Some(&id) && !list.contains(number) {
                return Err(format!(
                    "{id} lacks {number}, which was acknowledged (`{}`): {list:?}",
                    append.text
                ));
            }
        }
        let known = self.known.entry(id.clone()).or_default();
        if !list.starts_with(known) && !known.starts_with(&list) {
            return Err(format!("{id} has {list:?}, and {known:?} was read at the same time"));
        }
        if list.len() > known.len() {
            *known = list;
        }
        Ok(())
    }

    fn check_history(&self, id: &str, list: &[i64]) -> Result<(), String> {
        let mut latest_ask: Option<(u64, i64)> = None;
        for (position, number) in list.iter().enumerate() {
            if list.iter().take(position).any(|other| other == number) {
                return Err(format!("{id} has {number} twice: {list:?}"));
            }
            let Some(append) = self.appends.get(number).filter(|append| !append.is_lost) else {
                return Err(format!(
                    "{id} has {number}, which was refused, lost or never asked for: {list:?}"
                ));
            };
            if append.document.as_ref().is_some_and(|document| document != id) {
                return Err(format!("{id} has {number} of another document: {list:?}"));
            }
            if let (Some((asked, later)), Some(acknowledged)) = (latest_ask, append.span.acknowledged)
                && acknowledged < asked
            {
                return Err(format!("{id} has {number} behind {later}, which was asked for later: {list:?}"));
            }
            if latest_ask.is_none_or(|(asked, _)| append.span.asked > asked) {
                latest_ask = Some((append.span.asked, *number));
            }
        }
        Ok(())
    }

    /// The server was started again after this, and these are the documents.
    ///
    /// # Errors
    /// When that is not what may be left.
    pub(crate) fn recovered(&mut self, crash: Crash, found: &[Document]) -> Result<CrashedWrites, String> {
        let mut lists = BTreeMap::new();
        for document in found {
            let (id, list) = parse(document)?;
            self.check_history(&id, &list)?;
            lists.insert(id, list);
        }
        for (id, known) in &self.known {
            let list = lists.get(id).map_or(&[][..], Vec::as_slice);
            let is_shorter = crash == Crash::PowerCut && known.starts_with(list);
            if !is_shorter && !list.starts_with(known) {
                return Err(format!("{id} has {list:?} after {crash:?}, and {known:?} was read before"));
            }
        }
        let mut fates = CrashedWrites::default();
        for (number, append) in self.appends.iter_mut().filter(|(_, append)| !append.is_lost) {
            let mut holders =
                lists.iter().filter(|(id, _)| append.document.as_ref().is_none_or(|own| own == *id));
            let is_there = holders.any(|(_, list)| list.contains(number));
            let fate = (append.span, append.text.clone());
            let acknowledged = append.span.acknowledged.is_some() && append.document.is_some();
            if is_there {
                fates.survived.push(fate);
                continue;
            }
            if acknowledged && (crash == Crash::Kill || append.is_journaled) {
                return Err(format!(
                    "`{}` was acknowledged and is lost after {crash:?}: {lists:?}",
                    append.text
                ));
            }
            append.is_lost = true;
            if acknowledged {
                fates.lost.push(fate);
            }
        }
        self.known = lists;
        Ok(fates)
    }
}

fn parse(document: &Document) -> Result<(String, Vec<i64>), String> {
    let id = document.get("_id").and_then(Value::as_str).ok_or_else(|| format!("no _id in {document:?}"))?;
    let numbers = document.get("log").and_then(Value::as_array).unwrap_or_default();
    let list: Vec<i64> = numbers.iter().filter_map(integer).collect();
    let count = document.get("n").and_then(integer);
    if list.len() != numbers.len() || count != Some(list.len() as i64) {
        return Err(format!("{id} counts {count:?} entries: {document:?}"));
    }
    Ok((id.to_owned(), list))
}

/// A whole number.
pub(crate) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int32(number) => Some(i64::from(*number)),
        Value::Int64(number) => Some(*number),
        Value::Double(number) => Some(*number as i64),
        _ => None,
    }
}
