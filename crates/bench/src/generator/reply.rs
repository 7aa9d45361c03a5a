//! Whether a reply is a good one.

use crate::generator::traffic::{Failure, FailureKind};
use crate::template::reply_body;
use document::{RawDocument, RawValue};

/// What is wrong with a whole reply, if anything is. One walk over the fields of the top level, which are few.
pub(crate) fn failure(reply: &[u8]) -> Option<Failure> {
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
    use crate::template::encode;
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
