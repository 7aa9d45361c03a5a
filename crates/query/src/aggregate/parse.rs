//! From an array of stage documents to a [`Pipeline`].

use document::{DocumentBuf, DocumentBuilder, Element, RawArray, RawDocument, RawValue};

use crate::environment::Environment;
use crate::error::QueryError;

use super::stages::{StageParser, StagePosition, stage_entry};
use super::{Pipeline, PipelineSource};

/// MongoDB's limit on the stages of one pipeline (`internalPipelineLengthLimit`).
const MAX_STAGES: usize = 1000;

impl Pipeline {
    /// Parses and optimises a pipeline.
    ///
    /// # Errors
    /// 40324 for an unknown stage, 40602 and 40601 for a stage that has to be first or last and is not, and
    /// each stage's own.
    pub fn parse(stages: RawArray<'_>, environment: &Environment) -> Result<Self, QueryError> {
        let stages = stages.iter().map(stage_document).collect::<Result<Vec<_>, _>>()?;
        Self::parse_stages(&stages, environment)
    }

    /// Parses stages that are documents of their own, as a stored view holds them.
    ///
    /// # Errors
    /// As [`Pipeline::parse`].
    pub fn parse_documents(stages: &[DocumentBuf], environment: &Environment) -> Result<Self, QueryError> {
        let stages: Vec<RawDocument<'_>> = stages.iter().map(DocumentBuf::as_raw).collect();
        Self::parse_stages(&stages, environment)
    }

    fn parse_stages(stages: &[RawDocument<'_>], environment: &Environment) -> Result<Self, QueryError> {
        let mut pipeline = Self {
            source: PipelineSource::Collection,
            stages: Vec::new(),
            written: Vec::new(),
            output: None,
        };
        if stages.len() > MAX_STAGES {
            return Err(too_long());
        }
        for (position, stage) in stages.iter().enumerate() {
            let is_last = position + 1 == stages.len();
            pipeline.push_stage(*stage, position == 0, is_last, environment)?;
            // Some stages stand for two, and each is a level of recursion when the pipeline runs.
            if pipeline.stages.len() > MAX_STAGES {
                return Err(too_long());
            }
        }
        let optimised = environment.check_constants().and_then(|()| pipeline.optimise(environment));
        optimised.map_err(|error| error.within("Failed to optimize pipeline"))?;
        Ok(pipeline)
    }

    fn push_stage(
        &mut self,
        stage: RawDocument<'_>,
        is_first: bool,
        is_last: bool,
        environment: &Environment,
    ) -> Result<(), QueryError> {
        let field = only_field(stage)?;
        let entry = stage_entry(field.name())?;
        if entry.position == StagePosition::First && !is_first {
            bail!(40602, "{} is only valid as the first stage in a pipeline.", entry.name);
        }
        if entry.position == StagePosition::Last && !is_last {
            bail!(40601, "{} can only be the final stage in the pipeline", entry.name);
        }
        let operand = field.value();
        match entry.parse {
            StageParser::Plans(parse) => {
                self.written.push(1);
                self.stages.extend(parse(operand, environment)?);
                self.written.resize(self.stages.len(), 0);
            }
            StageParser::Source(parse) => self.source = parse(operand, environment)?,
            StageParser::Report => {
                self.source = PipelineSource::Report { name: entry.name, operand: wrapped(operand) }
            }
            StageParser::Output(parse) => self.output = Some(parse(operand, environment)?),
        }
        Ok(())
    }
}

/// An item of a pipeline.
pub(crate) fn stage_document(stage: RawValue<'_>) -> Result<RawDocument<'_>, QueryError> {
    stage
        .as_document()
        .ok_or_else(|| QueryError::type_mismatch("Each element of the 'pipeline' array must be an object"))
}

/// Name and operand of a stage.
pub(crate) fn only_field(stage: RawDocument<'_>) -> Result<Element<'_>, QueryError> {
    let mut fields = stage.iter();
    match (fields.next(), fields.next()) {
        (Some(field), None) => Ok(field),
        _ => bail!(40323, "A pipeline stage specification object must contain exactly one field."),
    }
}

/// `{"": value}`.
pub(super) fn wrapped<'v>(value: impl Into<RawValue<'v>>) -> DocumentBuf {
    let mut bytes = Vec::new();
    let mut builder = DocumentBuilder::new(&mut bytes);
    builder.append("", value);
    builder.finish();
    DocumentBuf::trusted(bytes)
}

fn too_long() -> QueryError {
    query_error!(7749501, "Pipeline length must be no longer than {MAX_STAGES} stages.")
}
