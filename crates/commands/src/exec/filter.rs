//! The filter of a write statement, parsed when something needs it.

use super::query::Query;
use crate::context::CommandContext;
use crate::error::CommandResult;
use catalog::Collection;
use document::{RawDocument, RawValue};
use query::Environment;
use query::matcher::Matcher;
use query::memory::Memory;
use query::plan::Hint;
use query::sort::SortPattern;
use std::sync::{Arc, OnceLock};

/// Which documents a statement concerns. `{_id: value}` is recognised before anything is parsed.
#[derive(Debug)]
pub(crate) struct StatementFilter<'f> {
    document: RawDocument<'f>,
    environment: &'f Environment,
    hint: Option<Hint>,
    sort: Arc<SortPattern>,
    id: Option<RawValue<'f>>,
    matcher: OnceLock<Matcher>,
}

impl<'f> StatementFilter<'f> {
    /// A filter; a hint or a sort makes it an ordinary one.
    pub(crate) fn new(
        document: RawDocument<'f>,
        environment: &'f Environment,
        hint: Option<Hint>,
        sort: Arc<SortPattern>,
    ) -> Self {
        let id = exact_id(document).filter(|_| hint.is_none());
        StatementFilter { document, environment, hint, sort, id, matcher: OnceLock::new() }
    }

    /// Whether the filter is `{_id: value}` and nothing else.
    pub(crate) const fn is_id_lookup(&self) -> bool {
        self.id.is_some()
    }

    /// The filter as the client wrote it.
    pub(crate) const fn document(&self) -> RawDocument<'f> {
        self.document
    }

    /// The moment of the operation, in milliseconds since 1970.
    pub(crate) const fn moment_ms(&self) -> i64 {
        self.environment.now_ms
    }

    /// The compiled filter.
    ///
    /// # Errors
    /// A malformed filter.
    pub(crate) fn matcher(&self) -> CommandResult<&Matcher> {
        if let Some(matcher) = self.matcher.get() {
            return Ok(matcher);
        }
        let parsed = Matcher::parse(self.document, self.environment)?;
        Ok(self.matcher.get_or_init(|| parsed))
    }

    /// The key of the only document that can match, in a collection clustered by `_id`.
    pub(crate) fn id_document_key(&self, collection: &Arc<Collection>) -> Option<Vec<u8>> {
        let id = self.id.filter(|_| !collection.definition().is_capped())?;
        Some(Collection::document_key_of_id(id))
    }

    /// The query that finds the documents.
    ///
    /// # Errors
    /// A malformed filter.
    pub(crate) fn query(&self, context: &CommandContext<'_>) -> CommandResult<Query> {
        let server = context.server;
        let memory = server.parameters.unsigned(crate::parameters::Parameter::SortMemory);
        let pool = &server.host.memory_pool;
        // Who does not sort holds nothing, and is spared a count that all threads share.
        let sorts = !self.sort.is_empty();
        Ok(Query {
            matcher: self.matcher()?.clone(),
            hint: self.hint.clone(),
            sort: Arc::clone(&self.sort),
            sort_memory_bytes: usize::try_from(memory).unwrap_or(usize::MAX).min(pool.most()),
            memory: if sorts { context.memory(usize::MAX) } else { Memory::default() },
            no_table_scan: server.parameters.is_on(crate::parameters::Parameter::NoTableScan),
            moment_ms: Some(self.moment_ms()),
            ..Query::default()
        })
    }
}

/// The value of a filter that is `{_id: value}`, where equality means the same bytes of the key.
#[inline]
pub(crate) fn exact_id(filter: RawDocument<'_>) -> Option<RawValue<'_>> {
    let mut elements = filter.iter();
    let first = elements.next()?;
    if first.name_bytes() != b"_id" || elements.next().is_some() {
        return None;
    }
    match first.value() {
        RawValue::Null | RawValue::Undefined | RawValue::Array(_) | RawValue::Regex { .. } => None,
        RawValue::Document(document) if is_operators(document) => None,
        RawValue::JavaScriptWithScope { .. } => None,
        // Not-a-number has signs that keys do not tell apart, and so has the matcher: it decides.
        RawValue::Double(number) if number.is_nan() => None,
        value => Some(value),
    }
}

fn is_operators(document: RawDocument<'_>) -> bool {
    document.iter().any(|element| element.name_bytes().first() == Some(&b'$'))
}
