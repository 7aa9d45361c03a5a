//! Parsing update operators: one table, and the rules for all of them.

use std::cmp::Ordering;
use std::collections::HashSet;

use document::quote::element;
use document::{DocumentBuf, Element, ElementType, Number, RawArray, RawDocument, RawValue, Timestamp};

use super::array::{Pull, Push, parse_add_to_set};
use super::array_filters::ArrayFilters;
use super::bit::Bits;
use super::modifier::{Arithmetic, Modifier, Operand, Surroundings};
use super::path::{self, PathStep};
use super::tree::Branch;
use super::{splice, walk};
use crate::environment::Environment;
use crate::error::{QueryError, code};
use crate::matcher::MatchDetails;

type ParseModifier = fn(Element<'_>, &Environment) -> Result<Modifier, QueryError>;

/// Every operator but `$rename`, which writes two paths.
const OPERATORS: &[(&str, ParseModifier)] = &[
    ("$set", |field, _| Ok(Modifier::Set(Operand::new(field.value())))),
    ("$setOnInsert", |field, _| Ok(Modifier::SetOnInsert(Operand::new(field.value())))),
    ("$unset", |_, _| Ok(Modifier::Unset)),
    ("$inc", |field, _| calculate(Arithmetic::Increment, field)),
    ("$mul", |field, _| calculate(Arithmetic::Multiply, field)),
    ("$min", |field, _| Ok(Modifier::Extreme { wins: Ordering::Less, operand: Operand::new(field.value()) })),
    ("$max", |field, _| {
        Ok(Modifier::Extreme { wins: Ordering::Greater, operand: Operand::new(field.value()) })
    }),
    ("$currentDate", current_date),
    ("$bit", |field, _| Ok(Modifier::Bit(Bits::parse(field.value())?))),
    ("$push", |field, _| Ok(Modifier::Push(Push::parse(field.value())?))),
    ("$addToSet", |field, _| Ok(Modifier::AddToSet(parse_add_to_set(field.value())?))),
    ("$pop", |field, _| pop(field)),
    ("$pull", |field, environment| Ok(Modifier::Pull(Pull::parse(field.value(), environment)?))),
    ("$pullAll", |field, _| Ok(Modifier::Pull(Pull::parse_all(field.value())?))),
];

/// The names of all update operators.
pub fn operator_names() -> impl Iterator<Item = &'static str> {
    OPERATORS.iter().map(|(name, _)| *name).chain(["$rename"])
}

/// A parsed document of operators.
#[derive(Debug)]
pub(super) struct Operators {
    pub(super) tree: Branch,
    pub(super) filters: ArrayFilters,
    /// Source paths of `$rename`, by number.
    pub(super) renames: Vec<Vec<String>>,
    /// Whether `_id` may change.
    touches_id: bool,
    pub(super) uses_position: bool,
    /// Whether no path and no operand can make the document deeper.
    pub(super) is_flat: bool,
}

impl Operators {
    pub(super) fn parse(
        update: RawDocument<'_>,
        filters: RawArray<'_>,
        environment: &Environment,
    ) -> Result<Self, QueryError> {
        let mut parser = UpdateParser {
            environment,
            tree: Branch::default(),
            filters: ArrayFilters::parse(filters, environment)?,
            renames: Vec::new(),
            used_filters: HashSet::new(),
            uses_position: false,
            is_flat: true,
        };
        update.iter().try_for_each(|operator| parser.operator(operator))?;
        parser.filters.check_used(&parser.used_filters, update)?;
        parser.tree.sort();
        let is_id = |component: &PathStep| matches!(component, PathStep::Field(name) if name == "_id");
        Ok(Operators {
            touches_id: parser.tree.children.iter().any(|(component, _)| is_id(component)),
            tree: parser.tree,
            filters: parser.filters,
            renames: parser.renames,
            uses_position: parser.uses_position,
            is_flat: parser.is_flat,
        })
    }

    /// The document after all modifiers.
    pub(super) fn apply(
        &self,
        document: RawDocument<'_>,
        details: Option<&MatchDetails>,
        is_insert: bool,
    ) -> Result<DocumentBuf, QueryError> {
        let position = details.and_then(|details| details.array_index);
        let mut around = Surroundings { document, is_insert, position, renamed: Vec::new() };
        let changed = if self.renames.is_empty() && self.tree.children.len() <= splice::MAX_FIELDS {
            splice::apply(&self.tree, &self.filters, &around)?
        } else {
            walk::apply(self, &mut around)?
        };
        if self.touches_id {
            self.check_id(document, changed.as_raw())?;
        }
        Ok(changed)
    }

    /// `_id` never changes once it is there.
    fn check_id(&self, before: RawDocument<'_>, after: RawDocument<'_>) -> Result<(), QueryError> {
        let Some(id) = before.get("_id") else {
            return Ok(());
        };
        if after.get("_id").is_some_and(|new| document::compare(new, id).is_eq()) {
            return Ok(());
        }
        let (path, modifier) = self.tree.first_path("_id");
        let what = match modifier {
            Some(Modifier::RenameSource) => format!("Unsetting the path '{path}' using $rename"),
            _ => format!("Performing an update on the path '{path}'"),
        };
        Err(query_error!(code::IMMUTABLE_FIELD, "{what} would modify the immutable field '_id'"))
    }
}

struct UpdateParser<'e> {
    environment: &'e Environment,
    tree: Branch,
    filters: ArrayFilters,
    renames: Vec<Vec<String>>,
    used_filters: HashSet<String>,
    uses_position: bool,
    is_flat: bool,
}

impl UpdateParser<'_> {
    fn operator(&mut self, operator: Element<'_>) -> Result<(), QueryError> {
        let name = operator.name();
        let parse = OPERATORS.iter().find(|(known, _)| *known == name).map(|(_, parse)| parse);
        if parse.is_none() && name != "$rename" {
            bail!(
                failed_to_parse,
                "Unknown modifier: {name}. Expected a valid update modifier or pipeline-style update \
                specified as an array"
            );
        }
        let RawValue::Document(fields) = operator.value() else {
            bail!(
                failed_to_parse,
                "Modifiers operate on fields but we found type {} instead. For example: {{$mod: {{<field>: \
                 ...}}}} not {{{}}}",
                operator.kind().alias(),
                element(name, operator.value())
            );
        };
        for field in fields {
            match parse {
                Some(parse) => {
                    let components = self.path(field.name())?;
                    if name != "$unset" {
                        path::check_top_level(&components)?;
                    }
                    self.is_flat &= !matches!(field.kind(), ElementType::Document | ElementType::Array);
                    let modifier = parse(field, self.environment)?;
                    self.tree.insert(field.name(), &components, modifier)?;
                }
                None => self.rename(field)?,
            }
        }
        Ok(())
    }

    fn path(&mut self, path: &str) -> Result<Vec<PathStep>, QueryError> {
        let components = path::parse(path)?;
        self.is_flat &= components.len() == 1;
        for component in &components {
            match component {
                PathStep::Matched => self.uses_position = true,
                PathStep::Filtered(identifier) => {
                    self.filters.check_known(identifier, path)?;
                    self.used_filters.insert(identifier.clone());
                }
                PathStep::Field(_) | PathStep::Every => {}
            }
        }
        Ok(components)
    }

    fn rename(&mut self, field: Element<'_>) -> Result<(), QueryError> {
        let from = field.name();
        let Some(to) = field.value().as_str() else {
            bail!(bad_value, "The 'to' field for $rename must be a string: {}", element(from, field.value()));
        };
        if to.contains('\0') {
            bail!(bad_value, "The 'to' field for $rename cannot contain an embedded null byte");
        }
        let (source, target) = (self.path(from)?, self.path(to)?);
        path::check_top_level(&target)?;
        let related = match source == target {
            true => Some("differ"),
            false => (source.starts_with(&target) || target.starts_with(&source))
                .then_some("not be on the same path"),
        };
        if let Some(must) = related {
            bail!(
                bad_value,
                "The source and target field for $rename must {must}: {}",
                element(from, field.value())
            );
        }
        let source_names = plain(&source).ok_or_else(|| {
            QueryError::bad_value(format!("The source field for $rename may not be dynamic: {from}"))
        })?;
        if plain(&target).is_none() {
            let message = format!("The destination field for $rename may not be dynamic: {to}");
            return Err(QueryError::bad_value(message));
        }
        self.is_flat = false;
        self.tree.insert(from, &source, Modifier::RenameSource)?;
        self.tree.insert(to, &target, Modifier::RenameTarget(self.renames.len()))?;
        self.renames.push(source_names);
        Ok(())
    }
}

/// The names of a path without positional operators.
fn plain(components: &[PathStep]) -> Option<Vec<String>> {
    let names = components.iter().map(|component| match component {
        PathStep::Field(name) => Some(name.clone()),
        _ => None,
    });
    names.collect()
}

fn calculate(operation: Arithmetic, field: Element<'_>) -> Result<Modifier, QueryError> {
    let verb = match operation {
        Arithmetic::Increment => "increment",
        Arithmetic::Multiply => "multiply",
    };
    let number = Number::from_raw(field.value()).ok_or_else(|| {
        QueryError::type_mismatch(format!(
            "Cannot {verb} with non-numeric argument: {{{}}}",
            element(field.name(), field.value())
        ))
    })?;
    Ok(Modifier::Calculate(operation, number))
}

fn pop(field: Element<'_>) -> Result<Modifier, QueryError> {
    let value = field.value();
    let refuse =
        |what: &str| Err(QueryError::failed_to_parse(format!("{what}: {}", element(field.name(), value))));
    match (value.as_i64_exact(), value.as_f64()) {
        (Some(1), _) => Ok(Modifier::Pop { first: false }),
        (Some(-1), _) => Ok(Modifier::Pop { first: true }),
        (Some(other), _) => Err(QueryError::failed_to_parse(format!("$pop expects 1 or -1, found: {other}"))),
        _ if !value.is_number() => refuse("Expected a number in"),
        (None, Some(number)) if number.is_nan() => refuse("Expected an integer, but found NaN in"),
        (None, Some(number)) if number.fract() == 0.0 => refuse("Cannot represent as a 64-bit integer"),
        _ => refuse("Expected an integer"),
    }
}

fn current_date(field: Element<'_>, environment: &Environment) -> Result<Modifier, QueryError> {
    let date = RawValue::DateTime(environment.now_ms);
    let timestamp = RawValue::Timestamp(Timestamp::now());
    let value = match field.value() {
        RawValue::Boolean(_) => date,
        RawValue::Document(clauses) => {
            if let Some(other) = clauses.iter().find(|clause| clause.name() != "$type") {
                bail!(bad_value, "Unrecognized $currentDate option: {}", other.name());
            }
            match clauses.get("$type").and_then(RawValue::as_str) {
                Some("date") => date,
                Some("timestamp") => timestamp,
                _ => {
                    bail!(
                        bad_value,
                        "The '$type' string field is required to be 'date' or 'timestamp': {{$currentDate: \
                         {{field : {{$type: 'date'}}}}}}"
                    );
                }
            }
        }
        other => {
            bail!(
                bad_value,
                "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type expression \
                 ({{$type: 'timestamp/date'}}).",
                other.kind().alias()
            );
        }
    };
    Ok(Modifier::Set(Operand::new(value)))
}
