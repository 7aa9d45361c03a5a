//! Fails on an arrow between crates that is not in the design.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Each crate and what it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("ambient", &[]),
    ("document", &["ambient"]),
    ("wire", &["document"]),
    ("query", &["document", "ambient"]),
    ("access", &["wire", "document"]),
    ("storage", &["ambient"]),
    ("catalog", &["storage", "query", "document", "ambient"]),
    ("transport", &["wire", "ambient"]),
    ("dispatch", &["access", "query", "wire", "document", "ambient"]),
    ("backup", &["replication", "catalog", "storage", "ambient"]),
    (
        "commands",
        &[
            "backup",
            "dispatch",
            "replication",
            "access",
            "catalog",
            "query",
            "wire",
            "storage",
            "document",
            "ambient",
        ],
    ),
    ("replication", &["access", "catalog", "storage", "document", "wire", "ambient"]),
    ("bench", &["access", "wire", "document", "ambient"]),
    ("fuzzing", &["access", "document", "query", "replication", "wire"]),
    ("simulation", &["commands", "dispatch", "catalog", "storage", "document", "ambient"]),
    (
        "heddle",
        &[
            "access",
            "document",
            "wire",
            "query",
            "storage",
            "catalog",
            "replication",
            "backup",
            "transport",
            "dispatch",
            "commands",
            "bench",
        ],
    ),
];

/// Runtimes that nothing below `heddle` may name.
const RUNTIMES: &[&str] = &["tokio", "async-std", "smol", "monoio", "glommio", "futures-executor"];

fn check(package: &str, dependencies: &[String], allowed: &BTreeMap<&str, &[&str]>) {
    let Some(may) = allowed.get(package) else {
        panic!(
            "crate {package} is not in the table of allowed dependencies: add it there and to ARCHITECTURE.md"
        );
    };
    for dependency in dependencies {
        assert!(!RUNTIMES.contains(&dependency.as_str()), "{package} names the runtime {dependency}");
        let is_ours = allowed.contains_key(dependency.as_str());
        assert!(!is_ours || may.contains(&dependency.as_str()), "{package} must not depend on {dependency}");
    }
}

#[test]
fn dependencies_point_downwards() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() >= ALLOWED.len(), "every crate of the table exists");
    for package in packages {
        let normal = package["dependencies"].as_array().expect("dependencies").iter();
        let normal: Vec<String> = normal
            .filter(|dependency| dependency["kind"].is_null())
            .map(|dependency| dependency["name"].as_str().unwrap_or_default().to_owned())
            .collect();
        check(package["name"].as_str().expect("a name"), &normal, &allowed);
    }
}

/// What gives each run of a simulation another course. Tables whose hashes have a secret are not among it:
/// their order must never show.
const AMBIENT: &[&str] =
    &["Instant::now", "SystemTime::now", ".elapsed()", "new_v4", "RandomState::new", "getrandom::"];

/// The part of a file before its tests.
fn product_code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("a source file is readable");
    let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    text.chars().take(end).collect()
}

fn check_ambient(directory: &Path) {
    for entry in std::fs::read_dir(directory).expect("a source directory is readable") {
        let path = entry.expect("an entry is readable").path();
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if path.is_dir() && name != "tests" {
            check_ambient(&path);
        } else if path.is_file() && !name.ends_with("tests.rs") && name != "testing.rs" {
            let code = product_code(&path);
            let found = AMBIENT.iter().find(|source| code.contains(**source));
            assert!(
                found.is_none(),
                "{} takes {found:?}, which a simulation cannot: see `ambient`",
                path.display()
            );
        }
    }
}

#[test]
fn time_and_randomness_come_from_one_crate() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates are side by side");
    for name in
        ["access", "document", "query", "storage", "catalog", "dispatch", "commands", "replication", "backup"]
    {
        check_ambient(&crates.join(name).join("src"));
    }
}

#[test]
#[should_panic(expected = "storage must not depend on catalog")]
fn a_wrong_arrow_is_found() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    check("storage", &["catalog".to_owned()], &allowed);
}
