//! What connections of experiments ask for, as workloads.

use crate::message::encode;
use crate::workload::{Concerns, Documents, Settings, WorkloadFile, WriteConcern};
use document::{Document, Value, doc};
use serde::Deserialize;

/// Documents that one range returns (S0's slow request).
const RANGE_DOCUMENTS: u64 = 2_000;
/// A document has so many fields, one of them a number …
const MOST_FIELDS: u32 = 10;
/// … or fewer when it is so small that each would have less than this.
const FIELD_BYTES: usize = 100;

/// What monitors ask.
const MONITOR: &str = r#"
[[operations]]
name = "ping"
command = { ping = 1, "$db" = "admin" }
[[operations]]
name = "serverStatus"
command = { serverStatus = 1, "$db" = "admin" }
[[operations]]
name = "currentOp"
command = { currentOp = 1, "$db" = "admin" }
"#;

/// Documents of all sizes, and what is done with them on a replica set.
const VARIED: &str = r#"
collection = "varied"
[document]
number = { gen = "sequence" }
text = { gen = "string", min = 1, max = LONGEST }
[[operations]]
name = "read"
weight = READS
expect = { documents = 1 }
command.find = "varied"
command.filter = { _id = { gen = "key" } }
command.limit = 1
command."$readPreference" = { mode = "nearest" }
[[operations]]
name = "insert"
weight = INSERTS
command = { insert = "varied", documents = [{ gen = "document" }] }
expect = { n = 1 }
"#;

/// One kind of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Load {
    /// `find` of one document by `_id`.
    Read,
    /// `update` of one number by `_id`.
    Update,
    /// The same, acknowledged when it is on disk (`j: true`).
    Journaled,
    /// Reads and unsynced updates in equal parts.
    Half,
    /// `find` of a range of 2,000 documents by `_id`, projected to one field.
    Range,
    /// `find` with a filter on a field without index that matches nothing.
    Search,
    /// Monitoring commands.
    Monitor,
    /// `find` of one document by `_id`, of any member of a set; documents are of all sizes up to twice the
    /// usual one.
    ReadAnywhere,
    /// `insert` of such documents.
    Insert,
    /// `insert` of a document and `update` of one text by `_id`, in equal parts.
    Writes,
    /// YCSB's workload A: half reads, half updates, of zipfian popularity.
    Ycsb,
}

impl Load {
    /// The workload on so many documents of this size.
    pub(crate) fn workload(self, records: u64, document_bytes: usize) -> Settings {
        let mix = match self {
            Load::Ycsb => {
                let workload = Some("a".to_owned());
                return Settings { workload, records: Some(records), ..Settings::default() };
            }
            Load::Monitor => {
                return of_file("monitor", MONITOR.to_owned());
            }
            Load::ReadAnywhere | Load::Insert => {
                // Beside the text there are the key, the number and names.
                let longest = (2 * document_bytes).saturating_sub(64).max(2);
                let inserts = i32::from(self == Load::Insert);
                let text = VARIED.replace("LONGEST", &longest.to_string());
                let text = text.replace("READS", &(1 - inserts).to_string());
                let settings = of_file("varied", text.replace("INSERTS", &inserts.to_string()));
                return Settings { records: Some(records), ..settings };
            }
            Load::Read => "read=1".to_owned(),
            Load::Update | Load::Journaled => "update-number=1".to_owned(),
            Load::Half => "read=1,update-number=1".to_owned(),
            Load::Writes => "insert=1,update=1".to_owned(),
            Load::Range => format!("range-{}=1", records.clamp(1, RANGE_DOCUMENTS)),
            Load::Search => "search=1".to_owned(),
        };
        Settings {
            mix: Some(mix),
            records: Some(records),
            document_bytes: Some(document_bytes),
            fields: Some(((document_bytes / FIELD_BYTES) as u32).clamp(2, MOST_FIELDS)),
            ..Settings::default()
        }
    }

    pub(crate) fn concerns(self) -> Concerns {
        let journal = (self == Load::Journaled).then_some(true);
        Concerns { write: WriteConcern { journal, ..WriteConcern::default() }, ..Concerns::default() }
    }

    /// Whether a request takes a millisecond of a core.
    pub(crate) const fn is_slow(self) -> bool {
        matches!(self, Load::Range | Load::Search)
    }

    /// Documents that the server looks at for one request.
    pub(crate) fn documents_per_request(self, records: u64) -> u64 {
        match self {
            Load::Range => records.min(RANGE_DOCUMENTS),
            Load::Search => records,
            _ => 1,
        }
    }

    /// The length of a whole good reply, as far as it can be told beforehand: what an echo of the same size
    /// sends.
    pub(crate) fn reply_bytes(self, records: u64, documents: &Documents) -> usize {
        let batch: Vec<Value> = match self {
            Load::Range => {
                let numbers = 0..self.documents_per_request(records) as i64;
                numbers.map(|number| doc! { "_id": number, "number": number }.into()).collect()
            }
            Load::Search => Vec::new(),
            Load::Update | Load::Journaled | Load::Insert | Load::Writes => {
                return encode(&doc! { "n": 1, "nModified": 1, "ok": 1.0 }).len();
            }
            // A bare echo has one size of reply, that of the reads.
            Load::Read | Load::ReadAnywhere | Load::Half | Load::Ycsb | Load::Monitor => {
                vec![documents.document(0).into()]
            }
        };
        let cursor: Document = doc! { "firstBatch": batch, "id": 0_i64, "ns": "heddle_bench.numbered" };
        encode(&doc! { "cursor": cursor, "ok": 1.0 }).len()
    }
}

pub(super) fn of_file(name: &str, text: String) -> Settings {
    let file = WorkloadFile { path: name.to_owned(), text };
    Settings { file: Some(file), ..Settings::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(load: Load, records: u64, document_bytes: usize, expect: usize) {
        let workload = load.workload(records, document_bytes).build().expect("a workload");
        let found = load.reply_bytes(records, &Documents::new(&workload, 1));
        assert_eq!(found, expect, "{load:?} of {records} documents of {document_bytes} bytes");
    }

    #[test]
    fn an_echo_answers_as_much_as_the_server() {
        const CURSOR: usize = 110;
        check(Load::Search, 10, 1_024, CURSOR);
        check(Load::Read, 10, 1_024, CURSOR + 1_024 + 3);
        check(Load::Read, 10, 100, CURSOR + 100 + 3);
        check(Load::Range, 1, 1_024, CURSOR + 3 + 34);
        check(Load::Journaled, 10, 1_024, 21 + 4 + 7 + 15 + 12 + 1);
    }
}
