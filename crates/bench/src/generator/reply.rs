//! Whether a reply is a good one.

use crate::generator::traffic::{Failure, FailureKind};
use crate::message::reply_body;
use document::{ElementType, RawDocument, RawValue};

/// What is wrong with a whole reply, if anything is.
#[inline]
pub(crate) fn failure(reply: &[u8]) -> Option<Failure> {
    if is_plainly_good(reply).unwrap_or_default() { None } else { closer_look(reply) }
}

/// Whether a reply says `ok: 1` and has no field that could say otherwise; anything unusual deserves a closer
/// look. Nearly every reply passes here, so it is all done in one walk over the bytes of the top level.
fn is_plainly_good(reply: &[u8]) -> Option<bool> {
    const OK: [u8; 3] = *b"ok\0";
    let mut rest = reply_body(reply).ok()?.as_bytes().get(4..)?;
    let mut is_ok = false;
    loop {
        let (&code, name) = rest.split_first()?;
        if code == 0 {
            return Some(is_ok);
        }
        // `writeErrors` and `writeConcernError`.
        if name.first() == Some(&b'w') {
            return None;
        }
        let value = name.get(name.iter().position(|&byte| byte == 0)? + 1..)?;
        if name.first_chunk() == Some(&OK) {
            is_ok = code == ElementType::Double.code() && value.first_chunk() == Some(&1_f64.to_le_bytes());
        }
        rest = value.get(plain_length(code, value)?..)?;
    }
}

/// How long the value of a type is that is usual on a reply's top level.
#[inline]
fn plain_length(code: u8, value: &[u8]) -> Option<usize> {
    const WORD: usize = 8;
    let prefix = || value.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
    match ElementType::from_code(code)? {
        ElementType::Double | ElementType::DateTime | ElementType::Timestamp | ElementType::Int64 => {
            Some(WORD)
        }
        ElementType::Document | ElementType::Array => prefix(),
        ElementType::String => Some(prefix()? + 4),
        ElementType::Int32 => Some(4),
        ElementType::Boolean => Some(1),
        _ => None,
    }
}

/// One walk over the fields of the top level, which are few.
#[cold]
fn closer_look(reply: &[u8]) -> Option<Failure> {
    let Ok(body) = reply_body(reply) else {
        return Some(Failure::protocol("not an OP_MSG with a body"));
    };
    let (mut ok, mut code, mut code_name) = (None, None, None);
    let (mut write_error, mut concern_error) = (None, None);
    for element in body {
        match element.name_bytes() {
            b"ok" => ok = Some(matches!(element.value(), RawValue::Double(1.0) | RawValue::Int32(1))),
            b"code" => code = Some(element.value()),
            b"codeName" => code_name = element.value().as_str(),
            b"writeErrors" => {
                write_error = element.value().as_array().and_then(|errors| errors.get(0)?.as_document());
            }
            b"writeConcernError" => concern_error = element.value().as_document(),
            _ => {}
        }
    }
    match ok {
        Some(true) => write_error
            .map(|error| of_document(FailureKind::Write, error))
            .or_else(|| concern_error.map(|error| of_document(FailureKind::WriteConcern, error))),
        Some(false) => Some(named(FailureKind::Server, code.and_then(number), code_name)),
        None => Some(Failure::unexpected("reply without ok: 1")),
    }
}

/// An error within a reply: `{code, codeName?, errmsg}`.
fn of_document(kind: FailureKind, error: RawDocument<'_>) -> Failure {
    let code_name = error.get("codeName").and_then(|name| name.as_str());
    named(kind, error.get("code").and_then(number), code_name)
}

fn named(kind: FailureKind, code: Option<i32>, name: Option<&str>) -> Failure {
    let name = match (name, code) {
        (Some(name), _) => name.to_owned(),
        (None, Some(code)) => wire::code_name(code).into_owned(),
        (None, None) => "error without a code".to_owned(),
    };
    Failure { kind, code, name }
}

fn number(value: RawValue<'_>) -> Option<i32> {
    match value {
        RawValue::Int32(code) => Some(code),
        RawValue::Int64(code) => i32::try_from(code).ok(),
        RawValue::Double(code) => Some(code as i32),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::encode;
    use document::doc;

    fn check(reply: document::Document, expect: Option<&str>) {
        let found = failure(&encode(&reply)).map(|failure| failure.to_string());
        assert_eq!(found.as_deref(), expect, "for {reply:?}");
    }

    #[test]
    fn replies_that_are_not_ok_are_errors() {
        check(doc! { "n": 1, "ok": 1.0 }, None);
        check(doc! { "n": 1, "ok": 1, "operationTime": 5 }, None);
        check(
            doc! { "ok": 0.0, "code": 59, "codeName": "CommandNotFound" },
            Some("server 59: CommandNotFound"),
        );
        check(doc! { "ok": 0.0, "errmsg": "no" }, Some("server: error without a code"));
        check(doc! { "n": 1 }, Some("unexpected: reply without ok: 1"));
        check(doc! { "cursor": { "ok": 1.0 } }, Some("unexpected: reply without ok: 1"));
    }

    #[test]
    fn usual_replies_need_no_closer_look() {
        let plainly = |reply: &document::Document| is_plainly_good(&encode(reply));
        let reply = doc! {
            "cursor": { "firstBatch": [{ "_id": 1 }], "id": 0_i64 }, "name": "x", "n": 1, "big": 1_i64,
            "is": true, "ok": 1.0,
        };
        assert_eq!(plainly(&reply), Some(true), "{reply:?}");
        assert_eq!(plainly(&doc! { "ok": 0.0, "code": 59 }), Some(false));
        assert_eq!(plainly(&doc! { "writeErrors": [{ "code": 1 }], "ok": 1.0 }), None);
        assert_eq!(plainly(&doc! { "nothing": (document::Value::Null), "ok": 1.0 }), None);
        check(doc! { "nothing": (document::Value::Null), "ok": 1.0 }, None);
    }

    #[test]
    fn a_reply_that_is_cut_off_is_not_good() {
        let whole = encode(&doc! { "text": "some text", "ok": 1.0 });
        for length in 0..whole.len() - 1 {
            assert_ne!(is_plainly_good(&whole[..length]), Some(true), "{length} bytes");
        }
    }

    #[test]
    fn failed_writes_have_their_first_code() {
        let errors =
            doc! { "n": 0, "writeErrors": [{ "index": 0, "code": 11000 }, { "code": 1 }], "ok": 1.0 };
        check(errors, Some("write 11000: DuplicateKey"));
        let concern =
            doc! { "n": 1, "writeConcernError": { "code": 64, "codeName": "WriteConcernFailed" }, "ok": 1.0 };
        check(concern, Some("writeConcern 64: WriteConcernFailed"));
        check(doc! { "ok": 0.0, "code": 462_i64 }, Some(&format!("server 462: {}", wire::code_name(462))));
    }

    #[test]
    fn bytes_of_another_protocol_are_an_error() {
        assert!(failure(b"HTTP/1.1 400 Bad Request\r\n\r\n").is_some());
    }
}
