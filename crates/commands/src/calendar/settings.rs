//! What is stored of the calendar: one document of `config.settings`, which every member has.

use super::WorkKind;
use super::board::CalendarBoard;
use crate::error::CommandResult;
use crate::server::DataNode;
use document::{DocumentBuf, RawDocument, RawValue};
use query::QueryError;
use query::calendar::WorkCalendar;
use std::sync::Arc;
use storage::{ReadTier, ReadView};

/// Where it is: in `config.settings`, under this `_id`.
pub(crate) const DOCUMENT_ID: &str = "calendar";
const NAMESPACE: (&str, &str) = ("config", "settings");

/// The windows of each kind of work that has some.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct CalendarSettings {
    kinds: Vec<(WorkKind, WorkCalendar)>,
}

impl CalendarSettings {
    /// The windows of this kind.
    pub(crate) fn of(&self, kind: WorkKind) -> Option<&WorkCalendar> {
        self.kinds.iter().find(|(other, _)| *other == kind).map(|(_, calendar)| calendar)
    }

    fn parse(stored: RawDocument<'_>) -> Result<Self, QueryError> {
        let mut settings = CalendarSettings::default();
        for kind in WorkKind::ALL {
            let Some(value) = stored.get(kind.name()) else { continue };
            if let Some(calendar) = parse_kind(kind, value)? {
                settings.kinds.push((kind, calendar));
            }
        }
        Ok(settings)
    }
}

/// Reads the windows of a kind of work.
///
/// # Errors
/// Those of [`WorkCalendar::parse`], `BadValue` for a rate that means nothing for it.
pub(crate) fn parse_kind(kind: WorkKind, value: RawValue<'_>) -> Result<Option<WorkCalendar>, QueryError> {
    const BAD_VALUE: i32 = 2;
    let field = format!("setCalendar.{}", kind.name());
    let calendar = WorkCalendar::parse(value, &field)?;
    let (documents, bytes) = kind.rates();
    let is_limited = |limits: fn(&WorkCalendar) -> bool| calendar.as_ref().is_some_and(limits);
    for (name, has_meaning, is_given) in [
        ("documentsPerSecond", documents, is_limited(WorkCalendar::limits_documents)),
        ("bytesPerSecond", bytes, is_limited(WorkCalendar::limits_bytes)),
    ] {
        if is_given && !has_meaning {
            let message = format!("'{field}.{name}' means nothing for this kind of work");
            return Err(QueryError::new(BAD_VALUE, message));
        }
    }
    Ok(calendar)
}

/// Database and collection of the stored document.
pub(crate) const fn settings_namespace() -> (&'static str, &'static str) {
    NAMESPACE
}

/// The stored document; empty where nobody has set anything.
///
/// # Errors
/// Storage errors; that the read would block.
pub(crate) fn stored_calendar(
    node: &DataNode,
    view: &ReadView,
    tier: ReadTier,
) -> CommandResult<DocumentBuf> {
    let Some(collection) = node.catalog.collection(NAMESPACE.0, NAMESPACE.1) else {
        return Ok(RawDocument::EMPTY.to_buf());
    };
    let found = collection.get(view, RawValue::String(DOCUMENT_ID), tier)?;
    Ok(found.map_or_else(|| RawDocument::EMPTY.to_buf(), |bytes| RawDocument::trusted(&bytes).to_buf()))
}

impl CalendarBoard {
    /// What is stored now, as far as it can be read from there; else what was there when it was read last.
    pub(crate) fn settings(&self, node: &DataNode, tier: ReadTier) -> Arc<CalendarSettings> {
        let mut known = self.known.lock();
        let Ok(found) = stored_calendar(node, node.newest.view(), tier) else { return Arc::clone(&known.1) };
        if known.0 != found {
            match CalendarSettings::parse(found.as_raw()) {
                Ok(settings) => known.1 = Arc::new(settings),
                // Clients may write to the collection.
                Err(QueryError { code, message }) => {
                    tracing::warn!(target: "STORAGE", id = 8_800_101, code, error = message,
                        "The calendar in config.settings cannot be read: what it said before stays in force");
                }
            }
            known.0 = found;
        }
        Arc::clone(&known.1)
    }
}
