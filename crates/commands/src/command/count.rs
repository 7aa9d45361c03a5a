//! `count`: how many documents pass a filter.
//!
//! Without a filter the collection's counter answers; with one whose bounds an index settles, its entries are
//! counted and no document is read.
//!
//! Source: MongoDB manual, "count" (database command).

use super::{Command, Execution, OnSecondary, Run, TimeLimit};
use crate::aggregation::views::{ViewFind, count_on_view, is_view};
use crate::context::{CommandContext, OnDataNode};
use crate::counters::OperationClass;
use crate::error::CommandResult;
use crate::exec::{Executor, Query, Verdict, check_collation, environment, parse_hint, run_all};
use crate::fields::Fields;
use crate::parameters::Parameter;
use crate::server::ServiceContext;
use dispatch::concern::ReadConcerns;
use document::{DocumentBuilder, RawDocument};
use query::Environment;
use query::matcher::Matcher;
use query::plan::{Hint, NeededFields};

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::IfAllowed,
    read_concerns: ReadConcerns::OfTheSet,
    latency_class: Some(OperationClass::Query),
    time_limit: TimeLimit::GivenOrDefault,
    execution: Execution::InlineFirst,
    api_version_1: true,
    ..Command::new(
        "count",
        "Counts the documents of a collection that pass a filter.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

/// The arguments of a count.
#[derive(Debug)]
pub(super) struct CountRequest<'a> {
    pub(super) filter: RawDocument<'a>,
    pub(super) skip: u64,
    pub(super) limit: Option<u64>,
    pub(super) hint: Option<Hint>,
}

impl<'a> CountRequest<'a> {
    /// Takes the fields of a count.
    ///
    /// # Errors
    /// What is malformed.
    pub(super) fn take(fields: &mut Fields<'a>) -> CommandResult<Self> {
        let request = CountRequest {
            filter: fields.document("query")?.unwrap_or_default(),
            skip: fields.integer_at_least("skip", 0)?.map_or(0, i64::unsigned_abs),
            // The sign of a limit means nothing.
            limit: fields.integer("limit")?.map(i64::unsigned_abs).filter(|limit| *limit > 0),
            hint: parse_hint(fields.any("hint"))?,
        };
        check_collation(fields.document("collation")?)?;
        fields.ignore(&["fields", "mayBypassWriteBlocking"]);
        fields.finish()?;
        Ok(request)
    }

    /// What the executor is to do.
    ///
    /// # Errors
    /// A malformed filter.
    pub(super) fn query(&self, server: &ServiceContext, environment: &Environment) -> CommandResult<Query> {
        Ok(Query {
            matcher: Matcher::parse(self.filter, environment)?,
            needs: NeededFields::Nothing,
            hint: self.hint.clone(),
            skip: self.skip,
            limit: self.limit,
            no_table_scan: server.parameters.is_on(Parameter::NoTableScan),
            moment_ms: Some(environment.now_ms),
            ..Query::default()
        })
    }
}

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    let request = CountRequest::take(&mut context.fields)?;
    let environment = environment(context.server, None)?;
    let count = match context.server.node.catalog.collection(database, name) {
        None if is_view(&context.server.node.catalog, database, name) => {
            let find = ViewFind {
                filter: request.filter,
                skip: request.skip,
                limit: request.limit.unwrap_or(0),
                hint: request.hint,
                ..ViewFind::default()
            };
            count_on_view(context, name, find, environment).await?
        }
        None => {
            context.scheduling().compute(|| request.query(context.server, &environment)).await?;
            0
        }
        Some(collection)
            if request.filter.is_empty()
                && request.hint.is_none()
                && context.source.is_latest()
                && !collection.hides_expired() =>
        {
            let behind = collection.document_count().saturating_sub(request.skip);
            request.limit.map_or(behind, |limit| behind.min(limit))
        }
        Some(collection) => {
            let compile = || request.query(context.server, &environment);
            let query = context.scheduling().compute(compile).await?;
            let mut executor = Executor::open(context.source, &collection, query)?;
            run_all(&mut executor, context.scheduling(), |_| Ok(Verdict::Take)).await?;
            let figures = executor.figures();
            context.server.counters.keys_scanned.add(figures.keys);
            context.server.counters.documents_scanned.add(figures.documents);
            executor.returned()
        }
    };
    append_count(reply, "n", count);
    Ok(())
}

/// Appends a number as an int32 where it fits.
pub(super) fn append_count(reply: &mut DocumentBuilder<'_>, name: &str, count: u64) {
    match i32::try_from(count) {
        Ok(count) => reply.append(name, count),
        Err(_) => reply.append(name, i64::try_from(count).unwrap_or(i64::MAX)),
    };
}
