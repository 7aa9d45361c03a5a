//! What the disk of a test or simulation holds: the newest value of each key, without versions.

use std::collections::BTreeMap;

use super::Engine;
use super::memory::MemoryEngine;
use crate::keyspace::Keyspace;
use crate::unit::{Mutation, MutationLog};

/// Keys and values by keyspace: what simulated stable storage has of the log.
#[derive(Debug, Default)]
pub struct StableImage(BTreeMap<(u8, Vec<u8>), Vec<u8>>);

impl StableImage {
    /// A mutation has come to stable storage.
    pub fn apply(&mut self, mutation: Mutation<'_>) {
        let code = mutation.keyspace() as u8;
        match mutation {
            Mutation::Put { key, value, .. } => {
                self.0.insert((code, key.to_vec()), value.to_vec());
            }
            Mutation::Delete { key, .. } => {
                self.0.remove(&(code, key.to_vec()));
            }
            Mutation::DeleteRange { from, to, .. } => {
                let range = (code, from.to_vec())..(code, to.to_vec());
                let doomed: Vec<_> = self.0.range(range).map(|(key, _)| key.clone()).collect();
                doomed.iter().for_each(|key| drop(self.0.remove(key)));
            }
        }
    }

    /// An engine that has all of it: what a start finds.
    pub fn engine(&self) -> MemoryEngine {
        let engine = MemoryEngine::new();
        let mut all = MutationLog::default();
        for ((code, key), value) in &self.0 {
            let keyspace = Keyspace::from_code(*code).expect("the code of a mutation's keyspace");
            all.put(keyspace, key, value);
        }
        engine.write(&[], &all).expect("memory takes every write");
        engine
    }
}
