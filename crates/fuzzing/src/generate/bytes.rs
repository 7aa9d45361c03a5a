//! Bytes that are nearly what they were.

use crate::source::Source;

/// Bytes that mean something in BSON, messages and logins.
const TELLING: &[u8] = b",=nrcpsiy2CD3+/a\x00\x01\x02\x03\x04\x05\x0b\x0f\x10\x12\x13\x7f\xff";

/// Mostly unchanged: else some bytes are others, are not there, or are there twice.
pub(crate) fn mutated(source: &mut Source<'_>, original: &[u8]) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..source.below(6).saturating_sub(2) {
        let at = source.below(bytes.len() + 1);
        match source.below(5) {
            0 => bytes.insert(at, source.pick(TELLING)),
            1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = source.any()),
            2 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = source.pick(TELLING)),
            3 => {
                let length = source.below(9);
                let part: Vec<u8> = bytes.iter().copied().skip(at).take(length).collect();
                drop(bytes.splice(at..at, part));
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}
