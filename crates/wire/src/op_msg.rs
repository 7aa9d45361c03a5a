//! OP_MSG, the operation of all requests and replies.

use crate::bytes::{read_i32, read_u32, split_c_string, split_document};
use crate::message::{CHECKSUM_LENGTH, FLAGS_OFFSET};
use crate::{MAX_COMMAND_SIZE, MessageRef, OpMsgFlags, WireError};
use document::RawDocument;

pub(crate) const KIND_BODY: u8 = 0;
const KIND_SEQUENCE: u8 = 1;
/// The most document sequences of one message: no command has more than two. Each is compared with the others
/// and the body.
const MOST_SEQUENCES: usize = 16;

/// A parsed OP_MSG, borrowed from its message. All documents in it were validated.
#[derive(Clone, Debug)]
pub struct OpMsg<'a> {
    /// The flag bits; unknown required bits were refused.
    pub flags: OpMsgFlags,
    /// The body: a command or its reply.
    pub body: RawDocument<'a>,
    /// The document sequences in the order they came; names are unique and not fields of the body.
    pub sequences: Vec<DocumentSequence<'a>>,
    /// The checksum if there was one; it was verified.
    pub checksum: Option<u32>,
}

/// Documents sent outside of the body, as if `identifier` were an array field of the body.
#[derive(Clone, Copy, Debug)]
pub struct DocumentSequence<'a> {
    /// The field that these documents belong to, e.g. `documents`.
    pub identifier: &'a str,
    documents: &'a [u8],
    count: usize,
}

impl<'a> DocumentSequence<'a> {
    /// The documents in order.
    #[must_use]
    pub const fn iter(&self) -> Documents<'a> {
        Documents { rest: self.documents, left: self.count }
    }

    /// How many documents there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no document.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'a> IntoIterator for DocumentSequence<'a> {
    type Item = RawDocument<'a>;
    type IntoIter = Documents<'a>;

    fn into_iter(self) -> Documents<'a> {
        self.iter()
    }
}

/// The documents of a sequence.
#[derive(Clone, Debug)]
pub struct Documents<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Iterator for Documents<'a> {
    type Item = RawDocument<'a>;

    #[inline]
    fn next(&mut self) -> Option<RawDocument<'a>> {
        let (document, rest) = split_document(self.rest)?;
        self.rest = rest;
        self.left = self.left.saturating_sub(1);
        Some(RawDocument::trusted(document))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Documents<'_> {}

impl<'a> OpMsg<'a> {
    /// Reads and validates a whole OP_MSG, its checksum included.
    ///
    /// # Errors
    /// Every [`WireError`] that speaks of OP_MSG; see [`WireError::is_fatal`].
    pub fn parse(message: MessageRef<'a>) -> Result<Self, WireError> {
        let bytes = message.bytes();
        let truncated = |part| WireError::Truncated { part, length: bytes.len() };
        let flags = read_u32(bytes, FLAGS_OFFSET).ok_or_else(|| truncated("flags"))?;
        let flags = OpMsgFlags::parse(flags)?;
        let (sections, checksum) = Self::verify_checksum(bytes, flags)?;
        let mut parser = SectionParser { length: bytes.len(), body: None, sequences: Vec::new() };
        let mut rest = sections.get(FLAGS_OFFSET + 4..).ok_or_else(|| truncated("flags"))?;
        while let Some((&kind, section)) = rest.split_first() {
            rest = parser.section(kind, section)?;
        }
        let body = parser.body.ok_or(WireError::NoBody)?;
        for sequence in &parser.sequences {
            if body.contains(sequence.identifier) {
                return Err(WireError::SequenceInBody { identifier: sequence.identifier.to_owned() });
            }
        }
        Ok(Self { flags, body, sequences: parser.sequences, checksum })
    }

    /// The bytes before the checksum, and the checksum if there is one.
    fn verify_checksum(bytes: &[u8], flags: OpMsgFlags) -> Result<(&[u8], Option<u32>), WireError> {
        if !flags.contains(OpMsgFlags::CHECKSUM_PRESENT) {
            return Ok((bytes, None));
        }
        let truncated = WireError::Truncated { part: "checksum", length: bytes.len() };
        let end = bytes.len().saturating_sub(CHECKSUM_LENGTH);
        if end < FLAGS_OFFSET + 4 {
            return Err(truncated);
        }
        let (Some(covered), Some(expected)) = (bytes.get(..end), read_u32(bytes, end)) else {
            return Err(truncated);
        };
        let found = crc32c::crc32c(covered);
        if found != expected {
            return Err(WireError::Checksum { expected, found });
        }
        Ok((covered, Some(expected)))
    }

    /// The sequence of this name.
    #[must_use]
    pub fn sequence(&self, identifier: &str) -> Option<DocumentSequence<'a>> {
        self.sequences.iter().copied().find(|sequence| sequence.identifier == identifier)
    }
}

struct SectionParser<'a> {
    length: usize,
    body: Option<RawDocument<'a>>,
    sequences: Vec<DocumentSequence<'a>>,
}

impl<'a> SectionParser<'a> {
    /// Reads one section behind its kind byte and returns what follows it.
    fn section(&mut self, kind: u8, bytes: &'a [u8]) -> Result<&'a [u8], WireError> {
        match kind {
            KIND_BODY => {
                let truncated = WireError::Truncated { part: "body section", length: self.length };
                let (body, rest) = split_document(bytes).ok_or(truncated)?;
                if self.body.is_some() {
                    return Err(WireError::SecondBody);
                }
                self.body = Some(check_document(body, "body section")?);
                Ok(rest)
            }
            KIND_SEQUENCE => {
                let truncated = WireError::Truncated { part: "document sequence", length: self.length };
                let size = read_i32(bytes, 0).ok_or_else(|| truncated.clone())?;
                let size = usize::try_from(size)
                    .map_err(|_| WireError::Sequence { reason: "its size is negative" })?;
                let (sequence, rest) = bytes.split_at_checked(size).ok_or(truncated)?;
                if self.sequences.len() >= MOST_SEQUENCES {
                    return Err(WireError::TooManySequences { maximum: MOST_SEQUENCES });
                }
                let sequence = Self::sequence(sequence)?;
                if self.sequences.iter().any(|known| known.identifier == sequence.identifier) {
                    let identifier = sequence.identifier.to_owned();
                    return Err(WireError::DuplicateSequence { identifier });
                }
                self.sequences.push(sequence);
                Ok(rest)
            }
            _ => Err(WireError::SectionKind { kind }),
        }
    }

    fn sequence(bytes: &'a [u8]) -> Result<DocumentSequence<'a>, WireError> {
        let named =
            bytes.get(4..).ok_or(WireError::Sequence { reason: "it is shorter than its size field" })?;
        let (identifier, documents) =
            split_c_string(named).ok_or(WireError::Sequence { reason: "its identifier has no end" })?;
        let identifier = std::str::from_utf8(identifier)
            .map_err(|_| WireError::Utf8 { part: "document sequence identifier" })?;
        let mut rest = documents;
        let mut count = 0;
        while !rest.is_empty() {
            let (document, after) =
                split_document(rest).ok_or(WireError::Sequence { reason: "a document runs over its end" })?;
            check_document(document, "document sequence")?;
            rest = after;
            count += 1;
        }
        Ok(DocumentSequence { identifier, documents, count })
    }
}

/// Looks at a document's size before anything else, then at all of it.
pub(crate) fn check_document<'a>(bytes: &'a [u8], part: &'static str) -> Result<RawDocument<'a>, WireError> {
    if bytes.len() > MAX_COMMAND_SIZE {
        return Err(WireError::DocumentTooLarge { length: bytes.len() });
    }
    RawDocument::parse(bytes).map_err(|error| WireError::Document { part, error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommandMessage, MAX_MESSAGE_SIZE};
    use document::doc;

    /// Parses an OP_MSG whose payload (flags and sections) is given.
    fn parse(payload: &[u8]) -> Result<(usize, Vec<(String, usize)>), WireError> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&(16 + payload.len() as i32).to_le_bytes());
        bytes.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&2013i32.to_le_bytes());
        bytes.extend_from_slice(payload);
        let message = MessageRef::parse(&bytes, MAX_MESSAGE_SIZE)?;
        let parsed = OpMsg::parse(message)?;
        let sequences = parsed.sequences.iter();
        Ok((
            parsed.body.iter().count(),
            sequences.map(|found| (found.identifier.to_owned(), found.len())).collect(),
        ))
    }

    fn payload(flags: u32, sections: &[&[u8]]) -> Vec<u8> {
        let mut payload = flags.to_le_bytes().to_vec();
        for section in sections {
            payload.extend_from_slice(section);
        }
        payload
    }

    fn body() -> Vec<u8> {
        let mut section = vec![0];
        section.extend_from_slice(doc! { "insert": "c", "$db": "d" }.to_buf().as_raw().as_bytes());
        section
    }

    fn sequence(identifier: &str, documents: usize) -> Vec<u8> {
        let mut rest = identifier.as_bytes().to_vec();
        rest.push(0);
        for number in 0..documents {
            rest.extend_from_slice(doc! { "_id": number as i32 }.to_buf().as_raw().as_bytes());
        }
        let mut section = vec![1];
        section.extend_from_slice(&(rest.len() as i32 + 4).to_le_bytes());
        section.extend_from_slice(&rest);
        section
    }

    #[track_caller]
    fn check(sections: &[&[u8]], expect: Result<&[(&str, usize)], i32>) {
        let found = parse(&payload(0, sections));
        match expect {
            Ok(sequences) => {
                let (fields, found) = found.expect("this message is well-formed");
                assert_eq!(fields, 2, "fields of the body");
                let found: Vec<_> = found.iter().map(|(name, count)| (name.as_str(), *count)).collect();
                assert_eq!(found, sequences);
            }
            Err(code) => assert_eq!(found.expect_err("this message is malformed").code(), code),
        }
    }

    #[test]
    fn sections_in_any_order() {
        check(&[&body()], Ok(&[]));
        check(&[&body(), &sequence("documents", 3)], Ok(&[("documents", 3)]));
        check(&[&sequence("documents", 0), &body()], Ok(&[("documents", 0)]));
        check(&[&sequence("a", 1), &body(), &sequence("b", 2)], Ok(&[("a", 1), ("b", 2)]));
    }

    #[test]
    fn malformed_sections() {
        check(&[], Err(40587));
        check(&[&sequence("a", 1)], Err(40587));
        check(&[&body(), &body()], Err(40430));
        check(&[&body(), &sequence("a", 1), &sequence("a", 1)], Err(40431));
        check(&[&body(), &[2, 0, 0, 0, 0]], Err(40432));
        check(&[&body(), &sequence("insert", 1)], Err(40433));
        check(&[&[0, 5, 0, 0, 0, 1]], Err(22));
        check(&[&[0, 5, 0, 0]], Err(17));
        check(&[&[0, 4, 0, 0, 0]], Err(17));
        check(&[&body(), &[1, 0xff, 0xff, 0xff, 0xff]], Err(2));
        check(&[&body(), &[1, 100, 0, 0, 0]], Err(17));
        check(&[&body(), &[1, 6, 0, 0, 0, b'a', b'b']], Err(2));
        check(&[&body(), &[1, 7, 0, 0, 0, b'a', 0, 7]], Err(2));
        check(&[&body(), &[1, 6, 0, 0, 0, 0xff, 0]], Err(22));
    }

    /// A body section whose document has this length.
    fn long_body(length: usize) -> Vec<u8> {
        let text = "x".repeat(length - doc! { "ping": "" }.to_buf().as_bytes().len());
        let mut section = vec![0];
        section.extend_from_slice(doc! { "ping": text }.to_buf().as_bytes());
        section
    }

    #[test]
    fn documents_that_are_too_large_are_refused_by_their_length() {
        let parsed = |length| parse(&payload(0, &[&long_body(length)])).map(|(fields, _)| fields);
        assert_eq!(parsed(MAX_COMMAND_SIZE), Ok(1), "a document of 16 MiB and what a command adds");
        let error = parsed(MAX_COMMAND_SIZE + 1).expect_err("one byte too many");
        assert_eq!((error.code(), error.is_fatal()), (10334, false));
        assert_eq!(
            error.to_string(),
            "BSONObj size: 16793601 (0x1004001) is invalid. Size must be between 0 and 16793600(16MB)"
        );
    }

    #[test]
    fn sequences_are_few() {
        let names: Vec<String> = (0..=MOST_SEQUENCES).map(|number| format!("s{number}")).collect();
        let sequences: Vec<Vec<u8>> = names.iter().map(|name| sequence(name, 1)).collect();
        let mut sections: Vec<&[u8]> = sequences.iter().map(Vec::as_slice).collect();
        let body = body();
        sections.insert(0, &body);
        check(&sections, Err(2));
        sections.pop();
        assert_eq!(parse(&payload(0, &sections)).map(|(_, found)| found.len()), Ok(MOST_SEQUENCES));
    }

    #[test]
    fn required_flags_are_checked_and_optional_ones_ignored() {
        let with_flags = |flags| parse(&payload(flags, &[&body()]));
        assert_eq!(with_flags(1 << 2), Err(WireError::Flags { flags: 1 << 2 }));
        assert_eq!(with_flags(1 << 15), Err(WireError::Flags { flags: 1 << 15 }));
        assert!(with_flags(1 << 17).is_ok(), "unknown optional flag bits must be ignored");
        assert!(with_flags(1 << 31 | 2).is_ok(), "moreToCome is a known flag");
        assert!(with_flags(1).is_err(), "a checksum that is not there was accepted");
    }

    #[test]
    fn every_damaged_byte_fails_the_checksum() {
        let command = doc! { "ping": 1, "$db": "admin" }.to_buf();
        let message = CommandMessage::new(command.as_raw()).flags(OpMsgFlags::CHECKSUM_PRESENT).finish(7);
        let whole = OpMsg::parse(message.as_ref(MAX_MESSAGE_SIZE).unwrap()).expect("an undamaged message");
        assert!(whole.checksum.is_some());
        for position in 20..message.bytes().len() {
            let mut bytes = message.bytes().to_vec();
            bytes[position] ^= 0x10;
            let error = OpMsg::parse(MessageRef::parse(&bytes, MAX_MESSAGE_SIZE).unwrap()).err();
            assert!(
                matches!(error, Some(WireError::Checksum { .. })),
                "damage at byte {position} gave {error:?}"
            );
        }
    }

    #[test]
    fn checksum_is_castagnoli() {
        // The check value of CRC-32C (RFC 3720, B.4: 32 bytes of zeroes).
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
    }
}
