//! The client's side of a login, as commands and their replies: of a member at another one, of this project's
//! tools and of its loads. Who asks sends them, in whatever way it speaks.
//!
//! ```text
//!   LoginIdentity ─ begin(reply to hello) ─▶ LoginSteps ─ command() ─▶ server
//!                                          ▲ take(reply): go on, done, or not                │
//!                                          └────────────────────────────────────────────────┘
//! ```
//! A server that asks for a password shows that it knows it, too: what anybody else says is never taken for
//! that of a member.
//!
//! Source: driver specification "Authentication".

use crate::member_keys::{MemberKeys, MemberUser};
use crate::names::UserName;
use crate::saslprep::prepare_password;
use crate::scram::{Mechanism, ScramClient, ScramFailure, ScramKeys, ScramProof, password_digest};
use document::{Document, RawDocument, RawValue, Value, doc};
use parking_lot::Mutex;
use std::sync::Arc;

/// Random bytes that each attempt takes.
pub const LOGIN_NONCE_BYTES: usize = 24;
/// Salted passwords that are kept: one for each start of each member, of which there are at most fifty, and
/// for each of two keys.
const KEPT_MAX: usize = 200;
const AUTHENTICATION_FAILED: i64 = 18;

/// Who logs in. Copies share what they have computed.
#[derive(Debug, Clone)]
pub struct LoginIdentity(Arc<IdentityProof>);

/// Who it is, and how that is shown.
struct IdentityProof {
    /// Without a name: whoever the certificate is made out to.
    user: UserName,
    means: LoginMeans,
    /// Several where the server may know any of them; none with a certificate.
    passwords: Vec<String>,
    /// The slow hash is done once for each salt.
    salted: Mutex<Vec<(SaltedBy, ScramKeys)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoginMeans {
    /// By a password and what the server offers.
    Offered,
    Scram(Mechanism),
    /// By the certificate that was shown at the beginning of TLS.
    Certificate,
}

/// Which password, and how.
type SaltedBy = (usize, Mechanism, Vec<u8>, u32);

impl std::fmt::Debug for IdentityProof {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.user)
    }
}

/// Why nobody is logged in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginRefusal {
    /// The server does not take who asks for who it says it is.
    #[error("{0}")]
    ByServer(String),
    /// The server does not show that it knows the password, or what it says is no login.
    #[error("{0}")]
    OfServer(String),
}

impl From<ScramFailure> for LoginRefusal {
    fn from(failure: ScramFailure) -> Self {
        LoginRefusal::OfServer(failure.to_string())
    }
}

impl LoginIdentity {
    /// A member with these keys.
    #[must_use]
    pub fn of_member(keys: &MemberKeys) -> Self {
        let passwords = keys.passwords().map(str::to_owned).collect();
        Self::by(MemberUser::name(), LoginMeans::Scram(MemberUser::MECHANISM), passwords)
    }

    /// A user with its password, by a mechanism or by what the server offers.
    #[must_use]
    pub fn of_user(user: UserName, password: &str, mechanism: Option<Mechanism>) -> Self {
        let means = mechanism.map_or(LoginMeans::Offered, LoginMeans::Scram);
        Self::by(user, means, vec![password.to_owned()])
    }

    /// Whoever the certificate is made out to that TLS shows; where a name is given it has to be that one.
    #[must_use]
    pub fn of_certificate(name: Option<&str>) -> Self {
        let user = UserName::new(name.unwrap_or_default(), "$external");
        Self::by(user, LoginMeans::Certificate, Vec::new())
    }

    fn by(user: UserName, means: LoginMeans, passwords: Vec<String>) -> Self {
        LoginIdentity(Arc::new(IdentityProof { user, means, passwords, salted: Mutex::default() }))
    }

    /// `saslSupportedMechs` of the `hello`, where the server is to say by what the user can log in.
    #[must_use]
    pub fn asks_mechanisms_of(&self) -> Option<String> {
        (self.0.means == LoginMeans::Offered).then(|| self.0.user.id())
    }

    /// Begins on a connection whose `hello` has been answered with this; `random` makes what is used once.
    #[must_use]
    pub fn begin(&self, greeting: RawDocument<'_>, random: fn() -> [u8; LOGIN_NONCE_BYTES]) -> LoginSteps {
        let mechanism = match self.0.means {
            LoginMeans::Offered => offered(greeting),
            LoginMeans::Scram(mechanism) => mechanism,
            LoginMeans::Certificate => return LoginSteps::of_certificate(self.clone(), random),
        };
        LoginSteps::of_password(self.clone(), mechanism, 0, random)
    }
}

/// The better one of what a server offers; what all know where it says nothing.
fn offered(greeting: RawDocument<'_>) -> Mechanism {
    let names = greeting.get("saslSupportedMechs").and_then(RawValue::as_array);
    let is_there = |mechanism: Mechanism| {
        names.is_some_and(|names| names.iter().any(|name| name.as_str() == Some(mechanism.name())))
    };
    match is_there(Mechanism::ScramSha256) {
        true => Mechanism::ScramSha256,
        false => Mechanism::ScramSha1,
    }
}

/// A login between its first and its last message.
#[derive(Debug)]
pub struct LoginSteps {
    identity: LoginIdentity,
    mechanism: Mechanism,
    /// Which password is tried.
    position: usize,
    random: fn() -> [u8; LOGIN_NONCE_BYTES],
    conversation: i32,
    stage: LoginStage,
}

/// What was sent last, or is to be.
#[derive(Debug)]
enum LoginStage {
    Certificate,
    First(ScramClient, String),
    Proved(ScramProof),
    /// Older servers want one message more.
    Ending,
}

impl LoginSteps {
    fn of_password(
        identity: LoginIdentity,
        mechanism: Mechanism,
        position: usize,
        random: fn() -> [u8; LOGIN_NONCE_BYTES],
    ) -> Self {
        let (client, first) = ScramClient::begin(mechanism, &identity.0.user.user, &random());
        let stage = LoginStage::First(client, first);
        LoginSteps { identity, mechanism, position, random, conversation: 1, stage }
    }

    fn of_certificate(identity: LoginIdentity, random: fn() -> [u8; LOGIN_NONCE_BYTES]) -> Self {
        let (mechanism, stage) = (Mechanism::ScramSha256, LoginStage::Certificate);
        LoginSteps { identity, mechanism, position: 0, random, conversation: 1, stage }
    }

    /// What is to be sent next, `$db` included.
    #[must_use]
    pub fn command(&self) -> Document {
        let database = self.identity.0.user.database.as_str();
        let (conversation, go_on) = (self.conversation, "saslContinue");
        match &self.stage {
            LoginStage::Certificate => {
                let mut command = doc! { "authenticate": 1, "mechanism": "MONGODB-X509" };
                let user = self.identity.0.user.user.as_str();
                if !user.is_empty() {
                    command.push("user", user);
                }
                command.push("$db", database);
                command
            }
            LoginStage::First(_, first) => doc! {
                "saslStart": 1, "mechanism": (self.mechanism.name()), "payload": (payload(first)),
                "options": { "skipEmptyExchange": true }, "$db": database,
            },
            LoginStage::Proved(proof) => doc! {
                go_on: 1, "conversationId": conversation, "payload": (payload(&proof.message)),
                "$db": database,
            },
            LoginStage::Ending => doc! {
                go_on: 1, "conversationId": conversation, "payload": (payload("")), "$db": database,
            },
        }
    }

    /// Takes the reply. Whether the login is done; if not, there is another command to send.
    ///
    /// # Errors
    /// It will not be done. The connection is as it was before.
    pub fn take(&mut self, reply: RawDocument<'_>) -> Result<bool, LoginRefusal> {
        if let Err(refusal) = accepted(reply) {
            let next = self.position + 1;
            if matches!(refusal, LoginRefusal::ByServer(_)) && next < self.identity.0.passwords.len() {
                *self = Self::of_password(self.identity.clone(), self.mechanism, next, self.random);
                return Ok(false);
            }
            return Err(refusal);
        }
        let message = || payload_of(reply);
        let is_done = reply.get("done") == Some(RawValue::Boolean(true));
        match &self.stage {
            LoginStage::Certificate => Ok(true),
            LoginStage::First(client, _) => {
                let challenge = client.challenge(message()?)?;
                let by = (self.position, self.mechanism, challenge.salt.clone(), challenge.iterations);
                let keys = self.identity.0.salted(by)?;
                self.conversation =
                    reply.get("conversationId").and_then(RawValue::as_i64_exact).unwrap_or(1) as i32;
                self.stage = LoginStage::Proved(client.prove(&challenge, &keys));
                Ok(false)
            }
            LoginStage::Proved(proof) => {
                proof.check_server(message()?)?;
                self.stage = LoginStage::Ending;
                Ok(is_done)
            }
            LoginStage::Ending if is_done => Ok(true),
            LoginStage::Ending => Err(LoginRefusal::OfServer("the login does not end".to_owned())),
        }
    }
}

/// Whether a command was carried out.
fn accepted(reply: RawDocument<'_>) -> Result<(), LoginRefusal> {
    let number = |name: &str| reply.get(name).and_then(RawValue::as_f64);
    if number("ok") == Some(1.0) {
        return Ok(());
    }
    let message = reply.get("errmsg").and_then(RawValue::as_str).unwrap_or("refused").to_owned();
    match number("code").map(|code| code as i64) {
        Some(AUTHENTICATION_FAILED) => Err(LoginRefusal::ByServer(message)),
        _ => Err(LoginRefusal::OfServer(message)),
    }
}

impl IdentityProof {
    fn salted(&self, by: SaltedBy) -> Result<ScramKeys, LoginRefusal> {
        if let Some((_, keys)) = self.salted.lock().iter().find(|(kept, _)| *kept == by) {
            return Ok(keys.clone());
        }
        let (position, mechanism, salt, iterations) = &by;
        let text = self.passwords.get(*position).expect("one of ours");
        let password = match mechanism {
            Mechanism::ScramSha1 => password_digest(&self.user.user, text),
            Mechanism::ScramSha256 => {
                prepare_password(text).map_err(|error| LoginRefusal::ByServer(error.to_string()))?
            }
        };
        // Outside of the lock: it takes milliseconds.
        let keys = ScramKeys::new(*mechanism, &password, salt, *iterations);
        let mut kept = self.salted.lock();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.push((by, keys.clone()));
        Ok(keys)
    }
}

fn payload(message: &str) -> Value {
    RawValue::Binary { subtype: 0, bytes: message.as_bytes() }.to_value()
}

fn payload_of(reply: RawDocument<'_>) -> Result<&[u8], LoginRefusal> {
    match reply.get("payload") {
        Some(RawValue::Binary { bytes, .. }) => Ok(bytes),
        _ => Err(LoginRefusal::OfServer("the answer to a login has no payload".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scram::{ScramCredentials, ScramServer};

    const SALT: &[u8] = b"a salt of twenty-eight bytes";

    fn random() -> [u8; LOGIN_NONCE_BYTES] {
        *b"nonces are used but once"
    }

    /// Goes through a login at a server that knows this password; what was asked, and what came of it.
    fn check(identity: &LoginIdentity, offers: &[&str], known: &str, ends_late: bool) -> (Vec<String>, bool) {
        let offers: Vec<Value> = offers.iter().map(|name| Value::from(*name)).collect();
        let greeting = doc! { "ok": 1.0, "saslSupportedMechs": offers }.to_buf();
        let mut steps = identity.begin(greeting.as_raw(), random);
        let (mut asked, mut server) = (Vec::new(), None);
        for _ in 0..10 {
            let command = steps.command().to_buf();
            let command = command.as_raw();
            let sent = payload_of(command).expect("a payload");
            let text = |name: &str| command.get(name).and_then(RawValue::as_str).map(str::to_owned);
            let reply = match text("mechanism") {
                Some(name) => {
                    let mechanism = Mechanism::by_name(&name).expect("a mechanism");
                    let password = match mechanism {
                        Mechanism::ScramSha1 => password_digest("me", known),
                        Mechanism::ScramSha256 => known.to_owned(),
                    };
                    let credentials = ScramCredentials::new(mechanism, &password, SALT, 4_096);
                    let (begun, answer) = ScramServer::begin(mechanism, sent, credentials, b"x").expect("it");
                    server = Some(begun);
                    asked.push(name);
                    doc! { "ok": 1.0, "done": false, "conversationId": 7, "payload": (payload(&answer)) }
                }
                None if sent.is_empty() => doc! { "ok": 1.0, "done": true, "payload": (payload("")) },
                None => match server.as_ref().expect("it began").finish(sent) {
                    Ok(answer) => doc! { "ok": 1.0, "done": (!ends_late), "payload": (payload(&answer)) },
                    Err(_) => doc! { "ok": 0.0, "code": 18, "errmsg": "Authentication failed." },
                },
            };
            match steps.take(reply.to_buf().as_raw()) {
                Ok(true) => return (asked, true),
                Ok(false) => {}
                Err(refusal) => {
                    assert_eq!(refusal, LoginRefusal::ByServer("Authentication failed.".to_owned()));
                    return (asked, false);
                }
            }
        }
        panic!("it does not end: {asked:?}");
    }

    #[test]
    fn the_better_mechanism_of_those_that_a_server_offers() {
        let [old, new] = Mechanism::ALL.map(Mechanism::name);
        let me = |mechanism| LoginIdentity::of_user(UserName::new("me", "admin"), "p", mechanism);
        let by = |name: &str| (vec![name.to_owned()], true);
        assert_eq!(check(&me(None), &[old, new], "p", false), by(new));
        assert_eq!(check(&me(None), &[old], "p", true), by(old));
        assert_eq!(check(&me(None), &[], "p", true), by(old));
        assert_eq!(check(&me(Some(Mechanism::ScramSha256)), &[], "p", true), by(new));
        assert_eq!(check(&me(None), &[new], "q", false), (vec![new.to_owned()], false));
        assert_eq!(me(None).asks_mechanisms_of().as_deref(), Some("admin.me"));
    }

    #[test]
    fn a_certificate_needs_one_command() {
        for (name, expect) in [(None, None), (Some("CN=me"), Some("CN=me"))] {
            let mut steps = LoginIdentity::of_certificate(name).begin(doc! {}.to_buf().as_raw(), random);
            let command = steps.command();
            assert_eq!(command.get("mechanism").and_then(Value::as_str), Some("MONGODB-X509"));
            assert_eq!(command.get("$db").and_then(Value::as_str), Some("$external"));
            assert_eq!(command.get("user").and_then(Value::as_str), expect);
            assert_eq!(steps.take(doc! { "ok": 1.0 }.to_buf().as_raw()), Ok(true));
            let refused = steps.take(doc! { "ok": 0.0, "code": 18, "errmsg": "no" }.to_buf().as_raw());
            assert_eq!(refused, Err(LoginRefusal::ByServer("no".to_owned())));
        }
    }

    #[test]
    fn a_member_tries_each_key() {
        let keys = MemberKeys::parse("- secret1\n- secret2", "FILE").expect("keys");
        let member = LoginIdentity::of_member(&keys);
        let name = MemberUser::MECHANISM.name().to_owned();
        assert_eq!(check(&member, &[], "secret1", false), (vec![name.clone()], true));
        assert_eq!(check(&member, &[], "secret2", false), (vec![name.clone(), name.clone()], true));
        assert_eq!(check(&member, &[], "another", false), (vec![name.clone(), name], false));
        assert_eq!(member.asks_mechanisms_of(), None);
    }
}
