//! SCRAM: what is kept of a password, and both sides of a login.
//!
//! Source: RFC 5802, RFC 7677; driver specification "Authentication".

mod client;
mod server;

pub use client::{ScramChallenge, ScramClient, ScramKeys, ScramProof};
pub use server::{ScramFailure, ScramServer};

use base64ct::{Base64, Encoding};
use document::{Document, RawDocument, RawValue, doc};
use hmac::{Hmac, Mac};
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::Sha256;

/// How a user shows that it knows its password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// SCRAM-SHA-1 over MongoDB's digest of name and password.
    ScramSha1,
    /// SCRAM-SHA-256 over the prepared password.
    ScramSha256,
}

impl Mechanism {
    /// Both, in the order in which they are told.
    pub const ALL: [Mechanism; 2] = [Mechanism::ScramSha1, Mechanism::ScramSha256];

    /// As clients name it.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::ScramSha1 => "SCRAM-SHA-1",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
        }
    }

    /// The mechanism of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    /// Bytes of a salt: with its counter it fills one block of the hash.
    pub const fn salt_length(self) -> usize {
        match self {
            Mechanism::ScramSha1 => 16,
            Mechanism::ScramSha256 => 28,
        }
    }

    /// `Hi` of the RFC: a slow hash of the password. Takes milliseconds: not for event loops.
    fn salted(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        match self {
            Mechanism::ScramSha1 => {
                pbkdf2::pbkdf2_hmac_array::<Sha1, 20>(password, salt, iterations).to_vec()
            }
            Mechanism::ScramSha256 => {
                pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password, salt, iterations).to_vec()
            }
        }
    }

    pub(crate) fn hmac(self, key: &[u8], text: &[u8]) -> Vec<u8> {
        const ANY_KEY: &str = "HMAC takes keys of any length";
        match self {
            Mechanism::ScramSha1 => {
                let mac = Hmac::<Sha1>::new_from_slice(key).expect(ANY_KEY);
                mac.chain_update(text).finalize().into_bytes().to_vec()
            }
            Mechanism::ScramSha256 => {
                let mac = Hmac::<Sha256>::new_from_slice(key).expect(ANY_KEY);
                mac.chain_update(text).finalize().into_bytes().to_vec()
            }
        }
    }

    pub(crate) fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Mechanism::ScramSha1 => Sha1::digest(bytes).to_vec(),
            Mechanism::ScramSha256 => Sha256::digest(bytes).to_vec(),
        }
    }
}

/// What SCRAM-SHA-1 takes for the password: MongoDB's digest of name and password, in hexadecimal.
pub fn password_digest(user: &str, password: &str) -> String {
    let digest = Md5::digest(format!("{user}:mongo:{password}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is kept of a password: enough to check a proof, too little to make one.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramCredentials {
    /// Rounds of the slow hash.
    pub iterations: u32,
    salt: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl std::fmt::Debug for ScramCredentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ScramCredentials")
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

impl ScramCredentials {
    /// Salts a password, which has been prepared or digested. Takes milliseconds: not for event loops.
    pub fn new(mechanism: Mechanism, password: &str, salt: &[u8], iterations: u32) -> Self {
        ScramKeys::new(mechanism, password, salt, iterations).into_credentials(salt, iterations)
    }

    /// Credentials of nobody, which look like somebody's: the same ones for the same name, and no password
    /// meets them.
    pub fn of_nobody(mechanism: Mechanism, secret: &[u8], user: &str, iterations: u32) -> Self {
        let derived = |what: &str| {
            Mechanism::ScramSha256.hmac(secret, format!("{what}:{}:{user}", mechanism.name()).as_bytes())
        };
        let mut salt = derived("salt");
        salt.truncate(mechanism.salt_length());
        let key = |what: &str| mechanism.hash(&derived(what));
        ScramCredentials { iterations, salt, stored_key: key("stored"), server_key: key("server") }
    }

    /// Reads what is stored: `{iterationCount, salt, storedKey, serverKey}`. `None` for what is none.
    pub fn parse(mechanism: Mechanism, stored: RawDocument<'_>) -> Option<Self> {
        let bytes = |name: &str| Base64::decode_vec(stored.get(name)?.as_str()?).ok();
        let iterations = stored.get("iterationCount").and_then(RawValue::as_i64_exact)?;
        let credentials = ScramCredentials {
            iterations: u32::try_from(iterations).ok().filter(|count| *count > 0)?,
            salt: bytes("salt")?,
            stored_key: bytes("storedKey")?,
            server_key: bytes("serverKey")?,
        };
        let length = mechanism.hash(&[]).len();
        let is_whole = credentials.stored_key.len() == length && credentials.server_key.len() == length;
        is_whole.then_some(credentials)
    }

    /// As it is stored.
    pub fn to_document(&self) -> Document {
        let text = Base64::encode_string;
        doc! {
            "iterationCount": (i64::from(self.iterations) as i32), "salt": (text(&self.salt)),
            "storedKey": (text(&self.stored_key)), "serverKey": (text(&self.server_key)),
        }
    }
}
