//! Fails on an arrow between crates that is not in the design.

use std::collections::BTreeMap;
use std::process::Command;

/// Each crate and what it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("document", &[]),
    ("wire", &["document"]),
    ("query", &["document"]),
    ("storage", &[]),
    ("catalog", &["storage", "query", "document"]),
    ("transport", &["wire"]),
    ("commands", &["catalog", "query", "wire", "storage", "document"]),
    ("bench", &["wire", "document"]),
    ("heddle", &["document", "wire", "query", "storage", "catalog", "transport", "commands", "bench"]),
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

#[test]
#[should_panic(expected = "storage must not depend on catalog")]
fn a_wrong_arrow_is_found() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    check("storage", &["catalog".to_owned()], &allowed);
}
