//! OP_QUERY: what clients that do not know the server yet say `hello` with.

use crate::bytes::{read_i32, read_u32, split_c_string, split_document};
use crate::op_msg::check_document;
use crate::{HEADER_LENGTH, MessageRef, WireError};
use document::RawDocument;

const COMMAND_COLLECTION: &str = ".$cmd";

/// A parsed OP_QUERY that carries a command.
#[derive(Clone, Copy, Debug)]
pub struct OpQuery<'a> {
    /// The query flags, e.g. bit 2: may run on a secondary.
    pub flags: u32,
    /// The database the command runs on.
    pub database: &'a str,
    /// The command; `$query` wrappers are removed.
    pub command: RawDocument<'a>,
}

impl<'a> OpQuery<'a> {
    /// Reads and validates an OP_QUERY.
    ///
    /// # Errors
    /// [`WireError::LegacyQuery`] when it queries a collection instead of running a command; otherwise as
    /// bytes come short.
    pub fn parse(message: MessageRef<'a>) -> Result<Self, WireError> {
        let bytes = message.bytes();
        let truncated = |part| WireError::Truncated { part, length: bytes.len() };
        let flags = read_u32(bytes, HEADER_LENGTH).ok_or_else(|| truncated("flags"))?;
        let rest = bytes.get(HEADER_LENGTH + 4..).ok_or_else(|| truncated("namespace"))?;
        let (namespace, rest) = split_c_string(rest).ok_or_else(|| truncated("namespace"))?;
        let namespace = std::str::from_utf8(namespace).map_err(|_| WireError::Utf8 { part: "namespace" })?;
        read_i32(rest, 4).ok_or_else(|| truncated("skip and return counts"))?;
        let rest = rest.get(8..).unwrap_or_default();
        let (document, rest) = split_document(rest).ok_or_else(|| truncated("query document"))?;
        let document = check_document(document, "query document")?;
        Self::check_projection(rest)?;
        let database = namespace
            .strip_suffix(COMMAND_COLLECTION)
            .ok_or_else(|| WireError::LegacyQuery { namespace: namespace.to_owned() })?;
        Ok(Self { flags, database, command: Self::unwrap_query(document) })
    }

    /// Behind the query at most a projection may stand, and nothing behind it.
    fn check_projection(rest: &[u8]) -> Result<(), WireError> {
        if rest.is_empty() {
            return Ok(());
        }
        match split_document(rest) {
            Some((_, [])) => Ok(()),
            _ => Err(WireError::TrailingBytes { count: rest.len() }),
        }
    }

    pub(crate) fn unwrap_query(document: RawDocument<'a>) -> RawDocument<'a> {
        match document.first() {
            Some(element) if matches!(element.name(), "$query" | "query") => {
                element.value().as_document().unwrap_or(document)
            }
            _ => document,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommandMessage, MAX_MESSAGE_SIZE, ReplyBuilder, parse_reply};
    use document::doc;

    fn check(database: &str, command: document::Document, expect: (&str, &str)) {
        let message = CommandMessage::legacy(database, command.to_buf().as_raw(), 9);
        let parsed = OpQuery::parse(message.as_ref(MAX_MESSAGE_SIZE).unwrap()).expect("a well-formed query");
        let name = parsed.command.first().expect("a command has a field").name().to_owned();
        assert_eq!((parsed.database, name.as_str()), expect);
    }

    #[test]
    fn commands_and_wrapped_commands() {
        check("admin", doc! { "isMaster": 1 }, ("admin", "isMaster"));
        check(
            "test",
            doc! { "$query": { "hello": 1 }, "$readPreference": { "mode": "primary" } },
            ("test", "hello"),
        );
    }

    #[test]
    fn queries_on_collections_are_refused() {
        let command = doc! { "a": 1 }.to_buf();
        let mut bytes = CommandMessage::legacy("test", command.as_raw(), 9).into_bytes();
        bytes[25] = b'c';
        let error = OpQuery::parse(MessageRef::parse(&bytes, MAX_MESSAGE_SIZE).unwrap()).unwrap_err();
        assert_eq!((error.code(), error.is_fatal()), (352, false));
    }

    #[test]
    fn every_truncation_is_an_error() {
        let command = doc! { "isMaster": 1 }.to_buf();
        let whole = CommandMessage::legacy("admin", command.as_raw(), 9).into_bytes();
        for length in 16..whole.len() {
            let mut bytes = whole[..length].to_vec();
            bytes[..4].copy_from_slice(&(length as i32).to_le_bytes());
            let parsed = OpQuery::parse(MessageRef::parse(&bytes, MAX_MESSAGE_SIZE).unwrap());
            assert!(parsed.is_err(), "{length} of {} bytes were accepted", whole.len());
        }
    }

    #[test]
    fn the_answer_is_an_op_reply() {
        let command = doc! { "isMaster": 1 }.to_buf();
        let request = CommandMessage::legacy("admin", command.as_raw(), 9);
        let format = request.as_ref(MAX_MESSAGE_SIZE).unwrap().reply_format();
        let mut reply = ReplyBuilder::new(Vec::new(), format);
        reply.body().append("ok", 1.0);
        let mut reply = reply.finish();
        reply.seal(3, 9);
        let view = reply.as_ref(MAX_MESSAGE_SIZE).unwrap();
        assert_eq!(view.header().opcode, crate::OpCode::Reply);
        assert_eq!(&reply.bytes()[32..36], &[1, 0, 0, 0], "number returned");
        assert_eq!(parse_reply(view).unwrap().to_document(), doc! { "ok": 1.0 });
    }
}
