//! What Heddle's `coroutine` transport does beside the io_uring runtimes monoio and compio, on one machine,
//! with one client.
//!
//! ```text
//! ring-libraries serve monoio|compio ADDRESS REPLY_BYTES     an echo server over a library
//! ring-libraries compare HEDDLE_BINARY                       all servers in turns, and their ratios
//! ```
//! Every server answers a MongoDB wire message with one OP_MSG of a fixed size. A library's server has a
//! runtime, with a ring of its own, on a thread per core. One more thread accepts and hands the connections
//! round, as many to each runtime: listeners with SO_REUSEPORT would spread them by a hash, unevenly. Each
//! connection is a task that owns its two buffers and lends them to the kernel for every operation, which is
//! the way that both libraries describe.
//!
//! The differences that remain: Heddle parses the request and writes a new BSON reply, has sessions and
//! statistics, and receives with multishot operations into buffers that its connections share. The libraries'
//! rings have the default flags unless `--defer-taskrun` is given.

mod child;
mod client;
mod compare;
mod compio_echo;
mod message;
mod monoio_echo;
mod server;

use clap::{Parser, Subcommand, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Heddle's io_uring transport beside io_uring runtimes", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Answers every request with one reply, over a library
    Serve {
        library: Library,
        address: SocketAddr,
        /// Size of every reply
        #[arg(value_parser = reply_bytes)]
        reply_bytes: usize,
        #[command(flatten)]
        ring: RingOptions,
    },
    /// Loads Heddle and the libraries in turns and prints their rates and ratios
    Compare(CompareOptions),
}

#[derive(Clone, Copy, ValueEnum)]
enum Library {
    Monoio,
    Compio,
}

#[derive(clap::Args, Clone, Copy)]
struct RingOptions {
    /// Makes the libraries' rings with IORING_SETUP_SINGLE_ISSUER and IORING_SETUP_DEFER_TASKRUN, which
    /// Heddle's have
    #[arg(long)]
    defer_taskrun: bool,
}

#[derive(clap::Args)]
struct CompareOptions {
    /// The `heddle` program
    heddle: PathBuf,
    /// Numbers of connections, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "64,1000,5000", value_parser = positive)]
    connections: Vec<usize>,
    /// Time that is measured in each round, after half a second that is not
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Measurements of each server at each number of connections
    #[arg(long, default_value = "5", value_parser = positive)]
    rounds: usize,
    /// Size of every reply
    #[arg(long, default_value = "1000", value_parser = reply_bytes)]
    reply_bytes: usize,
    #[command(flatten)]
    ring: RingOptions,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ring-libraries: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), Box<dyn Error>> {
    raise_descriptor_limit()?;
    match command {
        Command::Serve { library, address, reply_bytes, ring } => {
            Ok(server::serve(library, address, reply_bytes, ring)?)
        }
        Command::Compare(options) => compare::run(&options),
    }
}

/// Allows as many descriptors as the administrator does; the servers that are started inherit it.
fn raise_descriptor_limit() -> Result<(), Box<dyn Error>> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .map_err(|error| format!("cannot raise the limit of open files: {error}").into())
}

fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| "expected a number above 0".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    let range = 0.01..=3600.0;
    text.parse()
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| format!("expected seconds from {} to {}", range.start(), range.end()))
}

/// Heddle's smallest reply has 48 bytes.
fn reply_bytes(text: &str) -> Result<usize, String> {
    let range = 48..=message::LARGEST;
    text.parse()
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| format!("expected a number from {} to {}", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent() {
        Arguments::command().debug_assert();
    }
}
