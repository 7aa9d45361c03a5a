//! Prepared requests with places to patch: the cheapest traffic there is.

use crate::error::BenchError;
use crate::generator::random::Random;
use crate::generator::reply::failure;
use crate::generator::traffic::{Failure, Share, Ticket, Traffic, TrafficSource, Verdict};
use crate::template::Template;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// One kind of request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The message.
    pub(crate) template: Template,
    /// Ids are chosen from `0..ids`.
    pub(crate) ids: i32,
    /// A good reply has at least this many bytes.
    pub(crate) least_reply_bytes: usize,
}

/// Each operation is one of these requests, chosen at random, with a random id.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Requests(pub(crate) Vec<Request>);

impl Requests {
    /// The source for [`crate::generator::GroupSpec`].
    pub(crate) fn source(requests: Vec<Request>) -> Arc<dyn TrafficSource> {
        Arc::new(Requests(requests))
    }

    /// The inverse of [`TrafficSource::describe`].
    pub(crate) fn read(description: &Value) -> Result<Arc<dyn TrafficSource>, BenchError> {
        let requests = Requests::deserialize(description)
            .map_err(|error| BenchError::Usage(format!("no requests: {error}")))?;
        Ok(Arc::new(requests))
    }
}

impl TrafficSource for Requests {
    fn traffic(&self, share: Share) -> Result<Box<dyn Traffic>, BenchError> {
        Ok(Box::new(RequestTraffic { requests: self.0.clone(), random: Random::new(share.seed) }))
    }

    fn describe(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

#[derive(Debug)]
struct RequestTraffic {
    requests: Vec<Request>,
    random: Random,
}

impl Traffic for RequestTraffic {
    fn kinds(&self) -> Vec<String> {
        vec!["request".to_owned()]
    }

    /// The ticket's key is the least length of a good reply.
    #[inline]
    fn next(&mut self, message: &mut Vec<u8>) -> Ticket {
        let choice = match self.requests.len() {
            0 | 1 => 0,
            several => self.random.below(several as i32) as usize,
        };
        let Some(request) = self.requests.get_mut(choice) else { return Ticket::default() };
        let id = self.random.below(request.ids);
        let number = self.random.below(i32::MAX);
        message.extend_from_slice(request.template.patched(id, number));
        Ticket { kind: 0, step: 0, key: request.least_reply_bytes as u64 }
    }

    #[inline]
    fn judge(&mut self, ticket: &mut Ticket, reply: &[u8], _message: &mut Vec<u8>) -> Verdict {
        match failure(reply) {
            None if reply.len() as u64 >= ticket.key => Verdict::Done,
            None => Verdict::Failed(Failure::unexpected("reply shorter than its documents")),
            Some(failure) => Verdict::Failed(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::{ID_MARK, encode};
    use document::doc;

    fn requests(least_reply_bytes: usize) -> Requests {
        let template = Template::new(&doc! { "find": "x", "filter": { "_id": ID_MARK }, "$db": "test" });
        Requests(vec![Request { template, ids: 1_000, least_reply_bytes }])
    }

    fn sent(source: &dyn TrafficSource, seed: u64) -> Vec<Vec<u8>> {
        let mut traffic = source.traffic(Share::whole(seed)).expect("traffic");
        let mut next = || {
            let mut message = Vec::new();
            traffic.next(&mut message);
            message
        };
        (0..20).map(|_| next()).collect()
    }

    #[test]
    fn another_process_sends_the_same() {
        let source = requests(100);
        let described = Requests::read(&source.describe()).expect("reads its own description");
        assert_eq!(sent(&*described, 5), sent(&source, 5));
        assert_ne!(sent(&source, 6), sent(&source, 5), "the seed changes nothing");
    }

    #[test]
    fn a_reply_without_its_documents_is_an_error() {
        let mut traffic = requests(1_000).traffic(Share::whole(1)).expect("traffic");
        let mut ticket = traffic.next(&mut Vec::new());
        let reply = encode(&doc! { "cursor": { "firstBatch": [] }, "ok": 1.0 });
        let verdict = traffic.judge(&mut ticket, &reply, &mut Vec::new());
        assert_eq!(verdict, Verdict::Failed(Failure::unexpected("reply shorter than its documents")));
    }
}
