//! Documents that a walk has met already.

use hashbrown::HashSet;

/// The keys of documents met so far.
#[derive(Debug, Default)]
pub(super) struct SeenDocuments {
    keys: HashSet<Box<[u8]>>,
}

impl SeenDocuments {
    /// Whether the document was met.
    pub(super) fn contains(&self, document_key: &[u8]) -> bool {
        self.keys.contains(document_key)
    }

    /// Remembers the document.
    pub(super) fn insert(&mut self, document_key: &[u8]) {
        self.keys.insert(document_key.into());
    }
}
