//! `distinct`: the different values of a field.
//!
//! Where an index begins with the field and settles the filter, only one entry of each value is looked at.
//!
//! Source: MongoDB manual, "distinct" (database command).

use super::{Command, Execution, OnSecondary, Run, TimeLimit};
use crate::aggregation::views::{each_of_view, is_view};
use crate::context::{CommandContext, OnDataNode};
use crate::counters::OperationClass;
use crate::error::{CommandError, CommandResult, code};
use crate::exec::{Executor, Query, Verdict, check_collation, environment, parse_hint, run_all};
use crate::fields::Fields;
use crate::parameters::Parameter;
use crate::server::ServiceContext;
use dispatch::concern::ReadConcerns;
use document::key::encode_value;
use document::path::{FieldPath, LeafArray, Place};
use document::{DocumentBuilder, MAX_DOCUMENT_SIZE, RawDocument, RawValue, Value};
use hashbrown::HashSet;
use query::Environment;
use query::matcher::Matcher;
use query::plan::{Hint, NeededFields, Plan};
use std::ops::ControlFlow;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::IfAllowed,
    read_concerns: ReadConcerns::All,
    latency_class: Some(OperationClass::Query),
    time_limit: TimeLimit::GivenOrDefault,
    execution: Execution::InlineFirst,
    ..Command::new(
        "distinct",
        "Returns the different values of a field.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

/// The values do not fit into one document.
const DISTINCT_TOO_BIG: i32 = 17217;
/// What the reply takes beside the values, generously.
const REPLY_OVERHEAD: usize = 1 << 10;

/// The arguments of a distinct.
#[derive(Debug)]
pub(super) struct DistinctRequest<'a> {
    pub(super) path: &'a str,
    pub(super) filter: RawDocument<'a>,
    pub(super) hint: Option<Hint>,
}

impl<'a> DistinctRequest<'a> {
    /// Takes the fields of a distinct.
    ///
    /// # Errors
    /// What is malformed.
    pub(super) fn take(fields: &mut Fields<'a>) -> CommandResult<Self> {
        let request = DistinctRequest {
            path: fields.string("key")?.ok_or_else(|| fields.missing("key"))?,
            filter: fields.document("query")?.unwrap_or_default(),
            hint: parse_hint(fields.any("hint"))?,
        };
        check_collation(fields.document("collation")?)?;
        fields.finish()?;
        if request.path.contains('\0') {
            return Err(CommandError::new(31_032, "Key field cannot contain an embedded null byte"));
        }
        Ok(request)
    }

    /// What the executor is to do, and by which plan.
    ///
    /// # Errors
    /// A malformed filter, what the planner says about the hint.
    pub(super) fn query(
        &self,
        server: &ServiceContext,
        definition: &catalog::CollectionDefinition,
        environment: &Environment,
    ) -> CommandResult<(Query, Plan)> {
        let query = Query {
            matcher: Matcher::parse(self.filter, environment)?,
            needs: NeededFields::Only(vec![self.path.to_owned()]),
            hint: self.hint.clone(),
            no_table_scan: server.parameters.is_on(Parameter::NoTableScan),
            moment_ms: Some(environment.now_ms),
            ..Query::default()
        };
        let plan = match query.plan_distinct(definition, self.path) {
            Some(plan) => plan,
            None => query.plan(definition)?,
        };
        Ok((query, plan))
    }
}

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    let request = DistinctRequest::take(&mut context.fields)?;
    let environment = environment(context.server, None)?;
    let mut values = DistinctValues::of(request.path)?;
    context.check_name(name)?;
    match context.server.node.catalog.collection(database, name) {
        None if is_view(&context.server.node.catalog, database, name) => {
            let collect = |document: RawDocument<'_>| values.add(document).map(drop);
            each_of_view(context, name, request.filter, environment, collect).await?;
        }
        None => drop(Matcher::parse(request.filter, &environment)?),
        Some(collection) => {
            let compile =
                || request.query(context.server, &collection.definition_for(context.source), &environment);
            let (query, plan) = context.scheduling().compute(compile).await?;
            let mut executor = Executor::with_plan(context.source, &collection, query, plan)?;
            run_all(&mut executor, context.scheduling(), |located| {
                // A document without the field stands at null as well: the next entry may have one with it.
                Ok(if values.add(located.document)? { Verdict::Take } else { Verdict::Ignore })
            })
            .await
            .map_err(|error| error.within("Executor error during distinct command"))?;
            let figures = executor.figures();
            context.server.counters.keys_scanned.add(figures.keys);
            context.server.counters.documents_scanned.add(figures.documents);
        }
    }
    let mut array = reply.start_array("values");
    for value in &values.list {
        array.push_value(value);
    }
    drop(array);
    context.append_snapshot_time(reply);
    Ok(())
}

/// Values met so far, each once, in the order of their coming.
#[derive(Debug)]
struct DistinctValues {
    path: FieldPath,
    known: HashSet<Box<[u8]>>,
    list: Vec<Value>,
    bytes: usize,
    key: Vec<u8>,
}

impl DistinctValues {
    fn of(path: &str) -> CommandResult<Self> {
        let path = FieldPath::parse_lenient(path)
            .map_err(|error| CommandError::new(code::BAD_VALUE, error.to_string()))?;
        Ok(DistinctValues { path, known: HashSet::default(), list: Vec::new(), bytes: 0, key: Vec::new() })
    }

    /// Adds the values of a document. Whether it has any.
    fn add(&mut self, document: RawDocument<'_>) -> CommandResult<bool> {
        let Self { path, known, list, bytes, key } = self;
        let mut found_any = false;
        let _ = path.visit(document, LeafArray::Elements, |found| {
            if let (Some(value), Place::Leaf | Place::ElementOfLeaf) = (found.value, found.place) {
                found_any = true;
                key.clear();
                encode_value(key, value);
                if !known.contains(key.as_slice()) {
                    known.insert(key.as_slice().into());
                    *bytes += size_of_element(value);
                    list.push(value.to_value());
                }
            }
            ControlFlow::Continue(())
        });
        if *bytes + REPLY_OVERHEAD > MAX_DOCUMENT_SIZE {
            return Err(CommandError::new(DISTINCT_TOO_BIG, "distinct too big, 16mb cap"));
        }
        Ok(found_any)
    }
}

/// Bytes that the value takes as an element of the reply, at most.
fn size_of_element(value: RawValue<'_>) -> usize {
    /// Type, index of up to ten digits, its end, and what a value has at least.
    const ELEMENT_BYTES: usize = 12 + 16;
    ELEMENT_BYTES
        + match value {
            RawValue::String(text) | RawValue::JavaScript(text) | RawValue::Symbol(text) => text.len(),
            RawValue::Document(document) => document.as_bytes().len(),
            RawValue::Array(array) => array.as_bytes().len(),
            RawValue::Binary { bytes, .. } => bytes.len(),
            RawValue::Regex { pattern, options } => pattern.len() + options.len(),
            RawValue::JavaScriptWithScope { code, scope } => code.len() + scope.as_bytes().len(),
            RawValue::DbPointer { namespace, .. } => namespace.len(),
            _ => 0,
        }
}
