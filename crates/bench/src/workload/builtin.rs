//! The workloads that have a name: YCSB's core workloads (github.com/brianfrankcooper/YCSB, `workloads/workload[a-f]`) and
//! sysbench's point reads and ranges.

use crate::error::BenchError;
use crate::workload::distribution::Distribution;
use crate::workload::keys::KeyFormat;
use crate::workload::model::{Expect, Fields, Operation, Step, Subject, Workload};
use crate::workload::settings::Settings;
use crate::workload::template::{Generator, Template};
use document::doc;

/// YCSB's `fieldcount` and `fieldlength`.
const YCSB_FIELDS: u32 = 10;
const YCSB_FIELD_BYTES: usize = 100;
/// YCSB's `maxscanlength`; the length is uniform from 1.
const YCSB_SCAN: u64 = 100;
/// S0's documents of about 1 KB.
const DOCUMENT_BYTES: usize = 1_024;
pub(crate) const RECORDS: u64 = 100_000;
pub(crate) const DATABASE: &str = "heddle_bench";
/// Seconds until documents of `ttl-insert` expire, spread evenly.
const TTL_SECONDS: (u64, u64) = (60, 600);
/// The longest key that YCSB's hash gives, for the size of a document.
const HASHED_KEY_BYTES: usize = 23;

/// Names for messages.
pub(crate) const NAMES: &str =
    "a, b, c, d, e, f (YCSB), point-read, range-N, insert-only, update-only, ttl-insert";

/// The shape of a workload's documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// YCSB's `usertable`.
    User,
    /// Numbered documents with a number and text in them.
    Numbered,
    /// The same with a date of expiry.
    Expiring,
}

/// What a name stands for.
struct Named {
    shape: Shape,
    mix: Vec<(String, f64)>,
    distribution: Distribution,
    description: String,
}

fn named(name: &str) -> Option<Named> {
    let ycsb = |mix: &[(&str, f64)], distribution, description: &str| {
        let mix = mix.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect();
        Some(Named { shape: Shape::User, mix, distribution, description: format!("YCSB {description}") })
    };
    let one = |shape, operation: &str, description: String| {
        let mix = vec![(operation.to_owned(), 1.0)];
        Some(Named { shape, mix, distribution: Distribution::Uniform, description })
    };
    let zipfian = Distribution::ZIPFIAN;
    match name.strip_prefix("ycsb-").unwrap_or(name) {
        "a" | "A" => ycsb(&[("read", 0.5), ("update", 0.5)], zipfian, "A: half reads, half updates"),
        "b" | "B" => ycsb(&[("read", 0.95), ("update", 0.05)], zipfian, "B: 95 % reads, 5 % updates"),
        "c" | "C" => ycsb(&[("read", 1.0)], zipfian, "C: reads"),
        "d" | "D" => ycsb(
            &[("read", 0.95), ("insert", 0.05)],
            Distribution::LATEST,
            "D: 95 % reads of young documents, 5 % inserts",
        ),
        "e" | "E" => ycsb(&[("scan", 0.95), ("insert", 0.05)], zipfian, "E: 95 % short scans, 5 % inserts"),
        "f" | "F" => ycsb(
            &[("read", 0.5), ("read-modify-write", 0.5)],
            zipfian,
            "F: half reads, half reads followed by an update",
        ),
        "point-read" => one(Shape::Numbered, "read", "reads of one document by _id".to_owned()),
        "insert-only" => one(Shape::Numbered, "insert", "inserts of one document".to_owned()),
        "update-only" => one(Shape::Numbered, "update", "updates of one field by _id".to_owned()),
        "ttl-insert" => one(Shape::Expiring, "insert", "inserts of documents that expire".to_owned()),
        range if range_length(range).is_some() => {
            one(Shape::Numbered, range, format!("reads of {} documents in a row", range_length(range)?))
        }
        _ => None,
    }
}

/// `range-N`.
fn range_length(name: &str) -> Option<u64> {
    name.strip_prefix("range-")?.parse().ok().filter(|length| (1..=1_000_000).contains(length))
}

/// The workload of these settings, which name no file.
pub(crate) fn build(settings: &Settings) -> Result<Workload, BenchError> {
    let usage = |text: String| BenchError::Usage(text);
    let name = settings.workload.as_deref();
    let mut chosen = match name {
        Some(name) => named(name).ok_or_else(|| {
            usage(format!("unknown workload '{name}'; there are {NAMES}, and workload files (--file)"))
        })?,
        None => Named {
            shape: Shape::Numbered,
            mix: Vec::new(),
            distribution: Distribution::Uniform,
            description: "a mix of operations".to_owned(),
        },
    };
    if let Some(mix) = &settings.mix {
        chosen.mix = parse_mix(mix).map_err(usage)?;
        chosen.description = format!("the mix {mix}");
    }
    if let Some(distribution) = &settings.distribution {
        chosen.distribution =
            distribution.parse().map_err(|error| usage(format!("--distribution {error}")))?;
    }
    let parts = Parts::new(chosen.shape, settings)?;
    let operations: Result<Vec<Operation>, String> =
        chosen.mix.iter().map(|(operation, weight)| parts.operation(operation, *weight)).collect();
    let operations = operations.map_err(usage)?;
    let only_inserts = operations.iter().all(|operation| operation.subject == Subject::New);
    Ok(Workload {
        name: name.unwrap_or("mix").to_owned(),
        description: chosen.description,
        database: settings.database.clone().unwrap_or_else(|| DATABASE.to_owned()),
        collection: parts.collection.clone(),
        records: settings.records.unwrap_or(if only_inserts { 0 } else { RECORDS }),
        key: parts.key.clone(),
        document: parts.document.clone(),
        distribution: chosen.distribution,
        operations,
        indexes: match chosen.shape {
            Shape::Expiring => {
                vec![doc! { "key": { "expireAt": 1 }, "name": "expireAt_1", "expireAfterSeconds": 0 }]
            }
            Shape::User | Shape::Numbered => Vec::new(),
        },
    })
}

/// `read=50,update=30,range-100=20`.
fn parse_mix(text: &str) -> Result<Vec<(String, f64)>, String> {
    let mut mix: Vec<(String, f64)> = Vec::new();
    for part in text.split(',') {
        let (name, weight) = part
            .split_once('=')
            .ok_or(format!("--mix '{part}' is not an operation and its weight, such as read=50"))?;
        let (name, weight) = (name.trim(), weight.trim());
        let weight = weight
            .parse::<f64>()
            .ok()
            .filter(|weight| weight.is_finite() && *weight >= 0.0)
            .ok_or(format!("--mix '{part}': the weight is a number from 0"))?;
        if mix.iter().any(|(other, _)| other == name) {
            return Err(format!("--mix names '{name}' twice"));
        }
        mix.push((name.to_owned(), weight));
    }
    Ok(mix)
}

/// What operations of one shape are made of.
struct Parts {
    collection: String,
    key: KeyFormat,
    document: Fields,
    /// Names and lengths of the fields with text.
    texts: Vec<(String, u32)>,
    shape: Shape,
}

impl Parts {
    fn new(shape: Shape, settings: &Settings) -> Result<Self, BenchError> {
        let (collection, key, key_bytes) = match shape {
            Shape::User => {
                ("usertable", KeyFormat::Hashed { prefix: "user".to_owned() }, HASHED_KEY_BYTES + 5)
            }
            Shape::Numbered => ("numbered", KeyFormat::Number, 8),
            Shape::Expiring => ("expiring", KeyFormat::Number, 8),
        };
        let mut document: Fields = vec![("_id".to_owned(), Template::Generated(Generator::Key))];
        // Type, name and zero of each field, beside its value.
        let mut taken = 5 + (1 + 3 + 1) + key_bytes;
        match shape {
            Shape::User => {}
            Shape::Numbered => {
                document.push(("number".to_owned(), Template::Generated(Generator::Sequence { start: 0 })));
                taken += 1 + 6 + 1 + 8;
            }
            Shape::Expiring => {
                let (least, most) = settings.ttl_seconds.unwrap_or(TTL_SECONDS);
                let milliseconds = |seconds: u64| (seconds as i64).saturating_mul(1_000);
                let expiry = Generator::FromNow { least: milliseconds(least), most: milliseconds(most) };
                document.push(("expireAt".to_owned(), Template::Generated(expiry)));
                taken += 1 + 8 + 1 + 8;
            }
        }
        let texts = texts(shape, settings, document.len() as u32 - 1, taken)?;
        let text = |length: u32| Template::Generated(Generator::Text { least: length, most: length });
        document.extend(texts.iter().map(|(name, length)| (name.clone(), text(*length))));
        let collection = settings.collection.clone().unwrap_or_else(|| collection.to_owned());
        Ok(Parts { collection, key, document, texts, shape })
    }

    fn operation(&self, name: &str, weight: f64) -> Result<Operation, String> {
        let of_one = Subject::Present { followers: 0, distribution: None };
        let (subject, steps) = match name {
            "read" => (of_one, vec![self.read()]),
            "update" => (of_one, vec![self.update()]),
            "read-modify-write" => (of_one, vec![self.read(), self.update()]),
            "update-number" => (of_one, vec![self.update_number()]),
            "insert" => (Subject::New, vec![self.insert()]),
            "search" => (Subject::None, vec![self.search()]),
            "scan" => (of_one, vec![self.scan()]),
            range => {
                let length = range_length(range).ok_or(format!(
                    "unknown operation '{range}'; there are read, update, update-number, insert, scan, search, read-modify-write and \
                     range-N"
                ))?;
                (Subject::Present { followers: length - 1, distribution: None }, vec![self.range(length)])
            }
        };
        Ok(Operation { name: name.to_owned(), weight, subject, steps })
    }

    fn find(&self, filter: Template, further: Vec<(&str, Template)>) -> Fields {
        let mut command = vec![
            ("find".to_owned(), Template::constant(self.collection.as_str())),
            ("filter".to_owned(), Template::document([("_id", filter)])),
        ];
        command.extend(further.into_iter().map(|(name, value)| (name.to_owned(), value)));
        command.push(("singleBatch".to_owned(), Template::constant(true)));
        command
    }

    fn read(&self) -> Step {
        let command = self.find(Template::Generated(Generator::Key), vec![("limit", Template::constant(1))]);
        Step { command, expect: Expect::documents(1, 1) }
    }

    fn scan(&self) -> Step {
        let length = Generator::Integer { least: 1, most: YCSB_SCAN as i64, zipfian: None };
        let filter = Template::document([("$gte", Template::Generated(Generator::Key))]);
        let further = vec![
            ("sort", Template::constant(doc! { "_id": 1 })),
            ("limit", Template::Generated(length)),
            ("batchSize", Template::constant(YCSB_SCAN as i32)),
        ];
        Step { command: self.find(filter, further), expect: Expect::documents(1, YCSB_SCAN) }
    }

    /// `length` documents in a row, projected to the number, as sysbench's ranges take one column. Where keys are hashed the
    /// last documents of the order may be fewer.
    fn range(&self, length: u64) -> Step {
        let filter = Template::document([("$gte", Template::Generated(Generator::Key))]);
        let field = match self.shape {
            Shape::User => "field0",
            Shape::Numbered => "number",
            Shape::Expiring => "expireAt",
        };
        let further = vec![
            ("projection", Template::document([(field, Template::constant(1))])),
            ("sort", Template::constant(doc! { "_id": 1 })),
            ("limit", Template::constant(length as i32)),
            ("batchSize", Template::constant(length as i32)),
        ];
        let least = if self.key == KeyFormat::Number { length } else { 1 };
        Step { command: self.find(filter, further), expect: Expect::documents(least, length) }
    }

    /// One field, as YCSB's `writeallfields=false`.
    fn update(&self) -> Step {
        let one_of = self.texts.iter().map(|(name, length)| {
            let text = Template::Generated(Generator::Text { least: *length, most: *length });
            (1.0, Template::Document(vec![(name.clone(), text)]))
        });
        let set = Template::document([("$set", Template::Generated(Generator::Choice(one_of.collect())))]);
        self.update_of(set)
    }

    fn update_of(&self, update: Template) -> Step {
        let filter = Template::document([("_id", Template::Generated(Generator::Key))]);
        let update = Template::document([("q", filter), ("u", update)]);
        let command = vec![
            ("update".to_owned(), Template::constant(self.collection.as_str())),
            ("updates".to_owned(), Template::Array(vec![update])),
        ];
        Step { command, expect: Expect::n(1) }
    }

    /// A number, which is all that changes.
    fn update_number(&self) -> Step {
        self.update_of(Template::document([("$set", Template::document([("number", any_number())]))]))
    }

    /// A filter on a field without an index that matches nothing.
    fn search(&self) -> Step {
        let command = vec![
            ("find".to_owned(), Template::constant(self.collection.as_str())),
            ("filter".to_owned(), Template::document([("absent", any_number())])),
            ("singleBatch".to_owned(), Template::constant(true)),
        ];
        Step { command, expect: Expect::documents(0, 0) }
    }

    fn insert(&self) -> Step {
        let command = vec![
            ("insert".to_owned(), Template::constant(self.collection.as_str())),
            ("documents".to_owned(), Template::Array(vec![Template::Generated(Generator::NewDocument)])),
        ];
        Step { command, expect: Expect::n(1) }
    }
}

fn any_number() -> Template {
    Template::Generated(Generator::Integer { least: 0, most: i32::MAX.into(), zipfian: None })
}

/// The fields with text, so long that the document has the size that was asked for. `others` fields take `taken` bytes.
fn texts(
    shape: Shape,
    settings: &Settings,
    others: u32,
    taken: usize,
) -> Result<Vec<(String, u32)>, BenchError> {
    let fields = settings.fields.unwrap_or(YCSB_FIELDS);
    let count =
        fields.checked_sub(others).filter(|count| *count > 0 && fields <= 10_000).ok_or_else(|| {
            BenchError::Usage(format!("--fields {fields}: from {} to 10000 are possible", others + 1))
        })?;
    let names: Vec<String> = (0..count).map(|index| format!("field{index}")).collect();
    // Type, zero, length field and final zero of each text.
    let heads: usize = names.iter().map(|name| name.len() + 1 + 1 + 4 + 1).sum();
    let text_bytes = match (settings.document_bytes, shape) {
        (None, Shape::User) => YCSB_FIELD_BYTES * count as usize,
        (asked, _) => {
            let asked = asked.unwrap_or(DOCUMENT_BYTES);
            let least = taken + heads + count as usize;
            asked.checked_sub(taken + heads).filter(|bytes| *bytes >= count as usize).ok_or_else(|| {
                BenchError::Usage(format!("--document-bytes {asked}: {fields} fields need at least {least}"))
            })?
        }
    };
    let (each, more) = (text_bytes / count as usize, text_bytes % count as usize);
    let length = |index: usize| (each + usize::from(index < more)) as u32;
    Ok(names.into_iter().enumerate().map(|(index, name)| (name, length(index))).collect())
}
