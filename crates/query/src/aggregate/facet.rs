//! `$facet`: several pipelines over the same documents.
//!
//! Each document is handed to every pipeline in turn, so that only the blocking stages of the pipelines hold documents.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use document::{DocumentBuf, DocumentBuilder, RawArray, RawValue};

use crate::checkpoint;
use crate::environment::Environment;
use crate::error::QueryError;
use crate::expression::check_field_name;

use super::rewrite::check_size;
use super::stages::stage_entry;
use super::{Pipeline, PipelineContext, Stage, StagePlan, Step};

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
            return Err(QueryError::new(
                40170,
                format!("arguments to $facet must be arrays, {name} is type {}", element.kind().alias()),
            ));
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
            return Err(QueryError::new(
                40171,
                "elements of arrays in $facet spec must be non-empty objects",
            ));
        };
        let entry = stage_entry(first.name())?;
        if !entry.in_facet {
            return Err(QueryError::new(
                40600,
                format!("{} is not allowed to be used within a $facet stage", entry.name),
            ));
        }
    }
    Ok(())
}

/// The documents one pipeline has yet to read.
#[derive(Default)]
struct Feed {
    waiting: VecDeque<DocumentBuf>,
    ended: bool,
}

/// The source of one of the pipelines. The lock is never contended: feeding and pulling are one thread's work.
struct FeedSource {
    feed: Arc<Mutex<Feed>>,
}

impl Stage for FeedSource {
    fn next(&mut self) -> Result<Step, QueryError> {
        let mut feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match feed.waiting.pop_front() {
            Some(document) => Step::Document(document),
            None if feed.ended => Step::End,
            None => Step::Yield,
        })
    }
}

struct Facet {
    name: String,
    feed: Arc<Mutex<Feed>>,
    top: Box<dyn Stage>,
    results: Vec<DocumentBuf>,
    done: bool,
}

impl Facet {
    fn feed(&self, document: Option<DocumentBuf>) {
        let mut feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        match document {
            Some(document) => feed.waiting.push_back(document),
            None => feed.ended = true,
        }
    }

    fn has_waiting(&self) -> bool {
        let feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        feed.ended || !feed.waiting.is_empty()
    }

    /// Pulls until the pipeline has used up what it was fed. `bytes` counts the results of all facets.
    fn drain(&mut self, bytes: &mut usize, most_bytes: usize) -> Result<(), QueryError> {
        while !self.done {
            match self.top.next()? {
                Step::Document(document) => {
                    *bytes += document.len();
                    self.results.push(document);
                    if *bytes > most_bytes {
                        return Err(QueryError::new(
                            4031700,
                            format!(
                                "document constructed by $facet is {bytes} bytes, which exceeds the limit of {most_bytes} bytes"
                            ),
                        ));
                    }
                }
                Step::End => self.done = true,
                // A stage may also yield of itself, so only an empty feed ends the round.
                Step::Yield if !self.has_waiting() => break,
                Step::Yield => checkpoint::pass(1)?,
            }
        }
        Ok(())
    }
}

pub(super) struct FacetStage {
    input: Box<dyn Stage>,
    facets: Vec<Facet>,
    /// Of the results of all facets.
    bytes: usize,
    most_bytes: usize,
    reading: bool,
}

impl FacetStage {
    pub(super) fn new(
        input: Box<dyn Stage>,
        spec: &Arc<FacetSpec>,
        context: &PipelineContext,
    ) -> Result<Self, QueryError> {
        let facets = spec
            .facets
            .iter()
            .map(|(name, pipeline)| {
                let feed = Arc::new(Mutex::new(Feed::default()));
                let top = pipeline.open(Box::new(FeedSource { feed: Arc::clone(&feed) }), context)?;
                Ok(Facet { name: name.clone(), feed, top, results: Vec::new(), done: false })
            })
            .collect::<Result<_, QueryError>>()?;
        Ok(Self { input, facets, bytes: 0, most_bytes: context.memory_bytes, reading: true })
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
    fn next(&mut self) -> Result<Step, QueryError> {
        while self.reading {
            let fed = match self.input.next()? {
                Step::Document(document) => Some(document),
                Step::Yield => return Ok(Step::Yield),
                Step::End => None,
            };
            self.reading = fed.is_some();
            for facet in self.facets.iter_mut().filter(|facet| !facet.done) {
                facet.feed(fed.clone());
                facet.drain(&mut self.bytes, self.most_bytes)?;
            }
            if fed.is_none() {
                return self.result().map(Step::Document);
            }
        }
        Ok(Step::End)
    }
}
