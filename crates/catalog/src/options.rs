//! What a collection is created with.

use crate::CatalogError;
use document::{Document, DocumentBuf, RawDocument, RawValue, Value, doc};

/// The smallest size of a capped collection, in bytes; smaller requests are raised to it.
const CAPPED_SIZE_MIN: u64 = 4096;
/// Sizes of capped collections are rounded up to a multiple of this, in bytes.
const CAPPED_SIZE_STEP: u64 = 256;
/// The largest size of a capped collection, in bytes (1 PB).
const CAPPED_SIZE_MAX: i64 = 1 << 50;
/// The largest `max` of a capped collection.
const CAPPED_DOCUMENTS_MAX: i64 = 1 << 31;

/// The limits of a capped collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CappedLimits {
    /// Bytes of BSON.
    pub size_bytes_max: u64,
    /// Documents; `None` for no limit.
    pub documents_max: Option<u64>,
}

/// Which writes the validator sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValidationLevel {
    /// None.
    Off,
    /// Inserts, and updates of documents that pass it before the update.
    Moderate,
    /// All.
    #[default]
    Strict,
}

impl ValidationLevel {
    /// The option's value as MongoDB writes it.
    pub const fn name(self) -> &'static str {
        match self {
            ValidationLevel::Off => "off",
            ValidationLevel::Moderate => "moderate",
            ValidationLevel::Strict => "strict",
        }
    }

    pub(crate) fn parse(value: RawValue<'_>) -> Result<Self, CatalogError> {
        match value.as_str() {
            Some("off") => Ok(ValidationLevel::Off),
            Some("moderate") => Ok(ValidationLevel::Moderate),
            Some("strict") => Ok(ValidationLevel::Strict),
            _ => Err(CatalogError::BadValue(
                "Enumeration value for field 'validationLevel' is not one of 'off', 'strict', 'moderate'"
                    .into(),
            )),
        }
    }
}

/// What happens to a document that does not pass the validator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValidationAction {
    /// It is written, and the log tells.
    Warn,
    /// It is refused.
    #[default]
    Error,
}

impl ValidationAction {
    /// The option's value as MongoDB writes it.
    pub const fn name(self) -> &'static str {
        match self {
            ValidationAction::Warn => "warn",
            ValidationAction::Error => "error",
        }
    }

    pub(crate) fn parse(value: RawValue<'_>) -> Result<Self, CatalogError> {
        match value.as_str() {
            Some("warn") => Ok(ValidationAction::Warn),
            Some("error") => Ok(ValidationAction::Error),
            _ => Err(CatalogError::BadValue(
                "Enumeration value for field 'validationAction' is not one of 'error', 'warn'".into(),
            )),
        }
    }
}

/// The view part of a namespace's definition.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewOptions {
    /// The collection or view it reads, in the same database.
    pub view_on: String,
    /// The stages it applies.
    pub pipeline: Vec<DocumentBuf>,
}

/// The options of a collection or view.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CollectionOptions {
    /// Set for a capped collection.
    pub capped: Option<CappedLimits>,
    /// The filter every document has to pass.
    pub validator: Option<DocumentBuf>,
    /// Which writes the validator sees; `None` when it was never given.
    pub validation_level: Option<ValidationLevel>,
    /// What happens to documents that do not pass; `None` when it was never given.
    pub validation_action: Option<ValidationAction>,
    /// The default collation: stored and shown, not applied.
    pub collation: Option<DocumentBuf>,
    /// No operation of a client sees documents that are past their time by a TTL index.
    pub hide_expired: bool,
    /// Set for a view.
    pub view: Option<ViewOptions>,
    /// Options that are stored and shown and change nothing.
    pub other: Document,
}

fn wrong_type(field: &str, value: RawValue<'_>, expected: &str) -> CatalogError {
    CatalogError::TypeMismatch(format!(
        "BSON field 'create.{field}' is the wrong type '{}', expected type '{expected}'",
        value.kind().alias()
    ))
}

fn document_of(field: &str, value: RawValue<'_>) -> Result<DocumentBuf, CatalogError> {
    value.as_document().map(RawDocument::to_buf).ok_or_else(|| wrong_type(field, value, "object"))
}

fn truth(field: &str, value: RawValue<'_>) -> Result<bool, CatalogError> {
    match value {
        RawValue::Boolean(flag) => Ok(flag),
        value => value.as_f64().map(|number| number != 0.0).ok_or_else(|| wrong_type(field, value, "bool")),
    }
}

fn whole(field: &str, value: RawValue<'_>) -> Result<i64, CatalogError> {
    value.as_f64().map(|number| number as i64).ok_or_else(|| wrong_type(field, value, "long"))
}

/// Brings a capped collection's size to what is stored.
pub(crate) fn capped_size(requested: i64) -> Result<u64, CatalogError> {
    if requested <= 0 || requested > CAPPED_SIZE_MAX {
        return Err(CatalogError::InvalidOptions(format!(
            "Capped collection size must be greater than zero and less than or equal to {CAPPED_SIZE_MAX} \
            bytes"
        )));
    }
    Ok((requested.unsigned_abs()).max(CAPPED_SIZE_MIN).next_multiple_of(CAPPED_SIZE_STEP))
}

/// Brings a capped collection's `max` to what is stored; zero and less mean no limit.
pub(crate) fn capped_documents(requested: i64) -> Result<Option<u64>, CatalogError> {
    if requested >= CAPPED_DOCUMENTS_MAX {
        return Err(CatalogError::BadValue("max in a capped collection has to be < 2^31 or not set".into()));
    }
    Ok(u64::try_from(requested).ok().filter(|&limit| limit > 0))
}

impl CollectionOptions {
    /// Reads the option fields of a `create` command (or what [`CollectionOptions::to_document`] wrote).
    ///
    /// # Errors
    /// `TypeMismatch`, `BadValue`, `InvalidOptions`; `Location40415` for a field that is no option.
    pub fn parse(fields: RawDocument<'_>) -> Result<Self, CatalogError> {
        let mut options = CollectionOptions::default();
        let (mut capped, mut size, mut max, mut view_on, mut pipeline) = (None, None, None, None, None);
        for element in fields.iter() {
            let (name, value) = (element.name(), element.value());
            match name {
                "capped" => capped = Some(truth(name, value)?),
                "hideExpired" => options.hide_expired = truth(name, value)?,
                "size" => size = Some(whole(name, value)?),
                "max" => max = Some(whole(name, value)?),
                "validator" => options.validator = Some(document_of(name, value)?),
                "validationLevel" => options.validation_level = Some(ValidationLevel::parse(value)?),
                "validationAction" => options.validation_action = Some(ValidationAction::parse(value)?),
                "collation" => {
                    options.collation = Some(document_of(name, value)?).filter(|given| !given.is_empty())
                }
                "viewOn" => {
                    view_on =
                        Some(value.as_str().ok_or_else(|| wrong_type(name, value, "string"))?.to_owned());
                }
                "pipeline" => pipeline = Some(stages(value)?),
                "timeseries" => {
                    return Err(CatalogError::InvalidOptions(
                        "time-series collections are not supported".into(),
                    ));
                }
                "storageEngine" | "indexOptionDefaults" | "changeStreamPreAndPostImages" => {
                    document_of(name, value)?;
                    options.other.insert(name, value.to_value());
                }
                "clusteredIndex" => {
                    let given = value.as_document().ok_or_else(|| wrong_type(name, value, "object"))?;
                    options.other.insert(name, clustered_index(given)?);
                }
                "expireAfterSeconds" => {
                    whole(name, value)?;
                    options.other.insert(name, value.to_value());
                }
                "autoIndexId" | "temp" | "flags" | "recordPreImages" => {
                    truth(name, value)?;
                }
                _ => {
                    return Err(CatalogError::Location {
                        code: 40415,
                        message: format!("BSON field 'create.{name}' is an unknown field."),
                    });
                }
            }
        }
        options.capped = limits(capped.unwrap_or(false), size, max)?;
        options.view = view(view_on, pipeline)?;
        options.check_combination()?;
        Ok(options)
    }

    fn check_combination(&self) -> Result<(), CatalogError> {
        let invalid = |message: &str| Err(CatalogError::InvalidOptions(message.into()));
        if self.other.contains("expireAfterSeconds") && !self.other.contains("clusteredIndex") {
            return invalid(
                "'expireAfterSeconds' is only supported on time-series collections or when the \
                'clusteredIndex' option is specified",
            );
        }
        if self.capped.is_some() && self.other.contains("clusteredIndex") {
            return invalid("Clustered collections cannot be capped");
        }
        if self.hide_expired && (self.capped.is_some() || self.view.is_some()) {
            return invalid(
                "'hideExpired' is for collections that can have TTL indexes: not capped, and no views",
            );
        }
        if self.view.is_some() && (self.capped.is_some() || self.validator.is_some()) {
            return invalid("Cannot create a view with collection options such as 'capped' or 'validator'");
        }
        Ok(())
    }

    /// The options as they were given: what is stored, and told to other servers.
    pub fn given(&self) -> Document {
        let mut given = self.to_document();
        if self.validation_level.is_none() {
            given.remove("validationLevel");
        }
        if self.validation_action.is_none() {
            given.remove("validationAction");
        }
        given
    }

    /// The options as `listCollections` shows them.
    pub fn to_document(&self) -> Document {
        let mut fields = Document::new();
        if let Some(view) = &self.view {
            fields.push("viewOn", view.view_on.as_str());
            fields.push("pipeline", view.pipeline.iter().map(document::Value::from).collect::<Vec<_>>());
        }
        if let Some(limits) = self.capped {
            fields.push("capped", true);
            fields.push("size", limits.size_bytes_max as i64);
            if let Some(max) = limits.documents_max {
                fields.push("max", max as i64);
            }
        }
        if let Some(validator) = &self.validator {
            fields.push("validator", validator);
            fields.push("validationLevel", self.level().name());
            fields.push("validationAction", self.action().name());
        } else {
            if let Some(level) = self.validation_level {
                fields.push("validationLevel", level.name());
            }
            if let Some(action) = self.validation_action {
                fields.push("validationAction", action.name());
            }
        }
        if let Some(collation) = &self.collation {
            fields.push("collation", collation);
        }
        if self.hide_expired {
            fields.push("hideExpired", true);
        }
        fields.extend(self.other.iter().map(|(name, value)| (name, value.clone())));
        fields
    }

    /// The specification given as `clusteredIndex`, complete. Documents are clustered in any case.
    pub fn clustered_index(&self) -> Option<&Document> {
        match self.other.get("clusteredIndex")? {
            Value::Document(specification) => Some(specification),
            _ => None,
        }
    }

    /// The validation level in force.
    pub fn level(&self) -> ValidationLevel {
        self.validation_level.unwrap_or_default()
    }

    /// The validation action in force.
    pub fn action(&self) -> ValidationAction {
        self.validation_action.unwrap_or_default()
    }
}

/// The specification of a clustered index with what it leaves out.
fn clustered_index(given: RawDocument<'_>) -> Result<Document, CatalogError> {
    const REQUIREMENT: i32 = 5_979_700;
    let (mut key, mut name, mut unique) = (None, "_id_".to_owned(), false);
    for element in given.iter() {
        match (element.name(), element.value()) {
            ("v", value) if value.as_i64_exact() == Some(2) => {}
            ("key", RawValue::Document(pattern)) => key = Some(pattern),
            ("name", RawValue::String(given)) if !given.is_empty() => name = given.to_owned(),
            ("unique", value) => unique = truth("clusteredIndex.unique", value)?,
            (field @ ("v" | "key" | "name"), value) => {
                let message = format!(
                    "BSON field 'create.clusteredIndex.{field}' cannot be of type '{}' or have this value",
                    value.kind().alias()
                );
                return Err(CatalogError::TypeMismatch(message));
            }
            (field, _) => {
                let message = format!("BSON field 'create.clusteredIndex.{field}' is an unknown field.");
                return Err(CatalogError::Location { code: 40415, message });
            }
        }
    }
    let Some(key) = key else {
        let message = "BSON field 'create.clusteredIndex.key' is missing but a required field".to_owned();
        return Err(CatalogError::Location { code: 40414, message });
    };
    if !unique {
        let message = "The clusteredIndex option requires unique: true to be specified".to_owned();
        return Err(CatalogError::Location { code: REQUIREMENT, message });
    }
    let mut fields = key.iter().map(|field| (field.name() == "_id", field.value().as_i64_exact()));
    if (fields.next(), fields.next()) != (Some((true, Some(1))), None) {
        return Err(CatalogError::InvalidIndexSpecificationOption(
            "The clusteredIndex option is only supported for key: {_id: 1}".into(),
        ));
    }
    Ok(doc! { "v": 2, "key": { "_id": 1 }, "name": name, "unique": true })
}

fn limits(capped: bool, size: Option<i64>, max: Option<i64>) -> Result<Option<CappedLimits>, CatalogError> {
    match (capped, size) {
        (true, Some(size)) => {
            let documents_max = max.map_or(Ok(None), capped_documents)?;
            Ok(Some(CappedLimits { size_bytes_max: capped_size(size)?, documents_max }))
        }
        (true, None) => {
            Err(CatalogError::InvalidOptions("the 'size' field is required when 'capped' is true".into()))
        }
        (false, _) if size.is_some() || max.is_some() => Err(CatalogError::InvalidOptions(
            "the 'capped' field needs to be true when either the 'size' or 'max' fields are present".into(),
        )),
        (false, _) => Ok(None),
    }
}

fn view(
    view_on: Option<String>,
    pipeline: Option<Vec<DocumentBuf>>,
) -> Result<Option<ViewOptions>, CatalogError> {
    match (view_on, pipeline) {
        (Some(view_on), _) if view_on.is_empty() => {
            Err(CatalogError::BadValue("'viewOn' cannot be empty".into()))
        }
        (Some(view_on), pipeline) => {
            Ok(Some(ViewOptions { view_on, pipeline: pipeline.unwrap_or_default() }))
        }
        (None, Some(_)) => {
            Err(CatalogError::InvalidOptions("'pipeline' requires 'viewOn' to also be specified".into()))
        }
        (None, None) => Ok(None),
    }
}

pub(crate) fn stages(value: RawValue<'_>) -> Result<Vec<DocumentBuf>, CatalogError> {
    let array = value.as_array().ok_or_else(|| wrong_type("pipeline", value, "array"))?;
    array
        .iter()
        .map(|stage| {
            stage.as_document().map(RawDocument::to_buf).ok_or_else(|| {
                CatalogError::TypeMismatch("Each element of the 'pipeline' array must be an object".into())
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::doc;

    #[track_caller]
    fn check(input: Document, expect: Result<Document, i32>) {
        let result = CollectionOptions::parse(input.to_buf().as_raw());
        assert_eq!(result.map(|options| options.to_document()).map_err(|error| error.code()), expect);
    }

    #[test]
    fn options() {
        check(doc! {}, Ok(doc! {}));
        check(
            doc! { "capped": true, "size": 5000, "max": 7 },
            Ok(doc! { "capped": true, "size": 5120i64, "max": 7i64 }),
        );
        check(doc! { "capped": true, "size": 1 }, Ok(doc! { "capped": true, "size": 4096i64 }));
        check(doc! { "capped": true }, Err(72));
        check(doc! { "size": 5000 }, Err(72));
        check(doc! { "capped": false, "max": 5 }, Err(72));
        check(doc! { "capped": "yes", "size": 1 }, Err(14));
        check(doc! { "capped": true, "size": -1 }, Err(72));
        let clustered = doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_", "unique": true };
        check(
            doc! { "clusteredIndex": { "key": { "_id": 1 }, "unique": true } },
            Ok(doc! { "clusteredIndex": (clustered.clone()) }),
        );
        check(doc! { "clusteredIndex": (clustered.clone()) }, Ok(doc! { "clusteredIndex": clustered }));
        check(doc! { "clusteredIndex": { "key": { "_id": 1 } } }, Err(5_979_700));
        check(doc! { "clusteredIndex": { "key": { "a": 1 }, "unique": true } }, Err(197));
        check(doc! { "clusteredIndex": { "unique": true } }, Err(40414));
        check(doc! { "timeseries": { "timeField": "t" } }, Err(72));
        check(doc! { "hideExpired": 1 }, Ok(doc! { "hideExpired": true }));
        check(doc! { "hideExpired": false }, Ok(doc! {}));
        check(doc! { "hideExpired": true, "capped": true, "size": 5000 }, Err(72));
        check(doc! { "hideExpired": true, "viewOn": "c" }, Err(72));
        check(doc! { "bogus": 1 }, Err(40415));
        check(doc! { "validationLevel": "loose" }, Err(2));
        check(
            doc! { "validator": { "a": 1 } },
            Ok(doc! { "validator": { "a": 1 }, "validationLevel": "strict", "validationAction": "error" }),
        );
        check(
            doc! { "viewOn": "c", "pipeline": [{ "$match": {} }] },
            Ok(doc! { "viewOn": "c", "pipeline": [{ "$match": {} }] }),
        );
        check(doc! { "pipeline": [] }, Err(72));
        check(doc! { "viewOn": "c", "capped": true, "size": 5000 }, Err(72));
    }
}
