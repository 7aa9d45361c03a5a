//! A real server process on a free port, for tests that talk to it over a socket.

use bench::CommandClient;
use document::{Document, RawValue, Value, doc};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const START: Duration = Duration::from_secs(60);
const REPLY: Duration = Duration::from_secs(60);

/// The server under test; killed when dropped.
pub(crate) struct ServerProcess {
    child: Child,
    pub address: SocketAddr,
}

impl ServerProcess {
    /// Starts `heddle serve` on this directory and waits until it answers `ping`.
    pub(crate) fn start(directory: &Path, further: &[&str]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("the free port's address");
        drop(listener);
        let child = Command::new(env!("CARGO_BIN_EXE_heddle"))
            .arg("serve")
            .arg("--dbpath")
            .arg(directory)
            .args(["--port", &address.port().to_string(), "--nounixsocket"])
            .args(further)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the server's process starts");
        let mut server = ServerProcess { child, address };
        server.wait_until_it_answers();
        server
    }

    fn wait_until_it_answers(&mut self) {
        let begun = Instant::now();
        loop {
            let answer = CommandClient::connect(self.address)
                .and_then(|mut client| client.command(&doc! { "ping": 1, "$db": "admin" }));
            if answer.is_ok() {
                return;
            }
            if let Some(status) = self.child.try_wait().expect("the process can be looked after") {
                panic!("the server ended while starting: {status}");
            }
            assert!(begun.elapsed() < START, "the server did not answer within {START:?}: {answer:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The process's number.
    #[allow(dead_code, reason = "not every test looks at the process")]
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process has not ended.
    #[allow(dead_code, reason = "not every test looks at the process")]
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the process can be looked after").is_none()
    }

    /// A new connection.
    pub(crate) fn client(&self) -> CommandClient {
        let client = CommandClient::connect(self.address).expect("the server accepts a connection");
        client.set_timeout(Some(REPLY)).expect("a time-out can be set");
        client
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) -> ExitStatus {
        self.child.kill().expect("the process can be killed");
        self.child.wait().expect("the process can be waited for")
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command that must succeed.
pub(crate) fn run(client: &mut CommandClient, command: Document) -> Document {
    let reply = client.command(&command).unwrap_or_else(|error| panic!("{command:?} got no reply: {error}"));
    assert!(is_ok(&reply), "{command:?} failed: {reply:?}");
    reply
}

/// Whether a reply says `ok: 1` and no write failed.
pub(crate) fn is_ok(reply: &Document) -> bool {
    number(reply, "ok") == Some(1) && !reply.contains("writeErrors")
}

/// An integral number in a document.
pub(crate) fn number(document: &Document, name: &str) -> Option<i64> {
    document.get(name)?.with_raw(|value| match value {
        RawValue::Int32(number) => Some(number.into()),
        RawValue::Int64(number) => Some(number),
        RawValue::Double(number) => Some(number as i64),
        _ => None,
    })
}

/// Every document that a cursor command yields, `getMore` included.
pub(crate) fn all(client: &mut CommandClient, database: &str, command: Document) -> Vec<Document> {
    let mut reply = run(client, command);
    let mut found = Vec::new();
    loop {
        let cursor =
            reply.get("cursor").and_then(Value::as_document).cloned().expect("a cursor in the reply");
        let batch = cursor.get("firstBatch").or_else(|| cursor.get("nextBatch")).and_then(Value::as_array);
        found.extend(batch.expect("a batch").iter().filter_map(Value::as_document).cloned());
        let id = number(&cursor, "id").expect("a cursor id");
        if id == 0 {
            return found;
        }
        let namespace = cursor.get("ns").and_then(Value::as_str).expect("a namespace").to_owned();
        let collection =
            namespace.split_once('.').map(|(_, collection)| collection.to_owned()).expect("db.collection");
        reply = run(client, doc! { "getMore": id, "collection": collection, "$db": database });
    }
}
