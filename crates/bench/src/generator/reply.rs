//! Whether a reply is a good one.

use crate::template::reply_body;
use document::RawValue;

/// What is wrong with a whole reply, if anything is. One walk over the fields of the top level, which are few.
pub(crate) fn failure(reply: &[u8], least_bytes: usize) -> Option<String> {
    let body = match reply_body(reply) {
        Ok(body) => body,
        Err(error) => return Some(error.to_string()),
    };
    let (mut ok, mut has_write_errors, mut code_name) = (false, false, None);
    for element in body {
        match element.name_bytes() {
            b"ok" => ok = matches!(element.value(), RawValue::Double(1.0) | RawValue::Int32(1)),
            b"writeErrors" => has_write_errors = true,
            b"codeName" => code_name = element.value().as_str(),
            _ => {}
        }
    }
    match (ok, has_write_errors) {
        (true, false) if reply.len() >= least_bytes => None,
        (true, false) => Some("reply shorter than its documents".to_owned()),
        (true, true) => Some("writeErrors".to_owned()),
        (false, _) => Some(code_name.unwrap_or("reply without ok: 1").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::encode;
    use document::doc;

    fn check(reply: document::Document, least_bytes: usize, expect: Option<&str>) {
        assert_eq!(failure(&encode(&reply), least_bytes).as_deref(), expect, "for {reply:?}");
    }

    #[test]
    fn replies_that_are_not_ok_are_errors() {
        check(doc! { "n": 1, "ok": 1.0 }, 0, None);
        check(doc! { "n": 1, "ok": 1, "operationTime": 5 }, 0, None);
        check(doc! { "ok": 0.0, "code": 59, "codeName": "CommandNotFound" }, 0, Some("CommandNotFound"));
        check(doc! { "n": 0, "writeErrors": [{ "code": 11000 }], "ok": 1.0 }, 0, Some("writeErrors"));
        check(doc! { "n": 1 }, 0, Some("reply without ok: 1"));
        check(doc! { "cursor": { "ok": 1.0 } }, 0, Some("reply without ok: 1"));
    }

    #[test]
    fn a_reply_without_its_documents_is_an_error() {
        check(
            doc! { "cursor": { "firstBatch": [] }, "ok": 1.0 },
            1_000,
            Some("reply shorter than its documents"),
        );
    }

    #[test]
    fn bytes_of_another_protocol_are_an_error() {
        assert!(failure(b"HTTP/1.1 400 Bad Request\r\n\r\n", 0).is_some());
    }
}
