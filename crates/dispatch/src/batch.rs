//! One batch of a cursor's documents, bounded in number and bytes.

use crate::error::{CommandError, CommandResult, code};
use document::{ArrayBuilder, DocumentBuilder, MAX_DOCUMENT_SIZE, RawDocument};

/// Why a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchEnd {
    /// There may be more: the cursor stays.
    More,
    /// There is no more: the cursor is closed.
    Exhausted,
}

/// The batch under construction, bounded in documents and bytes.
#[derive(Debug)]
pub struct Batch<'b> {
    array: ArrayBuilder<'b>,
    documents_max: usize,
}

/// A batch beyond this many bytes needs room among the replies in memory.
const LARGE: usize = 128 << 10;
/// Bytes that the fields of a cursor reply take beside the documents, generously.
const REPLY_OVERHEAD: usize = 16 << 10;

impl<'b> Batch<'b> {
    /// A batch of at most `documents_max` documents.
    pub const fn new(array: ArrayBuilder<'b>, documents_max: usize) -> Self {
        Batch { array, documents_max }
    }

    /// Appends a document. False when it does not fit: the batch is full then.
    #[inline]
    pub fn push(&mut self, document: RawDocument<'_>) -> bool {
        let fits = self.accepts(document.as_bytes().len());
        if fits {
            self.array.push(document);
        }
        fits
    }

    /// Appends the document that `write` makes, in place. False when it does not fit: it is taken back, the
    /// batch is full then.
    ///
    /// # Errors
    /// What `write` says; the batch is as before then.
    #[inline]
    pub fn push_with(
        &mut self,
        write: impl FnOnce(&mut DocumentBuilder<'_>) -> CommandResult,
    ) -> CommandResult<bool> {
        if self.is_full() {
            return Ok(false);
        }
        let (count, length) = (self.array.count(), self.array.len());
        let mut document = self.array.start_document();
        let written = write(&mut document);
        document.finish();
        let written = written.and_then(|()| check_size(self.array.len() - length));
        let fits = count == 0 || self.array.len() + REPLY_OVERHEAD <= MAX_DOCUMENT_SIZE;
        if written.is_err() || !fits {
            self.array.roll_back(count, length);
        }
        written.map(|()| fits)
    }

    /// Whether a document of this length fits. One document always does.
    #[inline]
    fn accepts(&self, length: usize) -> bool {
        if self.is_full() {
            return false;
        }
        self.array.count() == 0 || self.array.len() + length + REPLY_OVERHEAD <= MAX_DOCUMENT_SIZE
    }

    /// Whether the batch has as many documents as it may have.
    #[inline]
    pub const fn is_full(&self) -> bool {
        self.array.count() >= self.documents_max
    }

    /// Whether it needs room among the replies in memory.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.array.len() >= LARGE
    }

    /// How many documents it has.
    pub const fn count(&self) -> usize {
        self.array.count()
    }
}

/// What a document made by the server may be larger than a stored one, as in MongoDB.
const MAX_REPLY_DOCUMENT_SIZE: usize = MAX_DOCUMENT_SIZE + (16 << 10);

/// Refuses a document that a client could not be sent; between the stages of a pipeline there may be larger
/// ones.
///
/// # Errors
/// 10334.
pub fn check_size(bytes: usize) -> CommandResult {
    if bytes <= MAX_REPLY_DOCUMENT_SIZE {
        return Ok(());
    }
    Err(CommandError::new(
        code::BSON_OBJECT_TOO_LARGE,
        format!(
            "BSONObj size: {bytes} (0x{bytes:X}) is invalid. Size must be between 0 and \
            {MAX_REPLY_DOCUMENT_SIZE}(16MB)"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_bounded() {
        let mut bytes = Vec::new();
        let mut batch = Batch::new(ArrayBuilder::new(&mut bytes), 2);
        assert!(batch.push(RawDocument::EMPTY) && batch.push(RawDocument::EMPTY));
        assert!(!batch.push(RawDocument::EMPTY), "two documents are the limit");
        let mut bytes = Vec::new();
        let mut batch = Batch::new(ArrayBuilder::new(&mut bytes), 10);
        assert!(batch.accepts(MAX_DOCUMENT_SIZE), "one document always fits");
        batch.push(RawDocument::EMPTY);
        assert!(!batch.accepts(MAX_DOCUMENT_SIZE), "sixteen megabytes are the limit");
    }
}
