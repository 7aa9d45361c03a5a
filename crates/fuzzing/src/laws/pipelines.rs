//! Pipelines: one as a whole, with what its front hands to the collection, and on the fields that it says it
//! needs, yields what its stages yield one after the other; so it does with hardly any memory, a step at a
//! time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use document::{Document, DocumentBuf, doc};
use query::QueryError;
use query::aggregate::{
    DocumentSource, Flow, ForeignCollections, ForeignRead, Leading, MaterializedDocuments, Pause, Pipeline,
    PipelineContext, YieldPolicy,
};
use query::error::code::EXCEEDED_MEMORY_LIMIT;
use query::matcher::Matcher;
use query::sort::{RunReader, RunRecord, RunWriter, SortedRun, SpillStore};

use super::{HOLDS, Met, REFUSED, code, environment, only};
use crate::generate;
use crate::source::Source;

/// What `$lookup` and `$facet` fail with, which put nothing aside.
const LOOKUP_TOO_LARGE: i32 = 4568;
const FACET_TOO_LARGE: i32 = 4_031_700;
/// More documents than that are not compared.
const DOCUMENTS_MAX: usize = 2000;

struct Unhurried;

impl YieldPolicy for Unhurried {
    fn should_yield(&mut self) -> bool {
        false
    }
}

/// Every second look ends the slice.
struct Hesitant(bool);

impl YieldPolicy for Hesitant {
    fn should_yield(&mut self) -> bool {
        self.0 = !self.0;
        self.0
    }
}

/// What was put aside; counts the runs.
#[derive(Default)]
struct Aside(AtomicUsize);

#[derive(Default)]
struct RunAside(VecDeque<RunRecord>);

impl SpillStore for Aside {
    fn create_run(&self) -> Result<Box<dyn RunWriter>, QueryError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(RunAside::default()))
    }
}

impl RunWriter for RunAside {
    fn write(&mut self, record: &RunRecord) -> Result<(), QueryError> {
        self.0.push_back(record.clone());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Box<dyn SortedRun>, QueryError> {
        Ok(self)
    }
}

impl SortedRun for RunAside {
    fn open(self: Box<Self>) -> Result<Box<dyn RunReader>, QueryError> {
        Ok(self)
    }
}

impl RunReader for RunAside {
    fn read_next(&mut self, record: &mut RunRecord) -> Result<bool, QueryError> {
        Ok(self.0.pop_front().map(|next| *record = next).is_some())
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
    drain_within(pipeline, documents, items, PipelineContext::new(environment()), &mut Unhurried)
}

fn drain_within(
    pipeline: &Pipeline,
    documents: Vec<DocumentBuf>,
    items: &Arc<Vec<DocumentBuf>>,
    context: PipelineContext,
    policy: &mut dyn YieldPolicy,
) -> Result<Vec<DocumentBuf>, QueryError> {
    let foreign: Arc<dyn ForeignCollections> = Arc::new(Items(Arc::clone(items)));
    let context = PipelineContext { foreign: Some(foreign), ..context };
    let source = Box::new(MaterializedDocuments::new(Arc::new(documents)));
    let mut top = pipeline.open(source, &context)?;
    let mut found = Vec::new();
    loop {
        let pause = top.run(policy, &mut |document| {
            found.push(document.to_buf());
            Ok(if found.len() < DOCUMENTS_MAX { Flow::More } else { Flow::Pause })
        })?;
        top.save();
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
    check_spilling(&pipeline, &stages, &documents, &items, &whole, source.pick(&[150, 300, 600, 1500]), met);
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

/// How much the order of what comes out says.
#[derive(PartialEq)]
enum Order {
    Told,
    /// Groups come in any.
    Any,
    /// What a stage makes of groups depends on how they come.
    Counts,
}

fn order(stages: &[Document]) -> Order {
    let groups = ["$group", "$sortByCount"];
    let of_one =
        ["$match", "$project", "$set", "$addFields", "$unset", "$redact", "$replaceRoot", "$replaceWith"];
    let mut order = Order::Told;
    for stage in stages {
        let (name, operand) = stage.first().expect("a stage has a name");
        let has_pipelines = ["$facet", "$lookup", "$unionWith"].contains(&name);
        let text = if has_pipelines { format!("{operand:?}") } else { String::new() };
        let is_behind = order == Order::Any && !of_one.contains(&name);
        if is_behind || groups.iter().any(|group| text.contains(group)) {
            return Order::Counts;
        }
        if groups.contains(&name) {
            order = Order::Any;
        }
    }
    order
}

/// With so few bytes for each stage, and a place for the rest, it yields the same.
fn check_spilling(
    pipeline: &Pipeline,
    stages: &[Document],
    documents: &[DocumentBuf],
    items: &Arc<Vec<DocumentBuf>>,
    whole: &[DocumentBuf],
    memory_bytes: usize,
    met: &mut Met,
) {
    let aside = Arc::new(Aside::default());
    let spill: Arc<dyn SpillStore> = Arc::<Aside>::clone(&aside);
    let context = PipelineContext { memory_bytes, spill: Some(spill), ..PipelineContext::new(environment()) };
    let found = code(drain_within(pipeline, documents.to_vec(), items, context, &mut Hesitant(false)));
    match found {
        Err(LOOKUP_TOO_LARGE | FACET_TOO_LARGE | EXCEEDED_MEMORY_LIMIT) => met.note("fits nowhere"),
        Err(code) => panic!("with {memory_bytes} bytes: {code}: {stages:?}\nof {documents:?}"),
        Ok(mut found) => {
            let mut whole = whole.to_vec();
            match order(stages) {
                Order::Told => {}
                Order::Any => {
                    for documents in [&mut found, &mut whole] {
                        documents.sort_by(|one, other| one.as_bytes().cmp(other.as_bytes()));
                    }
                }
                Order::Counts => return,
            }
            assert_same(&found, &whole, stages, documents, "with hardly any memory");
            if aside.0.load(Ordering::Relaxed) > 0 {
                met.note("spilled");
            }
        }
    }
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
