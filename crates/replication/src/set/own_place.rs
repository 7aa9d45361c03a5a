//! Which member of a configuration this server is: one of its own addresses says so, or else the server that
//! answers at the member's host, which may be another name of this machine, or a port that is passed on to
//! it.

use crate::set::{ReplSetConfig, SetError};
use crate::{Answer, Peers};
use document::{ObjectId, RawValue, doc};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;
use wire::ErrorCode;

/// The limit of the question who somebody is.
const LIMIT: Duration = Duration::from_secs(5);

/// The `_id` of the member that is this server: at one of `hosts`, or the first to answer with `own`.
///
/// # Errors
/// `NodeNotFound`; `InvalidReplicaSetConfig` when there are several.
pub(crate) async fn own_id(
    config: &ReplSetConfig,
    hosts: &[String],
    own: ObjectId,
    peers: &dyn Peers,
) -> Result<i32, SetError> {
    let not_found = match config.own_member(hosts) {
        Ok(member) => return Ok(member.id),
        Err(error) if error.code == ErrorCode::NodeNotFound => error,
        Err(error) => return Err(error),
    };
    let ask = |host: &str| peers.ask(host, doc! { "_isSelf": 1, "$db": "admin" }.to_buf(), LIMIT);
    let mut asked: Vec<(i32, Answer)> =
        config.members.iter().map(|member| (member.id, ask(&member.host))).collect();
    poll_fn(|context| {
        let mut found = None;
        asked.retain_mut(|(id, answer)| {
            let Poll::Ready(answer) = answer.as_mut().poll(context) else { return true };
            let is_self = answer.is_ok_and(|reply| reply.as_raw().get("id") == Some(RawValue::ObjectId(own)));
            found = found.or(is_self.then_some(*id));
            false
        });
        match found {
            Some(id) => Poll::Ready(Ok(id)),
            None if asked.is_empty() => Poll::Ready(Err(not_found.clone())),
            None => Poll::Pending,
        }
    })
    .await
}
