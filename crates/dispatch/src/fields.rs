//! The fields of a command document, taken one by one with MongoDB's strict rules.
//!
//! The document is walked once when the command is dispatched. A command then *takes* its own fields by name
//! and type; what nobody took is an unknown field.

use crate::error::{CommandError, CommandResult, code};
use document::{DocumentBuf, DocumentBuilder, Element, ElementType, RawArray, RawDocument, RawValue};
use smallvec::SmallVec;

/// The most fields of a command or a statement that are not generic arguments: several times what any has.
/// The first one beyond is refused as unknown, so that the checks among them cost no more than a few
/// microseconds however many are sent.
const MOST_FIELDS: usize = 256;

/// Documents given either as an array field or as a document sequence of the message.
#[derive(Debug, Clone, Copy)]
pub enum DocumentList<'a> {
    /// An array field of the body.
    Array(RawArray<'a>),
    /// A document sequence: documents one behind the other.
    Sequence(wire::DocumentSequence<'a>),
}

/// The fields of one command that are not generic arguments.
#[derive(Debug)]
pub struct Fields<'a> {
    command: &'static str,
    target: RawValue<'a>,
    left: SmallVec<[Element<'a>; 12]>,
    sequences: SmallVec<[wire::DocumentSequence<'a>; 2]>,
}

impl<'a> Fields<'a> {
    /// The fields of `command` (its canonical name), whose own field has the value `target`.
    pub fn new(command: &'static str, target: RawValue<'a>) -> Self {
        Fields { command, target, left: SmallVec::new(), sequences: SmallVec::new() }
    }

    /// The fields of a nested command or of a statement such as `update.updates`; `struct_name` is how
    /// messages call it.
    pub fn nested(struct_name: &'static str, document: RawDocument<'a>) -> CommandResult<Self> {
        let mut fields = Fields::new(struct_name, RawValue::Undefined);
        for element in document {
            fields.add(element)?;
        }
        Ok(fields)
    }

    /// Adds a field of the document.
    ///
    /// # Errors
    /// `IDLDuplicateField` when it is there already; `IDLUnknownField` when there are more than any command
    /// has.
    pub fn add(&mut self, element: Element<'a>) -> CommandResult {
        if self.left.len() >= MOST_FIELDS {
            return Err(unknown_field(self.command, element.name()));
        }
        if self.left.iter().any(|known| known.name_bytes() == element.name_bytes()) {
            return Err(self.duplicate(element.name()));
        }
        self.left.push(element);
        Ok(())
    }

    /// Adds a document sequence of the message.
    ///
    /// # Errors
    /// `IDLDuplicateField` when the body or another sequence has the same name.
    pub fn add_sequence(&mut self, sequence: wire::DocumentSequence<'a>) -> CommandResult {
        let name = sequence.identifier;
        let in_body = self.left.iter().any(|known| known.name() == name);
        if in_body || self.sequences.iter().any(|known| known.identifier == name) {
            return Err(self.duplicate(name));
        }
        self.sequences.push(sequence);
        Ok(())
    }

    fn duplicate(&self, name: &str) -> CommandError {
        let message = format!("BSON field '{}.{name}' is a duplicate field", self.command);
        CommandError::new(code::IDL_DUPLICATE_FIELD, message)
    }

    /// The value of the command's own field, e.g. the collection name of `find`.
    pub const fn target(&self) -> RawValue<'a> {
        self.target
    }

    /// The command's own field as a collection name.
    ///
    /// # Errors
    /// `BadValue` when it is no string; `InvalidNamespace` for the commands that MongoDB reads in the older
    /// way.
    pub fn collection_name(&self) -> CommandResult<&'a str> {
        match self.target {
            RawValue::String(name) => Ok(name),
            other => {
                let message = format!("collection name has invalid type {}", other.kind().alias());
                let code = match self.command {
                    "compact" | "count" | "distinct" | "reIndex" | "validate" => code::INVALID_NAMESPACE,
                    command if command.starts_with("planCache") => code::INVALID_NAMESPACE,
                    _ => code::BAD_VALUE,
                };
                Err(CommandError::new(code, message))
            }
        }
    }

    /// Takes a field of any type.
    #[inline]
    pub fn any(&mut self, name: &str) -> Option<RawValue<'a>> {
        if self.left.is_empty() {
            return None;
        }
        let position = self.left.iter().position(|element| element.name_bytes() == name.as_bytes())?;
        Some(self.left.swap_remove(position).value())
    }

    /// Takes a string.
    pub fn string(&mut self, name: &str) -> CommandResult<Option<&'a str>> {
        self.typed(name, RawValue::as_str, &["string"])
    }

    /// Takes a document.
    pub fn document(&mut self, name: &str) -> CommandResult<Option<RawDocument<'a>>> {
        self.typed(name, RawValue::as_document, &["object"])
    }

    /// Takes an array.
    pub fn array(&mut self, name: &str) -> CommandResult<Option<RawArray<'a>>> {
        self.typed(name, RawValue::as_array, &["array"])
    }

    /// Takes a boolean; numbers are refused.
    pub fn boolean(&mut self, name: &str) -> CommandResult<Option<bool>> {
        self.typed(name, RawValue::as_bool, &["bool"])
    }

    /// Takes a boolean; numbers count as true when not zero.
    pub fn flexible_boolean(&mut self, name: &str) -> CommandResult<Option<bool>> {
        let read = |value: RawValue<'a>| match value {
            RawValue::Boolean(flag) => Some(flag),
            number if number.is_number() => Some(integer(number)? != 0),
            _ => None,
        };
        self.typed(name, read, &["bool", "long", "int", "decimal", "double"])
    }

    /// Takes a number as an integer; a fraction is cut off.
    pub fn integer(&mut self, name: &str) -> CommandResult<Option<i64>> {
        self.typed(name, integer, &["long", "int", "decimal", "double"])
    }

    /// Takes a number of at least `minimum`.
    ///
    /// # Errors
    /// Code 51024 below the minimum.
    pub fn integer_at_least(&mut self, name: &str, minimum: i64) -> CommandResult<Option<i64>> {
        match self.integer(name)? {
            Some(number) if number < minimum => Err(CommandError::new(
                code::VALUE_OUT_OF_BOUNDS,
                format!("BSON field '{name}' value must be >= {minimum}, actual value '{number}'"),
            )),
            number => Ok(number),
        }
    }

    /// Takes documents from a document sequence or an array field of this name.
    pub fn documents(&mut self, name: &str) -> CommandResult<Option<DocumentList<'a>>> {
        if let Some(position) = self.sequences.iter().position(|sequence| sequence.identifier == name) {
            return Ok(Some(DocumentList::Sequence(self.sequences.swap_remove(position))));
        }
        Ok(self.array(name)?.map(DocumentList::Array))
    }

    /// The error for a required field: `fields.string("a")?.ok_or_else(|| fields.missing("a"))`.
    pub fn missing(&self, name: &str) -> CommandError {
        let message = format!("BSON field '{}.{name}' is missing but a required field", self.command);
        CommandError::new(code::IDL_MISSING_FIELD, message)
    }

    /// The error for a field of the wrong type.
    pub fn wrong_type(&self, name: &str, found: ElementType, expected: &[&str]) -> CommandError {
        wrong_type(self.command, name, found, expected)
    }

    /// Forgets these fields: the command accepts and ignores them.
    pub fn ignore(&mut self, names: &[&str]) {
        self.left.retain(|element| !names.contains(&element.name()));
    }

    /// Forgets every field that was not taken: for commands that accept anything.
    pub fn ignore_rest(&mut self) {
        self.left.clear();
        self.sequences.clear();
    }

    /// Takes every field that is left, as a document: for commands whose options belong to the catalog. What
    /// is null counts as not given.
    pub fn take_rest(&mut self) -> DocumentBuf {
        let mut bytes = Vec::new();
        let mut rest = DocumentBuilder::new(&mut bytes);
        let is_given =
            |element: &Element<'_>| !matches!(element.kind(), ElementType::Null | ElementType::Undefined);
        for element in self.left.drain(..).filter(is_given) {
            rest.append_element(element);
        }
        rest.finish();
        DocumentBuf::trusted(bytes)
    }

    /// Takes `cursor: {batchSize: …}` of a command that lists something; `None` for all that fits.
    ///
    /// # Errors
    /// Other types, negative sizes, other fields in `cursor`.
    pub fn cursor_batch_size(&mut self) -> CommandResult<Option<usize>> {
        let Some(cursor) = self.document("cursor")? else { return Ok(None) };
        let mut cursor = Fields::nested("cursor", cursor)?;
        let size = cursor.integer_at_least("batchSize", 0)?;
        cursor.finish()?;
        Ok(size.map(|size| usize::try_from(size).unwrap_or(usize::MAX)))
    }

    /// The fields that nobody took yet.
    pub fn rest(&self) -> &[Element<'a>] {
        &self.left
    }

    /// The document sequences that nobody took yet.
    pub fn sequences(&self) -> &[wire::DocumentSequence<'a>] {
        &self.sequences
    }

    /// Ends the taking.
    ///
    /// # Errors
    /// `IDLUnknownField` when something was not taken.
    pub fn finish(&self) -> CommandResult {
        let element = self.left.first().map(Element::name);
        match element.or_else(|| self.sequences.first().map(|sequence| sequence.identifier)) {
            None => Ok(()),
            Some(name) => Err(unknown_field(self.command, name)),
        }
    }

    #[inline]
    fn typed<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(RawValue<'a>) -> Option<T>,
        expected: &[&str],
    ) -> CommandResult<Option<T>> {
        match self.any(name) {
            None | Some(RawValue::Null | RawValue::Undefined) => Ok(None),
            Some(value) => {
                let kind = value.kind();
                read(value).map(Some).ok_or_else(|| self.wrong_type(name, kind, expected))
            }
        }
    }
}

/// `TypeMismatch` in MongoDB's wording.
pub fn wrong_type(command: &str, name: &str, found: ElementType, expected: &[&str]) -> CommandError {
    let found = found.alias();
    let expected = match expected {
        [one] => format!("expected type '{one}'"),
        several => format!("expected types '[{}]'", several.join(", ")),
    };
    CommandError::type_mismatch(format!(
        "BSON field '{command}.{name}' is the wrong type '{found}', {expected}"
    ))
}

/// `IDLUnknownField` in MongoDB's wording.
pub fn unknown_field(command: &str, name: &str) -> CommandError {
    CommandError::new(code::IDL_UNKNOWN_FIELD, format!("BSON field '{command}.{name}' is an unknown field."))
}

/// Any number as an integer: fractions are cut off, what lies outside the range becomes the nearest bound,
/// NaN 0.
#[expect(clippy::cast_possible_truncation, reason = "saturation is what MongoDB does as well")]
pub fn integer(value: RawValue<'_>) -> Option<i64> {
    match value {
        RawValue::Int32(number) => Some(number.into()),
        RawValue::Int64(number) => Some(number),
        RawValue::Double(number) => Some(number as i64),
        RawValue::Decimal128(number) => Some(number.to_f64() as i64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::doc_buf;

    fn check(take: impl FnOnce(&mut Fields<'_>) -> CommandResult, expect: Result<(), &str>) {
        let document = doc_buf! { "filter": { "a": 1 }, "limit": "x", "skip": (-1), "tail": 1, "batch": 2.9 };
        let mut fields = Fields::nested("find", document.as_raw()).expect("no duplicates");
        let result = take(&mut fields).map_err(|error| error.message.into_owned());
        assert_eq!(result.as_ref().map(|_| ()).map_err(String::as_str), expect);
    }

    #[test]
    fn types_are_strict() {
        check(
            |fields| fields.integer("limit").map(drop),
            Err("BSON field 'find.limit' is the wrong type 'string', expected types '[long, int, decimal, \
                double]'"),
        );
        check(
            |fields| fields.string("filter").map(drop),
            Err("BSON field 'find.filter' is the wrong type 'object', expected type 'string'"),
        );
        check(
            |fields| fields.integer_at_least("skip", 0).map(drop),
            Err("BSON field 'skip' value must be >= 0, actual value '-1'"),
        );
        check(
            |fields| {
                assert_eq!(fields.integer("batch")?, Some(2), "a fraction is cut off");
                assert_eq!(fields.flexible_boolean("tail")?, Some(true));
                assert_eq!(fields.integer("absent")?, None);
                Ok(())
            },
            Ok(()),
        );
    }

    #[test]
    fn what_nobody_took_is_unknown() {
        check(|fields| fields.finish(), Err("BSON field 'find.filter' is an unknown field."));
        check(
            |fields| {
                fields.ignore(&["limit", "skip", "tail", "batch"]);
                fields.document("filter")?;
                fields.finish()
            },
            Ok(()),
        );
    }

    #[test]
    fn more_fields_than_any_command_has_are_refused_early() {
        let mut many = document::Document::new();
        for number in 0..1_000_000 {
            many.push(format!("f{number}"), 1);
        }
        let many = many.to_buf();
        let error = Fields::nested("find", many.as_raw()).expect_err("a million fields");
        let message = format!("BSON field 'find.f{MOST_FIELDS}' is an unknown field.");
        assert_eq!((error.code, &*error.message), (40415, &*message));
    }

    #[test]
    fn duplicates_are_refused() {
        let document = doc_buf! { "a": 1, "b": 2, "a": 3 };
        let error = Fields::nested("find", document.as_raw()).expect_err("a is there twice");
        assert_eq!((error.code, &*error.message), (40413, "BSON field 'find.a' is a duplicate field"));
    }
}
