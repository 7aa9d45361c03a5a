//! Whole runs and loads against servers under the tests' control.

use crate::command::complaint;
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::result::{LoadPhase, RunResult};
use crate::rig::Rig;
use crate::run::arguments::RunArguments;
use crate::run::document_server::{DocumentServer, Store};
use crate::run::load_phase::{LoadMode, LoadReport, load};
use crate::run::progress::ProgressLine;
use crate::run::{execute, run};
use crate::workload::{Settings, Workload};
use clap::{Command, FromArgMatches};

const RECORDS: u64 = 5_000;

fn arguments(words: &[&str]) -> Result<RunArguments, clap::Error> {
    let line = std::iter::once("run").chain(words.iter().copied());
    let command = <RunArguments as clap::Args>::augment_args(Command::new("run"));
    RunArguments::from_arg_matches(&command.try_get_matches_from(line)?)
}

fn measure_with(server: &DocumentServer, words: &str, rig: &Rig) -> Result<RunResult, BenchError> {
    let arguments = arguments(&words.split(' ').collect::<Vec<_>>()).expect("options");
    execute(&arguments.plan, &server.uri(), None, rig, &mut ProgressLine::new())
}

fn measure(server: &DocumentServer, words: &str) -> RunResult {
    measure_with(server, words, &Rig::default()).unwrap_or_else(|error| panic!("{words}: {error}"))
}

fn workload(name: &str) -> Workload {
    let settings =
        Settings { workload: Some(name.to_owned()), records: Some(RECORDS), ..Settings::default() };
    settings.build().expect("a workload")
}

fn load_into(server: &DocumentServer, mode: LoadMode) -> Result<LoadReport, BenchError> {
    load_until(server, mode, &Interrupt::default())
}

fn load_until(
    server: &DocumentServer,
    mode: LoadMode,
    interrupt: &Interrupt,
) -> Result<LoadReport, BenchError> {
    load(&workload("c"), server.server.address, mode, 3, 7, interrupt, &mut |_| ())
}

fn load_phase(server: &DocumentServer, mode: LoadMode) -> LoadPhase {
    load_into(server, mode).expect("loads").phase.expect("a phase")
}

fn errors(result: &RunResult) -> Vec<(String, Option<i32>, u64)> {
    let errors = result.repetitions.iter().flat_map(|repetition| &repetition.total.errors);
    errors
        .map(|(error, &count)| (format!("{}: {}", error.kind.name(), error.name), error.code, count))
        .collect()
}

#[test]
fn everything_is_loaded_once() {
    let server = DocumentServer::start(Store::default());
    let phase = load_phase(&server, LoadMode::Resume);
    assert_eq!((phase.documents, phase.already_there, server.count()), (RECORDS, 0, RECORDS as usize));
    assert_eq!(server.times("look"), 0, "an empty collection is not searched");
    assert!(server.store.lock().expect("no panic").documents.contains_key("user6284781860667377211"));
    let again = load_phase(&server, LoadMode::Resume);
    assert_eq!((again.documents, again.already_there, server.count()), (0, RECORDS, RECORDS as usize));
}

#[test]
fn a_load_that_the_server_did_not_survive_is_resumed() {
    let server = DocumentServer::start(Store { dies_at: Some(2_000), ..Store::default() });
    let died = load_into(&server, LoadMode::Resume);
    assert!(died.is_err(), "the server was gone: {died:?}");
    let first = server.count() as u64;
    assert!((2_000..RECORDS).contains(&first), "{first} documents before the server died");
    server.change(|store| store.dies_at = None);
    let phase = load_phase(&server, LoadMode::Resume);
    assert_eq!((phase.documents, phase.already_there), (RECORDS - first, first));
    assert_eq!(server.count() as u64, RECORDS);
}

#[test]
fn an_interrupted_load_is_resumed() {
    let interrupt = Interrupt::default();
    let raised = interrupt.clone();
    let server = DocumentServer::watched(Store::default(), move |store| {
        if store.documents.len() >= 2_000 {
            raised.raise();
        }
    });
    let ended = load_until(&server, LoadMode::Resume, &interrupt);
    assert!(matches!(ended, Err(BenchError::Interrupted)), "{ended:?}");
    let first = server.count() as u64;
    assert!((2_000..RECORDS).contains(&first), "{first} documents before the interrupt");
    load_into(&server, LoadMode::Resume).expect("loads");
    assert_eq!(server.count() as u64, RECORDS);
}

#[test]
fn holes_among_many_inserted_documents_are_found() {
    let server = DocumentServer::start(Store::default());
    load_into(&server, LoadMode::Resume).expect("loads");
    server.change(|store| {
        store.documents.remove("user6284781860667377211").expect("the first document");
        for number in 0..10 {
            let key = format!("user-of-another-run-{number}");
            store.documents.insert(key.clone(), document::doc! { "_id": (key.as_str()) });
        }
    });
    let phase = load_phase(&server, LoadMode::Resume);
    assert_eq!((phase.documents, phase.already_there), (1, RECORDS - 1), "the count alone tells nothing");
}

#[test]
fn a_fresh_load_drops_what_is_there_and_skipping_warns() {
    let server = DocumentServer::start(Store::default());
    let skipped = load_into(&server, LoadMode::Skip).expect("skips");
    assert!(skipped.phase.is_none() && server.count() == 0);
    assert!(
        skipped.warnings.concat().contains("holds 0 documents, and the workload is about 5000"),
        "{skipped:?}"
    );
    load_into(&server, LoadMode::Resume).expect("loads");
    let phase = load_phase(&server, LoadMode::Fresh);
    assert_eq!((phase.documents, server.times("drop")), (RECORDS, 1));
}

#[test]
fn overload_is_waited_for_and_refusals_are_told() {
    let server = DocumentServer::start(Store { overloads: 2, ..Store::default() });
    load_into(&server, LoadMode::Resume).expect("loads after a pause");
    assert_eq!(server.count() as u64, RECORDS);
    let server = DocumentServer::start(Store { refuses_with: Some(13), ..Store::default() });
    let refused = load_into(&server, LoadMode::Resume).expect_err("refused").to_string();
    assert!(refused.contains("13"), "{refused}");
}

#[test]
fn documents_of_another_size_are_pointed_out() {
    let server = DocumentServer::start(Store::default());
    load_into(&server, LoadMode::Resume).expect("loads");
    let words = "--workload c --records 100 --operations 10 --document-bytes 5000";
    let warnings = measure(&server, words).warnings.concat();
    assert!(warnings.contains("--load fresh"), "{warnings}");
}

#[test]
fn a_run_counts_what_the_server_saw() {
    let server = DocumentServer::start(Store::default());
    let words = "--workload a --records 500 --operations 3000 --connections 8 --threads 2";
    let result = measure(&server, words);
    let repetition = &result.repetitions[0];
    assert_eq!(errors(&result), []);
    assert_eq!(repetition.total.operations, 3_000, "operations without a duration have no duration");
    let of = |name: &str| repetition.kinds.iter().find(|kind| kind.name == name).expect("a kind").operations;
    assert_eq!((of("read"), of("update")), (server.times("find"), server.times("update")));
    // Six standard deviations of 3,000 fair coins are 164; the seed decides once and for all.
    assert!((1_336..=1_664).contains(&of("read")), "half of them are reads: {}", of("read"));
    assert_eq!((result.workload.record_count, result.load.connections), (500, 8));
    assert_eq!(result.load_phase.as_ref().map(|phase| phase.documents), Some(500));
    assert_eq!((repetition.connections.asked, repetition.connections.opened), (8, 8));
}

#[test]
fn every_named_workload_runs_without_an_error() {
    for name in
        ["a", "b", "c", "d", "e", "f", "point-read", "range-20", "insert-only", "update-only", "ttl-insert"]
    {
        let server = DocumentServer::start(Store::default());
        let inserts = name.ends_with("insert") || name == "insert-only";
        let records = if inserts { "0" } else { "300" };
        let words = format!("--workload {name} --records {records} --operations 600 --connections 4");
        let result = measure(&server, &words);
        assert_eq!(errors(&result), [], "{name}");
        assert_eq!(result.repetitions[0].total.operations, 600, "{name}");
        assert_eq!(
            server.store.lock().expect("no panic").indexes.len(),
            usize::from(name == "ttl-insert"),
            "{name}"
        );
    }
}

#[test]
fn repetitions_insert_documents_of_their_own() {
    let server = DocumentServer::start(Store::default());
    let words = "--workload insert-only --operations 200 --repetitions 3 --connections 4";
    let result = measure(&server, words);
    assert_eq!(errors(&result), []);
    assert_eq!((result.repetitions.len(), server.count()), (3, 600));
}

#[test]
fn failed_inserts_are_never_asked_for() {
    let server = DocumentServer::start(Store::default());
    let load = "--workload d --records 200 --load-only";
    measure(&server, load);
    server.change(|store| store.refuses_with = Some(112));
    let result = measure(&server, "--workload d --records 200 --operations 2000");
    let inserts = server.times("insert") - 1;
    assert!(inserts > 20, "{inserts} inserts");
    assert_eq!(
        errors(&result),
        [("write: WriteConflict".to_owned(), Some(112), inserts)],
        "all reads found their documents"
    );
}

#[test]
fn reads_that_find_nothing_and_updates_that_match_nothing_are_errors() {
    let server = DocumentServer::start(Store::default());
    let words = "--workload a --records 100 --operations 200 --load skip";
    let result = measure(&server, words);
    assert_eq!(result.repetitions[0].total.operations, 0);
    let found = errors(&result);
    let of = |name: &str| found.iter().find(|(error, ..)| error == name).map_or(0, |(.., count)| *count);
    let (reads, updates) = (of("unexpected: 0 documents, not 1"), of("unexpected: n is 0, not 1"));
    assert_eq!(
        (reads, updates, reads + updates),
        (server.times("find"), server.times("update"), 200),
        "{found:?}"
    );
}

#[test]
fn an_interrupted_run_has_the_results_so_far() {
    let rig = Rig::default();
    let raised = rig.interrupt.clone();
    let server = DocumentServer::watched(Store::default(), move |store| {
        if store.commands.get("find").is_some_and(|times| *times >= 300) {
            raised.raise();
        }
    });
    let words = "--workload c --records 50 --duration 3600 --warm-up 0 --connections 2";
    let result = measure_with(&server, words, &rig).expect("what was seen until then");
    let operations = result.repetitions[0].total.operations;
    assert!(
        result.interrupted && (298..=server.times("find")).contains(&operations),
        "{operations} operations"
    );
    assert!(result.repetitions[0].elapsed_seconds < 3_000.0, "only what was measured counts");
}

#[test]
fn a_collection_is_dropped_at_the_end_only_when_asked_to() {
    let server = DocumentServer::start(Store::default());
    let words = "--workload c --records 50 --operations 10";
    measure(&server, words);
    assert_eq!(server.count(), 50);
    measure(&server, &format!("{words} --drop"));
    assert_eq!(server.count(), 0);
}

#[test]
fn the_example_of_a_workload_file_runs() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench-workload.toml");
    let server = DocumentServer::start(Store::default());
    let words = format!("--file {file} --records 400 --operations 1000 --connections 4");
    let result = measure(&server, &words);
    assert_eq!(errors(&result), []);
    let repetition = &result.repetitions[0];
    assert_eq!((repetition.kinds.len(), repetition.total.operations), (4, 1_000));
    let placed =
        repetition.kinds.iter().find(|kind| kind.name == "place an order").expect("a kind").operations;
    assert!(placed > 0, "some orders were placed");
    assert_eq!(server.count() as u64, 400 + placed);
    let store = server.store.lock().expect("no panic");
    assert_eq!(store.indexes.len(), 1);
    let order = store.documents.get("order-7").expect("keys are as the file says");
    let names: Vec<&str> = order.iter().map(|(name, _)| name).collect();
    let expect = [
        "_id",
        "number",
        "customer",
        "state",
        "placed",
        "total",
        "gift",
        "reference",
        "note",
        "address",
        "lines",
        "source",
    ];
    assert_eq!(names, expect);
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let no_toml = directory.path().join("no.toml");
    std::fs::write(&no_toml, "name = \n").expect("a file");
    let no_toml = no_toml.to_str().expect("a name");
    for (words, expect) in [
        (&["localhost:27017"][..], "expected mongodb://host"),
        (&["--workload", "z"], "unknown workload 'z'; there are a, b, c"),
        (&["--mix", "read"], "--mix 'read' is not an operation and its weight"),
        (&["--mix", "fly=1"], "unknown operation 'fly'"),
        (&["--mix", "read=0"], "has no operation with a weight above 0"),
        (&["--mix", "read=1,read=2"], "names 'read' twice"),
        (&["--workload", "c", "--records", "0"], "there are none: give --records"),
        (&["--distribution", "normal"], "--distribution 'normal' is not uniform"),
        (&["--connections", "0"], "'--connections <N>': 0 is not in 1..=10000000"),
        (&["--threads", "0"], "'--threads <N>': 0 is not in 1.."),
        (&["--repetitions", "0"], "'--repetitions <N>': 0 is not in 1.."),
        (&["--operations", "0"], "'--operations <N>': 0 is not in 1.."),
        (&["--rate", "0"], "'--rate <N>': expected operations a second, above 0"),
        (&["--rate", "-5"], "'--rate <N>': expected operations a second, above 0"),
        (&["--schedule", "10s"], "'--schedule <SCHEDULE>': "),
        (&["--duration", "-1"], "'--duration <TIME>': no time"),
        (&["--duration", "0"], "'--duration <TIME>': it must be above 0"),
        (&["--duration", "soon"], "'--duration <TIME>': no time"),
        (&["--warm-up", "-1s"], "'--warm-up <TIME>': no time"),
        (&["--opening", "never"], "it is not before, storm"),
        (&["--phases", "5s"], "expected two times"),
        (&["--document-bytes", "50"], "--document-bytes 50: 10 fields need at least"),
        (&["--fields", "0"], "--fields 0: from 1 to 10000"),
        (&["--ttl", "9s,3s"], "the second time is below the first"),
        (&["--compressors", "lz4"], "'lz4' is not one of snappy"),
        (&["--read-preference", "tertiary"], "'tertiary' is not one of primary"),
        (&["--file", "/nowhere.toml"], "cannot read the workload file: "),
        (&["--file", no_toml], "no.toml:1: "),
        (&["--json", "/nowhere/result.json"], "there is no directory /nowhere"),
    ] {
        let text = match arguments(words) {
            Err(error) => complaint(&error),
            Ok(arguments) => match run(&arguments) {
                Err(error @ BenchError::Usage(_)) => error.to_string(),
                other => panic!("{words:?}: {other:?} instead of '{expect}'"),
            },
        };
        assert!(text.contains(expect) && !text.contains('\n'), "{words:?}: {text}");
    }
}
