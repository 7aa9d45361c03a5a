//! `$facet`: several pipelines over the same documents.
//!
//! Each document is handed to every pipeline in turn, so that only the blocking stages of the pipelines hold
//! documents.

use std::sync::Arc;

use document::{DocumentBuf, DocumentBuilder, RawArray, RawDocument, RawValue};

use crate::environment::Environment;
use crate::error::QueryError;
use crate::expression::check_field_name;
use crate::memory::MemoryPart;

use super::chain::{Chain, Downstream, Flow, Pause, Stage, YieldPolicy};
use super::rewrite::check_size;
use super::stages::stage_entry;
use super::{Pipeline, PipelineContext, StagePlan};

/// A parsed `$facet`.
#[derive(Debug)]
pub(crate) struct FacetSpec {
    facets: Vec<(String, Pipeline)>,
}

impl FacetSpec {
    pub(super) fn collections(&self, found: &mut Vec<(Option<String>, String)>) {
        self.facets.iter().for_each(|(_, pipeline)| found.extend(pipeline.foreign_collections()));
    }
}

pub(super) fn parse(operand: RawValue<'_>, environment: &Environment) -> Result<Vec<StagePlan>, QueryError> {
    let malformed = || QueryError::new(40169, "the $facet specification must be a non-empty object");
    let RawValue::Document(spec) = operand else { return Err(malformed()) };
    let mut facets = Vec::new();
    for element in spec.iter() {
        let name = element.name();
        check_field_name(name)?;
        let RawValue::Array(stages) = element.value() else {
            bail!(40170, "arguments to $facet must be arrays, {name} is type {}", element.kind().alias());
        };
        check_stages(stages)?;
        facets.push((name.to_owned(), Pipeline::parse(stages, environment)?));
    }
    if facets.is_empty() {
        return Err(malformed());
    }
    Ok(vec![StagePlan::Facet(Arc::new(FacetSpec { facets }))])
}

fn check_stages(stages: RawArray<'_>) -> Result<(), QueryError> {
    for stage in stages.iter() {
        let Some(first) = stage.as_document().and_then(|stage| stage.first()) else {
            bail!(40171, "elements of arrays in $facet spec must be non-empty objects");
        };
        let entry = stage_entry(first.name())?;
        if !entry.in_facet {
            bail!(40600, "{} is not allowed to be used within a $facet stage", entry.name);
        }
    }
    Ok(())
}

struct Facet {
    name: String,
    chain: Chain,
    results: Vec<DocumentBuf>,
}

/// What the results of all facets hold, and may hold, in bytes.
struct ResultBytes {
    held: MemoryPart,
    most: usize,
}

impl ResultBytes {
    fn add(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.held.set(self.held.bytes() + bytes);
        if !self.held.is_over(self.most) {
            return Ok(());
        }
        Err(query_error!(
            4031700,
            "document constructed by $facet is {} bytes, which exceeds the limit of {} bytes",
            self.held.bytes(),
            self.most
        ))
    }
}

pub(super) struct FacetStage {
    facets: Vec<Facet>,
    bytes: ResultBytes,
    /// A stage of a facet holds documents back, or the input has ended.
    due: bool,
    ended: bool,
}

impl FacetStage {
    pub(super) fn new(spec: &Arc<FacetSpec>, context: &PipelineContext) -> Result<Self, QueryError> {
        let facets = spec.facets.iter().map(|(name, pipeline)| {
            Ok(Facet { name: name.clone(), chain: pipeline.open_stages(context)?, results: Vec::new() })
        });
        Ok(Self {
            facets: facets.collect::<Result<_, QueryError>>()?,
            bytes: ResultBytes { held: context.memory.part(), most: context.memory_bytes },
            due: false,
            ended: false,
        })
    }

    fn result(&mut self) -> Result<DocumentBuf, QueryError> {
        let mut bytes = Vec::new();
        let mut out = DocumentBuilder::new(&mut bytes);
        for facet in &mut self.facets {
            let mut array = out.start_array(&facet.name);
            for document in facet.results.drain(..) {
                array.push(document.as_raw());
            }
            array.finish();
        }
        out.finish();
        check_size(DocumentBuf::trusted(bytes))
    }
}

impl Stage for FacetStage {
    fn take(&mut self, document: RawDocument<'_>, _: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        let bytes = &mut self.bytes;
        for Facet { chain, results, .. } in self.facets.iter_mut().filter(|facet| !facet.chain.is_closed()) {
            let flow = chain.take(document, &mut |result| {
                bytes.add(result.as_bytes().len())?;
                results.push(result.to_buf());
                Ok(Flow::More)
            })?;
            self.due |= flow == Flow::Pause;
        }
        Ok(if self.due { Flow::Pause } else { Flow::More })
    }

    fn end(&mut self) -> Result<(), QueryError> {
        (self.due, self.ended) = (true, true);
        let mut open = self.facets.iter_mut().filter(|facet| !facet.chain.is_closed());
        open.try_for_each(|facet| facet.chain.end())
    }

    fn holds(&self) -> bool {
        self.due
    }

    fn resume(
        &mut self,
        policy: &mut dyn YieldPolicy,
        out: &mut Downstream<'_>,
    ) -> Result<Pause, QueryError> {
        let bytes = &mut self.bytes;
        for Facet { chain, results, .. } in &mut self.facets {
            let pause = chain.drive(policy, &mut |result| {
                bytes.add(result.as_bytes().len())?;
                results.push(result.to_buf());
                Ok(Flow::More)
            })?;
            if pause != Pause::End {
                return Ok(pause);
            }
        }
        self.due = false;
        if std::mem::take(&mut self.ended) {
            out.give(self.result()?.as_raw())?;
        }
        Ok(Pause::End)
    }

    fn is_done(&self) -> bool {
        !self.due && self.facets.iter().all(|facet| facet.chain.is_closed())
    }

    fn save(&mut self) {
        self.facets.iter_mut().for_each(|facet| facet.chain.save());
    }
}
