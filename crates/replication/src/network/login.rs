//! Who we are for the server at the other end of a connection: another member, or a user of one of our tools.

use super::connection::Connection;
use crate::peers::PeerError;
use access::LoginIdentity;
use document::RawDocument;
use std::time::Instant;

/// Logs in on a connection that has been greeted with this answer.
pub(super) fn log_in(
    identity: &LoginIdentity,
    connection: &mut Connection,
    greeting: RawDocument<'_>,
    deadline: Instant,
) -> Result<(), PeerError> {
    let mut steps = identity.begin(greeting, ambient::random_bytes);
    loop {
        let reply = connection.exchange(steps.command().to_buf().as_raw(), deadline)?;
        let taken = steps.take(reply.as_raw()).map_err(|refusal| PeerError::NotLoggedIn {
            host: connection.host().to_owned(),
            reason: refusal.to_string(),
        });
        if taken? {
            return Ok(());
        }
    }
}
