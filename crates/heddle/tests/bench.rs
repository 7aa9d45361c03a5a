//! `heddle bench` as its users run it, with few connections and for moments: every experiment under every
//! thread model, without a single failed request; and its end when it is interrupted or told nonsense.

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const MODELS: &[&str] = &["synchronous", "adaptive", "reactor", "coroutine", "auto"];

fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heddle"));
    command.arg("bench").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(arguments: &[&str]) -> Output {
    bench(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs an experiment on all models and checks that every cell of every kind has figures and no errors.
fn check_experiment(experiment: &str, further: &[&str], kinds: &[&str], models: &[&str]) {
    let out = tempfile::tempdir().expect("a temporary directory");
    let directory = out.path().to_string_lossy();
    let models_list = models.join(",");
    let mut arguments = vec!["article", experiment, "--models", &models_list, "--connections", "4"];
    arguments.extend(["--rounds", "1", "--seconds", "0.2", "--warm-up", "0", "--documents", "300"]);
    arguments.extend(["--out", &directory]);
    arguments.extend(further);
    let output = run(&arguments);
    let (printed, told) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{experiment} ends with {}:\n{printed}\n{told}", output.status);
    let file = out.path().join(format!("{experiment}.json"));
    let report = std::fs::read_to_string(&file).expect("a JSON file");
    let report: Value = serde_json::from_str(&report).expect("valid JSON");
    let cells = report.get("cells").and_then(Value::as_array).expect("cells");
    assert_eq!(cells.len(), kinds.len() * models.len(), "cells of {experiment}:\n{printed}");
    for cell in cells {
        check_cell(cell, kinds);
    }
    check_table(out.path(), experiment, models);
}

fn check_cell(cell: &Value, kinds: &[&str]) {
    assert!(kinds.contains(&cell["kind"].as_str().unwrap_or_default()), "an unknown kind: {cell}");
    for round in cell["rounds"].as_array().expect("rounds") {
        assert_eq!(round["failure"], Value::Null, "not measured: {cell}");
        assert_eq!(round["errors"], Value::Object(serde_json::Map::new()), "failed requests: {cell}");
        let figures = round["figures"].as_object().expect("figures");
        let rates = figures.iter().filter(|(name, _)| name.ends_with("/s"));
        for (name, rate) in rates {
            assert!(rate.as_f64().is_some_and(|rate| rate > 0.0), "{name} is nothing: {cell}");
        }
    }
}

fn check_table(directory: &Path, experiment: &str, models: &[&str]) {
    let table = std::fs::read_to_string(directory.join(format!("{experiment}.md"))).expect("a table");
    for model in models {
        assert!(table.contains(&format!("| {model} ")), "{model} has no row:\n{table}");
    }
}

#[test]
fn s0_measures_every_kind_under_every_model() {
    let kinds = ["fast", "slow", "updates", "journaled", "mixed", "idle", "lane", "storm"];
    let list = kinds.join(",");
    check_experiment(
        "s0",
        &["--kinds", &list, "--idle-seconds", "0.1", "--slow-connections", "2"],
        &kinds,
        MODELS,
    );
}

#[test]
fn s1_measures_echoes_and_finds_under_every_model() {
    let models: Vec<&str> = ["epoll-echo", "thread-echo", "adaptive-one-queue"]
        .into_iter()
        .chain(MODELS.iter().copied())
        .collect();
    check_experiment("s1", &["--kinds", "echo"], &["echo"], &models);
}

#[test]
fn s1_measures_ycsb_under_every_model() {
    check_experiment("s1", &["--kinds", "ycsb-a"], &["ycsb-a"], MODELS);
}

#[test]
fn s3_measures_every_mix_under_every_model() {
    let kinds = [
        "journaled",
        "unsynced",
        "reads",
        "half",
        "random-read",
        "random-write-synced",
        "random-write-unsynced",
        "read-while-writing",
    ];
    check_experiment("s3", &["--kinds", &kinds.join(",")], &kinds, MODELS);
}

/// Runs an article as it is, only small, on one model, and gives its page back.
fn small_edition(article: &str, further: &[&str]) -> String {
    let out = tempfile::tempdir().expect("a temporary directory");
    let directory = out.path().to_string_lossy();
    let mut arguments = vec!["article", article, "--scale", "0.001", "--out", &directory];
    arguments.extend(further);
    let output = run(&arguments);
    let (printed, told) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{article} ends with {}:\n{printed}\n{told}", output.status);
    assert!(printed.contains("### What the article says"), "the article has no word:\n{printed}");
    std::fs::read_to_string(out.path().join(format!("{}.html", article.to_lowercase()))).expect("a page")
}

fn check_page(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(page.contains(part), "'{part}' is missing in the page:\n{page}");
    }
}

#[test]
fn every_article_has_a_small_edition() {
    let s0 = small_edition("S0", &["--models", "synchronous,adaptive"]);
    check_page(
        &s0,
        &["S0: 198,000", "S0: 30,000", "S0: 8,890", "0.91 times", " times synchronous", "Circumstances"],
    );
    assert_eq!(s0.matches(">synchronous</td>").count(), 11, "not the eleven scenarios:\n{s0}");
    let s1 = small_edition("S1", &["--models", "synchronous,adaptive-one-queue,reactor"]);
    let longest = "update max ms: synchronous ";
    check_page(
        &s1,
        &["350k → 900k+", " times the best of adaptive-one-queue", "over 1 s", longest, "4.765 %"],
    );
    let s2 = small_edition("S2", &[]);
    check_page(
        &s2,
        &["several to tens of times lower", " times held-reads", "beside 9,600/s", "behind the most ms"],
    );
    assert!(!s2.contains("not measured"), "a claim has no figure of ours:\n{s2}");
    let s3 = small_edition("S3", &["--models", "synchronous,coroutine"]);
    check_page(&s3, &["2 times", " times synchronous or adaptive", "Read while writing", "written/s"]);
    assert!(!s3.contains("not measured"), "a claim has no figure of ours:\n{s3}");
}

#[test]
fn s4_tells_each_second_and_what_expires() {
    let page = small_edition("S4", &[]);
    check_page(
        &page,
        &[
            "seconds under half: auto ",
            ", engine-defaults ",
            "fdatasync p99.9 ms: auto ",
            "deleted elsewhere: auto 0<",
            "left in the end: auto 0<",
            "all turned mean ms: auto ",
            "Longest of each second, ms</figcaption>",
            "the disk's own fdatasync",
            "window here",
            ">journalCommitInterval: 50</td>",
        ],
    );
    assert!(!page.contains("not measured"), "a claim has no figure of ours:\n{page}");
}

/// A server that a test has started itself.
struct Server {
    process: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let free = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let port = free.expect("a free port").port();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_heddle"));
        command
            .args(["serve", "--nounixsocket", "--port", &port.to_string(), "--dbpath"])
            .arg(directory.path());
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the server starts");
        wait_for("a server", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        Server { process, port, _directory: directory }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing of it is needed any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn servers_can_be_given_instead() {
    let server = Server::start();
    let targets = format!("127.0.0.1:{0},adaptive=127.0.0.1:{0}", server.port);
    let further = ["--target", &targets, "--connections", "4"];
    let s0 = small_edition("s0", &further);
    let given = format!(">127.0.0.1:{}</td>", server.port);
    check_page(&s0, &[&given, ">adaptive</td>", "adaptive at 127.0.0.1:", "thread model "]);
    check_page(&small_edition("s1", &further), &[&given, "finds/s", "YCSB A"]);
    check_page(&small_edition("s3", &further), &[&given, "Read while writing"]);
    assert!(std::net::TcpStream::connect(("127.0.0.1", server.port)).is_ok(), "the given server was ended");
}

#[test]
fn nonsense_is_explained() {
    let check = |arguments: &[&str], expect: &str| {
        let output = run(arguments);
        let told = text(&output.stderr);
        assert!(!output.status.success(), "{arguments:?} is accepted");
        assert!(told.contains(expect), "{arguments:?} is answered with:\n{told}");
    };
    check(&["article", "s0", "--models", "threads"], "[possible values: synchronous, adaptive");
    check(&["article", "s0", "--connections", "0"], "0 is not in 1..");
    check(&["article", "s0", "--scale", "0"], "expected a number from 0.001 to 100, found '0'");
    check(&["article", "s0", "--target", "localhost"], "expected host:port or name=host:port");
    check(&["article", "s0", "--target", "127.0.0.1:1", "--kinds", "idle"], "which a --target does not show");
    check(&["article", "s0", "--target", "127.0.0.1:1", "--models", "auto"], "cannot be used with");
    check(
        &["article", "S4", "--kinds", "steady", "--ttl-rate", "5"],
        "--ttl-rate concerns none of the kinds",
    );
    check(&["article", "s4", "--minutes", "0"], "expected a number above 0");
    check(&["article", "s4", "--target", "127.0.0.1:1"], "change the settings of a server");
    check(&["article", "s9"], "there are s0, s1, s2, s3 and s4");
    check(&["article", "s0", "--pin", "a:b"], "'a' is not the number of a core");
    check(&["article", "s0", "--fast-rate", "0"], "expected operations a second, above 0");
    check(&["article", "s3", "--seconds=-1"], "no time; expected seconds");
    check(&["cachegrind", "--requests", "5,5"], "expected a smaller and a larger number");
    let many = ["article", "s0", "--models", "epoll-echo", "--connections", "100000000", "--rounds", "1"];
    check(&many, "raise `ulimit -n`");
}

/// The processes that this one has started and that still live.
fn children_of(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Waits for something that takes a moment, and fails when it takes much longer.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    const LONGEST: Duration = Duration::from_secs(60);
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < LONGEST, "{what} did not happen within {LONGEST:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ends the measurement also when the test fails.
struct Measurement(Child);

impl Drop for Measurement {
    fn drop(&mut self) {
        // It has usually ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_interrupt_ends_the_servers_too() {
    let arguments = ["article", "s0", "--kinds", "fast", "--models", "synchronous", "--documents", "100"];
    let mut command = bench(&arguments);
    command.args(["--connections", "4", "--seconds", "600"]);
    let mut bench = Measurement(command.spawn().expect("the program starts"));
    let pid = bench.0.id();
    let server = wait_for("a server", || children_of(pid).first().copied());
    let status = Command::new("kill").args(["-INT", &pid.to_string()]).status().expect("kill runs");
    assert!(status.success(), "the measurement can be interrupted");
    let status = wait_for("the end", || bench.0.try_wait().expect("the process can be looked after"));
    assert_eq!(status.code(), Some(130), "it says that it did not finish");
    wait_for("the server's end", || (!Path::new(&format!("/proc/{server}")).exists()).then_some(()));
}
