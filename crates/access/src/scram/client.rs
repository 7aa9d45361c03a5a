//! The client's side of one SCRAM login: of a member towards another one, and of this project's tools.
//!
//! ```text
//!   client                                       server
//!   n,,n=user,r=nonce                       ──▶
//!                                           ◀──  r=nonce+theirs,s=salt,i=iterations
//!   c=biws,r=nonce+theirs,p=proof           ──▶
//!                                           ◀──  v=signature: the server knows the password, too
//! ```

use super::{Mechanism, ScramCredentials, ScramFailure};
use base64ct::{Base64, Encoding};
use subtle::ConstantTimeEq;

/// Fewer rounds than the RFC allows would make a proof cheap to try passwords on, for whoever asked for it.
const ITERATIONS_MIN: u32 = 4_096;
/// More are no server's: they would keep the client computing for seconds.
const ITERATIONS_MAX: u32 = 5_000_000;
/// Longer salts and nonces are no server's.
const MESSAGE_BYTES_MAX: usize = 4_096;

/// A login that has begun.
#[derive(Debug)]
pub struct ScramClient {
    mechanism: Mechanism,
    nonce: String,
    /// The first message without its header.
    bare: String,
}

/// What the server wants the password to be salted with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScramChallenge {
    /// The salt.
    pub salt: Vec<u8>,
    /// Rounds of the slow hash.
    pub iterations: u32,
    /// Of the client and the server, one behind the other.
    nonce: String,
    /// The server's message as it came.
    message: String,
}

/// What follows from a password and a salt: enough to log in.
#[derive(Clone)]
pub struct ScramKeys {
    client_key: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl std::fmt::Debug for ScramKeys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ScramKeys")
    }
}

impl ScramKeys {
    /// Salts a password, which has been prepared or digested. Takes milliseconds.
    pub fn new(mechanism: Mechanism, password: &str, salt: &[u8], iterations: u32) -> Self {
        let salted = mechanism.salted(password.as_bytes(), salt, iterations);
        let client_key = mechanism.hmac(&salted, b"Client Key");
        ScramKeys {
            stored_key: mechanism.hash(&client_key),
            client_key,
            server_key: mechanism.hmac(&salted, b"Server Key"),
        }
    }

    /// What a server keeps of the same password.
    pub(super) fn into_credentials(self, salt: &[u8], iterations: u32) -> ScramCredentials {
        let ScramKeys { stored_key, server_key, .. } = self;
        ScramCredentials { iterations, salt: salt.to_vec(), stored_key, server_key }
    }
}

/// The client's last message, and what the server has to answer.
#[derive(Debug)]
pub struct ScramProof {
    /// To be sent.
    pub message: String,
    signature: Vec<u8>,
}

impl ScramClient {
    /// Begins, with the first message. `nonce` is random and used once.
    pub fn begin(mechanism: Mechanism, user: &str, nonce: &[u8]) -> (Self, String) {
        let nonce = Base64::encode_string(nonce);
        let bare = format!("n={},r={nonce}", user.replace('=', "=3D").replace(',', "=2C"));
        let first = format!("n,,{bare}");
        (ScramClient { mechanism, nonce, bare }, first)
    }

    /// Reads the server's first message.
    ///
    /// # Errors
    /// What is none, or asks for too few or too many rounds.
    pub fn challenge(&self, payload: &[u8]) -> Result<ScramChallenge, ScramFailure> {
        let message = text(payload)?;
        let mut parts = message.split(',');
        let mut part = |name: &str| parts.next().and_then(|part| part.strip_prefix(name));
        let (nonce, salt, iterations) = (part("r="), part("s="), part("i="));
        let nonce = nonce.filter(|nonce| nonce.len() > self.nonce.len() && nonce.starts_with(&self.nonce));
        let nonce = nonce.ok_or(ScramFailure::Malformed("the server's nonce does not go on from ours"))?;
        let salt = salt.and_then(|salt| Base64::decode_vec(salt).ok());
        let salt = salt.ok_or(ScramFailure::Malformed("the server gives no salt"))?;
        let iterations = iterations.and_then(|count| count.parse().ok());
        let iterations = iterations.filter(|count| (ITERATIONS_MIN..=ITERATIONS_MAX).contains(count));
        let iterations =
            iterations.ok_or(ScramFailure::Malformed("the server's number of rounds is unsafe"))?;
        Ok(ScramChallenge { salt, iterations, nonce: nonce.to_owned(), message: message.to_owned() })
    }

    /// The proof that the client knows the password that `keys` are of.
    pub fn prove(&self, challenge: &ScramChallenge, keys: &ScramKeys) -> ScramProof {
        let without_proof = format!("c=biws,r={}", challenge.nonce);
        let signed = format!("{},{},{without_proof}", self.bare, challenge.message);
        let mask = self.mechanism.hmac(&keys.stored_key, signed.as_bytes());
        let proof: Vec<u8> = keys.client_key.iter().zip(&mask).map(|(key, mask)| key ^ mask).collect();
        ScramProof {
            message: format!("{without_proof},p={}", Base64::encode_string(&proof)),
            signature: self.mechanism.hmac(&keys.server_key, signed.as_bytes()),
        }
    }
}

impl ScramProof {
    /// Checks the server's last message: whoever has sent it knows the password, or what a server keeps of
    /// it.
    ///
    /// # Errors
    /// It does not.
    pub fn check_server(&self, payload: &[u8]) -> Result<(), ScramFailure> {
        let signature = text(payload)?.strip_prefix("v=").and_then(|text| Base64::decode_vec(text).ok());
        match signature.is_some_and(|signature| bool::from(signature.ct_eq(&self.signature))) {
            true => Ok(()),
            false => Err(ScramFailure::WrongSignature),
        }
    }
}

fn text(payload: &[u8]) -> Result<&str, ScramFailure> {
    if payload.len() > MESSAGE_BYTES_MAX {
        return Err(ScramFailure::Malformed("a message that is too long"));
    }
    std::str::from_utf8(payload).map_err(|_| ScramFailure::Malformed("a message that is no text"))
}

#[cfg(test)]
mod tests {
    use super::super::ScramServer;
    use super::*;

    const SALT: &[u8] = b"a salt of twenty-eight bytes";

    /// A client of one password and a server of some; what each thinks of the other.
    fn check(
        mechanism: Mechanism,
        (password, stored): (&str, [&str; 2]),
        expect: (Result<(), ScramFailure>, Result<(), ScramFailure>),
    ) {
        let [first, other] = stored.map(|stored| ScramCredentials::new(mechanism, stored, SALT, 4_096));
        let (client, hello) = ScramClient::begin(mechanism, "a,b=c", b"ours");
        assert_eq!(ScramServer::user_of(hello.as_bytes()).as_deref(), Ok("a,b=c"));
        let begun = ScramServer::begin(mechanism, hello.as_bytes(), first, b"theirs").expect("it begins");
        let (server, answer) = (begun.0.or_by(vec![other]), begun.1);
        let challenge = client.challenge(answer.as_bytes()).expect("a challenge");
        assert_eq!((challenge.salt.as_slice(), challenge.iterations), (SALT, 4_096));
        let keys = ScramKeys::new(mechanism, password, &challenge.salt, challenge.iterations);
        let proof = client.prove(&challenge, &keys);
        let finished = server.finish(proof.message.as_bytes());
        let signature = finished.clone().unwrap_or_else(|_| "v=AAAA".to_owned());
        assert_eq!((finished.map(drop), proof.check_server(signature.as_bytes())), expect, "{password}");
    }

    #[test]
    fn both_sides_learn_whether_the_other_one_knows_the_password() {
        let (wrong, forged) = (Err(ScramFailure::WrongProof), Err(ScramFailure::WrongSignature));
        for mechanism in Mechanism::ALL {
            check(mechanism, ("key", ["key", "old"]), (Ok(()), Ok(())));
            check(mechanism, ("old", ["key", "old"]), (Ok(()), Ok(())));
            check(mechanism, ("other", ["key", "old"]), (wrong, forged));
        }
    }

    #[test]
    fn the_login_of_rfc_7677_from_the_other_side() {
        let client = ScramClient {
            mechanism: Mechanism::ScramSha256,
            nonce: "rOprNGfwEbeRWgbNEkqO".to_owned(),
            bare: "n=user,r=rOprNGfwEbeRWgbNEkqO".to_owned(),
        };
        let challenge =
            b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let challenge = client.challenge(challenge).expect("a challenge");
        let keys = ScramKeys::new(Mechanism::ScramSha256, "pencil", &challenge.salt, challenge.iterations);
        let proof = client.prove(&challenge, &keys);
        assert!(proof.message.ends_with(",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), "{proof:?}");
        assert_eq!(proof.check_server(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), Ok(()));
        assert!(proof.check_server(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=").is_err());
    }

    #[test]
    fn challenges_that_cannot_be_are_refused() {
        let (client, _) = ScramClient::begin(Mechanism::ScramSha256, "user", b"ours");
        let ours = Base64::encode_string(b"ours");
        for wrong in [
            format!("r={ours},s=AAAA,i=4096"),
            "r=another,s=AAAA,i=4096".to_owned(),
            format!("r={ours}x,s=?,i=4096"),
            format!("r={ours}x,s=AAAA,i=4095"),
            format!("r={ours}x,s=AAAA,i=2000000000"),
            format!("r={ours}x,s=AAAA"),
        ] {
            assert!(client.challenge(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(client.challenge(format!("r={ours}x,s=AAAA,i=4096").as_bytes()).is_ok());
    }
}
