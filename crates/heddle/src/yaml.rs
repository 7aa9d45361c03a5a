//! The YAML file as a list of dotted keys with scalar values.

use serde_yaml_ng::Value;
use std::path::{Path, PathBuf};

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum YamlError {
    /// It cannot be read.
    #[error("cannot read the configuration file {}: {error}", path.display())]
    Read { path: PathBuf, error: std::io::Error },
    /// It is not YAML.
    #[error("configuration file {} is not valid YAML: {error}", path.display())]
    Syntax { path: PathBuf, error: serde_yaml_ng::Error },
    /// A key holds a list or the like.
    #[error("configuration file {}: '{key}' must have a single value", path.display())]
    NotScalar { path: PathBuf, key: String },
}

/// The keys of a file and their values as text, in order: `net.port` and `27017`.
///
/// # Errors
/// See [`YamlError`].
pub(crate) fn read(path: &Path) -> Result<Vec<(String, String)>, YamlError> {
    let text =
        std::fs::read_to_string(path).map_err(|error| YamlError::Read { path: path.to_owned(), error })?;
    let root: Value =
        serde_yaml_ng::from_str(&text).map_err(|error| YamlError::Syntax { path: path.to_owned(), error })?;
    let mut entries = Vec::new();
    flatten(path, "", &root, &mut entries)?;
    Ok(entries)
}

fn flatten(
    path: &Path,
    key: &str,
    value: &Value,
    entries: &mut Vec<(String, String)>,
) -> Result<(), YamlError> {
    let text = match value {
        Value::Mapping(mapping) => {
            for (name, inner) in mapping {
                let name = name.as_str().map_or_else(|| format!("{name:?}"), str::to_owned);
                let key = if key.is_empty() { name } else { format!("{key}.{name}") };
                flatten(path, &key, inner, entries)?;
            }
            return Ok(());
        }
        Value::Null => return Ok(()),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Sequence(_) | Value::Tagged(_) => {
            return Err(YamlError::NotScalar { path: path.to_owned(), key: key.to_owned() });
        }
    };
    entries.push((key.to_owned(), text));
    Ok(())
}
