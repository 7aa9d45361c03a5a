//! A replica set of three processes on this machine: its first member stays the primary, its second one is
//! read.

use super::subject::Served;
use crate::command_client::{CommandClient, is_ok, message_of};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::server_process::ChildServer;
use document::{Document, Timestamp, Value, doc};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Until all have their roles, and until a secondary has what the primary has.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(2);

impl Served {
    /// Makes one set of this server and two others.
    pub(super) fn in_a_set(
        mut self,
        others: [ChildServer; 2],
        holds_reads: bool,
        interrupt: &Interrupt,
    ) -> Result<Self, BenchError> {
        self.others = others.into();
        let members = self.members().enumerate().map(|(id, address)| {
            doc! { "_id": (id as i32), "host": (address.to_string()), "priority": (i32::from(id == 0)) }
                .into()
        });
        let members: Vec<Value> = members.collect();
        let config = doc! { "_id": "heddle", "version": 1, "members": members };
        ask(self.address, &doc! { "replSetInitiate": config, "$db": "admin" })?;
        if holds_reads && let Some(secondary) = self.secondary() {
            let point = "holdReadsDuringBatchApplication";
            ask(secondary, &doc! { "configureFailPoint": point, "mode": "alwaysOn", "$db": "admin" })?;
        }
        let has_its_role = |address: SocketAddr| {
            let role = if address == self.address { "isWritablePrimary" } else { "secondary" };
            Ok(hello(address)?.get(role) == Some(&Value::Boolean(true)))
        };
        for address in self.members() {
            until(interrupt, "members have no roles", || has_its_role(address))?;
        }
        Ok(self)
    }

    fn members(&self) -> impl Iterator<Item = SocketAddr> {
        std::iter::once(self.address).chain(self.others.iter().map(|other| other.address))
    }

    /// The member of the set that is read from.
    pub(super) fn secondary(&self) -> Option<SocketAddr> {
        self.others.first().map(|other| other.address)
    }

    /// How long the secondary takes from now on until it has what the primary has now.
    pub(super) fn secondary_behind(&self, interrupt: &Interrupt) -> Result<Option<Duration>, BenchError> {
        let Some(secondary) = self.secondary() else { return Ok(None) };
        let wanted = last_write(self.address)?;
        let begun = Instant::now();
        until(interrupt, "the secondary does not catch up", || Ok(last_write(secondary)? >= wanted))?;
        Ok(Some(begun.elapsed()))
    }
}

fn until(
    interrupt: &Interrupt,
    problem: &str,
    mut is_so: impl FnMut() -> Result<bool, BenchError>,
) -> Result<(), BenchError> {
    let begun = Instant::now();
    while !is_so()? {
        if begun.elapsed() > PATIENCE {
            let problem = format!("{problem} within {} s", PATIENCE.as_secs());
            return Err(BenchError::Unreachable { problem });
        }
        interrupt.pause(POLL)?;
    }
    Ok(())
}

fn ask(address: SocketAddr, command: &Document) -> Result<Document, BenchError> {
    let reply = CommandClient::connect_within(address, PATIENCE)?.command(command)?;
    match is_ok(&reply) {
        true => Ok(reply),
        false => Err(BenchError::Unreachable { problem: format!("{address}: {}", message_of(&reply)) }),
    }
}

fn hello(address: SocketAddr) -> Result<Document, BenchError> {
    ask(address, &doc! { "hello": 1, "$db": "admin" })
}

/// The time of the last operation that is in a member's data.
fn last_write(address: SocketAddr) -> Result<Timestamp, BenchError> {
    let reply = hello(address)?;
    let inner = |of: &Document, name: &str| match of.get(name) {
        Some(Value::Document(inner)) => Some(inner.clone()),
        _ => None,
    };
    let optime = inner(&reply, "lastWrite").and_then(|last| inner(&last, "opTime"));
    match optime.as_ref().and_then(|optime| optime.get("ts")) {
        Some(Value::Timestamp(time)) => Ok(*time),
        other => Err(BenchError::Protocol { expected: "lastWrite.opTime", found: format!("{other:?}") }),
    }
}
