//! From an array of stage documents to a [`Pipeline`].

use document::{DocumentBuf, DocumentBuilder, RawArray, RawValue};

use crate::environment::Environment;
use crate::error::QueryError;

use super::stages::{Parse, StagePosition, stage_entry};
use super::{Pipeline, Source};

/// MongoDB's limit on the stages of one pipeline (`internalPipelineLengthLimit`).
const MAX_STAGES: usize = 1000;

impl Pipeline {
    /// Parses and optimises a pipeline.
    ///
    /// # Errors
    /// 40324 for an unknown stage, 40602 and 40601 for a stage that has to be first or last and is not, and each stage's own.
    pub fn parse(stages: RawArray<'_>, environment: &Environment) -> Result<Self, QueryError> {
        let mut pipeline = Self { source: Source::Collection, stages: Vec::new(), output: None };
        let count = stages.len();
        if count > MAX_STAGES {
            return Err(QueryError::new(
                7749501,
                format!("Pipeline length must be no longer than {MAX_STAGES} stages."),
            ));
        }
        for (position, stage) in stages.iter().enumerate() {
            let RawValue::Document(stage) = stage else {
                return Err(QueryError::type_mismatch(
                    "Each element of the 'pipeline' array must be an object",
                ));
            };
            let mut fields = stage.iter();
            let (Some(field), None) = (fields.next(), fields.next()) else {
                return Err(QueryError::new(
                    40323,
                    "A pipeline stage specification object must contain exactly one field.",
                ));
            };
            let entry = stage_entry(field.name())?;
            if entry.position == StagePosition::First && position > 0 {
                return Err(QueryError::new(
                    40602,
                    format!("{} is only valid as the first stage in a pipeline.", entry.name),
                ));
            }
            if entry.position == StagePosition::Last && position + 1 < count {
                return Err(QueryError::new(
                    40601,
                    format!("{} can only be the final stage in the pipeline", entry.name),
                ));
            }
            let operand = field.value();
            match entry.parse {
                Parse::Plans(parse) => pipeline.stages.extend(parse(operand, environment)?),
                Parse::Source(parse) => pipeline.source = parse(operand, environment)?,
                Parse::Report => {
                    pipeline.source = Source::Report { name: entry.name, operand: wrapped(operand) };
                }
                Parse::Output(parse) => pipeline.output = Some(parse(operand, environment)?),
            }
        }
        pipeline.optimise(environment)?;
        Ok(pipeline)
    }
}

fn wrapped(operand: RawValue<'_>) -> DocumentBuf {
    let mut bytes = Vec::new();
    let mut builder = DocumentBuilder::new(&mut bytes);
    builder.append("", operand);
    builder.finish();
    DocumentBuf::trusted(bytes)
}
