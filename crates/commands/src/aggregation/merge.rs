//! `$merge`: each document is written into a collection by itself, many of them at once. A document that is
//! past its time and hidden is not there for it: it matches nothing, and makes way for what is written.

use super::RunningPipeline;
use super::destination::{DestinationCodes, namespace};
use super::out::pay;
use crate::audit::collection_or_create;
use crate::context::{CommandContext, OnDataNode};
use crate::error::{CommandError, CommandResult, code};
use crate::exec::Slices;
use crate::write::{Refusal, stamped, update_past_hidden};
use catalog::{
    Catalog, Collection, CollectionDefinition, Decision, EncodedRange, IndexDefinition, Namespace,
    OperationContext, WriteError,
};
use document::key::{KeyBuilder, successor};
use document::{
    Document, DocumentBuf, DocumentBuilder, FieldPath, ObjectId, RawDocument, RawValue, Value, doc,
};
use query::Environment;
use query::aggregate::{OutputStage, WhenMatched, WhenNotMatched};
use query::expression::{Expression, Variables};
use query::matcher::Matcher;
use query::update::{EmptyTimestamps, Update};
use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use storage::{CursorOptions, Direction, ReadTier};

const CODES: DestinationCodes =
    DestinationCodes { stage: "$merge", internal_database: 31320, special_collection: 31319 };
/// `on` fields that no unique index holds.
const NO_UNIQUE_INDEX: i32 = 51183;
/// An `on` field that is missing, null or undefined.
const ON_FIELD_MISSING: i32 = 51132;
/// An `on` field that is an array.
const ON_FIELD_ARRAY: i32 = 51185;
/// A pair of modes that MongoDB does not offer.
const UNSUPPORTED_MODES: i32 = 51181;
/// `whenNotMatched: "fail"` met a document that is not there.
const NO_MATCHING_DOCUMENT: i32 = 13113;
/// Documents that are written at once, at most: in a replica set they wait for the others together.
const BATCH_DOCUMENTS: usize = 256;
/// Bytes of documents that are written at once, about.
const BATCH_BYTES: usize = 4 << 20;
/// How often a document is looked up again because another writer was faster.
const RETRIES: usize = 100;

/// Runs the pipeline to its end and writes its documents. What is written before an error stays written.
///
/// # Errors
/// Destinations that cannot be, `on` fields without a unique index, what the pipeline raises and the catalog
/// refuses.
pub(crate) async fn merge(
    context: &CommandContext<'_>,
    pipeline: &mut RunningPipeline,
    output: &OutputStage,
    environment: &Environment,
    (writing, timestamps): (&OperationContext<'_>, EmptyTimestamps),
) -> CommandResult {
    let OutputStage::Merge { into, on, when_matched, when_not_matched, bindings } = output else {
        return Err(CommandError::internal("$merge got another stage"));
    };
    check_modes(when_matched, *when_not_matched)?;
    let (target, _) = namespace(&context.server.node.catalog, context.database, into, CODES)?;
    let mut merger = Merger {
        context,
        catalog: &context.server.node.catalog,
        target,
        on: on.iter().map(|path| Ok((path.clone(), parse_path(path)?))).collect::<CommandResult<_>>()?,
        when_matched,
        when_not_matched: *when_not_matched,
        bindings,
        environment,
        variables: Variables::new(),
        writing,
        next: None,
    };
    merger.check_at_start()?;
    // The other modes write through update operators and pipelines, which keep empty timestamps.
    let timestamps = match when_matched {
        WhenMatched::Replace | WhenMatched::Fail => timestamps,
        _ => EmptyTimestamps::Kept,
    };
    let mut slices = Slices::new(context.scheduling());
    loop {
        let mut batch = Batch::default();
        let gathered = merger.gather(pipeline, &mut slices, timestamps, &mut batch).await;
        let is_last = gathered.as_ref().map_or(true, |next| next.is_none());
        merger.write_all(&batch.writes).await?;
        merger.next = gathered?;
        pay(context, batch.writes.len(), batch.bytes).await?;
        if is_last {
            return Ok(());
        }
    }
}

fn parse_path(path: &str) -> CommandResult<FieldPath> {
    FieldPath::parse(path).map_err(|error| CommandError::bad_value(error.to_string()))
}

fn check_modes(when_matched: &WhenMatched, when_not_matched: WhenNotMatched) -> CommandResult {
    let alone = match when_matched {
        WhenMatched::KeepExisting => "keepExisting",
        WhenMatched::Fail => "fail",
        _ => return Ok(()),
    };
    let other = match when_not_matched {
        WhenNotMatched::Insert => return Ok(()),
        WhenNotMatched::Discard => "discard",
        WhenNotMatched::Fail => "fail",
    };
    Err(CommandError::new(
        UNSUPPORTED_MODES,
        format!(
            "Combination of $merge modes is not supported: {{whenMatched: '{alone}', whenNotMatched: \
            '{other}'}}"
        ),
    ))
}

struct Merger<'m, 'c> {
    context: &'m CommandContext<'c>,
    catalog: &'m Catalog,
    target: Namespace,
    /// Dotted and parsed.
    on: Vec<(String, FieldPath)>,
    when_matched: &'m WhenMatched,
    when_not_matched: WhenNotMatched,
    bindings: &'m [(String, Expression)],
    environment: &'m Environment,
    variables: Variables,
    writing: &'m OperationContext<'m>,
    /// Did not go with the last batch.
    next: Option<Write>,
}

/// A document that is to be merged.
struct Write {
    document: DocumentBuf,
    replacement: Replacement,
    /// Its `on` fields, encoded.
    key: Vec<u8>,
}

/// Documents whose `on` fields differ, so that it does not matter which is written first.
#[derive(Default)]
struct Batch {
    writes: Vec<Write>,
    keys: HashSet<Vec<u8>>,
    bytes: usize,
}

impl Batch {
    /// Gives back what does not go with the others.
    fn add(&mut self, write: Write) -> Option<Write> {
        let is_full = self.writes.len() >= BATCH_DOCUMENTS || self.bytes >= BATCH_BYTES;
        if is_full || !self.keys.insert(write.key.clone()) {
            return Some(write);
        }
        self.bytes += write.document.len();
        self.writes.push(write);
        None
    }
}

/// What the document that is there already becomes.
enum Replacement {
    Whole,
    Fields,
    Nothing,
    Updated(Update),
}

impl Merger<'_, '_> {
    fn is_by_id(&self) -> bool {
        matches!(&*self.on, [(path, _)] if path == "_id")
    }

    /// What can be refused before the first document comes.
    fn check_at_start(&mut self) -> CommandResult {
        let collection = self.catalog.collection(self.target.database(), self.target.collection());
        match &collection {
            _ if self.is_by_id() => {}
            Some(collection) if self.unique_index(&collection.definition()).is_some() => {}
            _ => return Err(no_unique_index()),
        }
        if let WhenMatched::Pipeline(stages) = self.when_matched {
            let names = self.bindings.iter().map(|(name, _)| name.as_str()).chain(["new"]);
            let values = names.map(|name| (name.to_owned(), Value::Null)).collect();
            parse_pipeline(stages, self.environment, values)?;
        }
        Ok(())
    }

    /// The unique index over exactly the `on` fields.
    fn unique_index(&self, definition: &CollectionDefinition) -> Option<Arc<IndexDefinition>> {
        let serves = |index: &&Arc<IndexDefinition>| {
            let fields = &index.spec.fields;
            index.is_ready()
                && (index.spec.unique || index.spec.is_id_index())
                && index.spec.partial_filter.is_none()
                && index.spec.collation.is_none()
                && fields.len() == self.on.len()
                && fields.iter().all(|field| self.on.iter().any(|(_, path)| *path == field.path))
        };
        definition.indexes.iter().find(serves).cloned()
    }

    /// Fills a batch; gives back the first document that does not go with it.
    async fn gather(
        &mut self,
        pipeline: &mut RunningPipeline,
        slices: &mut Slices<'_>,
        timestamps: EmptyTimestamps,
        batch: &mut Batch,
    ) -> CommandResult<Option<Write>> {
        let mut refused = self.next.take().and_then(|write| batch.add(write));
        while refused.is_none() {
            let Some(document) = pipeline.next(slices).await? else { break };
            refused = batch.add(self.prepare(stamped(document, timestamps))?);
        }
        Ok(refused)
    }

    fn prepare(&mut self, document: DocumentBuf) -> CommandResult<Write> {
        let document = match document.as_raw().contains("_id") || !self.is_by_id() {
            true => document,
            false => with_id(RawValue::ObjectId(ObjectId::new()), document.as_raw()),
        };
        self.check_on_fields(document.as_raw())?;
        let replacement = self.replacement(document.as_raw())?;
        let mut key = KeyBuilder::new();
        for (_, path) in &self.on {
            key.append(
                path.get(document.as_raw()).unwrap_or(RawValue::Null),
                document::key::SortOrder::Ascending,
            );
        }
        let key = key.key().to_vec();
        Ok(Write { document, replacement, key })
    }

    /// Writes all of them, also where one cannot be; the error is that of the first.
    async fn write_all(&self, batch: &[Write]) -> CommandResult {
        if !batch.is_empty() {
            // Made once, and not by each that is to be inserted.
            self.collection().await?;
        }
        let mut running: Vec<_> =
            batch.iter().enumerate().map(|(place, write)| (place, Box::pin(self.write(write)))).collect();
        let mut failure: Option<(usize, CommandError)> = None;
        poll_fn(|context| {
            running.retain_mut(|(place, write)| match write.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(Ok(())) => false,
                Poll::Ready(Err(error)) => {
                    if failure.as_ref().is_none_or(|(first, _)| *place < *first) {
                        failure = Some((*place, error));
                    }
                    false
                }
            });
            if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        failure.map_or(Ok(()), |(_, error)| Err(error))
    }

    async fn write(&self, Write { document, replacement, .. }: &Write) -> CommandResult {
        for _ in 0..RETRIES {
            let collection = self.collection().await?;
            if let Some(collection) = &collection
                && !matches!(self.when_matched, WhenMatched::Fail)
                && self.change(collection, document, replacement).await?
            {
                return Ok(());
            }
            match (self.when_not_matched, &collection) {
                (WhenNotMatched::Insert, Some(collection)) => {
                    if self.insert(collection, document.as_raw()).await? {
                        return Ok(());
                    }
                }
                (WhenNotMatched::Fail, _) => {
                    return Err(CommandError::new(
                        NO_MATCHING_DOCUMENT,
                        "$merge could not find a matching document in the target collection for at least \
                        one document in the source collection",
                    ));
                }
                _ => return Ok(()),
            }
        }
        let message = "$merge met other writes of the same document again and again";
        Err(CommandError::new(wire::ErrorCode::WriteConflict as i32, message))
    }

    /// The target; made for the first document when there is none and documents are to be inserted.
    async fn collection(&self) -> CommandResult<Option<Arc<Collection>>> {
        let (database, name) = (self.target.database(), self.target.collection());
        match self.when_not_matched {
            WhenNotMatched::Insert => {
                Ok(Some(collection_or_create(self.context, self.writing, (database, name)).await?))
            }
            _ => Ok(self.catalog.collection(database, name)),
        }
    }

    fn check_on_fields(&self, document: RawDocument<'_>) -> CommandResult {
        for (name, path) in &self.on {
            match path.get(document) {
                None | Some(RawValue::Null | RawValue::Undefined) => {
                    let message = format!(
                        "$merge write error: 'on' field '{name}' cannot be missing, null or undefined"
                    );
                    return Err(CommandError::new(ON_FIELD_MISSING, message));
                }
                Some(RawValue::Array(_)) => {
                    let message = format!("$merge write error: 'on' field '{name}' cannot be an array");
                    return Err(CommandError::new(ON_FIELD_ARRAY, message));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn replacement(&mut self, document: RawDocument<'_>) -> CommandResult<Replacement> {
        let stages = match self.when_matched {
            WhenMatched::Replace => return Ok(Replacement::Whole),
            WhenMatched::Merge => return Ok(Replacement::Fields),
            WhenMatched::KeepExisting | WhenMatched::Fail => return Ok(Replacement::Nothing),
            WhenMatched::Pipeline(stages) => stages,
        };
        let mut values = Vec::with_capacity(self.bindings.len() + 1);
        for (name, expression) in self.bindings {
            let value = expression.evaluate(document, &mut self.variables)?;
            values.push((name.clone(), value.unwrap_or(Value::Undefined)));
        }
        if !self.bindings.iter().any(|(name, _)| name == "new") {
            values.push(("new".to_owned(), Value::Document(document.to_document())));
        }
        Ok(Replacement::Updated(parse_pipeline(stages, self.environment, values)?))
    }

    /// Changes the document that is there. False when there is none, or it is hidden.
    async fn change(
        &self,
        collection: &Arc<Collection>,
        document: &DocumentBuf,
        replacement: &Replacement,
    ) -> CommandResult<bool> {
        let Some(document_key) = self.document_key(collection, document.as_raw())? else { return Ok(false) };
        let same = self.same_on_fields(document.as_raw())?;
        let mut found_it = false;
        let moment_ms = self.environment.now_ms;
        let decide = |found: Option<RawDocument<'_>>| -> Result<Decision, Refusal> {
            found_it = false;
            let Some(old) = found else { return Ok(Decision::Keep) };
            let is_same = same.as_ref().map_or(Ok(true), |same| same.matches(old));
            if !is_same.map_err(CommandError::from)? || collection.hides(old, moment_ms)? {
                return Ok(Decision::Keep);
            }
            found_it = true;
            Ok(match replacement {
                Replacement::Nothing => Decision::Keep,
                Replacement::Whole => Decision::Replace(replaced(old, document)),
                Replacement::Fields => Decision::Update(with_fields(old, document.as_raw())),
                Replacement::Updated(update) => {
                    let updated = update.apply(old, None, false).map_err(CommandError::from)?;
                    updated.map_or(Decision::Keep, Decision::Update)
                }
            })
        };
        update_past_hidden(collection, self.writing, &document_key, decide).await?;
        Ok(found_it)
    }

    /// The filter for the `on` fields; not needed for the `_id`, which never changes.
    fn same_on_fields(&self, document: RawDocument<'_>) -> CommandResult<Option<Matcher>> {
        if self.is_by_id() {
            return Ok(None);
        }
        let equal = |(name, path): &(String, FieldPath)| {
            let value = path.get(document).map_or(Value::Null, RawValue::to_value);
            (name.clone(), Value::Document(doc! { "$eq": value }))
        };
        let filter: Document = self.on.iter().map(equal).collect();
        Ok(Some(Matcher::parse(filter.to_buf().as_raw(), &Environment::default())?))
    }

    /// Where the document with these `on` fields is, if there is one.
    fn document_key(
        &self,
        collection: &Arc<Collection>,
        document: RawDocument<'_>,
    ) -> CommandResult<Option<Vec<u8>>> {
        let view = self.writing.view;
        if self.is_by_id() {
            let id = document.get("_id").unwrap_or(RawValue::Null);
            return Ok(collection.find_document_key(view, id, ReadTier::Any)?);
        }
        let index = self.unique_index(&collection.definition()).ok_or_else(no_unique_index)?;
        let mut key = KeyBuilder::new();
        for field in &index.spec.fields {
            key.append(field.path.get(document).unwrap_or(RawValue::Null), field.kind.direction());
        }
        let upper = successor(key.key());
        let range = EncodedRange { lower: Some(key.key()), upper: upper.as_deref() };
        let mut cursor =
            collection.index_entries(view, &index, range, Direction::Forward, CursorOptions::default())?;
        Ok(cursor.next()?.map(|entry| entry.document_key.to_vec()))
    }

    /// Inserts the document. False when one with the same `on` fields was inserted meanwhile.
    async fn insert(&self, collection: &Arc<Collection>, document: RawDocument<'_>) -> CommandResult<bool> {
        match collection.insert(self.writing, document).await {
            Ok(()) => Ok(true),
            Err(WriteError::DuplicateKey(duplicate)) => {
                let is_on = |name: &str| self.on.iter().any(|(path, _)| path == name);
                let by_on_fields = duplicate.key_pattern.len() == self.on.len()
                    && duplicate.key_pattern.iter().all(|(name, _)| is_on(name));
                match by_on_fields && !matches!(self.when_matched, WhenMatched::Fail) {
                    true => Ok(false),
                    false => Err(WriteError::DuplicateKey(duplicate).into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn no_unique_index() -> CommandError {
    CommandError::new(NO_UNIQUE_INDEX, "Cannot find index to verify that join fields will be unique")
}

/// Compiles the update pipeline with these variables beside the command's own.
fn parse_pipeline(
    stages: &DocumentBuf,
    environment: &Environment,
    values: Vec<(String, Value)>,
) -> CommandResult<Update> {
    let environment = environment.with(values);
    let stages = stages.as_raw().get("").ok_or_else(|| {
        CommandError::new(code::INTERNAL_ERROR, "an update pipeline of $merge has no stages")
    })?;
    Ok(Update::parse(stages, None, &environment)?)
}

/// The document with this `_id` in front.
fn with_id(id: RawValue<'_>, document: RawDocument<'_>) -> DocumentBuf {
    let mut bytes = Vec::with_capacity(document.as_bytes().len() + 32);
    let mut builder = DocumentBuilder::new(&mut bytes);
    builder.append("_id", id);
    builder.append_all(document);
    builder.finish();
    DocumentBuf::trusted(bytes)
}

/// The new document in place of the old one, whose `_id` it takes over when it has none.
fn replaced(old: RawDocument<'_>, new: &DocumentBuf) -> DocumentBuf {
    match old.get("_id").filter(|_| !new.as_raw().contains("_id")) {
        Some(id) => with_id(id, new.as_raw()),
        None => new.clone(),
    }
}

/// The old document with the new one's top-level fields set in it.
fn with_fields(old: RawDocument<'_>, new: RawDocument<'_>) -> DocumentBuf {
    let mut bytes = Vec::with_capacity(old.as_bytes().len() + new.as_bytes().len());
    let mut builder = DocumentBuilder::new(&mut bytes);
    for element in old {
        builder.append_element(new.element(element.name_bytes()).unwrap_or(element));
    }
    for element in new.iter().filter(|element| old.element(element.name_bytes()).is_none()) {
        builder.append_element(element);
    }
    builder.finish();
    DocumentBuf::trusted(bytes)
}
