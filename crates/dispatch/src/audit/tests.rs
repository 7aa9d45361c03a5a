use super::*;
use crate::client::Client;
use crate::dispatch;
use crate::host::{Detached, Host};
use crate::parameters::Parameters;
use crate::request::CommandRequest;
use document::array;
use parking_lot::Mutex;
use pollster::block_on;
use query::Environment;

/// Keeps its lines.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<String>>);

impl AuditSink for Kept {
    fn write(&self, line: &str) {
        self.0.lock().push(line.to_owned());
    }
    fn queue(&self, line: &str) {
        self.0.lock().push(line.to_owned());
    }
    fn rotate(&self) -> Result<Option<String>, String> {
        Ok(Some("aside".to_owned()))
    }
}

fn server(filter: Document) -> (Arc<ServiceContext<()>>, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let filter = Matcher::parse(filter.to_buf().as_raw(), &Environment::at(0)).expect("a filter");
    let log = AuditLog::new(Arc::<Kept>::clone(&kept), filter);
    let host = Host { audit: Some(Arc::new(log)), ..Host::detached() };
    let server = ServiceContext::new((), Arc::new(Parameters::default()), host).expect("threads");
    (server, kept)
}

fn run(server: &Arc<ServiceContext<()>>, client: &Arc<Client>, command: Document) {
    let command = command.to_buf();
    block_on(dispatch(server, client, CommandRequest::new(command.as_raw()), &mut Vec::new()));
}

fn client() -> Arc<Client> {
    Arc::new(Client::new(1, "127.0.0.1:7000", Arc::new(Detached)))
}

#[test]
fn an_event_is_one_line_in_the_mongo_schema() {
    let (server, kept) = server(doc! {});
    run(&server, &client(), doc! { "logApplicationMessage": "one\n\"two\"", "$db": "admin" });
    let lines = kept.0.lock();
    let [line] = lines.as_slice() else { panic!("one event, found {lines:?}") };
    let (head, rest) = line.split_once(r#", "uuid": { "$binary": ""#).expect("a uuid");
    assert!(head.starts_with(r#"{ "atype": "applicationMessage", "ts": { "$date": "2"#), "{line}");
    assert!(head.ends_with(r#"+00:00" }"#), "{line}");
    let (id, rest) = rest.split_once(r#"", "$type": "04" }"#).expect("its type");
    assert_eq!(id.len(), 24, "16 bytes in base64");
    let expect = concat!(
        r#", "local": { "isSystemUser": true }, "remote": { "ip": "127.0.0.1", "port": 7000 }, "#,
        r#""users": [], "roles": [], "param": { "msg": "one\n\"two\"" }, "result": 0 }"#
    );
    assert_eq!(rest, expect);
}

#[test]
fn the_filter_chooses_and_a_connection_keeps_its_uuid() {
    let (server, kept) = server(doc! { "param.msg": { "$in": (array!["b", "c"]) } });
    let client = client();
    for message in ["a", "b", "c"] {
        run(&server, &client, doc! { "logApplicationMessage": message, "$db": "admin" });
    }
    let lines = kept.0.lock();
    assert_eq!(lines.len(), 2, "{lines:?}");
    let id = |line: &String| line.split("$binary").nth(1).expect("a uuid")[..30].to_owned();
    assert_eq!(id(&lines[0]), id(&lines[1]));
}

#[test]
fn logins_and_refusals_of_unknown_ways_are_told() {
    let (server, kept) = server(doc! {});
    let start = doc! { "saslStart": 1, "mechanism": "PLAIN", "payload": "secret", "$db": "admin" };
    run(&server, &client(), start);
    let lines = kept.0.lock();
    let expect = r#""param": { "user": "", "db": "admin", "mechanism": "PLAIN" }, "result": 334 }"#;
    assert!(lines[0].ends_with(expect) && !lines[0].contains("secret"), "{lines:?}");
}

#[test]
fn what_is_shown_of_commands_with_secrets_has_none() {
    let data = doc! { "a": "secret" };
    let create = doc! { "createUser": "u", "pwd": "secret", "roles": (array!["read"]), "customData": data };
    let shown = params::shown(create.to_buf().as_raw(), true);
    let expect = doc! { "createUser": "u", "pwd": "xxx", "roles": (array!["read"]), "customData": "xxx" };
    assert_eq!(shown, expect);
}

#[test]
fn a_new_file_begins_with_what_became_of_the_old_one() {
    let (server, kept) = server(doc! {});
    run(&server, &client(), doc! { "logRotate": "audit", "$db": "admin" });
    let lines = kept.0.lock();
    assert!(lines[0].contains(r#""atype": "rotateLog""#), "{lines:?}");
    assert!(lines[0].contains(r#""rotatedLogPath": "aside""#), "{lines:?}");
}
