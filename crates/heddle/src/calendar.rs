//! `heddle calendar`: draws when background work may be done in the next 48 hours.

use crate::fail;
use crate::server_uri::{ServerUri, URI, uri_argument};
use clap::{ArgMatches, Command};
use document::{Document, Value, doc};
use replication::{PeerError, Peers};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The time that is drawn.
const HOURS: i64 = 48;
/// A character stands for half an hour: 96 of them and a margin fit into 110 columns.
const MS_PER_CELL: i64 = 1_800_000;
const CELLS: usize = 96;
/// Cells between two times of the ruler.
const RULER_STEP: usize = 12;
const MARGIN: &str = "  ";

/// The subcommand.
pub(crate) fn command() -> Command {
    Command::new("calendar")
        .about("Draws when background work may be done in the next 48 hours")
        .arg(uri_argument())
}

/// Why nothing is drawn.
#[derive(Debug, thiserror::Error)]
enum DrawError {
    #[error(transparent)]
    Uri(#[from] bench::BenchError),
    #[error(transparent)]
    Peer(#[from] PeerError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("the server does not tell its calendar: {0}")]
    Refused(String),
}

/// Asks the server and draws.
pub(crate) fn run(given: &ArgMatches) -> ExitCode {
    let uri = given.get_one::<String>(URI).map_or("", String::as_str);
    match ask(uri).map(|reply| draw(&reply)) {
        Ok(drawn) => {
            // A reader that has gone away wants no more.
            let _ = std::io::stdout().write_all(drawn.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error, 1),
    }
}

fn ask(uri: &str) -> Result<Document, DrawError> {
    let server = ServerUri::parse(uri)?;
    let command = doc! { "getCalendar": 1, "hours": HOURS, "$db": "admin" };
    let peers = server.peers()?;
    let reply = pollster::block_on(peers.ask(&server.host, command.to_buf(), ANSWER_LIMIT))?;
    let reply = reply.as_raw().to_document();
    match reply.get("errmsg").and_then(Value::as_str) {
        Some(message) => Err(DrawError::Refused(message.to_owned())),
        None => Ok(reply),
    }
}

fn date(document: &Document, name: &str) -> Option<i64> {
    match document.get(name) {
        Some(Value::DateTime(ms)) => Some(*ms),
        _ => None,
    }
}

fn text<'d>(document: &'d Document, name: &str) -> &'d str {
    document.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn documents<'d>(document: &'d Document, name: &str) -> impl Iterator<Item = &'d Document> {
    let list = document.get(name).and_then(Value::as_array).unwrap_or_default();
    list.iter().filter_map(|value| match value {
        Value::Document(document) => Some(document),
        _ => None,
    })
}

/// `Thu 01 Jan 14:30`, of UTC.
fn clock(ms: i64) -> String {
    let text = dispatch::calendar_text(ms);
    // `Thu Jan  1 14:30:00.000`
    text.split('.')
        .next()
        .unwrap_or(&text)
        .rsplit_once(':')
        .map_or(text.clone(), |(minutes, _)| minutes.into())
}

fn draw(reply: &Document) -> String {
    let now = date(reply, "localTime").unwrap_or_default();
    let from = now - now.rem_euclid(MS_PER_CELL);
    let mut drawn = format!(
        "Background work, 48 hours from {} UTC   (█ may run, · waits; half an hour each)\n",
        clock(now)
    );
    drawn.push_str(&ruler(from));
    for work in documents(reply, "work") {
        drawn.push('\n');
        drawn.push_str(MARGIN);
        drawn.push_str(&headline(work));
        drawn.push('\n');
        drawn.push_str(MARGIN);
        drawn.push_str(&bar(work, from));
        drawn.push('\n');
    }
    drawn
}

/// Times of day above their cells.
fn ruler(from: i64) -> String {
    let mut line = String::from(MARGIN);
    for cell in (0..CELLS).step_by(RULER_STEP) {
        let minutes = (from + cell as i64 * MS_PER_CELL).rem_euclid(86_400_000) / 60_000;
        line.push_str(&format!("{:<RULER_STEP$}", format!("│{:02}:{:02}", minutes / 60, minutes % 60)));
    }
    format!("{}\n", line.trim_end())
}

/// What it is, and how it stands.
fn headline(work: &Document) -> String {
    let mut line = match text(work, "index") {
        "" if text(work, "kind") == "ttl" => "ttl (all without windows of their own)".to_owned(),
        "" => text(work, "kind").to_owned(),
        index => format!("{} {}, index {index}", text(work, "kind"), text(work, "ns")),
    };
    if !work.contains("window") {
        line.push_str(": always, it has no window");
        return line;
    }
    line.push_str(&format!(": {}", text(work, "state")));
    if let Some(until) = date(work, "until") {
        line.push_str(&format!(" until {} UTC", clock(until)));
    }
    if text(work, "state") == "overridden" {
        line.push_str(&format!(", since {}", text(work, "reason")));
    }
    if let Some(Value::Document(rate)) = work.get("rate") {
        for (name, unit) in [("documentsPerSecond", "documents/s"), ("bytesPerSecond", "bytes/s")] {
            if let Some(limit) = rate.get(name).and_then(Value::as_i64_exact) {
                line.push_str(&format!(", {limit} {unit}"));
            }
        }
    }
    line
}

/// A cell is full when work may run in some part of it.
fn bar(work: &Document, from: i64) -> String {
    let spans: Vec<(i64, i64)> =
        documents(work, "open").filter_map(|span| Some((date(span, "from")?, date(span, "to")?))).collect();
    let cell = |number: usize| {
        let begin = from + number as i64 * MS_PER_CELL;
        let is_open = spans.iter().any(|(open, close)| *open < begin + MS_PER_CELL && begin < *close);
        if is_open { '█' } else { '·' }
    };
    (0..CELLS).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_run_is_drawn_where_it_is() {
        // Thursday, the first of January 2026, 10:45.
        let now = 1_767_264_300_000;
        let hour = 3_600_000;
        let ms = Value::DateTime;
        let reply = doc! {
            "localTime": (ms(now)),
            "work": [
                {
                    "kind": "ttl", "state": "open",
                    "open": [{ "from": (ms(now)), "to": (ms(now + 48 * hour)) }],
                },
                {
                    "kind": "ttl", "ns": "shop.carts", "index": "at_1", "window": {}, "state": "waiting",
                    "until": (ms(now + 2 * hour)),
                    "open": [{ "from": (ms(now + 2 * hour)), "to": (ms(now + 3 * hour)) }],
                },
            ],
        };
        let drawn = draw(&reply);
        let lines: Vec<&str> = drawn.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 110), "{drawn}");
        assert!(lines[1].starts_with("  │10:30      │16:30"), "{drawn}");
        assert_eq!(lines[4], format!("{MARGIN}{}", "█".repeat(CELLS)));
        assert!(lines[6].starts_with("  ttl shop.carts, index at_1: waiting until "), "{drawn}");
        assert_eq!(lines[7], format!("{MARGIN}····███{}", "·".repeat(CELLS - 7)));
    }
}
