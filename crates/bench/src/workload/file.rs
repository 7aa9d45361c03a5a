//! Workload files: one's own documents and commands in TOML. `docs/bench-workload.toml` is the example and the manual.
//!
//! A table with the key `gen` stands for a generator wherever a value may stand; everything else is a constant.

use crate::error::BenchError;
use crate::workload::builtin::{DATABASE, RECORDS};
use crate::workload::distribution::Distribution;
use crate::workload::file_generator::generator;
use crate::workload::file_reader::{Item, Reader, Table};
use crate::workload::keys::KeyFormat;
use crate::workload::model::{Expect, Fields, Operation, Step, Subject, Workload};
use crate::workload::settings::WorkloadFile;
use crate::workload::template::{Generator, Template};
use document::{Document, Value};

const NAME: &str = "workload";
const COLLECTION: &str = "documents";

/// The key that marks a generator.
pub(crate) const MARK: &str = "gen";

/// Reads a workload.
///
/// # Errors
/// [`BenchError::Usage`] with file, line and key.
pub(crate) fn parse(file: &WorkloadFile) -> Result<Workload, BenchError> {
    let reader = Reader::new(&file.path, &file.text);
    workload(&reader).map_err(BenchError::Usage)
}

fn workload(reader: &Reader<'_>) -> Result<Workload, String> {
    let parsed = reader.parse()?;
    let mut top = Table::top(reader, &parsed);
    let name = top.text("name")?.unwrap_or(NAME);
    let collection = top.text("collection")?.unwrap_or(COLLECTION);
    let description = top.text("description")?.unwrap_or("a workload file");
    let database = top.text("database")?.unwrap_or(DATABASE);
    let key = match top.take("key") {
        Some(item) => key_format(item.text()?).map_err(|problem| item.fail(&problem))?,
        None => KeyFormat::Number,
    };
    let distribution = distribution(&mut top)?.unwrap_or(Distribution::Uniform);
    let records = top.whole("records")?;
    let document = match top.take("document") {
        Some(item) => document(&item)?,
        None => vec![id()],
    };
    let indexes = match top.take("indexes") {
        Some(item) => item.array()?.iter().map(index).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let listed = top.require("operations")?;
    let operations: Vec<Operation> = listed.array()?.iter().map(operation).collect::<Result<_, _>>()?;
    top.finish()?;
    if let Some(twice) = operations.iter().enumerate().find_map(|(index, one)| {
        operations.iter().take(index).any(|other| other.name == one.name).then_some(one)
    }) {
        return Err(listed.fail(&format!("two operations are called '{}'", twice.name)));
    }
    let asks_for_documents =
        operations.iter().any(|operation| matches!(operation.subject, Subject::Present { .. }));
    let records = records.unwrap_or(if asks_for_documents { RECORDS } else { 0 });
    let [name, description, database, collection] =
        [name, description, database, collection].map(str::to_owned);
    Ok(Workload {
        name,
        description,
        database,
        collection,
        records,
        key,
        document,
        distribution,
        operations,
        indexes,
    })
}

fn id() -> (String, Template) {
    ("_id".to_owned(), Template::Generated(Generator::Key))
}

fn key_format(text: &str) -> Result<KeyFormat, String> {
    match text.split_once(':') {
        None if text == "number" => Ok(KeyFormat::Number),
        Some(("text", prefix)) => Ok(KeyFormat::Text { prefix: prefix.to_owned() }),
        Some(("hashed", prefix)) => Ok(KeyFormat::Hashed { prefix: prefix.to_owned() }),
        _ => Err("expected 'number', 'text:PREFIX' or 'hashed:PREFIX'".to_owned()),
    }
}

fn distribution(table: &mut Table<'_>) -> Result<Option<Distribution>, String> {
    let Some(item) = table.take("distribution") else { return Ok(None) };
    item.text()?.parse().map(Some).map_err(|problem: String| item.fail(&problem))
}

/// The template of a document, `_id` first: it is the key, so that whoever loads or reads knows it.
fn document(item: &Item<'_>) -> Result<Fields, String> {
    let mut fields = vec![id()];
    for (name, value) in item.table()?.items() {
        if name == "_id" {
            return Err(
                value.fail("'_id' is made from the document's number; say how with the key 'key' at the top")
            );
        }
        let template = template(&value)?;
        if template.contains(&|generator| *generator == Generator::NewDocument) {
            return Err(value.fail("a document cannot hold itself"));
        }
        fields.push((name.to_owned(), template));
    }
    Ok(fields)
}

/// Any value.
pub(crate) fn template(item: &Item<'_>) -> Result<Template, String> {
    if let Some(constant) = item.scalar()? {
        return Ok(Template::Constant(constant));
    }
    if item.is_array() {
        return item.array()?.iter().map(template).collect::<Result<_, _>>().map(Template::Array);
    }
    let table = item.table()?;
    if table.has(MARK) {
        return generator(table).map(Template::Generated);
    }
    fields(table).map(Template::Document)
}

fn fields(table: Table<'_>) -> Result<Fields, String> {
    table.items().into_iter().map(|(name, value)| Ok((name.to_owned(), template(&value)?))).collect()
}

/// A value without generators.
fn constant(template: Template) -> Option<Value> {
    match template {
        Template::Constant(value) => Some(value),
        Template::Array(values) => {
            values.into_iter().map(constant).collect::<Option<Vec<_>>>().map(Value::from)
        }
        Template::Document(fields) => {
            let fields = fields.into_iter().map(|(name, value)| Some((name, constant(value)?)));
            fields.collect::<Option<Document>>().map(Value::Document)
        }
        Template::Generated(_) => None,
    }
}

/// What `createIndexes` gets; a name is made of the key where none is given.
fn index(item: &Item<'_>) -> Result<Document, String> {
    let Some(Value::Document(mut index)) = constant(template(item)?) else {
        return Err(item.fail("an index is a table without generators"));
    };
    let Some(Value::Document(key)) = index.get("key") else {
        return Err(item.fail("an index has a table 'key', such as { customer = 1 }"));
    };
    let name: Vec<String> = key
        .iter()
        .map(|(field, direction)| match direction {
            Value::Int32(direction) => format!("{field}_{direction}"),
            Value::String(kind) => format!("{field}_{kind}"),
            _ => field.to_owned(),
        })
        .collect();
    if !index.contains("name") {
        index.push("name", name.join("_"));
    }
    Ok(index)
}

fn operation(item: &Item<'_>) -> Result<Operation, String> {
    let mut table = item.table()?;
    let name = table.require("name")?.text()?.to_owned();
    let weight = match table.take("weight") {
        Some(weight) => weight.number()?,
        None => 1.0,
    };
    let followers = table.whole("followers")?;
    let distribution = distribution(&mut table)?;
    let steps = match (table.take("command"), table.take("steps")) {
        (Some(command), None) => {
            let expect = table.take("expect").map_or(Ok(Expect::OK), |item| expect(&item))?;
            vec![step(&command, expect)?]
        }
        (None, Some(steps)) => steps.array()?.iter().map(whole_step).collect::<Result<_, _>>()?,
        _ => return Err(item.fail("an operation has either 'command' or 'steps'")),
    };
    table.finish()?;
    if steps.is_empty() || steps.len() > usize::from(u8::MAX) {
        return Err(item.fail("an operation has from 1 to 255 steps"));
    }
    let subject = subject(&steps, followers.unwrap_or(0), distribution);
    if !matches!(subject, Subject::Present { .. }) && (followers.is_some() || distribution.is_some()) {
        return Err(item.fail("'followers' and 'distribution' are for operations that use { gen = \"key\" }"));
    }
    Ok(Operation { name, weight, subject, steps })
}

/// `{ command = …, expect = … }`.
fn whole_step(item: &Item<'_>) -> Result<Step, String> {
    let mut table = item.table()?;
    let command = table.require("command")?;
    let expect = table.take("expect").map_or(Ok(Expect::OK), |item| expect(&item))?;
    table.finish()?;
    step(&command, expect)
}

fn step(item: &Item<'_>, expect: Expect) -> Result<Step, String> {
    let command = fields(item.table()?)?;
    if command.is_empty() {
        return Err(item.fail("a command has at least its name as the first key"));
    }
    Ok(Step { command, expect })
}

/// `{ n = 1 }`, `{ documents = [1, 10] }`.
fn expect(item: &Item<'_>) -> Result<Expect, String> {
    let mut table = item.table()?;
    let bounds = |item: Option<Item<'_>>| match item {
        None => Ok(None),
        Some(item) if item.is_array() => match item.array()?.as_slice() {
            [least, most] => Ok(Some((least.whole()?, most.whole()?))),
            _ => Err(item.fail("expected a number or the least and the most, such as [1, 10]")),
        },
        Some(item) => item.whole().map(|exactly| Some((exactly, exactly))),
    };
    let expect = Expect { n: bounds(table.take("n"))?, documents: bounds(table.take("documents"))? };
    table.finish()?;
    Ok(expect)
}

/// Which document an operation is about follows from what its commands use.
fn subject(steps: &[Step], followers: u64, distribution: Option<Distribution>) -> Subject {
    let uses = |wanted: &dyn Fn(&Generator) -> bool| {
        steps.iter().flat_map(|step| &step.command).any(|(_, value)| value.contains(wanted))
    };
    if uses(&|generator| *generator == Generator::NewDocument) {
        return Subject::New;
    }
    if uses(&|generator| matches!(generator, Generator::Key | Generator::Sequence { .. })) {
        return Subject::Present { followers, distribution };
    }
    Subject::None
}
