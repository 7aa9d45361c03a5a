//! From a request to a reply: look the command up, check what is common to all, run it, count it.

use crate::acknowledge::{await_read_concern, await_write_concern};
use crate::audit;
use crate::authorization::{Authorization, authorize, check_login, is_authorized, session_in_use};
use crate::client::{Client, OperationStart};
use crate::command::{Command, Execution, Run, TimeLimit};
use crate::concern::ReadConcernLevel;
use crate::context::CommandContext;
use crate::counters::OperationClass;
use crate::error::{CommandError, CommandResult, code};
use crate::failpoints::{self, FailPoint};
use crate::fields::{Fields, wrong_type};
use crate::freshness::{self, await_freshness, is_too_stale};
use crate::generic::{ApiVersion, GenericArguments};
use crate::limits::begin_operation;
use crate::node::Node;
use crate::parameters::Parameter;
use crate::request::{CommandOutcome, CommandRequest};
use crate::role::{OnSecondary, admit, cluster_time, is_change_of_state, topology_version};
use crate::server::{ServiceContext, next_operation_id};
use crate::spans::{SlowOperation, Span, SpanTimes};
use document::{Document, DocumentBuilder, RawDocument, RawValue, Value, doc};
use query::checkpoint::watch;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

/// Runs one request and appends the body of its reply to `reply`.
pub async fn dispatch<N: Node>(
    server: &Arc<ServiceContext<N>>,
    client: &Arc<Client>,
    request: CommandRequest<'_>,
    reply: &mut Vec<u8>,
) -> CommandOutcome {
    let start = reply.len();
    let mut outcome = CommandOutcome { sends_nothing: request.wants_no_reply, ..CommandOutcome::default() };
    let chosen = OnceLock::new();
    // Not moved out: a future keeps room for each place that a value is moved to.
    let result = match &mut prepare(server, client, &request) {
        Ok(prepared) => run(server, prepared, &chosen, reply, &mut outcome).await,
        Err(error) => Err(error.clone()),
    };
    if let Err(mut error) = result {
        server.counters.user_asserts.add(1);
        if error.code == code::UNAUTHORIZED && server.host.audit.is_some() {
            Box::pin(audit::refused(server, client, (request.body, request.legacy_database))).await;
        }
        if has_retryable_code(error.code) && is_retryable_write(request.body) {
            error = error.with_label(RETRYABLE_WRITE_ERROR);
        }
        outcome.next = None;
        outcome.closes_connection |= error.closes_connection;
        outcome.refused_under_overload = error.code == code::INGRESS_REQUEST_RATE_LIMIT_EXCEEDED;
        reply.truncate(start);
        let is_member = server.node.role().is_some();
        if is_member && is_change_of_state(error.code) && !is_too_stale(&error) {
            error = error.with_more(&topology_version(server));
        }
        let mut reply = DocumentBuilder::new(reply);
        error.write(&mut reply);
        append_times(server, &mut reply);
    }
    outcome
}

/// What every reply of a member of a set ends with.
fn append_times<N: Node>(server: &ServiceContext<N>, reply: &mut DocumentBuilder<'_>) {
    if let Some(times) = server.node.reply_times() {
        times.append_to(reply);
    }
}

/// What tells drivers to send a write with a transaction number again.
const RETRYABLE_WRITE_ERROR: &str = "RetryableWriteError";

/// Whether a write that failed with this code is worth sending again, here or to another member.
///
/// Source: driver specification "Retryable Writes", "Determining Retryable Errors".
const fn has_retryable_code(code: i32) -> bool {
    matches!(code, 6 | 7 | 89 | 91 | 134 | 189 | 262 | 9001 | 10107 | 11600 | 11602 | 13435 | 13436)
}

fn is_retryable_write(command: RawDocument<'_>) -> bool {
    command.contains("txnNumber")
}

fn label_write_concern_error<N: Node>(
    context: &CommandContext<'_, N>,
    fields: &Document,
    reply: &mut DocumentBuilder<'_>,
) {
    let error = fields.get("writeConcernError").and_then(Value::as_document);
    let code = error.and_then(|error| error.get("code")?.as_f64());
    let is_retryable = code.is_some_and(|code| has_retryable_code(code as i32));
    if is_retryable && context.generic.txn_number.is_some() && !fields.contains("errorLabels") {
        reply.start_array("errorLabels").push(RETRYABLE_WRITE_ERROR);
    }
}

/// A request that passed the checks, and its place in the table.
struct Prepared<'a, N: Node> {
    context: CommandContext<'a, N>,
    position: usize,
    /// What the spans in front of the command took.
    times: SpanTimes,
    /// It does not begin in an event loop.
    execution: Execution,
}

fn prepare<'a, N: Node>(
    server: &'a Arc<ServiceContext<N>>,
    client: &'a Arc<Client>,
    request: &CommandRequest<'a>,
) -> CommandResult<Prepared<'a, N>> {
    let Some(first) = request.body.first() else {
        return Err(CommandError::new(code::COMMAND_NOT_FOUND, "no such command: ''"));
    };
    let Some((position, command)) = server.commands().find(first.name_bytes()) else {
        return Err(unknown_command(request, first.name()));
    };
    if command.only_for_tests && !server.parameters.is_on(Parameter::EnableTestCommands) {
        return Err(unknown_command(request, first.name()));
    }
    check_login(server, client, command.name, position)?;
    if request.legacy_database.is_some() && !command.accepts_op_query {
        let message = format!(
            "Unsupported OP_QUERY command: {}. The client driver may require an upgrade",
            first.name()
        );
        return Err(CommandError::new(code::UNSUPPORTED_OP_QUERY_COMMAND, message));
    }
    if let Some(backoff) = request.overload
        && client.backs_off()
        && command.is_refused_under_overload(request.body)
    {
        server.counters.refused_under_overload.add(1);
        return Err(overloaded(backoff));
    }
    if server.host.memory_pool.refuses() && command.is_refused_under_overload(request.body) {
        server.host.memory_pool.count_refused();
        return Err(memory_used_up());
    }
    let mut fields = Fields::new(command.name, first.value());
    let mut generic = GenericArguments::default();
    for element in request.body.iter().skip(1) {
        if !generic.take(command.name, element)? {
            fields.add(element)?;
        }
    }
    for sequence in request.sequences {
        fields.add_sequence(*sequence)?;
    }
    let database = database(request, &generic)?;
    check_api(server, command, &generic, &fields)?;
    let role = server.node.role();
    generic.validate(role.is_some())?;
    generic.check_txn_number(server.node.takes_txn_numbers(), command.name, command.takes_txn_number)?;
    if !generic.help {
        check_place(command, database, &generic)?;
    }
    freshness::check(command, &generic)?;
    command.read_concerns.check(&generic.read_concern, command.name)?;
    if let Some(role) = role {
        observe_cluster_time(server, command, &generic)?;
        admit(command, role, database, &generic)?;
    }
    let started = ambient::now();
    if let Some(named) = generic.session {
        generic.session = session_in_use(server, client, named)?;
        if let Some(session) = generic.session {
            server.sessions.touch(session, started)?;
        }
    }
    let operation = client.begin(OperationStart {
        id: next_operation_id(),
        command_name: command.name,
        database,
        command: if command.has_secrets { &[] } else { request.body.as_bytes() },
        session: generic.session,
        started,
    });
    if let Some(deadline) = time_limit(server, command, &generic).and_then(|limit| started.checked_add(limit))
    {
        client.interrupt.set_deadline(deadline, &server.timers);
    }
    let times = match request.began {
        Some(began) => request.times.with(Span::Parse, started.saturating_duration_since(began)),
        None => request.times,
    };
    let execution = match command.execution_of(request.body) {
        Execution::InlineFirst | Execution::BriefPool if request.bytes > wire::LONG_MESSAGE => {
            Execution::Pool
        }
        execution => execution,
    };
    // Written in one piece where the caller wants it: a context is large, and moving it costs more than most
    // commands.
    Ok(Prepared {
        context: CommandContext {
            server,
            client,
            command,
            name: first.name(),
            body: request.body,
            database,
            fields,
            generic,
            operation,
            started,
            exhaust_allowed: request.exhaust_allowed,
            next: None,
            source: server.node.source(),
            snapshot_time: None,
            receipts: N::Receipts::default(),
        },
        position,
        times,
        execution,
    })
}

/// The refusal that drivers with back-off understand.
fn overloaded(backoff: Duration) -> CommandError {
    let milliseconds = i32::try_from(backoff.as_millis()).unwrap_or(i32::MAX);
    let message = "the server is overloaded: the request was not run, try again later";
    CommandError::new(code::INGRESS_REQUEST_RATE_LIMIT_EXCEEDED, message)
        .with_label("SystemOverloadedError")
        .with_label("RetryableError")
        .with_extra(doc! { "baseBackoffMS": milliseconds })
}

/// The refusal of what would need memory that the process does not have.
fn memory_used_up() -> CommandError {
    let message =
        "the server has used up its memory (memoryLimitMB): the request was not run, try again later";
    CommandError::new(query::error::code::EXCEEDED_MEMORY_LIMIT, message)
}

fn unknown_command(request: &CommandRequest<'_>, name: &str) -> CommandError {
    if request.legacy_database.is_some() {
        let message =
            format!("Unsupported OP_QUERY command: {name}. The client driver may require an upgrade");
        return CommandError::new(code::UNSUPPORTED_OP_QUERY_COMMAND, message);
    }
    CommandError::new(code::COMMAND_NOT_FOUND, format!("no such command: '{name}'"))
}

/// Characters that a database name cannot have, and its greatest length in bytes.
const FORBIDDEN_IN_DATABASE: [char; 6] = ['/', '\\', '.', ' ', '"', '$'];
const DATABASE_NAME_MAX: usize = 63;

fn database<'a>(request: &CommandRequest<'a>, generic: &GenericArguments<'a>) -> CommandResult<&'a str> {
    let Some(name) = generic.database.or(request.legacy_database) else {
        return Err(CommandError::new(40571, "OP_MSG requests require a $db argument"));
    };
    let valid = !name.is_empty()
        && name.len() <= DATABASE_NAME_MAX
        && !name.contains(FORBIDDEN_IN_DATABASE)
        && !name.contains('\0');
    if valid || name == "$external" {
        return Ok(name);
    }
    Err(CommandError::new(code::INVALID_NAMESPACE, format!("Invalid database name: '{name}'")))
}

fn check_place<N: Node>(
    command: &Command<N>,
    database: &str,
    generic: &GenericArguments<'_>,
) -> CommandResult {
    if command.admin_only && database != "admin" {
        let message = format!("{} may only be run against the admin database.", command.name);
        return Err(CommandError::new(code::UNAUTHORIZED, message));
    }
    if generic.write_concern.is_some() && !command.takes_write_concern {
        return Err(CommandError::invalid_options("Command does not support writeConcern"));
    }
    Ok(())
}

fn observe_cluster_time<N: Node>(
    server: &ServiceContext<N>,
    command: &Command<N>,
    generic: &GenericArguments<'_>,
) -> CommandResult {
    match generic.cluster_time {
        None => Ok(()),
        Some(RawValue::Document(gossip)) => server.node.observe_cluster_time(cluster_time(gossip)?),
        Some(other) => Err(wrong_type(command.name, "$clusterTime", other.kind(), &["object"])),
    }
}

fn check_api<N: Node>(
    server: &ServiceContext<N>,
    command: &Command<N>,
    generic: &GenericArguments<'_>,
    fields: &Fields<'_>,
) -> CommandResult {
    let Some(version) = generic.api_version else {
        let is_required = !command.accepts_op_query && server.parameters.is_on(Parameter::RequireApiVersion);
        return match is_required {
            true => Err(CommandError::new(498_870, "The apiVersion parameter is required")),
            false => Ok(()),
        };
    };
    if version == ApiVersion::Two && !server.parameters.is_on(Parameter::AcceptApiVersion2) {
        return Err(CommandError::new(code::API_VERSION_ERROR, "API version must be \"1\""));
    }
    if generic.api_deprecation_errors && command.deprecated_in == Some(version) {
        let message = format!(
            "Provided apiDeprecationErrors:true, but the command {} is deprecated in API Version {}",
            command.name,
            version.name()
        );
        return Err(CommandError::new(code::API_DEPRECATION_ERROR, message));
    }
    if generic.api_strict { check_strictly(command, version, fields) } else { Ok(()) }
}

/// With `apiStrict`, only what the version has is taken.
fn check_strictly<N: Node>(command: &Command<N>, version: ApiVersion, fields: &Fields<'_>) -> CommandResult {
    let (name, version_name) = (command.name, version.name());
    if !command.is_in(version) {
        let message = format!(
            "Provided apiStrict:true, but the command {name} is not in API Version {version_name}. \
             Information on supported commands and migrations in API Version {version_name} can be found at \
             https://dochub.mongodb.org/core/manual-versioned-api"
        );
        return Err(CommandError::new(code::API_STRICT_ERROR, message));
    }
    match fields.rest().iter().find(|field| command.unstable_fields.contains(&field.name())) {
        None => Ok(()),
        Some(field) => {
            let message = format!("BSON field '{name}.{}' is not allowed with apiStrict:true.", field.name());
            Err(CommandError::new(code::API_STRICT_ERROR, message))
        }
    }
}

/// The time limit of a command.
fn time_limit<N: Node>(
    server: &ServiceContext<N>,
    command: &Command<N>,
    generic: &GenericArguments<'_>,
) -> Option<Duration> {
    match (command.time_limit, generic.max_time) {
        (TimeLimit::Own, _) => None,
        (TimeLimit::GivenOrDefault, None) => {
            let default = server.parameters.unsigned(Parameter::MaxTimeMs);
            (default > 0).then(|| Duration::from_millis(default))
        }
        (_, given) => given,
    }
}

async fn run<'a, N: Node>(
    server: &Arc<ServiceContext<N>>,
    prepared: &mut Prepared<'a, N>,
    chosen: &'a OnceLock<N::Source>,
    reply: &mut Vec<u8>,
    outcome: &mut CommandOutcome,
) -> CommandResult {
    let Prepared { context, position, times, execution } = prepared;
    let mut _turn = None;
    if server.access.is_enforced() {
        let mut authorization = is_authorized(context, *position)?;
        if authorization == Authorization::Outdated {
            authorization = Box::pin(authorize(context, *position)).await?;
        }
        // Diagnostics have no turn: who looks at what runs, and ends it, does not wait behind it.
        if authorization == Authorization::InTurn && !execution.is_diagnostic() {
            _turn = Box::pin(begin_operation(context)).await?;
        }
    }
    if server.host.audit.is_some() && server.access.is_enforced() {
        Box::pin(audit::allowed(context, *position)).await;
    }
    match execution {
        Execution::Diagnostic | Execution::InlineFirst => {}
        Execution::BriefPool => context.offload_briefly().await,
        Execution::DiagnosticPool | Execution::Pool => context.offload().await,
    }
    let command = context.command;
    server.count(command.class);
    let statistics = server.statistics_of(*position);
    if let Some(statistics) = statistics {
        statistics.total.add(1);
    }
    let result = run_with_faults(server, context, chosen, reply).await;
    if server.host.audit.is_some() {
        Box::pin(audit::ended(context, result.as_ref().err())).await;
    }
    if result.is_err()
        && let Some(statistics) = statistics
    {
        statistics.failed.add(1);
    }
    outcome.next = context.next.take();
    outcome.slow = report(server, context, times, result.as_ref().err());
    result
}

async fn run_with_faults<'a, N: Node>(
    server: &Arc<ServiceContext<N>>,
    context: &mut CommandContext<'a, N>,
    chosen: &'a OnceLock<N::Source>,
    reply: &mut Vec<u8>,
) -> CommandResult {
    if !server.failpoints.is_quiet() {
        Box::pin(faults_before(server, context)).await?;
    }
    if context.generic.read_concern.waits() {
        Box::pin(await_read_concern(context)).await?;
    }
    if let Some(wanted) = freshness::wanted(context) {
        Box::pin(await_freshness(context, wanted)).await?;
    }
    // After the wait: what was waited for is in it.
    let is_snapshot = context.generic.read_concern.level == ReadConcernLevel::Snapshot;
    if is_snapshot && context.command.class != OperationClass::GetMore {
        if context.generic.read_concern.at.is_some() {
            context.offload().await;
        }
        let (source, time) = server.node.snapshot(context.generic.read_concern.at)?;
        context.source = chosen.get_or_init(|| source);
        context.snapshot_time = Some(time);
    } else if let Some(source) = server.node.source_of_secondary(context.database) {
        context.source = chosen.get_or_init(|| source);
    }
    let mut builder = DocumentBuilder::new(reply);
    let result = run_guarded(context, &mut builder).await;
    let concern = context.generic.write_concern.as_ref();
    let awaits = context.command.takes_write_concern && server.node.awaits(concern, context.database);
    let unmet = match awaits {
        // In a box: few commands wait, and all have room for what is in theirs.
        true => Box::pin(await_write_concern(context)).await,
        false => None,
    };
    let faults = match server.failpoints.is_quiet() {
        true => None,
        false => Box::pin(faults_after(context)).await,
    };
    match (result, &faults.or(unmet)) {
        (Ok(()), Some(fields)) => {
            builder.append_fields(fields);
            label_write_concern_error(context, fields, &mut builder);
        }
        (Ok(()), None) => {}
        (Err(error), Some(fields)) => return Err(error.with_more(fields)),
        (Err(error), None) => return Err(error),
    }
    builder.append("ok", 1.0);
    append_times(server, &mut builder);
    Ok(())
}

async fn faults_before<N: Node>(
    server: &ServiceContext<N>,
    context: &CommandContext<'_, N>,
) -> CommandResult {
    if context.command.name != "configureFailPoint" {
        failpoints::check_time_limit(server, context.interrupt())?;
    }
    let command = context.command;
    let reads = command.on_secondary == OnSecondary::IfAllowed || command.class == OperationClass::GetMore;
    let held = FailPoint::HoldReadsDuringBatchApplication;
    if server.failpoints.enter(held, |_| reads.then_some(())).is_some() {
        server.node.between_batches().await;
    }
    failpoints::fail_before(context).await
}

/// What fail points add to the reply.
async fn faults_after<N: Node>(context: &CommandContext<'_, N>) -> Option<Document> {
    let fields = failpoints::fail_write_concern(context);
    failpoints::wait_at_end(context).await;
    fields
}

/// Runs the command; a panic ends it with an error and nothing else.
async fn run_guarded<N: Node>(
    context: &mut CommandContext<'_, N>,
    reply: &mut DocumentBuilder<'_>,
) -> CommandResult {
    if context.generic.help {
        let help = format!("help for: {} {}", context.command.name, context.command.help);
        reply.append("help", help.as_str());
        return Ok(());
    }
    match &context.command.run {
        Run::Now(run) => {
            let run = *run;
            let _watched = watch(Arc::<Client>::clone(context.client));
            catch_unwind(AssertUnwindSafe(|| run(context, reply))).unwrap_or_else(|_| Err(panicked()))
        }
        Run::Later(run) => {
            let client = Arc::clone(context.client);
            let mut future = pin!(run(context, reply));
            poll_fn(|task| {
                let _watched = watch(Arc::<Client>::clone(&client));
                catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(task)))
                    .unwrap_or_else(|_| Poll::Ready(Err(panicked())))
            })
            .await
        }
    }
}

fn panicked() -> CommandError {
    CommandError::internal("an assertion of the server failed; the log tells where")
}

/// Counts the time, logs failed commands and prepares the log line of slow ones.
fn report<N: Node>(
    server: &ServiceContext<N>,
    context: &CommandContext<'_, N>,
    times: &SpanTimes,
    error: Option<&CommandError>,
) -> Option<Box<SlowOperation>> {
    let took = ambient::elapsed(context.started);
    let commit_wait = N::waited(&context.receipts);
    let offload_wait = context.client.link.offload_wait();
    let working = took.saturating_sub(offload_wait);
    let execute = working.saturating_sub(commit_wait);
    server.spans.record([(Span::Parse, times.of(Span::Parse)), (Span::Execute, execute)]);
    if !commit_wait.is_zero() {
        server.spans.record([(Span::CommitWait, commit_wait)]);
    }
    server.latencies.add(context.command.latency_class.unwrap_or(context.command.class), took);
    context.operation.with_namespace(|namespace| {
        let exists = |namespace: &str| {
            let names = namespace.split_once('.');
            names.is_some_and(|(database, name)| server.node.has_collection(database, name))
        };
        server.usage.add(namespace, context.command.class, took, exists);
    });
    if let Some(error) = error
        && error.code == code::INTERNAL_ERROR
        && !error.closes_connection
    {
        server.counters.regular_asserts.add(1);
        tracing::error!(target: "COMMAND", id = 20_631, command = context.command.name, errmsg = %error,
            "Command failed");
    }
    let slow = Duration::from_millis(server.parameters.unsigned(Parameter::SlowMilliseconds));
    if working < slow || matches!(context.command.name, "hello" | "isMaster") {
        return None;
    }
    let namespace = context.operation.with_namespace(str::to_owned);
    Some(Box::new(SlowOperation {
        client: context.client.description(),
        remote: context.client.remote.clone(),
        application: context.client.application_name().map(str::to_owned),
        namespace: namespace.unwrap_or_else(|| format!("{}.$cmd", context.database)),
        command: context.command.name,
        error_code: error.map_or(0, |error| error.code),
        times: times
            .with(Span::Queue, times.of(Span::Queue) + offload_wait)
            .with(Span::Execute, execute)
            .with(Span::CommitWait, commit_wait),
        duration: took,
        working,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::CommandTable;
    use crate::host::Detached;
    use document::{RawDocument, doc};

    /// Runs a command on a fresh server and compares the named fields of the reply.
    fn check(command: Document, expect: Document) {
        let server = crate::testing::server();
        let client = Arc::new(Client::new(1, "test", Arc::new(Detached)));
        let command = command.to_buf();
        let mut reply = Vec::new();
        let request = CommandRequest::new(command.as_raw());
        let mut task = std::task::Context::from_waker(std::task::Waker::noop());
        let Poll::Ready(_) = pin!(dispatch(&server, &client, request, &mut reply)).poll(&mut task) else {
            panic!("the command has nothing to wait for");
        };
        let reply = RawDocument::parse(&reply).expect("a reply is a valid document").to_document();
        for (name, value) in expect.iter() {
            assert_eq!(reply.get(name), Some(value), "{name} in {reply:?}");
        }
        assert!(client.operation().is_none(), "the operation is over");
    }

    fn fails(command: Document, code: i32, message: &str) {
        check(
            command,
            doc! { "ok": 0.0, "errmsg": message, "code": code, "codeName": (&*wire::code_name(code)) },
        );
    }

    #[test]
    fn commands_answer() {
        check(doc! { "ping": 1, "$db": "admin" }, doc! { "ok": 1.0 });
        check(
            doc! { "hello": 1, "$db": "admin", "helloOk": true },
            doc! { "isWritablePrimary": true, "ok": 1.0 },
        );
        check(
            doc! { "ismaster": 1, "$db": "admin" },
            doc! { "ismaster": true, "maxWireVersion": 21, "ok": 1.0 },
        );
    }

    #[test]
    fn what_is_common_to_all_commands_is_checked() {
        fails(doc! { "nonsense": 1, "$db": "db" }, 59, "no such command: 'nonsense'");
        fails(doc! { "ping": 1, "$db": "db", "foo": 1 }, 40415, "BSON field 'ping.foo' is an unknown field.");
        fails(doc! { "ping": 1 }, 40571, "OP_MSG requests require a $db argument");
        fails(doc! { "ping": 1, "$db": "a.b" }, 73, "Invalid database name: 'a.b'");
        fails(doc! { "ping": 1, "$db": "a", "apiVersion": "3" }, 322, "API version must be \"1\"");
        let strict = doc! { "buildInfo": 1, "$db": "a", "apiVersion": "1", "apiStrict": true };
        let message = "Provided apiStrict:true, but the command buildInfo is not in API Version 1. \
             Information on supported commands and migrations in API Version 1 can be found at \
             https://dochub.mongodb.org/core/manual-versioned-api";
        fails(strict, 323, message);
        fails(doc! { "ping": 1, "$db": "a", "apiVersion": "2" }, 322, "API version must be \"1\"");
        let concern = doc! { "ping": 1, "$db": "a", "writeConcern": { "w": 1 } };
        fails(concern, 72, "Command does not support writeConcern");
    }

    #[test]
    fn every_command_helps() {
        for command in CommandTable::<()>::of_node().iter().filter(|command| !command.only_for_tests) {
            let expect = format!("help for: {} {}", command.name, command.help);
            let mut asked = Document::new();
            asked.push(command.name, 1);
            asked.extend(doc! { "help": true, "$db": "test" });
            check(asked, doc! { "help": (expect.as_str()), "ok": 1.0 });
        }
        check(doc! { "hello": 1, "$db": "admin", "help": false }, doc! { "isWritablePrimary": true });
    }

    #[test]
    fn a_stranger_cannot_make_it_fail() {
        fails(Document::new(), 59, "no such command: ''");
    }
}
