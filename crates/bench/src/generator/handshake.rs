//! The first words on a connection: `hello`, and the compressor that comes of it.

use crate::generator::reply::failure;
use crate::generator::traffic::Failure;
use crate::message::{encode, reply_body};
use access::LoginIdentity;
use document::{Document, Value, doc};
use wire::Compressor;

const NAME: &str = "heddle bench";

/// The `hello` of a connection that offers these compressors, and on which this user logs in.
pub(crate) fn hello(compressors: &[Compressor], identity: Option<&LoginIdentity>) -> Vec<u8> {
    let offered: Vec<Value> = compressors.iter().map(|compressor| compressor.name().into()).collect();
    let driver = doc! { "name": NAME, "version": env!("CARGO_PKG_VERSION") };
    let system = doc! { "type": std::env::consts::OS };
    let mut command: Document =
        doc! { "hello": 1, "helloOk": true, "client": { "driver": driver, "os": system } };
    command.push("compression".to_owned(), Value::from(offered));
    if let Some(user) = identity.and_then(LoginIdentity::asks_mechanisms_of) {
        command.push("saslSupportedMechs", user);
    }
    command.push("$db".to_owned(), Value::from("admin"));
    encode(&command)
}

/// The compressor to be used from now on: the first offered one that the server has too.
pub(crate) fn agreed(reply: &[u8], offered: &[Compressor]) -> Result<Option<Compressor>, Failure> {
    if let Some(failure) = failure(reply) {
        return Err(failure);
    }
    let body = reply_body(reply).map_err(|_| Failure::protocol("not an OP_MSG with a body"))?;
    let theirs = body.get("compression").and_then(|names| names.as_array());
    let has = |compressor: &&Compressor| {
        theirs.is_some_and(|names| names.iter().any(|name| name.as_str() == Some(compressor.name())))
    };
    Ok(offered.iter().find(has).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reply: Document, expect: Result<Option<Compressor>, &str>) {
        let found = agreed(&encode(&reply), &[Compressor::Zstd, Compressor::Snappy]);
        assert_eq!(found.map_err(|failure| failure.name), expect.map_err(str::to_owned), "for {reply:?}");
    }

    #[test]
    fn the_first_common_compressor_is_agreed_on() {
        check(doc! { "ok": 1.0, "compression": ["snappy", "zstd"] }, Ok(Some(Compressor::Zstd)));
        check(doc! { "ok": 1.0, "compression": ["zlib", "snappy"] }, Ok(Some(Compressor::Snappy)));
        check(doc! { "ok": 1.0, "compression": ["zlib"] }, Ok(None));
        check(doc! { "ok": 1.0 }, Ok(None));
        check(doc! { "ok": 0.0, "code": 462, "codeName": "Overloaded" }, Err("Overloaded"));
    }

    #[test]
    fn a_hello_is_what_servers_expect() {
        let message = hello(&[Compressor::Zlib], None);
        let body = reply_body(&message).expect("an OP_MSG").to_document();
        assert_eq!(body.get("compression"), Some(&Value::from(vec![Value::from("zlib")])), "{body:?}");
        assert_eq!(body.get("$db"), Some(&Value::from("admin")), "{body:?}");
    }
}
