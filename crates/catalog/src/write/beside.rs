//! Documents that go into a unit beside the changes that its observer is told of.

use crate::collection::Collection;
use crate::keys;
use document::RawDocument;
use storage::{Keyspace, WriteUnit};

/// For what an observer keeps of changes in a collection of its own: nobody is told, and no rule is kept. The
/// collection has no index but that of `_id`, and nobody else writes the document.
impl Collection {
    /// Puts a document; `before` is the length of the one in whose place it comes.
    pub fn put_beside(&self, unit: &mut WriteUnit, before: Option<usize>, document: RawDocument<'_>) {
        let id = document.get("_id").expect("what is kept beside changes has an _id");
        let key = keys::row_key(self.id(), &Collection::document_key_of_id(id));
        unit.put(Keyspace::Documents, &key, document.as_bytes());
        unit.add_counter(keys::documents_counter(self.id()), i64::from(before.is_none()));
        let bytes = document.as_bytes().len() as i64 - before.unwrap_or(0) as i64;
        unit.add_counter(keys::bytes_counter(self.id()), bytes);
    }

    /// Removes a document of this length.
    pub fn remove_beside(&self, unit: &mut WriteUnit, document_key: &[u8], bytes: usize) {
        unit.delete(Keyspace::Documents, &keys::row_key(self.id(), document_key));
        unit.add_counter(keys::documents_counter(self.id()), -1);
        unit.add_counter(keys::bytes_counter(self.id()), -(bytes as i64));
    }
}
