//! Workloads as they are described and as they are sent.

use crate::generator::Share;
use crate::message::reply_body;
use crate::workload::chi_square::fits;
use crate::workload::model::Bounds;
use crate::workload::{Concerns, Documents, Settings, WorkloadFile, WorkloadSource};
use document::Document;

fn named(name: &str) -> Settings {
    Settings { workload: Some(name.to_owned()), ..Settings::default() }
}

fn source(settings: &Settings) -> WorkloadSource {
    WorkloadSource::new(settings, &Concerns::default()).expect("a workload")
}

/// The first messages of a thread.
fn sent(source: &WorkloadSource, share: Share, count: usize) -> Vec<Document> {
    let mut traffic = source.traffic(share);
    let mut next = || {
        let mut message = Vec::new();
        traffic.next(&mut message);
        assert_eq!(message[..4], (message.len() as u32).to_le_bytes(), "the length of the message");
        reply_body(&message).expect("an OP_MSG").to_document()
    };
    (0..count).map(|_| next()).collect()
}

fn file(text: &str) -> Result<crate::workload::Workload, String> {
    let file = WorkloadFile { path: "w.toml".to_owned(), text: text.to_owned() };
    Settings { file: Some(file), ..Settings::default() }.build().map_err(|error| error.to_string())
}

#[test]
fn documents_have_the_size_that_was_asked_for() {
    for name in ["a", "point-read", "ttl-insert"] {
        for (bytes, fields) in [(400, 5), (1_024, 10), (5_000, 1 + u32::from(name != "a")), (20_000, 100)] {
            let settings = Settings { document_bytes: Some(bytes), fields: Some(fields), ..named(name) };
            let workload = settings.build().expect("a workload");
            assert_eq!(workload.document.len() as u32, fields + 1, "{name}: fields beside _id");
            let (least, most) = Documents::new(&workload, 1).sizes();
            // YCSB's hashed keys have 16 to 19 digits.
            assert!(most <= bytes && least + 5 >= bytes, "{name}: {least} to {most} instead of {bytes}");
        }
    }
    let ycsb = Documents::new(&named("a").build().expect("a workload"), 1).sizes();
    assert!((1_100..1_200).contains(&ycsb.0), "ten fields of 100 bytes make {ycsb:?}");
}

#[test]
fn corpora_have_documents_as_they_are_found() {
    for (name, sizes) in [("events", 350..1_200), ("orders", 600..4_000), ("repositories", 3_000..6_000)] {
        let workload = named(name).build().expect("a workload");
        let documents = Documents::new(&workload, 1);
        let (least, most) = documents.sizes();
        assert!(sizes.contains(&least) && sizes.contains(&most), "{name}: {least} to {most}");
        let mut bytes = Vec::new();
        documents.write(7, &mut bytes);
        document::RawDocument::parse(&bytes).expect("valid BSON");
        let reads = Settings { mix: Some("read=1".to_owned()), ..named(name) }.build().expect("a workload");
        assert_eq!(reads.mix(), [("read".to_owned(), 1.0), ("insert".to_owned(), 0.0)]);
    }
    let wrong = Settings { mix: Some("scan=1".to_owned()), ..named("events") }.build();
    assert!(wrong.expect_err("refused").to_string().contains("unknown operation 'scan'"));
    let wrong = Settings { document_bytes: Some(100), ..named("events") }.build();
    assert!(wrong.expect_err("refused").to_string().contains("say themselves"));
}

#[test]
fn a_documents_content_follows_from_seed_and_number() {
    let workload = named("a").build().expect("a workload");
    let write = |seed, number| {
        let mut bytes = Vec::new();
        Documents::new(&workload, seed).write(number, &mut bytes);
        bytes
    };
    assert_eq!(write(1, 5), write(1, 5));
    assert_ne!(write(1, 5), write(2, 5));
    assert_ne!(write(1, 5), write(1, 6));
}

#[test]
fn operations_come_in_proportion_to_their_weights() {
    let settings =
        Settings { mix: Some("read=50,update=30,range-10=19,insert=1".to_owned()), ..Settings::default() };
    let commands = sent(&source(&settings), Share::whole(3), 20_000);
    let of = |wanted: &str, ranges: bool| {
        let is_range = |command: &Document| command.contains("projection") == ranges;
        let is_wanted = |command: &&Document| command.contains(wanted) && is_range(command);
        commands.iter().filter(is_wanted).count() as u64
    };
    let counts = [of("find", false), of("update", false), of("find", true), of("insert", false)];
    fits(&counts, &[50.0, 30.0, 19.0, 1.0], "operations of the mix");
}

#[test]
fn another_process_sends_the_same_as_described() {
    let settings = named("a");
    let text = serde_json::to_string(&source(&settings)).expect("JSON");
    let described: WorkloadSource = serde_json::from_str(&text).expect("reads its own description");
    let share = Share { index: 1, of: 4, seed: 9 };
    assert_eq!(sent(&described, share, 50), sent(&source(&settings), share, 50));
    assert_ne!(sent(&source(&settings), Share::whole(10), 50), sent(&source(&settings), Share::whole(9), 50));
}

#[test]
fn inserts_of_all_threads_and_processes_have_keys_of_their_own() {
    let settings = named("insert-only");
    let mut keys = Vec::new();
    for process in 0..2 {
        let source = source(&settings);
        for thread in 0..2 {
            let share = Share { index: process * 2 + thread, of: 4, seed: 1 };
            for command in sent(&source, share, 100) {
                let documents =
                    command.get("documents").and_then(|value| value.as_array()).expect("documents");
                keys.push(format!(
                    "{:?}",
                    documents[0].as_document().and_then(|one| one.get("_id")).expect("_id")
                ));
            }
        }
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 400);
}

#[test]
fn a_file_is_understood() {
    let text = r#"
        name = "mine"
        records = 10
        [document]
        a = { gen = "string", length = 5 }
        [[operations]]
        name = "count"
        command = { count = "documents", query = { a = { "$gt" = "m" } } }
        expect = { n = [0, 10] }
    "#;
    let workload = file(text).expect("a workload");
    assert_eq!((workload.name.as_str(), workload.records(), workload.operations.len()), ("mine", 10, 1));
    assert_eq!(workload.operations[0].steps[0].expect.n, Some(Bounds::Between(0, 10)));
}

#[test]
fn mistakes_in_a_file_are_told_with_their_line() {
    let operation = "[[operations]]\nname = \"x\"\ncommand = { ping = 1 }\n";
    let check = |text: &str, expect: &str| match file(text) {
        Err(problem) => assert!(problem.contains(expect) && !problem.contains('\n'), "{text}: {problem}"),
        Ok(workload) => panic!("{text} passed: {workload:?}"),
    };
    check("name = ", "w.toml:1: ");
    check("name = 5", "w.toml:1: invalid type: integer `5`, expected a string");
    check("\nrecords = -1", "w.toml:2: invalid value: integer `-1`, expected u64");
    check("name = \"x\"", "w.toml:1: missing field `operations`");
    check(&format!("nmae = 1\n{operation}"), "w.toml:1: unknown field `nmae`, expected one of `name`");
    let headed = |rest: &str| format!("[[operations]]\n{rest}");
    check(&headed("name = \"x\"\n"), "w.toml:1: an operation has either 'command' or up to 255 'steps'");
    check(&headed("command = { ping = 1 }\n"), "w.toml:1: missing field `name`");
    check(&format!("{operation}{operation}"), "two operations are called 'x'");
    check(
        &format!("{operation}expect = {{ m = 1 }}\n"),
        "w.toml:4: unknown field `m`, expected `n` or `documents`",
    );
    check(&format!("{operation}weight = -1\n"), "the weight of 'x' is -1");
    check(&format!("distribution = \"odd\"\n{operation}"), "w.toml:1: 'odd' is not uniform");
    check(&format!("{operation}followers = 3\n"), "are for operations that use { gen = \"key\" }");
    check(
        &format!("key = \"guid\"\n{operation}"),
        "w.toml:1: expected 'number', 'text:PREFIX' or 'hashed:PREFIX'",
    );
    let field = |value: &str| format!("[document]\na = {value}\n{operation}");
    check(&field("{ gen = \"magic\" }"), "w.toml:2: unknown variant `magic`, expected one of `key`");
    check(&field("{ gen = \"integer\", min = 3, max = 1 }"), "w.toml:2: 'max' is below 'min'");
    check(&field("{ gen = \"integer\", min = 3 }"), "w.toml:2: missing field `max`");
    check(&field("{ gen = \"string\", length = 99999999 }"), "a length of at most 16777216 is possible");
    check(&field("{ gen = \"string\", min = 1 }"), "w.toml:2: expected 'length', or 'min' and 'max'");
    check(&field("{ gen = \"choice\", of = [] }"), "w.toml:2: there is nothing to choose from");
    check(&field("{ gen = \"choice\", of = [1], weights = [0] }"), "w.toml:2: expected a weight from 0");
    check(&field("{ gen = \"uuid\", version = 4 }"), "w.toml:2: unknown field `version`");
    check(&field("{ gen = \"document\" }"), "a document cannot hold itself");
    check(&format!("[document]\n_id = 1\n{operation}"), "'_id' is made from the document's number");
    check(&format!("[[indexes]]\nname = \"x\"\n{operation}"), "w.toml:1: an index has a table 'key'");
}
