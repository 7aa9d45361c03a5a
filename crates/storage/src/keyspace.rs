//! What can be read and how: keyspaces, ranges, directions, tiers.

/// A separate key order with its own files and tuning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Keyspace {
    /// The catalog's definitions: few, small, read at start.
    Meta = 1,
    /// Documents, clustered by `_id`.
    Documents = 2,
    /// Index entries: small keys, tiny values, range scans.
    Indexes = 3,
    /// The storage crate's own: counters. Other crates read and write them through [`CounterId`]s.
    Internal = 0,
}

impl Keyspace {
    /// Every keyspace, in the order in which the engine creates them.
    pub const ALL: [Keyspace; 4] =
        [Keyspace::Internal, Keyspace::Meta, Keyspace::Documents, Keyspace::Indexes];

    /// The name of the keyspace on disk (its column family) and in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            // RocksDB insists on a column family of this name.
            Keyspace::Internal => "default",
            Keyspace::Meta => "meta",
            Keyspace::Documents => "documents",
            Keyspace::Indexes => "indexes",
        }
    }

    /// Whether what it holds is nowhere else; the rest is made anew of it where it is lost.
    pub const fn is_salvaged(self) -> bool {
        matches!(self, Keyspace::Meta | Keyspace::Documents)
    }

    pub(crate) const fn from_code(code: u8) -> Option<Keyspace> {
        match code {
            0 => Some(Keyspace::Internal),
            1 => Some(Keyspace::Meta),
            2 => Some(Keyspace::Documents),
            3 => Some(Keyspace::Indexes),
            _ => None,
        }
    }
}

/// A number that names one exact counter; the caller gives the numbers out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CounterId(pub u64);

/// The order in which a cursor walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    /// Ascending keys.
    #[default]
    Forward,
    /// Descending keys.
    Backward,
}

/// How far a read may go for its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReadTier {
    /// Memory, the kernel's page cache or the disk.
    #[default]
    Any,
    /// Memtables and the block cache only; where that is not enough the read fails with
    /// [`StorageError::WouldBlock`](crate::StorageError::WouldBlock).
    BlockCache,
}

/// A half-open range of keys: `lower` inclusive, `upper` exclusive; `None` means unbounded.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct KeyRange {
    /// The first key that may be seen.
    pub lower: Option<Vec<u8>>,
    /// The first key that may not be seen any more.
    pub upper: Option<Vec<u8>>,
}

impl KeyRange {
    /// Every key of the keyspace.
    pub const fn all() -> KeyRange {
        KeyRange { lower: None, upper: None }
    }

    /// `lower <= key < upper`.
    pub fn new(lower: impl Into<Vec<u8>>, upper: impl Into<Vec<u8>>) -> KeyRange {
        KeyRange { lower: Some(lower.into()), upper: Some(upper.into()) }
    }

    /// `lower <= key`.
    pub fn starting_at(lower: impl Into<Vec<u8>>) -> KeyRange {
        KeyRange { lower: Some(lower.into()), upper: None }
    }

    /// Every key that begins with `prefix`.
    pub fn prefix(prefix: impl Into<Vec<u8>>) -> KeyRange {
        let lower = prefix.into();
        KeyRange { upper: KeyRange::after_prefix(&lower), lower: Some(lower) }
    }

    /// The smallest key greater than every key that begins with `prefix`; `None` when there is none.
    pub fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
        let kept = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
        let mut after = prefix.get(..=kept)?.to_vec();
        if let Some(last) = after.last_mut() {
            *last += 1;
        }
        Some(after)
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.lower.as_deref().is_none_or(|lower| lower <= key)
            && self.upper.as_deref().is_none_or(|upper| key < upper)
    }

    /// Whether no key can lie in the range.
    pub fn is_empty(&self) -> bool {
        matches!((&self.lower, &self.upper), (Some(lower), Some(upper)) if lower >= upper)
    }
}

/// How a cursor reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorOptions {
    /// How far it may go for its bytes.
    pub tier: ReadTier,
    /// Whether blocks it reads from disk stay in the block cache. Off for one-time passes over much data
    /// (validation, index builds), so that they do not push out what requests need.
    pub fill_cache: bool,
}

impl Default for CursorOptions {
    fn default() -> CursorOptions {
        CursorOptions { tier: ReadTier::Any, fill_cache: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_its_successor() {
        assert_eq!(KeyRange::after_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(KeyRange::after_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(KeyRange::after_prefix(b"\xff"), None);
        assert_eq!(KeyRange::after_prefix(b""), None);
        assert!(KeyRange::prefix(*b"a\xff").contains(b"a\xff\xff\xff"));
        assert!(!KeyRange::prefix(*b"a\xff").contains(b"b"));
        assert!(KeyRange::new(*b"b", *b"a").is_empty());
    }

    #[test]
    fn codes_name_their_keyspaces() {
        for keyspace in Keyspace::ALL {
            assert_eq!(Keyspace::from_code(keyspace as u8), Some(keyspace));
        }
        assert_eq!(Keyspace::from_code(4), None);
    }
}
