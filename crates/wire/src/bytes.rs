//! Little-endian integers and C strings in untrusted bytes.

/// The integer at `offset`, if the bytes reach that far.
#[inline]
pub(crate) fn read_i32(bytes: &[u8], offset: usize) -> Option<i32> {
    bytes.get(offset..)?.first_chunk().map(|chunk| i32::from_le_bytes(*chunk))
}

/// The integer at `offset`, if the bytes reach that far.
#[inline]
pub(crate) fn read_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u32::from_le_bytes(*chunk))
}

/// Overwrites four bytes at `offset`; bytes that are not there stay away.
#[inline]
pub(crate) fn patch_i32(bytes: &mut [u8], offset: usize, value: i32) {
    if let Some(target) = bytes.get_mut(offset..).and_then(|rest| rest.first_chunk_mut()) {
        *target = value.to_le_bytes();
    }
}

/// Splits a zero-terminated string off the front.
#[inline]
pub(crate) fn split_c_string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    Some((bytes.get(..end)?, bytes.get(end + 1..)?))
}

/// Splits one length-prefixed BSON document off the front, unchecked inside.
#[inline]
pub(crate) fn split_document(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(read_i32(bytes, 0)?).ok()?;
    if length < 5 {
        return None;
    }
    bytes.split_at_checked(length)
}

/// A length as the protocol writes it. Lengths beyond `i32` cannot be sent and are refused before this point.
#[inline]
pub(crate) fn wire_length(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}
