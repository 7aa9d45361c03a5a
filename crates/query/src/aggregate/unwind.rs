//! `$unwind`.

use std::sync::Arc;

use document::{DocumentBuf, ElementType, RawDocument, RawValue};

use crate::checkpoint;
use crate::environment::Environment;
use crate::error::QueryError;
use crate::expression::Path;

use super::rewrite::with_field;
use super::{Stage, StagePlan, Step};

/// A parsed `$unwind`.
#[derive(Debug)]
pub(crate) struct UnwindSpec {
    pub(super) path: Path,
    pub(super) index_path: Option<Path>,
    preserve: bool,
}

pub(super) fn parse(operand: RawValue<'_>, _: &Environment) -> Result<Vec<StagePlan>, QueryError> {
    let (mut path, mut index_path, mut preserve) = (None, None, false);
    match operand {
        RawValue::String(text) => path = Some(text),
        RawValue::Document(spec) => {
            for element in spec.iter() {
                match (element.name(), element.value()) {
                    ("path", RawValue::String(text)) => path = Some(text),
                    ("path", other) => {
                        return Err(QueryError::new(
                            28808,
                            format!(
                                "expected a string as the path for $unwind stage, got {}",
                                other.kind().alias()
                            ),
                        ));
                    }
                    ("includeArrayIndex", RawValue::String(text)) if !text.is_empty() => {
                        index_path = Some(text)
                    }
                    ("includeArrayIndex", other) => {
                        return Err(QueryError::new(
                            28810,
                            format!(
                                "expected a non-empty string for the includeArrayIndex  option to $unwind stage, got {}",
                                other.kind().alias()
                            ),
                        ));
                    }
                    ("preserveNullAndEmptyArrays", RawValue::Boolean(flag)) => preserve = flag,
                    ("preserveNullAndEmptyArrays", other) => {
                        return Err(QueryError::new(
                            28809,
                            format!(
                                "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got {}",
                                other.kind().alias()
                            ),
                        ));
                    }
                    (unknown, _) => {
                        return Err(QueryError::new(
                            28811,
                            format!("unrecognized option to $unwind stage: {unknown}"),
                        ));
                    }
                }
            }
        }
        other => {
            return Err(QueryError::new(
                15981,
                format!(
                    "expected either a string or an object as specification for $unwind stage, got {}",
                    other.kind().alias()
                ),
            ));
        }
    }
    let path = path
        .filter(|path| !path.is_empty())
        .ok_or_else(|| QueryError::new(28812, "no path specified to $unwind stage"))?;
    let Some(path) = path.strip_prefix('$') else {
        return Err(QueryError::new(
            28818,
            format!("path option to $unwind stage should be prefixed with a '$': {path}"),
        ));
    };
    if let Some(index_path) = index_path.filter(|path| path.starts_with('$')) {
        return Err(QueryError::new(
            28822,
            format!(
                "includeArrayIndex option to $unwind stage should not be prefixed with a '$': {index_path}"
            ),
        ));
    }
    let spec = UnwindSpec {
        path: Path::parse(path)?,
        index_path: index_path.map(Path::parse).transpose()?,
        preserve,
    };
    Ok(vec![StagePlan::Unwind(Arc::new(spec))])
}

/// Where one item of the array lies in the document's bytes.
struct Item {
    kind: ElementType,
    start: usize,
    length: usize,
}

pub(super) struct UnwindStage {
    input: Box<dyn Stage>,
    spec: Arc<UnwindSpec>,
    document: DocumentBuf,
    items: std::iter::Enumerate<std::vec::IntoIter<Item>>,
    until_yield: usize,
}

/// What is copied in about the time of one item, in bytes: items of a large document are few to a yield.
const BYTES_PER_ITEM: usize = 16 << 10;
/// Items yielded before the control goes back: unwinding several arrays of one document multiplies, and the source, which
/// minds the time, is not asked meanwhile.
const ITEMS_PER_YIELD: usize = 1024;

impl UnwindStage {
    pub(super) fn new(input: Box<dyn Stage>, spec: &Arc<UnwindSpec>) -> Self {
        Self {
            input,
            spec: Arc::clone(spec),
            document: DocumentBuf::default(),
            items: Vec::new().into_iter().enumerate(),
            until_yield: ITEMS_PER_YIELD,
        }
    }

    fn with_item(&self, position: usize, item: &Item) -> DocumentBuf {
        let bytes = self.document.as_bytes().get(item.start..item.start + item.length);
        let bytes = bytes.expect("an item lies within the document it was found in");
        let unwound = with_field(self.document.as_raw(), &self.spec.path, &mut |out, name| {
            out.append_raw(item.kind, name.as_bytes(), bytes);
        });
        self.with_index(unwound, RawValue::Int64(i64::try_from(position).unwrap_or(i64::MAX)))
    }

    fn with_index(&self, document: DocumentBuf, index: RawValue<'_>) -> DocumentBuf {
        match &self.spec.index_path {
            None => document,
            Some(path) => with_field(document.as_raw(), path, &mut |out, name| {
                out.append(name, index);
            }),
        }
    }

    /// Takes the next document in: it may yield as it is, not at all, or once for each item.
    fn take(&mut self, document: DocumentBuf) -> Option<DocumentBuf> {
        match at(document.as_raw(), self.spec.path.components()) {
            Some(RawValue::Array(array)) => {
                let origin = document.as_bytes().as_ptr().addr();
                let items: Vec<Item> = array
                    .elements()
                    .map(|element| Item {
                        kind: element.kind(),
                        start: element.value_bytes().as_ptr().addr() - origin,
                        length: element.value_bytes().len(),
                    })
                    .collect();
                if items.is_empty() {
                    let without = with_field(document.as_raw(), &self.spec.path, &mut |_, _| {});
                    return self.spec.preserve.then(|| self.with_index(without, RawValue::Null));
                }
                self.items = items.into_iter().enumerate();
                self.document = document;
                None
            }
            None | Some(RawValue::Null | RawValue::Undefined) => {
                self.spec.preserve.then(|| self.with_index(document, RawValue::Null))
            }
            Some(_) => Some(self.with_index(document, RawValue::Null)),
        }
    }
}

/// What lies at the path; arrays on the way are not entered.
fn at<'d>(document: RawDocument<'d>, components: &[String]) -> Option<RawValue<'d>> {
    let (name, rest) = components.split_first()?;
    let value = document.get(name)?;
    match value {
        value if rest.is_empty() => Some(value),
        RawValue::Document(below) => at(below, rest),
        _ => None,
    }
}

impl Stage for UnwindStage {
    fn next(&mut self) -> Result<Step, QueryError> {
        loop {
            if self.until_yield == 0 {
                self.until_yield = ITEMS_PER_YIELD;
                return Ok(Step::Yield);
            }
            if let Some((position, item)) = self.items.next() {
                checkpoint::pass_bytes(self.document.len())?;
                let taken = 1 + self.document.len() / BYTES_PER_ITEM;
                self.until_yield = self.until_yield.saturating_sub(taken);
                return Ok(Step::Document(self.with_item(position, &item)));
            }
            let document = match self.input.next()? {
                Step::Document(document) => document,
                other => return Ok(other),
            };
            checkpoint::pass_bytes(document.len())?;
            if let Some(document) = self.take(document) {
                return Ok(Step::Document(document));
            }
        }
    }
}
