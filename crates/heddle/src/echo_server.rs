//! `heddle echo-server`: the transport with a service that does nothing.
//!
//! What a thread model itself can do is the ceiling of what the database can do under it;
//! `heddle bench article s1` and `heddle bench cachegrind` measure it here. It takes the options of `serve`,
//! as far as they concern the network.

use crate::descriptors::DescriptorBudget;
use crate::machine::Machine;
use crate::network::{Resources, server_options};
use crate::options::Options;
use crate::{EXIT_OPTIONS, fail};
use clap::ArgMatches;
use std::process::ExitCode;
use std::sync::Arc;
use transport::{Replies, RequestMessage, Server, ServerOptions, Service, Session};
use wire::{ReplyBuilder, ReplyFormat};

/// Name of the flag for the size of replies.
pub(crate) const REPLY_BYTES: &str = "reply-bytes";
/// Name of the flag that makes `coroutine` run on epoll.
pub(crate) const NO_IO_URING: &str = "no-io-uring";
const EXIT_NETWORK: u8 = 48;

/// Answers everything with one reply.
struct Echo {
    padding: String,
}

impl Echo {
    /// Replies of this size, or the smallest that say `ok: 1`.
    fn new(reply_bytes: usize) -> Self {
        let smallest = write_reply(ReplyBuilder::new(Vec::new(), ReplyFormat::Msg { checksum: false }), "");
        Echo { padding: "x".repeat(reply_bytes.saturating_sub(smallest.finish().bytes().len())) }
    }
}

fn write_reply(mut reply: ReplyBuilder, padding: &str) -> ReplyBuilder {
    reply.body().append("pad", padding).append("ok", 1.0);
    reply
}

impl Service for Echo {
    async fn call(&self, _session: &Arc<Session>, mut request: RequestMessage<'_>) -> Replies {
        Replies::one(write_reply(request.reply(), &self.padding).finish())
    }
}

/// Serves until the process is ended.
pub(crate) fn run(options: &Options, matches: &ArgMatches) -> ExitCode {
    let reply_bytes = matches.get_one::<usize>(REPLY_BYTES).copied().unwrap_or_default();
    let machine = Machine::of_process();
    let (processors, memory) = (machine.usable_processors(), machine.usable_memory());
    let resources = Resources { descriptors: DescriptorBudget::of_process(), processors, memory };
    let network_options = match server_options(&options.parameters, resources) {
        Ok(network_options) => {
            let io_uring = network_options.io_uring && !matches.get_flag(NO_IO_URING);
            ServerOptions { io_uring, ..network_options }
        }
        Err(error) => return fail(&error, EXIT_OPTIONS),
    };
    match Server::start(network_options, Arc::new(Echo::new(reply_bytes))) {
        Ok(_server) => loop {
            std::thread::park();
        },
        Err(error) => fail(&error, EXIT_NETWORK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_have_the_size_asked_for() {
        let check = |asked: usize, expect: usize| {
            let reply = ReplyBuilder::new(Vec::new(), ReplyFormat::Msg { checksum: false });
            let found = write_reply(reply, &Echo::new(asked).padding).finish().bytes().len();
            assert_eq!(found, expect, "asked for {asked} bytes");
        };
        check(1_100, 1_100);
        check(0, 48);
    }
}
