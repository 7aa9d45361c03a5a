//! OP_QUERY: what clients that do not know the server yet say `hello` with.

use crate::bytes::{read_i32, read_u32, split_c_string, split_document};
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
    /// [`WireError::LegacyQuery`] when it queries a collection instead of running a command; otherwise as bytes come short.
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
        let document = RawDocument::parse(document)
            .map_err(|error| WireError::Document { part: "query document", error })?;
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

    fn unwrap_query(document: RawDocument<'a>) -> RawDocument<'a> {
        match document.first() {
            Some(element) if matches!(element.name(), "$query" | "query") => {
                element.value().as_document().unwrap_or(document)
            }
            _ => document,
        }
    }
}
