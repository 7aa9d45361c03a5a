//! Reading everything there is, for comparisons with what is known.

use crate::model::State;
use crate::server::Port;
use crate::world::{World, now_ms};
use document::{Document, Value, doc};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// What is there from the beginning.
pub(crate) const COLLECTIONS: [&str; 4] = ["private", "shared", "claims", MORTAL];
/// Whose documents expire.
pub(crate) const MORTAL: &str = "mortal";

/// Makes the collections and indexes that all clients use.
pub(crate) async fn prepare(world: &Rc<World>) -> Result<(), String> {
    let port = world.node.connect(0, false);
    let commands = [
        doc! { "create": "shared" },
        doc! {
            "createIndexes": "private", "indexes": [
                { "key": { "owner": 1, "v": 1 }, "name": "owner_v" },
                { "key": { "u": 1 }, "name": "u", "unique": true, "sparse": true },
                { "key": { "list": 1 }, "name": "list" },
            ],
        },
        doc! { "createIndexes": "claims", "indexes": [{ "key": { "k": 1 }, "name": "k", "unique": true }] },
        doc! {
            "createIndexes": MORTAL,
            "indexes": [{ "key": { "at": 1 }, "name": "at", "expireAfterSeconds": 0 }],
        },
        doc! { "fsync": 1, "$db": "admin" },
    ];
    for command in commands {
        succeed(world, &port, command).await?;
    }
    Ok(())
}

/// A command that must succeed: nothing fails now.
async fn succeed(world: &Rc<World>, port: &Port, command: Document) -> Result<Document, String> {
    let asked = format!("{command:?}");
    let reply = world.call(port, "observer", command).await.ok_or("the server died without a crash")?;
    if is_ok(&reply) { Ok(reply) } else { Err(format!("{asked} fails: {reply:?}")) }
}

/// Whether the reply tells of success.
pub(crate) fn is_ok(reply: &Document) -> bool {
    matches!(reply.get("ok"), Some(Value::Double(1.0)))
}

/// The documents of a cursor's only batch.
pub(crate) fn batch(reply: &Document) -> Vec<Document> {
    let Some(Value::Document(cursor)) = reply.get("cursor") else { return Vec::new() };
    let batch = cursor.get("firstBatch").or_else(|| cursor.get("nextBatch")).and_then(Value::as_array);
    let documents = batch.unwrap_or_default().iter().filter_map(|value| match value {
        Value::Document(document) => Some(normal(document)),
        _ => None,
    });
    documents.collect()
}

/// The document with its fields in alphabetical order: the order is another matter.
pub(crate) fn normal(document: &Document) -> Document {
    let mut fields: Vec<(String, Value)> =
        document.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    fields.into()
}

/// Every collection's documents, indexes and counters agree.
pub(crate) async fn validate(world: &Rc<World>, port: &Port) -> Result<(), String> {
    for (name, options) in collections(world, port).await? {
        if options.contains("viewOn") {
            continue;
        }
        validate_one(world, port, &name).await?;
    }
    Ok(())
}

/// A collection's documents, indexes and counters agree.
async fn validate_one(world: &Rc<World>, port: &Port, name: &str) -> Result<(), String> {
    let report = succeed(world, port, doc! { "validate": name, "full": true }).await?;
    if report.get("valid") != Some(&Value::Boolean(true)) {
        return Err(format!("{name} is not valid: {report:?}"));
    }
    let count = succeed(world, port, doc! { "count": name }).await?;
    let found = find_all(world, port, name, Document::new()).await?.len();
    if count.get("n").and_then(crate::shared::integer) != Some(found as i64) {
        return Err(format!("{name} has {found} documents and counts {count:?}"));
    }
    Ok(())
}

/// A client's documents that expire, by their ids.
pub(crate) async fn mortals_of(
    world: &Rc<World>,
    port: &Port,
    client: usize,
) -> Result<BTreeMap<String, Document>, String> {
    let found = find_all(world, port, MORTAL, doc! { "owner": (client as i64) }).await?;
    let id = |document: &Document| document.get("_id").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(found.into_iter().map(|document| (id(&document), document)).collect())
}

/// Lets the TTL monitor make passes until one has ended that began after this, and looks what they have left.
pub(crate) async fn let_expire(world: &Rc<World>, port: &Port) -> Result<(), String> {
    const ROUNDS_MAX: usize = 60;
    const TURNS: usize = 40;
    let moment_ms = now_ms();
    let before = passes(world, port).await?;
    for _ in 0..ROUNDS_MAX {
        // One that runs may have begun before.
        if passes(world, port).await? >= before + 2 {
            for (number, mortals) in world.mortals.iter().enumerate() {
                let found = mortals_of(world, port, number).await?;
                mortals.borrow_mut().compare(&found, now_ms())?;
                mortals.borrow().check_after_pass(&found, moment_ms)?;
            }
            return validate_one(world, port, MORTAL).await;
        }
        world.skip(Duration::from_secs(1));
        for _ in 0..TURNS {
            catalog::give_way().await;
        }
    }
    Err("the TTL monitor makes no passes".to_owned())
}

async fn passes(world: &Rc<World>, port: &Port) -> Result<i64, String> {
    let status = succeed(world, port, doc! { "serverStatus": 1, "none": 1, "metrics": 1 }).await?;
    let section = |document: &Document, name: &str| match document.get(name) {
        Some(Value::Document(section)) => section.clone(),
        _ => Document::new(),
    };
    let ttl = section(&section(&status, "metrics"), "ttl");
    ttl.get("passes").and_then(crate::shared::integer).ok_or_else(|| "passes are not counted".to_owned())
}

async fn collections(world: &Rc<World>, port: &Port) -> Result<Vec<(String, Document)>, String> {
    let reply = succeed(world, port, doc! { "listCollections": 1 }).await?;
    let described = batch(&reply).into_iter().map(|description| {
        let options = match description.get("options") {
            Some(Value::Document(options)) => options.clone(),
            _ => Document::new(),
        };
        (description.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(), options)
    });
    Ok(described.collect())
}

async fn find_all(
    world: &Rc<World>,
    port: &Port,
    collection: &str,
    filter: Document,
) -> Result<Vec<Document>, String> {
    let find = doc! { "find": collection, "filter": filter, "batchSize": 10_000 };
    Ok(batch(&succeed(world, port, find).await?))
}

pub(crate) async fn shared_documents(world: &Rc<World>, port: &Port) -> Result<Vec<Document>, String> {
    find_all(world, port, "shared", Document::new()).await
}

/// All that belongs to a client.
///
/// # Errors
/// When a read fails.
pub(crate) async fn documents_of(world: &Rc<World>, port: &Port, client: usize) -> Result<State, String> {
    let mut state = State::new();
    let own = doc! { "owner": (client as i64) };
    for collection in ["private", "claims"] {
        // The index of the owner is not asked: it is for `validate` to compare them.
        let find =
            doc! { "find": collection, "filter": (own.clone()), "hint": { "_id": 1 }, "batchSize": 10_000 };
        add(&mut state, collection, batch(&succeed(world, port, find).await?));
    }
    for (name, options) in collections(world, port).await? {
        if let Some(pipeline) = options.get("pipeline").and_then(Value::as_array) {
            if name == view_of(client) {
                state.insert((name, String::new()), doc! { "from": (lower_bound(pipeline)?) });
            }
            continue;
        }
        if name.strip_suffix('b').unwrap_or(&name) != own_collection(client) {
            if !COLLECTIONS.contains(&name.as_str())
                && !name.starts_with("own")
                && !name.starts_with("tmp.")
                && !name.starts_with("system.")
            {
                return Err(format!("nobody made the collection {name}"));
            }
            continue;
        }
        let indexes = succeed(world, port, doc! { "listIndexes": (name.as_str()) }).await?;
        let mut names: Vec<Value> =
            batch(&indexes).iter().filter_map(|index| index.get("name").cloned()).collect();
        names.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
        let is_capped = options.contains("capped");
        state.insert((name.clone(), String::new()), doc! { "capped": is_capped, "indexes": names });
        add(&mut state, &name, find_all(world, port, &name, Document::new()).await?);
    }
    Ok(state)
}

/// The name of the collection that only this client uses; another one has a `b` at its end.
pub(crate) fn own_collection(client: usize) -> String {
    format!("own{client}")
}

/// The name of a client's view of its own documents.
pub(crate) fn view_of(client: usize) -> String {
    format!("view{client}")
}

/// The least value that a client's view shows.
fn lower_bound(pipeline: &[Value]) -> Result<i64, String> {
    let field = |value: &Value, name: &str| match value {
        Value::Document(document) => document.get(name).cloned(),
        _ => None,
    };
    let found = pipeline.first().and_then(|stage| field(&field(&field(stage, "$match")?, "v")?, "$gte"));
    found
        .as_ref()
        .and_then(crate::shared::integer)
        .ok_or_else(|| format!("a view is defined by {pipeline:?}"))
}

fn add(state: &mut State, collection: &str, documents: Vec<Document>) {
    for document in documents {
        let id = document.get("_id").and_then(Value::as_str).unwrap_or("?").to_owned();
        state.insert((collection.to_owned(), id), document);
    }
}
