//! What a login costs and answers is counted, not timed: it is the same for users that do not exist.

use crate::client::Client;
use crate::command::Command;
use crate::concern::WriteConcern;
use crate::dispatch;
use crate::error::CommandResult;
use crate::host::{Detached, Host};
use crate::node::Node;
use crate::parameters::Parameters;
use crate::request::CommandRequest;
use crate::server::ServiceContext;
use access::{AccessUser, Mechanism, RoleGraph, ScramCredentials, UserName};
use document::{Document, RawDocument, Value, doc};
use pollster::block_on;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A node that has one user, and counts what is asked of it.
#[derive(Debug)]
struct OneUser {
    user: Arc<AccessUser>,
    users_read: AtomicUsize,
    secrets_read: AtomicUsize,
}

impl Node for OneUser {
    type Source = ();
    type Receipts = ();

    fn commands() -> &'static [&'static Command<Self>] {
        &[]
    }

    fn source(&self) -> &() {
        &()
    }

    fn has_collection(&self, _database: &str, _name: &str) -> bool {
        false
    }

    async fn acknowledged(&self, _receipts: &(), _concern: &WriteConcern, _database: &str) -> CommandResult {
        Ok(())
    }

    fn waited(_receipts: &()) -> Duration {
        Duration::ZERO
    }

    fn read_user(&self, name: &UserName) -> CommandResult<Option<Arc<AccessUser>>> {
        self.users_read.fetch_add(1, Ordering::Relaxed);
        Ok((self.user.name == *name).then(|| Arc::clone(&self.user)))
    }

    fn login_secret(&self) -> CommandResult<Vec<u8>> {
        self.secrets_read.fetch_add(1, Ordering::Relaxed);
        Ok(b"the secret of this deployment".to_vec())
    }
}

fn server() -> Arc<ServiceContext<OneUser>> {
    let credentials: Vec<(&str, Document)> = Mechanism::ALL
        .iter()
        .map(|mechanism| {
            let iterations = if *mechanism == Mechanism::ScramSha1 { 10_000 } else { 15_000 };
            let made = ScramCredentials::of_nobody(*mechanism, b"a password", "admin.known", iterations);
            (mechanism.name(), made.to_document())
        })
        .collect();
    let mut stored = doc! { "user": "known", "db": "admin", "roles": [] };
    let mut all = Document::new();
    credentials.into_iter().for_each(|(name, made)| all.push(name, made));
    stored.push("credentials", all);
    let user = AccessUser::new(stored.to_buf().as_raw(), &RoleGraph::default(), 0).expect("a user");
    let node =
        OneUser { user: Arc::new(user), users_read: AtomicUsize::new(0), secrets_read: AtomicUsize::new(0) };
    ServiceContext::new(node, Arc::new(Parameters::default()), Host::detached()).expect("threads")
}

fn run(server: &Arc<ServiceContext<OneUser>>, client: &Arc<Client>, command: Document) -> Document {
    let command = command.to_buf();
    let mut reply = Vec::new();
    block_on(dispatch(server, client, CommandRequest::new(command.as_raw()), &mut reply));
    RawDocument::parse(&reply).expect("a reply").to_document()
}

fn text(reply: &Document) -> String {
    match reply.get("payload") {
        Some(Value::Binary(payload)) => String::from_utf8(payload.bytes.clone()).expect("text"),
        other => panic!("no payload but {other:?}"),
    }
}

/// The message with its nonce and salt made alike, and both for themselves.
fn first_answer(reply: &Document) -> (usize, String, String) {
    let message = text(reply);
    let parts: Vec<&str> = message.split(',').collect();
    let [nonce, salt, iterations] = parts.as_slice() else { panic!("three parts: {message}") };
    (nonce.len(), (*salt).to_owned(), (*iterations).to_owned())
}

/// Everything about a failing login of this user that an observer or an accountant could see.
fn seen(user: &str, mechanism: Mechanism) -> (Vec<String>, [usize; 4], usize, String) {
    let server = server();
    let client = Arc::new(Client::new(1, "127.0.0.1:1", Arc::new(Detached)));
    let reads = || {
        let node = &server.node;
        [node.users_read.load(Ordering::Relaxed), node.secrets_read.load(Ordering::Relaxed)]
    };
    let mut shapes = Vec::new();
    let mut note = |reply: &Document| {
        let names: Vec<&str> = reply.iter().map(|(name, _)| name).collect();
        shapes.push(format!("{} in {} bytes", names.join(" "), reply.to_buf().as_bytes().len()));
    };
    let hello = run(
        &server,
        &client,
        doc! { "hello": 1, "saslSupportedMechs": (format!("admin.{user}")), "$db": "admin" },
    );
    shapes_of_mechanisms(&hello);
    let payload = Value::binary(0, format!("n,,n={user},r=abc").into_bytes());
    let start = doc! { "saslStart": 1, "mechanism": (mechanism.name()), "payload": payload, "$db": "admin" };
    let first = run(&server, &client, start);
    note(&first);
    let [begun_users, begun_secrets] = reads();
    let (nonce_length, salt, iterations) = first_answer(&first);
    let nonce = text(&first).split(',').next().unwrap_or_default().to_owned();
    let proof = match mechanism {
        Mechanism::ScramSha1 => "AAECAwQFBgcICQoLDA0ODxAREhM=",
        Mechanism::ScramSha256 => "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    };
    let last = Value::binary(0, format!("c=biws,{nonce},p={proof}").into_bytes());
    let end = doc! { "saslContinue": 1, "conversationId": 1, "payload": last, "$db": "admin" };
    let refused = run(&server, &client, end);
    assert_eq!(refused.get("code"), Some(&Value::Int32(18)), "{refused:?}");
    note(&refused);
    let [users, secrets] = reads();
    (shapes, [begun_users, begun_secrets, users, secrets], nonce_length + salt.len(), iterations)
}

fn shapes_of_mechanisms(hello: &Document) {
    let mechanisms = hello.get("saslSupportedMechs").and_then(Value::as_array).map(<[Value]>::len);
    assert_eq!(mechanisms, Some(2), "whoever is asked for has both");
}

#[test]
fn an_unknown_user_costs_and_answers_what_a_known_one_does() {
    for mechanism in Mechanism::ALL {
        let known = seen("known", mechanism);
        let unknown = seen("gnome", mechanism);
        assert_eq!(known, unknown, "{}", mechanism.name());
        assert!(known.1[0] >= 1 && known.1[1] >= 1, "users and the secret are read: {:?}", known.1);
    }
}

#[test]
fn an_unknown_user_has_one_salt_and_others_have_others() {
    let answer = |user: &str, mechanism: Mechanism| {
        let (server, client) = (server(), Arc::new(Client::new(1, "127.0.0.1:1", Arc::new(Detached))));
        let payload = Value::binary(0, format!("n,,n={user},r=abc").into_bytes());
        let start =
            doc! { "saslStart": 1, "mechanism": (mechanism.name()), "payload": payload, "$db": "admin" };
        first_answer(&run(&server, &client, start))
    };
    for mechanism in Mechanism::ALL {
        assert_eq!(answer("gnome", mechanism), answer("gnome", mechanism), "asked again, of another server");
        assert_ne!(answer("gnome", mechanism).1, answer("troll", mechanism).1, "each has its own");
    }
}
