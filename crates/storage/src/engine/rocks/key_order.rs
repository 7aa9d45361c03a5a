//! The order in which the mutations of a large unit are written.

use crate::unit::{Mutation, MutationLog};

/// The mutations by key, those of one key in their order; all in their order where a range is removed.
pub(super) fn in_key_order(log: &MutationLog) -> Vec<Mutation<'_>> {
    let mut mutations: Vec<_> = log.iter().collect();
    if mutations.iter().all(|mutation| place(mutation).is_some()) {
        mutations.sort_by_key(place);
    }
    mutations
}

fn place<'m>(mutation: &Mutation<'m>) -> Option<(u8, &'m [u8])> {
    match *mutation {
        Mutation::Put { keyspace, key, .. } | Mutation::Delete { keyspace, key } => {
            Some((keyspace as u8, key))
        }
        Mutation::DeleteRange { .. } => None,
    }
}
