//! `docs/configuration.md` is what `heddle parameters` prints.

use std::path::Path;
use std::process::Command;

#[test]
fn the_page_is_up_to_date() {
    let output = Command::new(env!("CARGO_BIN_EXE_heddle")).arg("parameters").output().expect("heddle runs");
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).expect("text");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(path).expect("docs/configuration.md exists");
    assert!(
        page == printed,
        "docs/configuration.md is out of date: heddle parameters > docs/configuration.md"
    );
}
