//! The workloads that have a name: YCSB's core workloads (github.com/brianfrankcooper/YCSB,
//! `workloads/workload[a-f]`) and sysbench's point reads and ranges. They are written as workload files are.

use crate::error::BenchError;
use crate::workload::model::{DATABASE, Workload};
use crate::workload::settings::Settings;
use crate::workload::template::Template;

/// YCSB's `fieldcount` and `fieldlength`.
const YCSB_FIELDS: u32 = 10;
const YCSB_FIELD_BYTES: usize = 100;
/// S0's documents of about 1 KB.
const DOCUMENT_BYTES: usize = 1_024;
/// Seconds until documents of `ttl-insert` expire, spread evenly.
const TTL_SECONDS: (u64, u64) = (60, 600);

/// Names for messages.
const NAMES: &str = "a, b, c, d, e, f (YCSB), point-read, range-N, insert-only, update-only, ttl-insert, \
                     events, orders, repositories";

/// Documents as they are found, in workload files: for what compresses, or is read, as real ones.
const CORPORA: [(&str, &str); 3] = [
    ("events", include_str!("corpora/events.toml")),
    ("orders", include_str!("corpora/orders.toml")),
    ("repositories", include_str!("corpora/repositories.toml")),
];

/// The workload of a corpus, its operations weighed as the mix says.
pub(crate) fn build_corpus(text: &str, mix: Option<&str>) -> Result<Workload, BenchError> {
    let mut workload = Workload::parse("the built-in workload", text)?;
    let Some(mix) = mix else { return Ok(workload) };
    workload.operations.iter_mut().for_each(|operation| operation.weight = 0.0);
    for (name, weight) in parse_mix(mix).map_err(BenchError::Usage)? {
        let known = workload.operations.iter_mut().find(|operation| operation.name == name);
        let unknown = || BenchError::Usage(format!("unknown operation '{name}'; there are read and insert"));
        known.ok_or_else(unknown)?.weight = weight;
    }
    Ok(workload)
}

/// The workload file of a corpus.
pub(crate) fn corpus(name: &str) -> Option<&'static str> {
    CORPORA.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Name, mix, distribution, description.
const NAMED: [(&str, &str, &str, &str); 10] = [
    ("a", "read=0.5,update=0.5", "zipfian", "YCSB A: half reads, half updates"),
    ("b", "read=0.95,update=0.05", "zipfian", "YCSB B: 95 % reads, 5 % updates"),
    ("c", "read=1", "zipfian", "YCSB C: reads"),
    ("d", "read=0.95,insert=0.05", "latest", "YCSB D: 95 % reads of young documents, 5 % inserts"),
    ("e", "scan=0.95,insert=0.05", "zipfian", "YCSB E: 95 % short scans, 5 % inserts"),
    (
        "f",
        "read=0.5,read-modify-write=0.5",
        "zipfian",
        "YCSB F: half reads, half reads followed by an update",
    ),
    ("point-read", "read=1", "uniform", "reads of one document by _id"),
    ("insert-only", "insert=1", "uniform", "inserts of one document"),
    ("update-only", "update=1", "uniform", "updates of one field by _id"),
    ("ttl-insert", "insert=1", "uniform", "inserts of documents that expire"),
];

/// The shape of a workload's documents.
struct Shape {
    collection: &'static str,
    /// How keys are made, as workload files say it, and the bytes of a long one.
    key: (&'static str, usize),
    /// The field beside those with text, as workload files say it, its name and its bytes.
    first: Option<(String, &'static str, usize)>,
    index: &'static str,
    /// Size of a document when nobody says it; none: YCSB's fields.
    document_bytes: Option<usize>,
}

impl Shape {
    fn of(name: &str, ttl: (u64, u64)) -> Self {
        const INT64_KEY: (&str, usize) = ("number", 8);
        let document_bytes = Some(DOCUMENT_BYTES);
        match name {
            "a" | "b" | "c" | "d" | "e" | "f" => Shape {
                collection: "usertable",
                // Four letters and the longest number that YCSB's hash gives, with its length and zero.
                key: ("hashed:user", 28),
                first: None,
                index: "",
                document_bytes: None,
            },
            "ttl-insert" => Shape {
                collection: "expiring",
                key: INT64_KEY,
                first: Some((
                    format!("{{ gen = \"fromNow\", min = {}, max = {} }}", ttl.0, ttl.1),
                    "expireAt",
                    1 + 8 + 1 + 8,
                )),
                index: "[[indexes]]\nkey = { expireAt = 1 }\nexpireAfterSeconds = 0\n",
                document_bytes,
            },
            // Numbered documents with a number and text in them.
            _ => Shape {
                collection: "numbered",
                key: INT64_KEY,
                first: Some(("{ gen = \"sequence\" }".to_owned(), "number", 1 + 6 + 1 + 8)),
                index: "",
                document_bytes,
            },
        }
    }
}

/// The workload of these settings, which name no file.
pub(crate) fn build(settings: &Settings) -> Result<Workload, BenchError> {
    let usage = |problem: String| BenchError::Usage(problem);
    let named = settings.workload.as_deref().map(|name| {
        let short = name.strip_prefix("ycsb-").unwrap_or(name);
        let short = if short.len() == 1 { short.to_lowercase() } else { short.to_owned() };
        let range = range_length(&short).map(|length| format!("reads of {length} documents in a row"));
        let known = NAMED.iter().find(|(known, ..)| *known == short);
        let known = known
            .map(|(_, mix, distribution, about)| ((*mix).to_owned(), *distribution, (*about).to_owned()));
        let found = known.or(range.map(|about| (format!("{short}=1"), "uniform", about)));
        found.map(|found| (short, found)).ok_or_else(|| {
            usage(format!("unknown workload '{name}'; there are {NAMES}, and workload files (--file)"))
        })
    });
    let (short, (mut mix, distribution, mut description)) = named
        .transpose()?
        .unwrap_or_else(|| (String::new(), (String::new(), "uniform", "a mix of operations".to_owned())));
    if let Some(other) = &settings.mix {
        description = format!("the mix {other}");
        mix.clone_from(other);
    }
    let shape = Shape::of(&short, settings.ttl_seconds.unwrap_or(TTL_SECONDS));
    let texts = texts(&shape, settings)?;
    let mut text = format!(
        "key = {:?}\ndistribution = {distribution:?}\n[document]\n{}{}\n{}",
        shape.key.0,
        shape.first.iter().map(|(field, name, _)| format!("{name} = {field}\n")).collect::<String>(),
        texts.join("\n"),
        shape.index,
    );
    for (name, weight) in parse_mix(&mix).map_err(usage)? {
        let written = operation(&name, &shape, &texts).map_err(usage)?;
        text.push_str(&format!("[[operations]]\nname = {name:?}\nweight = {weight:?}\n{written}\n"));
    }
    let mut workload = Workload::parse("the built-in workload", &text)?;
    let collection = settings.collection.clone().unwrap_or_else(|| shape.collection.to_owned());
    for step in workload.operations.iter_mut().flat_map(|operation| &mut operation.steps) {
        if let Some((_, value)) = step.command.first_mut() {
            *value = Template::constant(collection.as_str());
        }
    }
    workload.name = settings.workload.clone().unwrap_or_else(|| "mix".to_owned());
    workload.description = description;
    workload.database = settings.database.clone().unwrap_or_else(|| DATABASE.to_owned());
    workload.collection = collection;
    Ok(workload)
}

/// `range-N`.
fn range_length(name: &str) -> Option<u64> {
    name.strip_prefix("range-")?.parse().ok().filter(|length| (1..=1_000_000).contains(length))
}

/// `read=50,update=30,range-100=20`.
fn parse_mix(text: &str) -> Result<Vec<(String, f64)>, String> {
    let mut mix: Vec<(String, f64)> = Vec::new();
    for part in text.split(',') {
        let (name, weight) = part
            .split_once('=')
            .ok_or(format!("--mix '{part}' is not an operation and its weight, such as read=50"))?;
        let (name, weight) = (name.trim(), weight.trim().parse::<f64>());
        let weight = weight
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

/// An operation as workload files have it, but for the collection's name, which is yet to be filled in.
fn operation(name: &str, shape: &Shape, texts: &[String]) -> Result<String, String> {
    /// YCSB's `maxscanlength`; the length is uniform from 1.
    const YCSB_SCAN: u64 = 100;
    const KEY: &str = "{ gen = \"key\" }";
    let find = |filter: &str, further: &str, (least, most): (u64, u64)| {
        let command = format!("{{ find = \"\", filter = {{ {filter} }}, {further}singleBatch = true }}");
        format!("command = {command}, expect = {{ documents = [{least}, {most}] }}")
    };
    let update = |set: &str| {
        let update = format!("{{ q = {{ _id = {KEY} }}, u = {{ \"$set\" = {set} }} }}");
        format!("command = {{ update = \"\", updates = [{update}] }}, expect = {{ n = 1 }}")
    };
    let number = "{ gen = \"integer\", min = 0, max = 2147483647 }";
    // One field, as YCSB's `writeallfields=false`.
    let one_text = || {
        let of: Vec<String> = texts.iter().map(|text| format!("{{ {text} }}")).collect();
        format!("{{ gen = \"choice\", of = [{}] }}", of.join(", "))
    };
    let (by_key, from_key) = (format!("_id = {KEY}"), format!("_id = {{ \"$gte\" = {KEY} }}"));
    let read = find(&by_key, "limit = 1, ", (1, 1));
    let (followers, steps) = match name {
        "read" => (None, vec![read]),
        "update" => (None, vec![update(&one_text())]),
        "update-number" => (None, vec![update(&format!("{{ number = {number} }}"))]),
        "read-modify-write" => (None, vec![read, update(&one_text())]),
        "insert" => {
            let command = "{ insert = \"\", documents = [{ gen = \"document\" }] }";
            (None, vec![format!("command = {command}, expect = {{ n = 1 }}")])
        }
        "scan" => {
            let limit = format!("{{ gen = \"integer\", min = 1, max = {YCSB_SCAN} }}");
            let further = format!("sort = {{ _id = 1 }}, limit = {limit}, batchSize = {YCSB_SCAN}, ");
            (None, vec![find(&from_key, &further, (1, YCSB_SCAN))])
        }
        // A filter on a field without an index that matches nothing.
        "search" => (None, vec![find(&format!("absent = {number}"), "", (0, 0))]),
        range => {
            let length = range_length(range).ok_or(format!(
                "unknown operation '{range}'; there are read, update, update-number, insert, scan, search, \
                 read-modify-write and range-N"
            ))?;
            // Documents in a row, projected to one field, as sysbench's ranges take one column. Where keys
            // are hashed the last documents of the order may be fewer.
            let (field, least) = shape.first.as_ref().map_or(("field0", 1), |(_, name, _)| (*name, length));
            let further = format!(
                "projection = {{ {field} = 1 }}, sort = {{ _id = 1 }}, limit = {length}, batchSize = \
                {length}, "
            );
            (Some(length - 1), vec![find(&from_key, &further, (least, length))])
        }
    };
    let followers = followers.map_or_else(String::new, |followers| format!("followers = {followers}\n"));
    Ok(format!("{followers}steps = [{{ {} }}]", steps.join(" }, { ")))
}

/// The fields with text as workload files have them, so long that the document has the size that was asked
/// for.
fn texts(shape: &Shape, settings: &Settings) -> Result<Vec<String>, BenchError> {
    let others = u32::from(shape.first.is_some());
    let fields = settings.fields.unwrap_or(YCSB_FIELDS);
    let count = fields.checked_sub(others).filter(|count| *count > 0 && fields <= 10_000);
    let count = count.ok_or_else(|| {
        BenchError::Usage(format!("--fields {fields}: from {} to 10000 are possible", others + 1))
    })? as usize;
    let names: Vec<String> = (0..count).map(|index| format!("field{index}")).collect();
    // Type, name and zero of each field, beside its value; a text has a length and a final zero.
    let others = 5 + (1 + 3 + 1) + shape.key.1 + shape.first.as_ref().map_or(0, |(_, _, bytes)| *bytes);
    let taken = others + names.iter().map(|name| name.len() + 1 + 1 + 4 + 1).sum::<usize>();
    let text_bytes = match settings.document_bytes.or(shape.document_bytes) {
        None => YCSB_FIELD_BYTES * count,
        Some(asked) => asked.checked_sub(taken).filter(|bytes| *bytes >= count).ok_or_else(|| {
            let least = taken + count;
            BenchError::Usage(format!("--document-bytes {asked}: {fields} fields need at least {least}"))
        })?,
    };
    let length = |index: usize| text_bytes / count + usize::from(index < text_bytes % count);
    let text = |(index, name)| format!("{name} = {{ gen = \"string\", length = {} }}", length(index));
    Ok(names.into_iter().enumerate().map(text).collect())
}
