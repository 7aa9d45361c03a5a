//! Each law, for so many random inputs and for what fuzzers have found.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use fuzzing::{FuzzTarget, Met, TARGETS};

/// Inputs of each target.
const INPUTS: u64 = 20_000;
const BYTES_MAX: usize = 700;
/// Of each kind that is to be met, at least.
const KIND_MIN: u32 = 20;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn names(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(fuzz().join(folder)).expect("a folder of the repository");
    entries
        .map(|entry| {
            entry.expect("an entry").path().file_stem().expect("a name").to_string_lossy().into_owned()
        })
        .collect()
}

/// Says which input it was when a law does not hold.
struct Tried<'a>(&'a FuzzTarget, String);

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: {}", self.0.name, self.1);
        }
    }
}

fn check(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target");
    let mut met = Met::default();
    for input in corpus(name) {
        let _tried = Tried(target, input.display().to_string());
        let bytes = std::fs::read(&input).expect("a file of the repository");
        (target.check)(&bytes, &mut met);
    }
    for seed in 0..INPUTS {
        let _tried = Tried(target, format!("seed {seed}"));
        let mut random = Rng::with_seed(seed);
        let mut bytes = vec![0; random.usize(..BYTES_MAX)];
        random.fill(&mut bytes);
        (target.check)(&bytes, &mut met);
    }
    for kind in target.kinds {
        assert!(met.of(kind) >= KIND_MIN, "too few of {kind:?}: {met:?}");
    }
}

fn corpus(name: &str) -> Vec<PathBuf> {
    let folder = fuzz().join("corpus").join(name);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("each target has inputs that are kept")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

#[test]
fn each_target_has_a_program_and_inputs() {
    let targets = TARGETS.iter().map(|target| target.name.to_owned());
    // Keys of `tls` are random: an input reaches something else each time, and is not worth keeping.
    let programs: BTreeSet<String> = targets.clone().chain(["tls".to_owned()]).collect();
    assert_eq!(names("fuzz_targets"), programs);
    assert_eq!(names("corpus"), targets.collect());
}

macro_rules! laws {
    ($($test:ident: $name:literal;)*) => {
        $(#[test]
        fn $test() {
            check($name);
        })*

        #[test]
        fn each_target_has_a_test() {
            let tested = BTreeSet::from([$($name),*]);
            assert_eq!(TARGETS.iter().map(|target| target.name).collect::<BTreeSet<_>>(), tested);
        }
    };
}

laws! {
    documents: "document";
    expressions: "expression";
    filters: "filter";
    logins: "login";
    members: "member";
    entries_of_the_oplog: "oplog";
    pipelines: "pipeline";
    plans: "plan";
    projections: "projection";
    regular_expressions: "regex";
    schemas: "schema";
    updates: "update";
    messages: "wire_message";
}
