//! One log line: `{"t":{"$date":"…"},"s":"I","c":"NETWORK","id":22943,"ctx":"conn1","msg":"…","attr":{…}}`.

use super::verbosity::component_name;
use serde_json::{Map, Value, json};
use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// A field longer than this is cut, so that a line stays readable.
const FIELD_BYTES_MAX: usize = 10 * 1024;

/// Fields that may quote values of clients, where they are texts: errors of commands and index builds,
/// panics, keys and identifiers of documents.
const CLIENT_DATA: [&str; 4] = ["errmsg", "id", "key", "panic_text"];

/// The fields of an event as they go into its line.
#[derive(Debug, Default)]
struct Fields {
    /// Values of clients are left out.
    redacts: bool,
    id: Option<u64>,
    context: Option<String>,
    message: String,
    attributes: Map<String, Value>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        let value = match value {
            Value::String(_) if self.redacts && CLIENT_DATA.contains(&field.name()) => {
                Value::String("###".to_owned())
            }
            Value::String(mut text) if text.len() > FIELD_BYTES_MAX => {
                let end = (0..=FIELD_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
                text.truncate(end);
                Value::String(text)
            }
            other => other,
        };
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            ("ctx", Value::String(text)) => self.context = Some(text),
            ("id", Value::Number(number)) => self.id = number.as_u64(),
            (name, value) => {
                self.attributes.insert(camel_case(name), value);
            }
        }
    }
}

/// `connection_id` is `connectionId` in a line.
fn camel_case(name: &str) -> String {
    let mut parts = name.split('_');
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut characters = part.chars();
        result.extend(characters.next().into_iter().flat_map(char::to_uppercase));
        result.push_str(characters.as_str());
    }
    result
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, Value::String(format!("{value:?}")));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, Value::String(value.to_owned()));
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, json!(value));
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, json!(value));
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, json!(value));
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, json!(value));
    }
    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.add(field, Value::String(value.to_string()));
    }
}

/// Severities as MongoDB writes them.
const fn severity(level: Level) -> &'static str {
    match level {
        Level::ERROR => "E",
        Level::WARN => "W",
        Level::INFO => "I",
        Level::DEBUG => "D1",
        Level::TRACE => "D2",
    }
}

/// A number for messages that were given none: the same for the same text, above those that have one.
fn id_of(message: &str) -> u64 {
    const FIRST: u64 = 10_000_000;
    const RANGE: u64 = 10_000_000;
    let hash = message.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    FIRST + hash % RANGE
}

/// The line of an event, with its newline; `redacts` leaves out what may be clients' data.
pub(super) fn write(event: &Event<'_>, redacts: bool) -> String {
    let mut fields = Fields { redacts, ..Fields::default() };
    event.record(&mut fields);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    let context = fields.context.unwrap_or_else(|| std::thread::current().name().unwrap_or("-").to_owned());
    let mut line = json!({
        "t": { "$date": dispatch::utc_text(now_ms) },
        "s": severity(*event.metadata().level()),
        "c": component_name(event.metadata().target()),
        "id": fields.id.unwrap_or_else(|| id_of(&fields.message)),
        "ctx": context,
        "msg": fields.message,
    });
    if let (false, Some(object)) = (fields.attributes.is_empty(), line.as_object_mut()) {
        object.insert("attr".to_owned(), Value::Object(fields.attributes));
    }
    let mut text = line.to_string();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_camel_case() {
        assert_eq!(camel_case("connection_id"), "connectionId");
        assert_eq!(camel_case("ns"), "ns");
        assert_ne!(id_of("a"), id_of("b"));
    }
}
