//! `$unwind`.

use std::sync::Arc;

use document::{DocumentBuf, ElementType, RawArray, RawDocument, RawValue};

use crate::checkpoint;
use crate::environment::Environment;
use crate::error::QueryError;
use crate::expression::Path;

use super::StagePlan;
use super::chain::{Downstream, Flow, Pause, Stage, YieldPolicy};
use super::rewrite::{with_field, write_with_field};

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
                    ("path", other) => bail!(
                        28808,
                        "expected a string as the path for $unwind stage, got {}",
                        other.kind().alias()
                    ),
                    ("includeArrayIndex", RawValue::String(text)) if !text.is_empty() => {
                        index_path = Some(text)
                    }
                    ("includeArrayIndex", other) => bail!(
                        28810,
                        "expected a non-empty string for the includeArrayIndex  option to $unwind stage, \
                        got {}",
                        other.kind().alias()
                    ),
                    ("preserveNullAndEmptyArrays", RawValue::Boolean(flag)) => preserve = flag,
                    ("preserveNullAndEmptyArrays", other) => bail!(
                        28809,
                        "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got \
                        {}",
                        other.kind().alias()
                    ),
                    (unknown, _) => bail!(28811, "unrecognized option to $unwind stage: {unknown}"),
                }
            }
        }
        other => bail!(
            15981,
            "expected either a string or an object as specification for $unwind stage, got {}",
            other.kind().alias()
        ),
    }
    let path = path
        .filter(|path| !path.is_empty())
        .ok_or_else(|| QueryError::new(28812, "no path specified to $unwind stage"))?;
    let Some(path) = path.strip_prefix('$') else {
        bail!(28818, "path option to $unwind stage should be prefixed with a '$': {path}");
    };
    if let Some(index_path) = index_path.filter(|path| path.starts_with('$')) {
        bail!(
            28822,
            "includeArrayIndex option to $unwind stage should not be prefixed with a '$': {index_path}"
        );
    }
    let spec = UnwindSpec {
        path: Path::parse(path)?,
        index_path: index_path.map(Path::parse).transpose()?,
        preserve,
    };
    Ok(vec![StagePlan::Unwind(Arc::new(spec))])
}

/// Where one item of the array lies in the document's bytes.
struct ArrayItem {
    kind: ElementType,
    start: usize,
    length: usize,
}

pub(super) struct UnwindStage {
    spec: Arc<UnwindSpec>,
    /// No stage behind makes more of each document either.
    is_last: bool,
    /// What is left of a document.
    document: DocumentBuf,
    items: Items,
    /// The document last made, for its memory.
    made: Vec<u8>,
}

/// The items of one array that are left.
type Items = std::iter::Enumerate<std::vec::IntoIter<ArrayItem>>;

/// What is copied in about the time of one item, in bytes: items of a large document are few to a slice.
const BYTES_PER_ITEM: usize = 16 << 10;

/// Items of a document that are handed on at once, in the slice of whoever shows it.
const FEW_ITEMS: usize = 16;

impl UnwindStage {
    pub(super) fn new(spec: &Arc<UnwindSpec>, is_last: bool) -> Self {
        let items = Vec::new().into_iter().enumerate();
        let document = DocumentBuf::default();
        Self { spec: Arc::clone(spec), is_last, document, items, made: Vec::new() }
    }

    /// Hands on the document with one item in place of the array.
    fn give_item(
        &mut self,
        document: RawDocument<'_>,
        (position, kind, bytes): (usize, ElementType, &[u8]),
        out: &mut Downstream<'_>,
    ) -> Result<Flow, QueryError> {
        self.made.clear();
        write_with_field(&mut self.made, document, &self.spec.path, &mut |out, name| {
            out.append_raw(kind, name.as_bytes(), bytes);
        });
        let made = RawDocument::trusted(&self.made);
        if self.spec.index_path.is_none() {
            return out.give(made);
        }
        let index = RawValue::Int64(i64::try_from(position).unwrap_or(i64::MAX));
        out.give(self.indexed(made, index).as_raw())
    }

    fn with_index(&self, document: DocumentBuf, index: RawValue<'_>) -> DocumentBuf {
        match &self.spec.index_path {
            None => document,
            Some(_) => self.indexed(document.as_raw(), index),
        }
    }

    fn indexed(&self, document: RawDocument<'_>, index: RawValue<'_>) -> DocumentBuf {
        match &self.spec.index_path {
            None => document.to_buf(),
            Some(path) => with_field(document, path, &mut |out, name| {
                out.append(name, index);
            }),
        }
    }

    /// Hands on a document that has no array to be unwound.
    fn give_whole(&self, document: RawDocument<'_>, out: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        match &self.spec.index_path {
            None => out.give(document),
            Some(_) => out.give(self.indexed(document, RawValue::Null).as_raw()),
        }
    }

    /// Hands on the items of an array: few at once, many in slices, since unwinding several arrays of one
    /// document multiplies.
    fn take_items(
        &mut self,
        document: RawDocument<'_>,
        array: RawArray<'_>,
        out: &mut Downstream<'_>,
    ) -> Result<Flow, QueryError> {
        let is_small =
            document.as_bytes().len() <= BYTES_PER_ITEM && array.elements().nth(FEW_ITEMS).is_none();
        if !self.is_last || !is_small {
            self.hold(document, array);
            return Ok(Flow::Pause);
        }
        for (position, element) in array.elements().enumerate() {
            let item = (position, element.kind(), element.value_bytes());
            if self.give_item(document, item, out)? == Flow::Pause {
                self.hold(document, array);
                self.items.nth(position);
                return Ok(Flow::Pause);
            }
        }
        Ok(Flow::More)
    }

    fn give_items(
        &mut self,
        document: &DocumentBuf,
        policy: &mut dyn YieldPolicy,
        out: &mut Downstream<'_>,
    ) -> Result<Pause, QueryError> {
        while let Some((position, ArrayItem { kind, start, length })) = self.items.next() {
            checkpoint::pass_bytes(document.len())?;
            let bytes = document.as_bytes().get(start..start + length);
            let bytes = bytes.expect("an item lies within the document that it was found in");
            if self.give_item(document.as_raw(), (position, kind, bytes), out)? == Flow::Pause {
                return Ok(Pause::Stopped);
            }
            if (0..1 + document.len() / BYTES_PER_ITEM).any(|_| policy.should_yield()) {
                return Ok(Pause::Sliced);
            }
        }
        Ok(Pause::End)
    }

    /// Keeps a document and its items, to be handed on in slices: unwinding several arrays of one document
    /// multiplies.
    fn hold(&mut self, document: RawDocument<'_>, array: RawArray<'_>) {
        let origin = document.as_bytes().as_ptr().addr();
        let items = array.elements().map(|element| ArrayItem {
            kind: element.kind(),
            start: element.value_bytes().as_ptr().addr() - origin,
            length: element.value_bytes().len(),
        });
        self.items = items.collect::<Vec<ArrayItem>>().into_iter().enumerate();
        let mut bytes = std::mem::take(&mut self.document).into_bytes();
        bytes.clear();
        bytes.extend_from_slice(document.as_bytes());
        self.document = DocumentBuf::trusted(bytes);
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
    fn take(&mut self, document: RawDocument<'_>, out: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        checkpoint::pass_bytes(document.as_bytes().len())?;
        match at(document, self.spec.path.components()) {
            Some(RawValue::Array(array)) if !array.is_empty() => self.take_items(document, array, out),
            Some(RawValue::Array(_)) if self.spec.preserve => {
                let without = with_field(document, &self.spec.path, &mut |_, _| {});
                out.give(self.with_index(without, RawValue::Null).as_raw())
            }
            Some(RawValue::Array(_)) => Ok(Flow::More),
            None | Some(RawValue::Null | RawValue::Undefined) if !self.spec.preserve => Ok(Flow::More),
            _ => self.give_whole(document, out),
        }
    }

    fn holds(&self) -> bool {
        self.items.len() > 0
    }

    fn resume(
        &mut self,
        policy: &mut dyn YieldPolicy,
        out: &mut Downstream<'_>,
    ) -> Result<Pause, QueryError> {
        let document = std::mem::take(&mut self.document);
        let pause = self.give_items(&document, policy, out);
        self.document = document;
        pause
    }
}
