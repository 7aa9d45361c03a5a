//! Capped collections: the oldest documents go in the unit in which the newest come.

use crate::change::Changes;
use crate::collection::Collection;
use crate::definition::CollectionDefinition;
use crate::{OperationContext, WriteError, keys};
use document::RawDocument;
use storage::{Direction, Keyspace};

impl Collection {
    /// Removes documents from the head until `documents` and `bytes` more fit. The caller holds the capped
    /// latch.
    pub(crate) fn trim(
        &self,
        context: &OperationContext<'_>,
        definition: &CollectionDefinition,
        documents: u64,
        bytes: u64,
        changes: &mut Changes<'_>,
    ) -> Result<(), WriteError> {
        let limits = definition.options.capped.expect("a collection that is trimmed has limits");
        let (mut count, mut size) = (self.document_count() + documents, self.data_bytes() + bytes);
        let exceeds = |count: u64, size: u64| {
            size > limits.size_bytes_max
                || limits.documents_max.is_some_and(|documents_max| count > documents_max)
        };
        if !exceeds(count, size) {
            return Ok(());
        }
        let range = keys::document_range(self.id());
        let options = super::cursor_options(context.tier);
        let mut cursor = context.view.cursor_with(Keyspace::Documents, range, Direction::Forward, options)?;
        while exceeds(count, size) {
            let Some((key, value)) = cursor.next()? else { break };
            self.remove(context, definition, key, RawDocument::trusted(value), changes)?;
            count = count.saturating_sub(1);
            size = size.saturating_sub(value.len() as u64);
        }
        Ok(())
    }

    /// Adds the removal of one document and its entries to the changes.
    pub(crate) fn remove(
        &self,
        context: &OperationContext<'_>,
        definition: &CollectionDefinition,
        key: &[u8],
        document: RawDocument<'_>,
        changes: &mut Changes<'_>,
    ) -> Result<(), WriteError> {
        let document_key = keys::behind_collection(key);
        let entries = self.entries(context, definition, document, document_key)?;
        changes.delete(definition, key, document, entries.iter().flat_map(|entries| &entries.entries));
        Ok(())
    }
}
