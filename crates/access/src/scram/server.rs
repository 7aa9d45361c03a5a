//! The server's side of one SCRAM login: two messages each way.
//!
//! ```text
//!   client                                       server
//!   n,,n=user,r=nonce                       ──▶  parse; look the user up
//!                                           ◀──  r=nonce+ours,s=salt,i=iterations
//!   c=biws,r=nonce+ours,p=proof             ──▶  check the proof
//!                                           ◀──  v=signature
//! ```

use super::{Mechanism, ScramCredentials};
use base64ct::{Base64, Encoding};
use subtle::ConstantTimeEq;

/// A message of a client that cannot be, or a proof that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScramFailure {
    /// A message that is none of SCRAM's, or does not fit the one before.
    #[error("a message does not follow the protocol: {0}")]
    Malformed(&'static str),
    /// Whoever it is does not know the password.
    #[error("the proof is wrong")]
    WrongProof,
    /// The server does not know it.
    #[error("the server's signature is wrong: it does not know the password")]
    WrongSignature,
}

/// A login between its first and its last message.
#[derive(Debug)]
pub struct ScramServer {
    mechanism: Mechanism,
    credentials: ScramCredentials,
    /// Of other passwords that do as well, with the same salt.
    others: Vec<ScramCredentials>,
    /// Of the client and ours, one behind the other.
    nonce: String,
    /// The first messages of both sides, which the proof covers.
    first_messages: String,
}

/// What the first message of a client says.
#[derive(Debug, PartialEq, Eq)]
struct ClientFirst<'a> {
    user: String,
    nonce: &'a str,
    bare: &'a str,
}

/// Longer names and nonces than these are no driver's.
const MESSAGE_BYTES_MAX: usize = 4096;

impl ScramServer {
    /// The name of the user that the first message is from.
    ///
    /// # Errors
    /// What is no first message.
    pub fn user_of(payload: &[u8]) -> Result<String, ScramFailure> {
        Ok(ClientFirst::parse(payload)?.user)
    }

    /// Answers the first message. `server_nonce` is random and used once.
    ///
    /// # Errors
    /// What is no first message.
    pub fn begin(
        mechanism: Mechanism,
        payload: &[u8],
        credentials: ScramCredentials,
        server_nonce: &[u8],
    ) -> Result<(Self, String), ScramFailure> {
        let first = ClientFirst::parse(payload)?;
        let nonce = format!("{}{}", first.nonce, Base64::encode_string(server_nonce));
        let salt = Base64::encode_string(&credentials.salt);
        let reply = format!("r={nonce},s={salt},i={}", credentials.iterations);
        let first_messages = format!("{},{reply}", first.bare);
        let others = Vec::new();
        Ok((ScramServer { mechanism, credentials, others, nonce, first_messages }, reply))
    }

    /// Takes other passwords as well, which have the same salt and rounds: the keys of a set while they
    /// change.
    #[must_use]
    pub fn or_by(mut self, others: Vec<ScramCredentials>) -> Self {
        let ScramCredentials { salt, iterations, .. } = &self.credentials;
        let is_alike = |other: &ScramCredentials| other.salt == *salt && other.iterations == *iterations;
        assert!(others.iter().all(is_alike), "the client salts one password once");
        self.others = others;
        self
    }

    /// Checks the proof, and answers with the server's own.
    ///
    /// # Errors
    /// A message that does not follow; a wrong proof.
    pub fn finish(&self, payload: &[u8]) -> Result<String, ScramFailure> {
        let message = text(payload)?;
        let (without_proof, proof) =
            message.rsplit_once(",p=").ok_or(ScramFailure::Malformed("the last message has no proof"))?;
        let mut parts = without_proof.split(',');
        // Binding to a channel is not spoken: `biws` is `n,,`, and `eSws` is `y,,`.
        if !matches!(parts.next(), Some("c=biws" | "c=eSws")) {
            return Err(ScramFailure::Malformed("a binding to a channel that was not begun with"));
        }
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        let same = nonce.is_some_and(|nonce| bool::from(nonce.as_bytes().ct_eq(self.nonce.as_bytes())));
        if !same {
            return Err(ScramFailure::Malformed("another nonce than this login's"));
        }
        let proof =
            Base64::decode_vec(proof).map_err(|_| ScramFailure::Malformed("a proof that is no base64"))?;
        let signed = format!("{},{without_proof}", self.first_messages);
        let mut known = std::iter::once(&self.credentials).chain(&self.others);
        let signature = known.find_map(|known| self.signature_by(known, &proof, signed.as_bytes()));
        signature.map(|own| format!("v={}", Base64::encode_string(&own))).ok_or(ScramFailure::WrongProof)
    }

    /// The server's signature, where the proof is that of this password.
    fn signature_by(&self, known: &ScramCredentials, proof: &[u8], signed: &[u8]) -> Option<Vec<u8>> {
        let mechanism = self.mechanism;
        let mask = mechanism.hmac(&known.stored_key, signed);
        if proof.len() != mask.len() {
            return None;
        }
        let client_key: Vec<u8> = proof.iter().zip(&mask).map(|(proof, mask)| proof ^ mask).collect();
        let is_right = mechanism.hash(&client_key).ct_eq(&known.stored_key);
        // Made whether it is sent or not.
        let own = mechanism.hmac(&known.server_key, signed);
        bool::from(is_right).then_some(own)
    }
}

fn text(payload: &[u8]) -> Result<&str, ScramFailure> {
    if payload.len() > MESSAGE_BYTES_MAX {
        return Err(ScramFailure::Malformed("a message that is too long"));
    }
    std::str::from_utf8(payload).map_err(|_| ScramFailure::Malformed("a message that is no text"))
}

impl<'a> ClientFirst<'a> {
    fn parse(payload: &'a [u8]) -> Result<Self, ScramFailure> {
        let message = text(payload)?;
        let bare = message
            .strip_prefix("n,,")
            .or_else(|| message.strip_prefix("y,,"))
            .ok_or(ScramFailure::Malformed("expected 'n,,' at the beginning of the first message"))?;
        let mut parts = bare.split(',');
        let user = parts.next().and_then(|part| part.strip_prefix("n="));
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        match (user, nonce) {
            (Some(user), Some(nonce)) if !user.is_empty() && !nonce.is_empty() => {
                Ok(ClientFirst { user: unescape(user)?, nonce, bare })
            }
            _ => Err(ScramFailure::Malformed("expected a name and a nonce in the first message")),
        }
    }
}

/// Names have commas and equals signs written otherwise.
fn unescape(user: &str) -> Result<String, ScramFailure> {
    let mut name = String::with_capacity(user.len());
    let mut parts = user.split('=');
    name.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (escaped, rest) = part.split_at_checked(2).unwrap_or(("", part));
        name.push(match escaped {
            "2C" => ',',
            "3D" => '=',
            _ => return Err(ScramFailure::Malformed("a name with an equals sign that escapes nothing")),
        });
        name.push_str(rest);
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One login; what the server says first, and what it says to the proof.
    fn check(
        (mechanism, password, salt, iterations): (Mechanism, &str, &str, u32),
        (client_nonce, server_nonce): (&str, &[u8]),
        (first, proof): (&str, &str),
        expect: Result<&str, ScramFailure>,
    ) {
        let salt = Base64::decode_vec(salt).expect("base64");
        let credentials = ScramCredentials::new(mechanism, password, &salt, iterations);
        let stored = credentials.to_document().to_buf();
        assert_eq!(ScramCredentials::parse(mechanism, stored.as_raw()).as_ref(), Some(&credentials));
        let hello = format!("n,,n=user,r={client_nonce}");
        assert_eq!(ScramServer::user_of(hello.as_bytes()).as_deref(), Ok("user"));
        let (server, reply) =
            ScramServer::begin(mechanism, hello.as_bytes(), credentials, server_nonce).expect("it begins");
        assert_eq!(reply, first);
        assert_eq!(server.finish(proof.as_bytes()), expect.map(str::to_owned));
    }

    fn nonce(text: &str) -> Vec<u8> {
        Base64::decode_vec(text).expect("base64")
    }

    const SHA_1: (Mechanism, &str, &str, u32) = (Mechanism::ScramSha1, "pencil", "QSXCR+Q6sek8bf92", 4096);
    const SHA_256: (Mechanism, &str, &str, u32) =
        (Mechanism::ScramSha256, "pencil", "W22ZaJ0SNY7soEsUEjb6gQ==", 4096);

    /// RFC 5802, section 5. Its nonce of the server is text; ours are bytes, shown in base64.
    #[test]
    fn keys_of_rfc_5802() {
        let salt = Base64::decode_vec(SHA_1.2).expect("base64");
        let credentials = ScramCredentials::new(SHA_1.0, SHA_1.1, &salt, SHA_1.3);
        let server = ScramServer {
            mechanism: SHA_1.0,
            credentials,
            others: Vec::new(),
            nonce: "fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j".to_owned(),
            first_messages: "n=user,r=fyko+d2lbbFgONRv9qkxdawL,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,\
                             s=QSXCR+Q6sek8bf92,i=4096"
                .to_owned(),
        };
        let last = "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=";
        assert_eq!(server.finish(last.as_bytes()).as_deref(), Ok("v=rmF9pqV8S7suAoZWja4dJRkFsKQ="));
        let wrong = last.replace("p=v0", "p=v1");
        assert_eq!(server.finish(wrong.as_bytes()), Err(ScramFailure::WrongProof));
    }

    /// RFC 7677, section 3.
    #[test]
    fn the_login_of_rfc_7677() {
        let salt = Base64::decode_vec(SHA_256.2).expect("base64");
        let credentials = ScramCredentials::new(SHA_256.0, SHA_256.1, &salt, SHA_256.3);
        let server = ScramServer {
            mechanism: SHA_256.0,
            credentials,
            others: Vec::new(),
            nonce: "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".to_owned(),
            first_messages: "n=user,r=rOprNGfwEbeRWgbNEkqO,\
                             r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                             s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
                .to_owned(),
        };
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let signature = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(server.finish(last.as_bytes()).as_deref(), Ok(signature));
        for (from, to) in [("p=dH", "p=dI"), ("c=biws", "c=cD10bHM="), ("k0,", "k1,"), (",p=", ",q=")] {
            assert!(server.finish(last.replacen(from, to, 1).as_bytes()).is_err(), "{from} for {to}");
        }
    }

    #[test]
    fn a_whole_login_without_the_password_fails() {
        let ours = nonce("AAAA");
        let first = "r=abcAAAA,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let malformed = |why| Err(ScramFailure::Malformed(why));
        check(SHA_256, ("abc", &ours), (first, "c=biws,r=abcAAAA,p=AAAA"), Err(ScramFailure::WrongProof));
        check(
            SHA_256,
            ("abc", &ours),
            (first, "c=biws,r=abcAAAA"),
            malformed("the last message has no proof"),
        );
        check(
            SHA_256,
            ("abc", &ours),
            (first, "c=biws,r=other,p=AAAA"),
            malformed("another nonce than this login's"),
        );
    }

    #[test]
    fn names_are_unescaped_and_first_messages_checked() {
        let user = |message: &str| ScramServer::user_of(message.as_bytes()).ok();
        assert_eq!(user("n,,n=a=2Cb=3Dc,r=x").as_deref(), Some("a,b=c"));
        assert_eq!(user("y,,n=a,r=x,ext=1").as_deref(), Some("a"));
        for wrong in [
            "",
            "n=a,r=x",
            "p=tls-unique,,n=a,r=x",
            "n,,r=x,n=a",
            "n,,n=,r=x",
            "n,,n=a,r=",
            "n,,n=a=2,r=x",
            "n,,n=a=FF,r=x",
            "n,a=b,n=a,r=x",
        ] {
            assert_eq!(user(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nobodys_credentials_are_the_same_each_time_and_differ_by_name_and_secret() {
        let of =
            |secret: &[u8], user| ScramCredentials::of_nobody(Mechanism::ScramSha256, secret, user, 15_000);
        assert_eq!(of(b"secret", "a"), of(b"secret", "a"));
        assert_ne!(of(b"secret", "a").salt, of(b"secret", "b").salt);
        assert_ne!(of(b"secret", "a").salt, of(b"other", "a").salt);
        assert_eq!(of(b"secret", "a").salt.len(), Mechanism::ScramSha256.salt_length());
    }

    #[test]
    fn the_digest_of_name_and_password() {
        // Driver specification "Authentication", SCRAM-SHA-1: user "user", password "pencil".
        assert_eq!(super::super::password_digest("user", "pencil"), "1c33006ec1ffd90f9cadcbcc0e118200");
    }
}
