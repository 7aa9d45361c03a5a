//! The flag bits of OP_MSG.

use crate::WireError;

/// Flag bits of an OP_MSG. Bits 0 to 15 are *required*: a receiver must know them. Bits 16 to 31 are
/// optional.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpMsgFlags(u32);

impl OpMsgFlags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// The message ends with a CRC-32C of all bytes before it.
    pub const CHECKSUM_PRESENT: Self = Self(1);
    /// Another message follows without one from the other side; on a request: no reply is wanted.
    pub const MORE_TO_COME: Self = Self(1 << 1);
    /// The client takes several replies to this request.
    pub const EXHAUST_ALLOWED: Self = Self(1 << 16);

    const REQUIRED: u32 = 0xffff;
    const KNOWN_REQUIRED: u32 = Self::CHECKSUM_PRESENT.0 | Self::MORE_TO_COME.0;

    /// Reads flags.
    ///
    /// # Errors
    /// [`WireError::Flags`] when a required bit is not known.
    pub const fn parse(bits: u32) -> Result<Self, WireError> {
        if bits & Self::REQUIRED & !Self::KNOWN_REQUIRED != 0 {
            return Err(WireError::Flags { flags: bits });
        }
        Ok(Self(bits))
    }

    /// The bits as they are sent.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These flags without `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn unchecked(bits: u32) -> Self {
        Self(bits)
    }
}
