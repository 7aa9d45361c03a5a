//! The fields of `aggregate`.

use crate::error::{CommandError, CommandResult, code};
use crate::exec::{check_collation, parse_hint};
use crate::fields::Fields;
use crate::write::empty_timestamps;
use document::{RawArray, RawDocument, RawValue};
use query::aggregate::{Pipeline, PipelineSource};
use query::plan::Hint;
use query::update::EmptyTimestamps;

/// What `aggregate` runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateTarget<'a> {
    /// A collection or view.
    Collection(&'a str),
    /// `aggregate: 1`: the pipeline brings its own source.
    Database,
}

impl<'a> AggregateTarget<'a> {
    /// Reads the command's own field.
    ///
    /// # Errors
    /// `FailedToParse` for numbers other than 1, `InvalidNamespace` for what is no collection name.
    pub(crate) fn parse(fields: &Fields<'a>) -> CommandResult<Self> {
        match fields.target() {
            RawValue::String(_) => fields.collection_name().map(AggregateTarget::Collection),
            number if number.is_number() && number.as_i64_exact() == Some(1) => Ok(AggregateTarget::Database),
            _ => Err(CommandError::failed_to_parse(
                "Invalid command format: the 'aggregate' field must specify a collection name or 1",
            )),
        }
    }

    /// How replies name it.
    pub(crate) fn namespace(&self, database: &str) -> String {
        match self {
            AggregateTarget::Collection(name) => format!("{database}.{name}"),
            AggregateTarget::Database => format!("{database}.$cmd.aggregate"),
        }
    }

    /// Checks that the source of the pipeline can be had here.
    ///
    /// # Errors
    /// `InvalidNamespace`.
    pub(crate) fn check(&self, database: &str, pipeline: &Pipeline) -> CommandResult {
        let refused = |message: String| Err(CommandError::new(code::INVALID_NAMESPACE, message));
        match (self, pipeline.source()) {
            (AggregateTarget::Database, PipelineSource::Collection) => {
                refused("{aggregate: 1} is not valid for this pipeline; a collection is required.".to_owned())
            }
            (AggregateTarget::Collection(_), PipelineSource::Documents(_)) => {
                refused("'$documents' can only be run with {aggregate: 1}".to_owned())
            }
            (target, PipelineSource::Report { name, .. }) => match (*name, target) {
                ("$currentOp", AggregateTarget::Database) if database == "admin" => Ok(()),
                ("$currentOp", _) => {
                    refused(format!("{name} must be run against the 'admin' database with {{aggregate: 1}}"))
                }
                ("$listLocalSessions", AggregateTarget::Database) => Ok(()),
                ("$listLocalSessions", _) => {
                    refused(format!("{name} must be run against the database with {{aggregate: 1}}"))
                }
                ("$listSessions", AggregateTarget::Collection("system.sessions")) if database == "config" => {
                    Ok(())
                }
                ("$listSessions", _) => {
                    refused(format!("{name} may only be run against config.system.sessions"))
                }
                (_, AggregateTarget::Database) => {
                    refused(format!("{{aggregate: 1}} is not valid for '{name}'; a collection is required."))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// The options of `aggregate`.
#[derive(Debug)]
pub(crate) struct AggregateRequest<'a> {
    pub(crate) pipeline: RawArray<'a>,
    /// `cursor.batchSize`.
    pub(crate) batch_size: Option<usize>,
    pub(crate) explain: bool,
    pub(crate) allow_disk_use: bool,
    pub(crate) hint: Option<Hint>,
    pub(crate) variables: Option<RawDocument<'a>>,
    pub(crate) bypass_validation: bool,
    /// What `$out` and `$merge` make of empty timestamps.
    pub(crate) timestamps: EmptyTimestamps,
}

impl<'a> AggregateRequest<'a> {
    /// Takes the fields; `explained` when the command stands inside of `explain`, which needs no `cursor`.
    ///
    /// # Errors
    /// Missing, unknown and mistyped fields; `CommandNotSupported` for a collation.
    pub(crate) fn parse(fields: &mut Fields<'a>, explained: bool) -> CommandResult<Self> {
        let pipeline = match fields.any("pipeline") {
            Some(RawValue::Array(pipeline)) => pipeline,
            Some(_) => {
                return Err(CommandError::type_mismatch("'pipeline' option must be specified as an array"));
            }
            None => return Err(fields.missing("pipeline")),
        };
        let explain = fields.flexible_boolean("explain")?.unwrap_or(false);
        let has_cursor = fields.rest().iter().any(|field| field.name_bytes() == b"cursor");
        if !has_cursor && !explain && !explained {
            return Err(CommandError::failed_to_parse(
                "The 'cursor' option is required, except for aggregate with the explain argument",
            ));
        }
        let request = AggregateRequest {
            pipeline,
            batch_size: fields.cursor_batch_size()?,
            explain,
            allow_disk_use: fields.flexible_boolean("allowDiskUse")?.unwrap_or(true),
            hint: parse_hint(fields.any("hint"))?,
            variables: fields.document("let")?,
            bypass_validation: fields.flexible_boolean("bypassDocumentValidation")?.unwrap_or(false),
            timestamps: empty_timestamps(fields)?,
        };
        check_collation(fields.document("collation")?)?;
        fields.ignore(&[
            "collectionUUID",
            "runtimeConstants",
            "isMapReduceCommand",
            "needsMerge",
            "fromMongos",
        ]);
        fields.finish()?;
        Ok(request)
    }
}
