//! Documents that a walk has found, on their way to be changed together.

use crate::collection::Collection;
use document::RawDocument;

/// Longer documents are read again rather than copied.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// Keys of documents, each of which is there once, and what a walk saw of these: who changes them need not
/// read again what has not been written since.
#[derive(Debug, Default)]
pub struct FoundDocuments {
    /// Row keys, each with the document behind it if that is kept.
    bytes: Vec<u8>,
    places: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    start: usize,
    key_end: usize,
    end: usize,
    as_of: u64,
}

/// One of them.
#[derive(Clone, Copy)]
pub(super) struct FoundDocument<'f> {
    pub(super) row_key: &'f [u8],
    /// What was seen, and the sequence number up to which every write was seen.
    pub(super) seen: Option<(RawDocument<'f>, u64)>,
}

impl FoundDocuments {
    /// Adds a document by its key in the collection; `seen` is what a cursor lent that was opened when the
    /// store was at this sequence number, or later.
    pub fn push(
        &mut self,
        collection: &Collection,
        document_key: &[u8],
        seen: Option<(RawDocument<'_>, u64)>,
    ) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&collection.id().to_be_bytes());
        self.bytes.extend_from_slice(document_key);
        let key_end = self.bytes.len();
        let seen = seen.filter(|(document, _)| document.as_bytes().len() <= KEPT_BYTES_MAX);
        if let Some((document, _)) = seen {
            self.bytes.extend_from_slice(document.as_bytes());
        }
        let as_of = seen.map_or(0, |(_, as_of)| as_of);
        self.places.push(Place { start, key_end, end: self.bytes.len(), as_of });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The bytes of the keys and of what was seen.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The key of the one at this position in its collection.
    pub fn document_key(&self, position: usize) -> Option<&[u8]> {
        let place = self.places.get(position)?;
        Some(crate::keys::behind_collection(self.part(place.start, place.key_end)))
    }

    /// Forgets them and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// From this position on.
    pub(super) fn from(&self, position: usize) -> impl Iterator<Item = FoundDocument<'_>> {
        self.places.iter().skip(position).map(|place| FoundDocument {
            row_key: self.part(place.start, place.key_end),
            seen: (place.end > place.key_end)
                .then(|| (RawDocument::trusted(self.part(place.key_end, place.end)), place.as_of)),
        })
    }

    fn part(&self, start: usize, end: usize) -> &[u8] {
        self.bytes.get(start..end).expect("places lie within the bytes that were added for them")
    }
}
