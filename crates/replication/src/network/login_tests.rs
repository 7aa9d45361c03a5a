//! Logins of members at members that have the key, another one, two, or none and say that they have.

use super::tests::{PATIENCE, envelope, options, peers, question, read_message, reply_to};
use super::*;
use access::{Mechanism, MemberKeys, ScramServer, UserName};
use document::{Document, RawValue, doc};
use pollster::block_on;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender as Told, channel};
use wire::{MAX_MESSAGE_SIZE, MessageRef, OpMsg};

/// What the server at the other end does.
#[derive(Clone, Copy)]
enum Server {
    /// It has these keys.
    Keyed(&'static str),
    /// It lets everybody in, and has no key to sign with.
    Impostor,
    /// It knows a user by its password.
    Of(&'static str, Mechanism),
}

/// The server, and the names of the commands that it has got.
struct TestServer {
    host: String,
    commands: Receiver<String>,
}

impl TestServer {
    fn start(kind: Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        let (tell, commands) = channel();
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let tell = tell.clone();
                std::thread::spawn(move || serve(socket, kind, &tell));
            }
        });
        TestServer { host, commands }
    }

    fn heard(&self) -> Vec<String> {
        self.commands.try_iter().collect()
    }
}

fn serve(mut socket: TcpStream, kind: Server, tell: &Told<String>) {
    let mut login = None;
    while let Some(message) = read_message(&mut socket) {
        let message = MessageRef::parse(&message, MAX_MESSAGE_SIZE).expect("a message");
        let body = OpMsg::parse(message).expect("OP_MSG").body;
        let name = body.first().expect("a command").name().to_owned();
        let reply = match (name.as_str(), payload_of(body.get("payload"))) {
            ("saslStart", Some(payload)) => {
                let (server, answer) = begin(kind, payload);
                login = Some(server);
                sasl(&answer, false)
            }
            ("saslContinue", Some(payload)) => finish(kind, login.as_ref().expect("it began"), payload),
            ("hello", _) => hello(kind),
            _ => doc! { "ok": 1.0, "question": (body.get("question").map_or(0, |_| 1)) },
        };
        let _ = tell.send(name);
        if message.expects_reply() {
            reply_to(&mut socket, message.header().request_id, reply.to_buf().as_raw());
        }
    }
}

fn payload_of(value: Option<RawValue<'_>>) -> Option<&[u8]> {
    match value {
        Some(RawValue::Binary { bytes, .. }) => Some(bytes),
        _ => None,
    }
}

fn hello(kind: Server) -> Document {
    match kind {
        Server::Of(_, mechanism) => doc! { "ok": 1.0, "saslSupportedMechs": [(mechanism.name())] },
        Server::Keyed(_) | Server::Impostor => doc! { "ok": 1.0 },
    }
}

fn begin(kind: Server, payload: &[u8]) -> (ScramServer, String) {
    const SALT: &[u8] = b"twenty-eight bytes or not so";
    let (mechanism, credentials, others) = match kind {
        Server::Of(password, mechanism) => {
            let password = match mechanism {
                Mechanism::ScramSha1 => access::password_digest("me", password),
                Mechanism::ScramSha256 => password.to_owned(),
            };
            (mechanism, access::ScramCredentials::new(mechanism, &password, SALT, 4_096), Vec::new())
        }
        Server::Keyed(_) | Server::Impostor => {
            let keys = if let Server::Keyed(keys) = kind { keys } else { "nobody" };
            let members = MemberKeys::parse(keys, "FILE").expect("keys").user(SALT, 4_096);
            let credentials = members.user.credentials().of(Mechanism::ScramSha256).expect("its own").clone();
            (Mechanism::ScramSha256, credentials, members.others)
        }
    };
    let (server, answer) =
        ScramServer::begin(mechanism, payload, credentials, b"nonce").expect("a beginning");
    (server.or_by(others), answer)
}

fn finish(kind: Server, login: &ScramServer, payload: &[u8]) -> Document {
    match (login.finish(payload), kind) {
        (Ok(signature), _) => sasl(&signature, true),
        (Err(_), Server::Impostor) => sasl("v=SGVsbG8sIHdvcmxk", true),
        (Err(_), _) => doc! { "ok": 0.0, "code": 18, "errmsg": "Authentication failed." },
    }
}

fn sasl(payload: &str, is_done: bool) -> Document {
    let payload = RawValue::Binary { subtype: 0, bytes: payload.as_bytes() }.to_value();
    doc! { "conversationId": 1, "done": is_done, "payload": payload, "ok": 1.0 }
}

fn of_keys(keys: &str) -> LoginIdentity {
    LoginIdentity::of_member(&MemberKeys::parse(keys, "FILE").expect("keys"))
}

/// Asks a server, twice; and what it has heard.
fn check(login: LoginIdentity, kind: Server, expect: Result<(), &str>) -> Vec<String> {
    let server = TestServer::start(kind);
    let peers = peers(NetworkOptions { login: Some(login), greeting_limit: PATIENCE, ..options() });
    for _ in 0..2 {
        let answer = block_on(peers.ask(&server.host, question(1), PATIENCE)).map(drop);
        let told = answer.map_err(|error| {
            assert!(matches!(error, PeerError::NotLoggedIn { .. }), "{error}");
            error.to_string()
        });
        let prefix = format!("Authentication with {} failed: ", server.host);
        assert_eq!(told, expect.map_err(|reason| format!("{prefix}{reason}")));
    }
    server.heard()
}

#[test]
fn a_member_asks_whoever_has_the_key() {
    let heard = check(of_keys("secret"), Server::Keyed("secret"), Ok(()));
    assert_eq!(heard, ["hello", "saslStart", "saslContinue", "question", "question"], "one login");
}

#[test]
fn nobody_is_asked_who_has_another_key_or_only_says_that_he_has_ours() {
    let heard = check(of_keys("secret"), Server::Keyed("another"), Err("Authentication failed."));
    assert!(!heard.contains(&"question".to_owned()), "{heard:?}");
    let reason = "the server's signature is wrong: it does not know the password";
    let heard = check(of_keys("secret"), Server::Impostor, Err(reason));
    assert!(!heard.contains(&"question".to_owned()), "{heard:?}");
}

#[test]
fn keys_change_while_members_have_two() {
    check(of_keys("- before\n- secret"), Server::Keyed("before"), Ok(()));
    check(of_keys("before"), Server::Keyed("- secret\n- before"), Ok(()));
    let heard = check(of_keys("- secret\n- before"), Server::Keyed("before"), Ok(()));
    assert_eq!(heard.iter().filter(|name| *name == "saslStart").count(), 2, "the other key is tried then");
    check(of_keys("- secret\n- before"), Server::Keyed("other1"), Err("Authentication failed."));
}

#[test]
fn envelopes_go_to_nobody_without_the_key() {
    for (kind, expect) in [(Server::Keyed("secret"), true), (Server::Impostor, false)] {
        let server = TestServer::start(kind);
        let peers = peers(NetworkOptions { login: Some(of_keys("secret")), ..options() });
        let deadline = Instant::now() + if expect { PATIENCE } else { Duration::from_millis(500) };
        let mut has_come = false;
        while !has_come && Instant::now() < deadline {
            peers.send(&server.host, envelope(1));
            std::thread::sleep(Duration::from_millis(20));
            has_come = server.heard().contains(&"envelope".to_owned());
        }
        assert_eq!(has_come, expect);
    }
}

#[test]
fn users_log_in_by_what_the_server_offers() {
    for mechanism in Mechanism::ALL {
        let user = || UserName::new("me", "admin");
        check(LoginIdentity::of_user(user(), "p", None), Server::Of("p", mechanism), Ok(()));
        check(LoginIdentity::of_user(user(), "p", Some(mechanism)), Server::Of("p", mechanism), Ok(()));
        check(
            LoginIdentity::of_user(user(), "x", None),
            Server::Of("p", mechanism),
            Err("Authentication failed."),
        );
    }
}
