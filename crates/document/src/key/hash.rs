//! Equality of values as a hash: grouping keys and hashed indexes.

use super::{encode_owned, encode_value};
use crate::number::Number;
use crate::{RawValue, Value};

/// A value as a key of a hash table or a set: equal exactly when the values are equal for
/// [`crate::compare()`], whatever their numeric types, and ordered alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKey(Box<[u8]>);

impl GroupKey {
    /// The key of an owned value.
    pub fn of(value: &Value) -> Self {
        let mut key = Vec::new();
        encode_owned(&mut key, value);
        GroupKey(key.into())
    }

    /// The key's bytes, an ascending key of this module.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The hash that a hashed index stores for a value. Fractions are cut off first, as in MongoDB: 2.3 and 2
/// have one hash. Hashes are stored; the function never changes. (They are not MongoDB's own hashes.)
pub fn hash64(value: RawValue<'_>) -> i64 {
    let mut key = Vec::with_capacity(32);
    match value.as_number() {
        Some(number) => encode_value(&mut key, Number::Int64(number.to_i64_saturating()).as_raw()),
        None => encode_value(&mut key, value),
    }
    stable_hash(&key) as i64
}

/// A 64-bit hash of bytes that is the same on every machine and in every version: FNV-1a, whose weak upper
/// bits are mixed by the finalizer of MurmurHash3.
pub fn stable_hash(bytes: &[u8]) -> u64 {
    const FNV_OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
    const FNV_PRIME: u64 = 0x0100_0000_01B3;
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
    let mut hash = bytes.iter().fold(FNV_OFFSET, fold);
    hash = (hash ^ hash >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash = (hash ^ hash >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    hash ^ hash >> 33
}
