//! `$out` and `$merge`: parsed here, carried out by `commands`.

use document::{DocumentBuf, RawArray, RawDocument, RawValue};

use crate::environment::Environment;
use crate::error::QueryError;
use crate::expression::{Expression, ParseScope};

use super::parse::wrapped;

/// Where a pipeline writes.
#[derive(Debug, Clone)]
pub enum OutputStage {
    /// `$out`: the collection is replaced as a whole.
    Out(Destination),
    /// `$merge`: each document is written by itself.
    Merge {
        /// The collection.
        into: Destination,
        /// The fields that identify a document, dotted; `_id` by default.
        on: Vec<String>,
        /// What happens to a document that is there already.
        when_matched: WhenMatched,
        /// What happens to a document that is not.
        when_not_matched: WhenNotMatched,
        /// `let`: variables for the update pipeline, evaluated on the new document (`new` is always bound to
        /// it).
        bindings: Vec<(String, Expression)>,
    },
}

/// A collection that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The database, when it is not the one of the aggregate command.
    pub database: Option<String>,
    /// The collection.
    pub collection: String,
}

/// What `$merge` does with a document that is there already.
#[derive(Debug, Clone, PartialEq)]
pub enum WhenMatched {
    /// The new document takes its place.
    Replace,
    /// It stays as it is.
    KeepExisting,
    /// The new document's fields are set in it.
    Merge,
    /// The command ends with an error.
    Fail,
    /// It is updated by this pipeline, given as `{"": [...]}`.
    Pipeline(DocumentBuf),
}

/// What `$merge` does with a document that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenNotMatched {
    /// It is inserted.
    Insert,
    /// It is dropped.
    Discard,
    /// The command ends with an error.
    Fail,
}

pub(super) fn parse_out(operand: RawValue<'_>, _: &Environment) -> Result<OutputStage, QueryError> {
    match operand {
        RawValue::String("") => {
            Err(QueryError::new(73, "Invalid $out target namespace: the collection name is empty"))
        }
        RawValue::String(collection) => {
            Ok(OutputStage::Out(Destination { database: None, collection: collection.to_owned() }))
        }
        RawValue::Document(spec) => Ok(OutputStage::Out(destination("$out", spec)?)),
        other => Err(query_error!(
            16990,
            "$out only supports a string or object argument, but found {}",
            other.kind().alias()
        )),
    }
}

/// Refuses a field that is there twice, so that who asks whether it may be written there and who writes look
/// at the same one.
fn refuse_twice(owner: &str, spec: RawDocument<'_>, name: &str) -> Result<(), QueryError> {
    match spec.iter().filter(|other| other.name() == name).nth(1) {
        Some(_) => Err(query_error!(40413, "BSON field '{owner}.{name}' is a duplicate field")),
        None => Ok(()),
    }
}

fn destination(name: &str, spec: RawDocument<'_>) -> Result<Destination, QueryError> {
    let (mut database, mut collection) = (None, None);
    for element in spec.iter() {
        refuse_twice(name, spec, element.name())?;
        let place = match element.name() {
            "db" => &mut database,
            "coll" => &mut collection,
            unknown => bail!(40415, "BSON field '{name}.{unknown}' is an unknown field."),
        };
        let Some(text) = element.value().as_str() else {
            bail!(
                type_mismatch,
                "BSON field '{name}.{}' is the wrong type '{}', expected type 'string'",
                element.name(),
                element.kind().alias()
            );
        };
        *place = Some(text.to_owned());
    }
    match collection {
        Some(collection) if !collection.is_empty() => Ok(Destination { database, collection }),
        _ => Err(query_error!(40414, "BSON field '{name}.coll' is missing but a required field")),
    }
}

pub(super) fn parse_merge(
    operand: RawValue<'_>,
    environment: &Environment,
) -> Result<OutputStage, QueryError> {
    let mut merge = MergeOptions::default();
    match operand {
        RawValue::String(collection) => {
            merge.into = Some(Destination { database: None, collection: collection.to_owned() });
        }
        RawValue::Document(spec) => {
            for element in spec.iter() {
                refuse_twice("$merge", spec, element.name())?;
                merge.read(element.name(), element.value(), environment)?;
            }
        }
        other => {
            bail!(51182, "$merge requires a string or object argument, but found {}", other.kind().alias())
        }
    }
    let into = merge
        .into
        .ok_or_else(|| QueryError::new(40414, "BSON field '$merge.into' is missing but a required field"))?;
    let when_matched = merge.when_matched.unwrap_or(WhenMatched::Merge);
    if let Some(mode) = when_matched.name().filter(|_| merge.has_bindings) {
        bail!(51199, "Cannot use 'let' variables with 'whenMatched: {mode}' mode");
    }
    Ok(OutputStage::Merge {
        into,
        on: merge.on.unwrap_or_else(|| vec!["_id".to_owned()]),
        when_matched,
        when_not_matched: merge.when_not_matched.unwrap_or(WhenNotMatched::Insert),
        bindings: merge.bindings,
    })
}

#[derive(Default)]
struct MergeOptions {
    into: Option<Destination>,
    on: Option<Vec<String>>,
    when_matched: Option<WhenMatched>,
    when_not_matched: Option<WhenNotMatched>,
    has_bindings: bool,
    bindings: Vec<(String, Expression)>,
}

impl MergeOptions {
    fn read(&mut self, name: &str, value: RawValue<'_>, environment: &Environment) -> Result<(), QueryError> {
        match (name, value) {
            ("into", RawValue::String(collection)) => {
                self.into = Some(Destination { database: None, collection: collection.to_owned() });
            }
            ("into", RawValue::Document(spec)) => self.into = Some(destination("$merge.into", spec)?),
            ("on", RawValue::String(path)) => self.on = Some(vec![path.to_owned()]),
            ("on", RawValue::Array(paths)) => self.on = Some(on_paths(paths)?),
            ("whenMatched", RawValue::String(mode)) => self.when_matched = Some(when_matched(mode)?),
            ("whenMatched", RawValue::Array(stages)) => {
                self.when_matched = Some(WhenMatched::Pipeline(wrapped(stages)));
            }
            ("whenNotMatched", RawValue::String(mode)) => {
                self.when_not_matched = Some(when_not_matched(mode)?)
            }
            ("let" | "whenNotMatched", RawValue::Null) => {}
            ("let", RawValue::Document(bindings)) => {
                self.has_bindings = true;
                let scope = ParseScope::new(environment);
                for element in bindings.iter() {
                    let expression = Expression::parse(element.value(), &scope)?;
                    self.bindings.push((element.name().to_owned(), expression));
                }
            }
            (known @ ("into" | "on" | "whenMatched" | "whenNotMatched" | "let"), other) => {
                return Err(wrong_type(known, other.kind().alias()));
            }
            (unknown, _) => bail!(40415, "BSON field '$merge.{unknown}' is an unknown field."),
        }
        Ok(())
    }
}

/// The refusal of a field of `$merge` by its type.
fn wrong_type(field: &str, found: &str) -> QueryError {
    let (code, wanted) = match field {
        "into" => (51178, "a string or an object"),
        "on" => (51186, "a string or an array of strings"),
        "whenMatched" => (51191, "a string or an array"),
        _ => {
            let wanted = if field == "let" { "object" } else { "string" };
            return QueryError::type_mismatch(format!(
                "BSON field '$merge.{field}' is the wrong type '{found}', expected type '{wanted}'"
            ));
        }
    };
    query_error!(code, "$merge '{field}' field must be either {wanted}, but found {found}")
}

fn on_paths(paths: RawArray<'_>) -> Result<Vec<String>, QueryError> {
    let paths = paths
        .iter()
        .map(|path| {
            path.as_str().map(str::to_owned).ok_or_else(|| {
                query_error!(
                    51134,
                    "$merge 'on' array elements must be strings, but found {}",
                    path.kind().alias()
                )
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    if paths.is_empty() {
        bail!(51187, "If explicitly specifying $merge 'on', must include at least one field");
    }
    Ok(paths)
}

impl WhenMatched {
    /// The mode's name; a pipeline has none.
    fn name(&self) -> Option<&'static str> {
        Some(match self {
            WhenMatched::Replace => "replace",
            WhenMatched::KeepExisting => "keepExisting",
            WhenMatched::Merge => "merge",
            WhenMatched::Fail => "fail",
            WhenMatched::Pipeline(_) => return None,
        })
    }
}

fn when_matched(mode: &str) -> Result<WhenMatched, QueryError> {
    Ok(match mode {
        "replace" => WhenMatched::Replace,
        "keepExisting" => WhenMatched::KeepExisting,
        "merge" => WhenMatched::Merge,
        "fail" => WhenMatched::Fail,
        unknown => {
            bail!(bad_value, "Enumeration value '{unknown}' for field 'whenMatched' is not a valid value.")
        }
    })
}

fn when_not_matched(mode: &str) -> Result<WhenNotMatched, QueryError> {
    Ok(match mode {
        "insert" => WhenNotMatched::Insert,
        "discard" => WhenNotMatched::Discard,
        "fail" => WhenNotMatched::Fail,
        unknown => {
            bail!(bad_value, "Enumeration value '{unknown}' for field 'whenNotMatched' is not a valid value.")
        }
    })
}
