//! The JSON file of a run.

use crate::error::BenchError;
use crate::result::{RunResult, SCHEMA};
use std::path::Path;

impl RunResult {
    /// Reads a result of this or an earlier version.
    pub(crate) fn from_json(text: &str) -> Result<Self, String> {
        #[derive(serde::Deserialize)]
        struct Version {
            schema: Option<u32>,
        }
        let version: Version =
            serde_json::from_str(text).map_err(|problem| format!("not a JSON document: {problem}"))?;
        match version.schema {
            None => Err("expected the JSON file of a run, found one without 'schema'".to_owned()),
            Some(later) if later > SCHEMA => {
                Err(format!("it has schema {later}, this program reads up to {SCHEMA}: use a later one"))
            }
            Some(_) => serde_json::from_str(text).map_err(|problem| format!("not a run's result: {problem}")),
        }
    }

    pub(crate) fn read(path: &Path) -> Result<Self, BenchError> {
        let unusable = |problem: String| BenchError::Usage(format!("{}: {problem}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
        RunResult::from_json(&text).map_err(unusable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample;

    #[test]
    fn a_result_survives_the_file() {
        for result in [sample::full(), RunResult { schema: SCHEMA, ..RunResult::default() }] {
            let text = serde_json::to_string(&result).expect("plain data");
            let found = RunResult::from_json(&text).expect("its own file");
            assert!(found == result, "'{}' has changed on the way", result.label);
        }
    }

    #[test]
    fn other_files_are_refused_with_a_reason() {
        let check = |text: &str, expect: &str| {
            let problem = RunResult::from_json(text).expect_err("not a result");
            assert!(problem.contains(expect), "{problem}");
        };
        check("hello", "not a JSON document");
        check("{}", "without 'schema'");
        check("{\"schema\": 2}", "schema 2, this program reads up to 1");
        check("{\"schema\": 1}", "missing field");
    }
}
