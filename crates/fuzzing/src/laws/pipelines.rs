//! Pipelines: one as a whole, with what its front hands to the collection, and on the fields that it says it
//! needs, yields what its stages yield one after the other.

use std::sync::Arc;

use document::{Document, DocumentBuf, doc};
use query::QueryError;
use query::aggregate::{
    DocumentSource, Flow, ForeignCollections, ForeignRead, Leading, MaterializedDocuments, Pause, Pipeline,
    PipelineContext, YieldPolicy,
};
use query::matcher::Matcher;

use super::{HOLDS, Met, REFUSED, code, environment, only};
use crate::generate;
use crate::source::Source;

/// More documents than that are not compared.
const DOCUMENTS_MAX: usize = 2000;

struct Unhurried;

impl YieldPolicy for Unhurried {
    fn should_yield(&mut self) -> bool {
        false
    }
}

/// The collection `items`; others are empty.
struct Items(Arc<Vec<DocumentBuf>>);

impl ForeignCollections for Items {
    fn open(&self, read: ForeignRead<'_>) -> Result<Box<dyn DocumentSource>, QueryError> {
        let empty = Arc::new(Vec::new());
        let all = if read.collection == "items" { &self.0 } else { &empty };
        let parsed = Matcher::parse(read.leading.filter.as_raw(), read.environment)?;
        let matcher = read.matcher.unwrap_or(parsed);
        let mut found = Vec::new();
        for document in all.iter() {
            if matcher.matches(document.as_raw())? {
                found.push(document.clone());
            }
        }
        let rest = Leading { filter: Document::new().to_buf(), ..read.leading.clone() };
        let found = run(&stages_of(&rest), found, &self.0)?;
        Ok(Box::new(MaterializedDocuments::new(Arc::new(found))))
    }
}

/// The stages that a collection does the work of.
fn stages_of(leading: &Leading) -> Vec<Document> {
    let mut stages = Vec::new();
    if !leading.filter.is_empty() {
        stages.push(doc! { "$match": (leading.filter.as_raw().to_document()) });
    }
    if let Some(sort) = &leading.sort {
        stages.push(doc! { "$sort": (sort.to_spec().as_raw().to_document()) });
    }
    if leading.skip > 0 {
        stages.push(doc! { "$skip": (leading.skip as i64) });
    }
    if let Some(limit) = leading.limit {
        stages.push(match limit {
            0 => doc! { "$match": { "$alwaysFalse": 1 } },
            limit => doc! { "$limit": (limit as i64) },
        });
    }
    stages
}

fn parse(stages: &[Document]) -> Result<Pipeline, QueryError> {
    let stages: Vec<DocumentBuf> = stages.iter().map(Document::to_buf).collect();
    let environment = environment();
    let pipeline = Pipeline::parse_documents(&stages, &environment)?;
    environment.check_constants()?;
    Ok(pipeline)
}

fn run(
    stages: &[Document],
    documents: Vec<DocumentBuf>,
    items: &Arc<Vec<DocumentBuf>>,
) -> Result<Vec<DocumentBuf>, QueryError> {
    drain(&parse(stages)?, documents, items)
}

fn drain(
    pipeline: &Pipeline,
    documents: Vec<DocumentBuf>,
    items: &Arc<Vec<DocumentBuf>>,
) -> Result<Vec<DocumentBuf>, QueryError> {
    let foreign: Arc<dyn ForeignCollections> = Arc::new(Items(Arc::clone(items)));
    let context = PipelineContext { foreign: Some(foreign), ..PipelineContext::new(environment()) };
    let source = Box::new(MaterializedDocuments::new(Arc::new(documents)));
    let mut top = pipeline.open(source, &context)?;
    let mut found = Vec::new();
    loop {
        let pause = top.run(&mut Unhurried, &mut |document| {
            found.push(document.to_buf());
            Ok(if found.len() < DOCUMENTS_MAX { Flow::More } else { Flow::Pause })
        })?;
        if pause == Pause::End || found.len() >= DOCUMENTS_MAX {
            return Ok(found);
        }
    }
}

pub(super) fn check(bytes: &[u8], met: &mut Met) {
    let mut source = Source::new(bytes);
    let documents: Vec<_> = (0..source.below(7)).map(|_| generate::stored(&mut source).to_buf()).collect();
    let items: Arc<Vec<DocumentBuf>> =
        Arc::new((0..source.below(4)).map(|_| generate::stored(&mut source).to_buf()).collect());
    let stages = generate::pipeline(&mut source, 3);
    let Ok(mut pipeline) = code(parse(&stages)) else { return met.note(REFUSED) };
    let whole = code(drain(&pipeline, documents.clone(), &items));
    let mut one_by_one = Ok(documents.clone());
    for stage in &stages {
        one_by_one =
            one_by_one.and_then(|documents| code(run(std::slice::from_ref(stage), documents, &items)));
    }
    // A filter that is moved to the front, or a limit, may spare a document that cannot be evaluated.
    let (Ok(whole), Ok(one_by_one)) = (whole, one_by_one) else { return met.note("fails") };
    if whole.len().max(one_by_one.len()) >= DOCUMENTS_MAX {
        return met.note("long");
    }
    assert_same(&one_by_one, &whole, &stages, &documents, "one by one");
    let leading = pipeline.take_leading();
    let front =
        run(&stages_of(&leading), documents.clone(), &items).expect("it was run as part of the whole");
    let behind = drain(&pipeline, front.clone(), &items).expect("it was run as part of the whole");
    assert_same(&behind, &whole, &stages, &documents, "with a front");
    // A projection takes numbers for names of fields, and leaves another array where one is the place of an
    // element.
    let has_places = |path: &String| path.split('.').any(|name| name.parse::<u32>().is_ok());
    let needed = pipeline.needed_fields().filter(|fields| !fields.iter().any(has_places));
    if let Some(fields) = needed {
        let shown = front.iter().map(|document| only(document, &fields)).collect::<Option<Vec<_>>>();
        if let Some(shown) = shown {
            let found = code(drain(&pipeline, shown, &items));
            assert_same(
                &found.expect("nothing more can fail"),
                &whole,
                &stages,
                &documents,
                "of what it needs",
            );
            met.note("says what it needs");
        }
    }
    met.note(HOLDS);
}

fn assert_same(
    found: &[DocumentBuf],
    expected: &[DocumentBuf],
    stages: &[Document],
    documents: &[DocumentBuf],
    what: &str,
) {
    let is_same = found.iter().map(DocumentBuf::as_bytes).eq(expected.iter().map(DocumentBuf::as_bytes));
    assert!(is_same, "{what}: {stages:?}\nof {documents:?}\nyields {found:?}\nand not {expected:?}");
}
