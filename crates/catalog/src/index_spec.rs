//! Index specifications: what `createIndexes` is given and `listIndexes` shows.

use crate::CatalogError;
use document::key::SortOrder;
use document::path::FieldPath;
use document::{Document, DocumentBuf, RawDocument, RawValue, Value};
use query::calendar::WorkCalendar;

/// Fields of one compound index at most.
const FIELDS_MAX: usize = 32;
/// The largest `expireAfterSeconds`.
const EXPIRE_AFTER_SECONDS_MAX: f64 = i32::MAX as f64;

/// Every option that a specification may have; any other is refused, or left out where `createIndexes` is
/// asked to.
const OPTIONS: &[&str] = &[
    "2dsphereIndexVersion",
    "background",
    "bits",
    "bucketSize",
    "clustered",
    "collation",
    "comment",
    "default_language",
    "dropDups",
    "expireAfterSeconds",
    "hidden",
    "key",
    "language_override",
    "max",
    "min",
    "name",
    "ns",
    "partialFilterExpression",
    "prepareUnique",
    "sparse",
    "storageEngine",
    "textIndexVersion",
    "unique",
    "v",
    "weights",
    "wildcardProjection",
    "window",
];

/// How an index treats one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Values in order.
    Ordered(SortOrder),
    /// 64-bit hashes of values, ascending.
    Hashed,
}

impl FieldKind {
    /// The direction of the field's bytes.
    pub const fn direction(self) -> SortOrder {
        match self {
            FieldKind::Ordered(direction) => direction,
            FieldKind::Hashed => SortOrder::Ascending,
        }
    }
}

/// One field of an index.
#[derive(Debug, Clone)]
pub struct IndexField {
    /// The dotted path.
    pub path: FieldPath,
    /// How its values are kept.
    pub kind: FieldKind,
}

/// What an index is, without what is in it.
#[derive(Debug, Clone)]
pub struct IndexSpec {
    /// The index's name, unique in the collection.
    pub name: String,
    /// The key pattern as given: `{ a: 1, b: -1 }`.
    pub key: Document,
    /// The key pattern, understood.
    pub fields: Vec<IndexField>,
    /// No two documents have the same key.
    pub unique: bool,
    /// Documents without any of the fields have no entry.
    pub sparse: bool,
    /// The planner does not see it.
    pub hidden: bool,
    /// New writes must keep it unique; a step on the way to `unique`.
    pub prepare_unique: bool,
    /// Documents expire that many seconds after the indexed date.
    pub expire_after_seconds: Option<i64>,
    /// When expired documents are deleted, in the place of what the server's calendar says of all.
    pub window: Option<WorkCalendar>,
    /// Only documents that pass this filter have an entry.
    pub partial_filter: Option<DocumentBuf>,
    /// Stored and shown, not applied.
    pub collation: Option<DocumentBuf>,
    /// Options that are stored and shown and change nothing.
    pub other: Document,
}

impl PartialEq for IndexSpec {
    fn eq(&self, other: &Self) -> bool {
        self.to_document() == other.to_document()
    }
}

impl IndexSpec {
    /// The specification of `_id_`.
    pub fn id_index() -> Self {
        let fields = vec![IndexField {
            path: FieldPath::parse_lenient("_id").unwrap_or_else(|_| unreachable!("_id is a path")),
            kind: FieldKind::Ordered(SortOrder::Ascending),
        }];
        IndexSpec {
            name: "_id_".into(),
            key: Document::from_iter([("_id", 1)]),
            fields,
            unique: true,
            sparse: false,
            hidden: false,
            prepare_unique: false,
            expire_after_seconds: None,
            window: None,
            partial_filter: None,
            collation: None,
            other: Document::new(),
        }
    }

    /// Reads and checks one element of the `indexes` array of `createIndexes`.
    ///
    /// # Errors
    /// Those of [`IndexSpec::parse`]; `BadValue` for names and patterns that only `_id_` has, in part.
    pub fn requested(spec: RawDocument<'_>) -> Result<Self, CatalogError> {
        let pattern = spec.get("key").and_then(RawValue::as_document).unwrap_or_default();
        let parsed = Self::parse(spec);
        if let Some(direction) = id_pattern(pattern) {
            if direction != 1.0 && parsed.is_ok() {
                return Err(CatalogError::BadValue(format!(
                    "The field 'key' for an _id index must be {{_id: 1}}, but got {}",
                    pattern.quoted()
                )));
            }
            return parsed;
        }
        let parsed =
            parsed.map_err(|error| error.within(&format!("Error in specification {}", spec.quoted())))?;
        if parsed.name == "_id_" {
            return Err(CatalogError::BadValue(format!(
                "The index name '_id_' is reserved for the _id index, which must have key pattern {{_id: \
                1}}, found key: {}",
                document::quote::element("key", RawValue::Document(pattern))
            )));
        }
        Ok(parsed)
    }

    /// Reads and checks a specification.
    ///
    /// # Errors
    /// `FailedToParse`, `TypeMismatch`, `BadValue`, `CannotCreateIndex`, `InvalidIndexSpecificationOption`.
    pub fn parse(spec: RawDocument<'_>) -> Result<Self, CatalogError> {
        let mut parsed = IndexSpec::id_index();
        parsed.unique = false;
        let (mut name, mut key) = (None, None);
        for element in spec.iter() {
            let value = element.value();
            match element.name() {
                "key" => {
                    let pattern = value.as_document().ok_or_else(|| wrong_type("key", value, "an object"))?;
                    key = Some(pattern);
                }
                "name" => name = Some(value.as_str().ok_or_else(|| wrong_type("name", value, "a string"))?),
                "unique" => parsed.unique = flag("unique", value)?,
                "sparse" => parsed.sparse = flag("sparse", value)?,
                "hidden" => parsed.hidden = flag("hidden", value)?,
                "prepareUnique" => parsed.prepare_unique = flag("prepareUnique", value)?,
                "expireAfterSeconds" => parsed.expire_after_seconds = Some(expire_after_seconds(value)?),
                "window" => parsed.window = WorkCalendar::parse(value, "window")?,
                "partialFilterExpression" => {
                    let filter = value
                        .as_document()
                        .ok_or_else(|| wrong_type("partialFilterExpression", value, "an object"))?;
                    parsed.partial_filter = Some(filter.to_buf());
                }
                "collation" => {
                    let collation =
                        value.as_document().ok_or_else(|| wrong_type("collation", value, "an object"))?;
                    parsed.collation = Some(collation.to_buf()).filter(|_| !is_simple(collation));
                }
                "v" => check_version(value)?,
                "ns" | "clustered" | "dropDups" => {}
                "background" => {
                    flag("background", value)?;
                    parsed.other.insert("background", value.to_value());
                }
                "storageEngine" | "comment" => {
                    parsed.other.insert(element.name(), value.to_value());
                }
                option if Self::knows_option(option) => {
                    return Err(CatalogError::CannotCreateIndex(format!(
                        "the index option '{option}' belongs to an index type that is not supported"
                    )));
                }
                unknown => {
                    return Err(CatalogError::InvalidIndexSpecificationOption(format!(
                        "The field '{unknown}' is not valid for an index specification. Specification: {}",
                        spec.to_document().quoted()
                    )));
                }
            }
        }
        let key = key.ok_or_else(|| missing("key"))?;
        parsed.name = name.ok_or_else(|| missing("name"))?.to_owned();
        parsed.fields = parse_pattern(key)?;
        parsed.key = key.to_document();
        parsed.check_combination()?;
        if parsed.is_id_index() {
            parsed.become_id_index(spec)?;
        }
        Ok(parsed)
    }

    /// Whether this is an option of some kind of index, supported or not.
    pub fn knows_option(name: &str) -> bool {
        OPTIONS.contains(&name)
    }

    /// Whether the key pattern is that of `_id_`.
    pub fn is_id_index(&self) -> bool {
        matches!(self.fields.as_slice(), [field] if field.path.as_str() == "_id"
            && field.kind == FieldKind::Ordered(SortOrder::Ascending))
    }

    fn become_id_index(&mut self, spec: RawDocument<'_>) -> Result<(), CatalogError> {
        const ALLOWED: &[&str] =
            &["key", "name", "v", "ns", "collation", "background", "hidden", "clustered"];
        if self.partial_filter.is_some() {
            return Err(CatalogError::CannotCreateIndex("_id index cannot be a partial index".into()));
        }
        if self.sparse {
            return Err(CatalogError::CannotCreateIndex("_id index cannot be a sparse index".into()));
        }
        if self.hidden {
            return Err(CatalogError::BadValue("can't hide _id index".into()));
        }
        if let Some(element) = spec.iter().find(|element| !ALLOWED.contains(&element.name())) {
            return Err(CatalogError::InvalidIndexSpecificationOption(format!(
                "The field '{}' is not valid for an _id index specification. Specification: {}",
                element.name(),
                with_version(spec).quoted()
            )));
        }
        *self = IndexSpec { collation: self.collation.take(), ..IndexSpec::id_index() };
        Ok(())
    }

    pub(crate) fn check_combination(&self) -> Result<(), CatalogError> {
        let cannot = |message: String| Err(CatalogError::CannotCreateIndex(message));
        if self.name.is_empty() {
            return cannot("index name cannot be empty".into());
        }
        if self.name == "*" {
            return Err(CatalogError::BadValue("The index name '*' is not valid.".into()));
        }
        if self.name.contains('\0') {
            return cannot("The index name cannot contain a null character".into());
        }
        if self.sparse && self.partial_filter.is_some() {
            return cannot("cannot mix \"partialFilterExpression\" and \"sparse\" options".into());
        }
        if self.expire_after_seconds.is_some() && self.fields.len() > 1 {
            return cannot(format!(
                "TTL indexes are single-field indexes, compound indexes do not support TTL. Index spec: {}",
                self.to_document().quoted()
            ));
        }
        if self.window.is_some() && self.expire_after_seconds.is_none() {
            return cannot("the 'window' option is for TTL indexes: it needs 'expireAfterSeconds'".into());
        }
        let hashed = self.fields.iter().filter(|field| field.kind == FieldKind::Hashed).count();
        if hashed > 1 {
            return Err(CatalogError::Location {
                code: 31303,
                message: "A maximum of one index field is allowed to be hashed but found more".into(),
            });
        }
        if hashed > 0 && (self.unique || self.prepare_unique) {
            return Err(CatalogError::Location {
                code: 16764,
                message: "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.".into(),
            });
        }
        Ok(())
    }

    /// The specification as `listIndexes` shows it and as it is stored.
    pub fn to_document(&self) -> Document {
        let mut spec = Document::new();
        spec.push("v", 2);
        spec.push("key", self.key.clone());
        spec.push("name", self.name.as_str());
        if self.is_id_index() {
            if let Some(collation) = &self.collation {
                spec.push("collation", collation);
            }
            return spec;
        }
        for (name, given) in [
            ("unique", self.unique),
            ("sparse", self.sparse),
            ("hidden", self.hidden),
            ("prepareUnique", self.prepare_unique),
        ] {
            if given {
                spec.push(name, true);
            }
        }
        if let Some(seconds) = self.expire_after_seconds {
            spec.push("expireAfterSeconds", i32::try_from(seconds).unwrap_or(i32::MAX));
        }
        if let Some(window) = self.window_value() {
            spec.push("window", window);
        }
        if let Some(filter) = &self.partial_filter {
            spec.push("partialFilterExpression", filter);
        }
        if let Some(collation) = &self.collation {
            spec.push("collation", collation);
        }
        spec.extend(self.other.iter().map(|(name, value)| (name, value.clone())));
        spec
    }

    /// The option `window` as it is shown and stored.
    pub fn window_value(&self) -> Option<Value> {
        self.window.as_ref().map(WorkCalendar::to_value)
    }

    /// Whether two indexes cannot exist beside each other because they are told apart by nothing but options
    /// of lesser weight: the same key pattern, collation, partial filter, sparseness and uniqueness.
    pub fn has_signature_of(&self, other: &IndexSpec) -> bool {
        same_pattern(&self.key, &other.key)
            && self.collation == other.collation
            && self.partial_filter == other.partial_filter
            && self.sparse == other.sparse
            && self.unique == other.unique
    }

    /// Whether the options of lesser weight agree too (hiding does not count).
    pub(crate) fn has_options_of(&self, other: &IndexSpec) -> bool {
        self.expire_after_seconds == other.expire_after_seconds && self.window == other.window
    }

    /// The directions of the fields' bytes.
    pub fn directions(&self) -> Vec<SortOrder> {
        self.fields.iter().map(|field| field.kind.direction()).collect()
    }
}

/// Whether two key patterns have the same fields in the same order with numerically equal directions.
pub(crate) fn same_pattern(one: &Document, other: &Document) -> bool {
    one.len() == other.len()
        && one.iter().zip(other.iter()).all(|((name, value), (other_name, other_value))| {
            name == other_name
                && match (value, other_value) {
                    (Value::String(text), Value::String(other_text)) => text == other_text,
                    (value, other_value) => {
                        value.as_f64().is_some() && value.as_f64() == other_value.as_f64()
                    }
                }
        })
}

fn is_simple(collation: RawDocument<'_>) -> bool {
    collation.is_empty() || collation.get("locale").and_then(RawValue::as_str) == Some("simple")
}

/// The direction of a pattern that has `_id` alone in order.
fn id_pattern(pattern: RawDocument<'_>) -> Option<f64> {
    let mut fields = pattern.iter();
    let only = fields.next().filter(|first| first.name() == "_id" && fields.next().is_none())?;
    only.value().as_f64().filter(|direction| direction.abs() == 1.0)
}

fn with_version(spec: RawDocument<'_>) -> Document {
    let mut spec = spec.to_document();
    if !spec.contains("v") {
        spec.push("v", 2);
    }
    spec
}

fn missing(field: &str) -> CatalogError {
    CatalogError::FailedToParse(format!(
        "The '{field}' field is a required property of an index specification"
    ))
}

fn wrong_type(field: &str, value: RawValue<'_>, expected: &str) -> CatalogError {
    CatalogError::TypeMismatch(format!(
        "The field '{field}' must be {expected}, but got {}",
        value.kind().alias()
    ))
}

fn flag(field: &str, value: RawValue<'_>) -> Result<bool, CatalogError> {
    match value {
        RawValue::Boolean(flag) => Ok(flag),
        value => value.as_f64().map(|number| number != 0.0).ok_or_else(|| {
            CatalogError::TypeMismatch(format!(
                "The field '{field} has value {}, which is not convertible to bool",
                document::quote::element(field, value)
            ))
        }),
    }
}

fn check_version(value: RawValue<'_>) -> Result<(), CatalogError> {
    match value.as_i64_exact() {
        Some(1 | 2) => Ok(()),
        Some(version) => Err(CatalogError::CannotCreateIndex(format!(
            "Invalid index specification; cannot create an index with v={version}"
        ))),
        None => Err(wrong_type("v", value, "a number")),
    }
}

/// Checks an `expireAfterSeconds` for `createIndexes` and `collMod`.
pub(crate) fn expire_after_seconds(value: RawValue<'_>) -> Result<i64, CatalogError> {
    let seconds = value.as_f64().ok_or_else(|| {
        CatalogError::CannotCreateIndex(format!(
            "TTL index 'expireAfterSeconds' option must be numeric, but received a type of '{}'",
            value.kind().alias()
        ))
    })?;
    if seconds < 0.0 {
        return Err(CatalogError::CannotCreateIndex(
            "TTL index 'expireAfterSeconds' option cannot be less than 0".into(),
        ));
    }
    if seconds > EXPIRE_AFTER_SECONDS_MAX {
        return Err(CatalogError::CannotCreateIndex(format!(
            "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a lower number. \
             The largest value is {}",
            i32::MAX
        )));
    }
    // Not-a-number means "never", as in MongoDB.
    Ok(if seconds.is_nan() { i64::from(i32::MAX) } else { seconds as i64 })
}

fn parse_pattern(pattern: RawDocument<'_>) -> Result<Vec<IndexField>, CatalogError> {
    let cannot = |message: String| Err(CatalogError::CannotCreateIndex(message));
    if pattern.is_empty() {
        return cannot("Index keys cannot be empty.".into());
    }
    let mut fields: Vec<IndexField> = Vec::new();
    for element in pattern.iter() {
        // Before names are compared: there may be any number of them.
        if fields.len() == FIELDS_MAX {
            return Err(CatalogError::Location { code: 13103, message: "too many compound keys".into() });
        }
        let name = element.name();
        let kind = parse_kind(element.value())?;
        if name == "$**" || name.ends_with(".$**") {
            return cannot("wildcard indexes are not supported".into());
        }
        if name.is_empty() || name.split('.').any(str::is_empty) {
            return cannot("Index keys cannot contain an empty field.".into());
        }
        if name.split('.').any(|part| part.starts_with('$') && !matches!(part, "$id" | "$ref" | "$db")) {
            return cannot("Index key contains an illegal field name: field name starts with '$'.".into());
        }
        if fields.iter().any(|field| field.path.as_str() == name) {
            return Err(CatalogError::BadValue(format!(
                "The field '{name}' appears multiple times in the index key pattern {}",
                pattern.quoted()
            )));
        }
        let path = FieldPath::parse_lenient(name).map_err(|error| {
            CatalogError::CannotCreateIndex(format!("Index key contains an illegal field name: {error}"))
        })?;
        fields.push(IndexField { path, kind });
    }
    Ok(fields)
}

fn parse_kind(value: RawValue<'_>) -> Result<FieldKind, CatalogError> {
    match value {
        RawValue::String("hashed") => Ok(FieldKind::Hashed),
        RawValue::String(plugin @ ("text" | "2d" | "2dsphere" | "geoHaystack" | "columnstore")) => {
            Err(CatalogError::CannotCreateIndex(format!("'{plugin}' indexes are not supported")))
        }
        RawValue::String(plugin) => {
            Err(CatalogError::CannotCreateIndex(format!("Unknown index plugin '{plugin}'")))
        }
        value => match value.as_f64() {
            Some(0.0) => {
                Err(CatalogError::CannotCreateIndex("Values in the index key pattern cannot be 0.".into()))
            }
            Some(number) if number > 0.0 => Ok(FieldKind::Ordered(SortOrder::Ascending)),
            Some(number) if number < 0.0 => Ok(FieldKind::Ordered(SortOrder::Descending)),
            Some(_) => {
                Err(CatalogError::CannotCreateIndex("Values in the index key pattern cannot be NaN.".into()))
            }
            None => Err(CatalogError::CannotCreateIndex(format!(
                "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, numbers < 0, and \
                strings are allowed.",
                value.kind().alias()
            ))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::doc;

    #[track_caller]
    fn check(input: Document, expect: Result<Document, i32>) {
        let result = IndexSpec::parse(input.to_buf().as_raw());
        assert_eq!(result.map(|spec| spec.to_document()).map_err(|error| error.code()), expect);
    }

    #[test]
    fn specifications() {
        check(
            doc! { "key": { "a": 1 }, "name": "a_1" },
            Ok(doc! { "v": 2, "key": { "a": 1 }, "name": "a_1" }),
        );
        check(
            doc! { "key": { "a": 1, "b": "hashed" }, "name": "x", "background": true, "sparse": true },
            Ok(doc! {
                "v": 2, "key": { "a": 1, "b": "hashed" }, "name": "x", "sparse": true, "background": true
            }),
        );
        check(doc! { "name": "a" }, Err(9));
        let mut many: Document = (0..32).map(|number| (format!("f{number}"), Value::from(1))).collect();
        assert!(IndexSpec::parse(doc! { "key": (many.clone()), "name": "x" }.to_buf().as_raw()).is_ok());
        many.push("", "what comes too late is not looked at");
        check(doc! { "key": many, "name": "x" }, Err(13103));
        check(doc! { "key": { "a": 1 } }, Err(9));
        check(doc! { "key": {}, "name": "a" }, Err(67));
        check(doc! { "key": { "a": 0 }, "name": "a" }, Err(67));
        check(doc! { "key": { "a": true }, "name": "a" }, Err(67));
        check(doc! { "key": { "a": "text" }, "name": "a" }, Err(67));
        check(doc! { "key": { "$**": 1 }, "name": "a" }, Err(67));
        check(doc! { "key": { "a..b": 1 }, "name": "a" }, Err(67));
        check(doc! { "key": { "a.$b": 1 }, "name": "a" }, Err(67));
        check(doc! { "key": { "a": "hashed" }, "name": "a", "unique": true }, Err(16764));
        check(doc! { "key": { "a": 1 }, "name": "a", "bogus": true }, Err(197));
        check(doc! { "key": { "a": 1, "b": 1 }, "name": "a", "expireAfterSeconds": 1 }, Err(67));
        check(doc! { "key": { "a": 1 }, "name": "a", "expireAfterSeconds": -1 }, Err(67));
        check(
            doc! { "key": { "a": 1 }, "name": "a", "sparse": true, "partialFilterExpression": {} },
            Err(67),
        );
        check(
            doc! { "key": { "_id": 1 }, "name": "mine" },
            Ok(doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" }),
        );
        check(doc! { "key": { "_id": 1 }, "name": "_id_", "unique": true }, Err(197));
        check(doc! { "key": { "a": 1 }, "name": "*" }, Err(2));
    }

    #[track_caller]
    fn check_refused(request: Document, code: i32, message: &str) {
        let refused = IndexSpec::requested(request.to_buf().as_raw()).expect_err("the request is refused");
        assert_eq!((refused.code(), refused.to_string().as_str()), (code, message));
    }

    #[test]
    fn refused_requests_quote_their_specification() {
        check_refused(
            doc! { "key": { "v": 1 } },
            9,
            "Error in specification { key: { v: 1 } } :: caused by :: \
             The 'name' field is a required property of an index specification",
        );
        check_refused(
            doc! {},
            9,
            "Error in specification {} :: caused by :: The 'key' field is a required property of an index \
            specification",
        );
        check_refused(
            doc! { "key": { "v": 1 }, "name": "u", "unique": {} },
            14,
            "Error in specification { key: { v: 1 }, name: \"u\", unique: {} } :: caused by :: \
             The field 'unique has value unique: {}, which is not convertible to bool",
        );
        check_refused(
            doc! { "key": { "_id": 1 }, "name": "_id_", "unique": true },
            197,
            "The field 'unique' is not valid for an _id index specification. \
             Specification: { key: { _id: 1 }, name: \"_id_\", unique: true, v: 2 }",
        );
        check_refused(
            doc! { "key": { "_id": (-1) }, "name": "_id_-1" },
            2,
            "The field 'key' for an _id index must be {_id: 1}, but got { _id: -1 }",
        );
        check_refused(
            doc! { "key": { "a": 1 }, "name": "_id_" },
            2,
            "The index name '_id_' is reserved for the _id index, which must have key pattern {_id: 1}, \
             found key: key: { a: 1 }",
        );
    }

    #[test]
    fn fields_of_database_references_are_indexed() {
        check(
            doc! { "key": { "p.$id": 1 }, "name": "p" },
            Ok(doc! { "v": 2, "key": { "p.$id": 1 }, "name": "p" }),
        );
    }

    #[test]
    fn known_options_are_not_called_unknown() {
        for option in OPTIONS {
            let mut spec = doc! { "key": { "a": 1 }, "name": "a" };
            spec.insert(*option, Value::MinKey);
            let code = IndexSpec::parse(spec.to_buf().as_raw()).map(drop).map_err(|error| error.code());
            assert_ne!(code, Err(197), "{option}");
        }
    }

    #[test]
    fn patterns_compare_by_number() {
        assert!(same_pattern(&doc! { "a": 1 }, &doc! { "a": 1.0 }));
        assert!(!same_pattern(&doc! { "a": 1 }, &doc! { "a": -1 }));
        assert!(!same_pattern(&doc! { "a": 1, "b": 1 }, &doc! { "b": 1, "a": 1 }));
    }
}
