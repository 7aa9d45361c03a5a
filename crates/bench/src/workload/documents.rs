//! The documents that are loaded.

use crate::workload::keys::{KeyFormat, document_seed};
use crate::workload::model::Workload;
use crate::workload::plan::{Compiler, Context, Plan};
use crate::workload::traffic::unix_milliseconds;
use document::{Document, RawDocument, RawValue, Value};
use fastrand::Rng;

/// Documents whose size stands for that of all.
const SAMPLES: u64 = 100;

/// Writes any document of a workload by its number. The same seed gives the same content, except for times of
/// making.
#[derive(Debug)]
pub(crate) struct Documents {
    plan: Plan,
    key: KeyFormat,
    seed: u64,
    now: i64,
    sizes: (usize, usize),
}

impl Documents {
    pub(crate) fn new(workload: &Workload, seed: u64) -> Self {
        let compiler = Compiler { key: &workload.key, document: &workload.document };
        let plan = compiler.document(&workload.document);
        let key = workload.key.clone();
        let mut documents = Documents { plan, key, seed, now: unix_milliseconds() as i64, sizes: (0, 0) };
        let sizes: Vec<usize> = (0..SAMPLES).map(|number| documents.size(number)).collect();
        documents.sizes = (
            sizes.iter().min().copied().unwrap_or_default(),
            sizes.iter().max().copied().unwrap_or_default(),
        );
        documents
    }

    /// Bytes of the least and of the largest of some documents.
    pub(crate) const fn sizes(&self) -> (usize, usize) {
        self.sizes
    }

    /// Appends the document of this number.
    pub(crate) fn write(&self, number: u64, out: &mut Vec<u8>) {
        let mut random = Rng::with_seed(document_seed(self.seed, number));
        self.plan.write(&mut Context { number, random: &mut random, now: self.now }, out);
    }

    pub(crate) fn document(&self, number: u64) -> Document {
        let mut bytes = Vec::new();
        self.write(number, &mut bytes);
        RawDocument::trusted(&bytes).to_document()
    }

    /// The document's `_id`.
    pub(crate) fn key(&self, number: u64) -> Value {
        let mut bytes = Vec::new();
        self.key.append(number, &mut bytes);
        RawValue::decode(self.key.kind(), &bytes).map_or(Value::Null, RawValue::to_value)
    }

    fn size(&self, number: u64) -> usize {
        let mut document = Vec::new();
        self.write(number, &mut document);
        document.len()
    }
}
