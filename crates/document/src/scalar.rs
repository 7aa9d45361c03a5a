//! The scalar types of BSON that Rust has no type for.

use std::fmt;

/// A 12-byte object id: 4 bytes of seconds since 1970, 5 random bytes per process, a 3-byte counter;
/// all big-endian, so that ids sort by time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId([u8; 12]);

impl ObjectId {
    /// A new id, unique in this process and, by its random part, among processes.
    #[expect(clippy::new_without_default, reason = "each call makes another id")]
    pub fn new() -> Self {
        let (process, number) = ambient::unique_number();
        let [t0, t1, t2, t3] = (ambient::since_epoch().as_secs() as u32).to_be_bytes();
        let [p0, p1, p2, p3, p4] = process;
        let [_, c0, c1, c2] = number.to_be_bytes();
        ObjectId([t0, t1, t2, t3, p0, p1, p2, p3, p4, c0, c1, c2])
    }

    /// The id with these bytes.
    pub const fn from_bytes(bytes: [u8; 12]) -> Self {
        ObjectId(bytes)
    }

    /// The id's bytes.
    pub const fn bytes(self) -> [u8; 12] {
        self.0
    }

    /// The id's bytes, borrowed.
    pub const fn as_bytes(&self) -> &[u8; 12] {
        &self.0
    }

    /// Seconds since 1970 of the id's making.
    pub const fn seconds(self) -> u32 {
        let [t0, t1, t2, t3, ..] = self.0;
        u32::from_be_bytes([t0, t1, t2, t3])
    }

    /// Reads 24 hexadecimal digits; `None` for anything else.
    pub fn parse_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 24 {
            return None;
        }
        let mut bytes = [0; 12];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            for &digit in pair {
                *byte = *byte << 4 | (digit as char).to_digit(16)? as u8;
            }
        }
        Some(ObjectId(bytes))
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ObjectId('{self}')")
    }
}

/// A replication timestamp: seconds since 1970 and an increment within the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub time: u32,
    /// Ordinal within the second.
    pub increment: u32,
}

impl Timestamp {
    /// The 64-bit form: seconds in the upper half.
    pub const fn as_u64(self) -> u64 {
        (self.time as u64) << 32 | self.increment as u64
    }

    /// The timestamp with this 64-bit form.
    pub const fn from_u64(bits: u64) -> Self {
        Timestamp { time: (bits >> 32) as u32, increment: bits as u32 }
    }
}

/// A 128-bit decimal floating-point number: IEEE 754-2008 binary integer decimal, little-endian. Equality is
/// of the representation; numeric comparison is [`crate::compare`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal128(pub(crate) [u8; 16]);

impl Decimal128 {
    /// The number with these little-endian bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Decimal128(bytes)
    }

    /// The number's little-endian bytes.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}
