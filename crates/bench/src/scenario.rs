//! The kinds of requests that are measured.

use crate::generator::Request;
use crate::template::{BODY_OFFSET, ID_MARK, NUMBER_MARK, Template, encode};
use clap::ValueEnum;
use document::{Document, Value, doc};

pub(crate) const DATABASE: &str = "heddle_bench";
pub(crate) const COLLECTION: &str = "documents";
/// Documents that one range request returns (S0's slow request).
pub(crate) const RANGE_DOCUMENTS: i32 = 2_000;

/// One kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// `find` of one document by `_id`.
    Find,
    /// `update` of one field by `_id`.
    Update,
    /// The same, acknowledged when it is on disk (`j: true`).
    UpdateJournaled,
    /// `find` of a range of 2,000 documents by `_id`, projected to one field.
    Range,
    /// `find` with a filter on a field without index that matches nothing.
    Scan,
}

impl Scenario {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Scenario::Find => "find by _id",
            Scenario::Update => "update one field",
            Scenario::UpdateJournaled => "update, j: true",
            Scenario::Range => "range of 2,000, projected",
            Scenario::Scan => "scan, nothing matches",
        }
    }

    /// Connections when the command line names none.
    pub(crate) const fn default_connections(self) -> usize {
        match self {
            Scenario::Find | Scenario::Update | Scenario::Range => 64,
            Scenario::UpdateJournaled => 1_000,
            Scenario::Scan => 1,
        }
    }

    /// Whether an echo of the same sizes is a ceiling that says something about this scenario.
    pub(crate) const fn compares_with_echo(self) -> bool {
        !matches!(self, Scenario::Scan)
    }

    /// Documents that the server looks at for one request.
    pub(crate) const fn documents_per_request(self, stored: i32) -> i64 {
        match self {
            Scenario::Find | Scenario::Update | Scenario::UpdateJournaled => 1,
            Scenario::Range => RANGE_DOCUMENTS as i64,
            Scenario::Scan => stored as i64,
        }
    }

    /// What the generator sends, given ids `0..stored` of documents of `size` bytes.
    pub(crate) fn request(self, stored: i32, size: usize) -> Request {
        let least_reply_bytes = match self {
            Scenario::Find | Scenario::Range => self.documents_bytes(stored, size),
            Scenario::Update | Scenario::UpdateJournaled | Scenario::Scan => 0,
        };
        let ids = self.ids(stored);
        Request { template: Template::new(&self.command()), ids, least_reply_bytes }
    }

    /// The length of a whole good reply, as far as it can be told beforehand: what an echo of the same size sends.
    pub(crate) fn reply_bytes(self, stored: i32, size: usize) -> usize {
        let rest = match self {
            Scenario::Find | Scenario::Range | Scenario::Scan => doc! {
                "cursor": { "firstBatch": [], "id": 0_i64, "ns": format!("{DATABASE}.{COLLECTION}") }, "ok": 1.0,
            },
            Scenario::Update | Scenario::UpdateJournaled => doc! { "n": 1, "nModified": 1, "ok": 1.0 },
        };
        encode(&rest).len() + self.documents_bytes(stored, size).saturating_sub(BODY_OFFSET)
    }

    /// Bytes of a message that holds the documents of a reply and nothing else around them but its head.
    fn documents_bytes(self, stored: i32, size: usize) -> usize {
        /// Type, a digit or more of the index, zero.
        const ELEMENT: usize = 3;
        match self {
            Scenario::Find => BODY_OFFSET + ELEMENT + document(0, size).to_buf().len(),
            Scenario::Range => {
                let one = ELEMENT + doc! { "_id": 0, "number": 0 }.to_buf().len();
                BODY_OFFSET + one * RANGE_DOCUMENTS.min(stored).unsigned_abs() as usize
            }
            Scenario::Update | Scenario::UpdateJournaled | Scenario::Scan => BODY_OFFSET,
        }
    }

    fn command(self) -> Document {
        match self {
            Scenario::Find => doc! {
                "find": COLLECTION, "filter": { "_id": ID_MARK }, "limit": 1, "singleBatch": true, "$db": DATABASE,
            },
            Scenario::Update => update(false),
            Scenario::UpdateJournaled => update(true),
            Scenario::Range => doc! {
                "find": COLLECTION, "filter": { "_id": { "$gte": ID_MARK } }, "projection": { "number": 1 },
                "limit": RANGE_DOCUMENTS, "batchSize": RANGE_DOCUMENTS, "singleBatch": true, "$db": DATABASE,
            },
            Scenario::Scan => doc! {
                "find": COLLECTION, "filter": { "absent": NUMBER_MARK }, "singleBatch": true, "$db": DATABASE,
            },
        }
    }

    /// The ids that requests choose from, given ids `0..stored`.
    pub(crate) fn ids(self, stored: i32) -> i32 {
        match self {
            Scenario::Range => (stored - RANGE_DOCUMENTS).max(1),
            _ => stored.max(1),
        }
    }
}

fn update(journaled: bool) -> Document {
    doc! {
        "update": COLLECTION,
        "updates": [{ "q": { "_id": ID_MARK }, "u": { "$set": { "number": NUMBER_MARK } } }],
        "writeConcern": { "w": 1, "j": journaled }, "$db": DATABASE,
    }
}

/// The document with this id: one number and nine fields of text, `size` bytes in all (1 KB by default, as in S0).
pub(crate) fn document(id: i32, size: usize) -> Document {
    const FIELDS: usize = 9;
    let mut document = doc! { "_id": id, "number": id };
    // Per field: type, seven bytes of name, zero, length, zero; for the whole: length, zero and the two numbers.
    let text = size.saturating_sub(30).div_euclid(FIELDS).saturating_sub(14).max(1);
    for field in 0..FIELDS {
        let letter = char::from(b'a' + ((id as usize + field) % 26) as u8);
        document.push(format!("field_{field}"), Value::String(std::iter::repeat_n(letter, text).collect()));
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_the_size_asked_for() {
        let length = document(77, 1_024).to_buf().len();
        assert!((1_000..=1_024).contains(&length), "a document of 1 KB has {length} bytes");
    }
}
