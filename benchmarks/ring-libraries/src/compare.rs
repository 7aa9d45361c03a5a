//! All servers in turns under the same load, and the table of their rates.

use crate::child::{Server, free_address};
use crate::client::Load;
use crate::{CompareOptions, message};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SUBJECTS: [Subject; 3] = [Subject::Heddle, Subject::Monoio, Subject::Compio];

#[derive(Clone, Copy)]
enum Subject {
    Heddle,
    Monoio,
    Compio,
}

/// One server's rates at one number of connections: a round's rate, or why there is none.
type Rates = Vec<Result<f64, String>>;

/// Prints the table, a line for each number of connections as soon as it is measured.
pub(crate) fn run(options: &CompareOptions) -> Result<(), Box<dyn Error>> {
    if !options.heddle.is_file() {
        return Err(
            format!("expected the heddle program, got {}: no such file", options.heddle.display()).into()
        );
    }
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupt))?;
    }
    let flags =
        if options.ring.defer_taskrun { "SINGLE_ISSUER, DEFER_TASKRUN" } else { "none (the default)" };
    println!(
        "{} rounds of {} s, requests of {} bytes, replies of {} bytes; flags of the libraries' rings: \
         {flags}. Medians (smallest–largest); ratios are of rates in the same round.\n",
        options.rounds,
        options.seconds,
        message::REQUEST_BYTES,
        options.reply_bytes
    );
    println!(
        "| connections | heddle coroutine/s | monoio/s | compio/s | heddle ÷ monoio | heddle ÷ compio |"
    );
    println!("|---:|---:|---:|---:|---:|---:|");
    for &connections in &options.connections {
        let rates = measure(options, connections, &interrupt)?;
        println!("{}", row(connections, &rates));
    }
    Ok(())
}

/// The rates of each subject, in the order of `SUBJECTS`. The first of a round is another one each time.
fn measure(
    options: &CompareOptions,
    connections: usize,
    interrupt: &AtomicBool,
) -> Result<[Rates; 3], Box<dyn Error>> {
    let duration = Duration::from_secs_f64(options.seconds);
    let load = Load { connections, duration, reply_bytes: options.reply_bytes, interrupt };
    let mut rates = [const { Vec::new() }; 3];
    for round in 0..options.rounds {
        let mut order: Vec<_> = SUBJECTS.into_iter().zip(&mut rates).collect();
        order.rotate_left(round % SUBJECTS.len());
        for (subject, rates) in order {
            let rate = subject.measure(options, &load);
            if interrupt.load(Ordering::Relaxed) {
                return Err("interrupted".into());
            }
            rates.push(rate.map_err(|error| error.to_string()));
        }
        eprintln!("{connections} connections: round {} of {}", round + 1, options.rounds);
    }
    Ok(rates)
}

impl Subject {
    fn measure(self, options: &CompareOptions, load: &Load<'_>) -> Result<f64, Box<dyn Error>> {
        let address = free_address()?;
        let command = self.command(options, address)?;
        let server = Server::start(command, address, options.reply_bytes, load.interrupt)?;
        load.rate(server.address)
    }

    fn command(self, options: &CompareOptions, address: SocketAddr) -> Result<Command, Box<dyn Error>> {
        let reply_bytes = options.reply_bytes.to_string();
        let library = match self {
            Subject::Heddle => return Ok(heddle(&options.heddle, address, &reply_bytes)),
            Subject::Monoio => "monoio",
            Subject::Compio => "compio",
        };
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", library, &address.to_string(), &reply_bytes]);
        if options.ring.defer_taskrun {
            command.arg("--defer-taskrun");
        }
        Ok(command)
    }
}

fn heddle(program: &Path, address: SocketAddr, reply_bytes: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["echo-server", "--nounixsocket", "--serviceExecutor", "coroutine"]);
    command.args(["--bind_ip", &address.ip().to_string(), "--port", &address.port().to_string()]);
    command.args(["--reply-bytes", reply_bytes]);
    command
}

fn row(connections: usize, [heddle, monoio, compio]: &[Rates; 3]) -> String {
    let cells = [rate(heddle), rate(monoio), rate(compio), ratio(heddle, monoio), ratio(heddle, compio)];
    format!("| {connections} | {} |", cells.join(" | "))
}

/// The median of the rates, and the failures if there were any.
fn rate(rates: &Rates) -> String {
    let failures: Vec<_> = rates.iter().filter_map(|rate| rate.as_ref().err()).collect();
    let spread = Spread::of(rates.iter().filter_map(|rate| rate.as_ref().ok().copied()).collect());
    let spread =
        spread.map(|spread| format!("{:.0} ({:.0}–{:.0})", spread.median, spread.smallest, spread.largest));
    let failed = failures.first().map(|reason| {
        format!("failed in {} of {} rounds: {}", failures.len(), rates.len(), reason.replace('|', "/"))
    });
    [spread, failed].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// The median of the rounds' ratios.
fn ratio(rates: &Rates, others: &Rates) -> String {
    let both = rates.iter().zip(others);
    let ratios = both.filter_map(|(rate, other)| Some(rate.as_ref().ok()? / other.as_ref().ok()?)).collect();
    Spread::of(ratios).map_or_else(
        || "none".to_owned(),
        |spread| format!("{:.2} ({:.2}–{:.2})", spread.median, spread.smallest, spread.largest),
    )
}

struct Spread {
    smallest: f64,
    median: f64,
    largest: f64,
}

impl Spread {
    /// Of one value at least.
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (&smallest, &largest) = (values.first()?, values.last()?);
        let (lower, upper) = (values.get((values.len() - 1) / 2)?, values.get(values.len() / 2)?);
        Some(Spread { smallest, median: f64::midpoint(*lower, *upper), largest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_medians_of_rates_and_of_ratios() {
        let rates = |values: [f64; 3]| values.map(Ok).to_vec();
        let compio = vec![Ok(50.0), Err("connection 9: refused".to_owned()), Ok(100.0)];
        let found = row(64, &[rates([100.0, 300.0, 200.0]), rates([100.0, 100.0, 100.0]), compio]);
        assert_eq!(
            found,
            "| 64 | 200 (100–300) | 100 (100–100) | 75 (50–100); failed in 1 of 3 rounds: connection 9: \
             refused | 2.00 (1.00–3.00) | 2.00 (2.00–2.00) |"
        );
    }

    #[test]
    fn a_subject_that_always_fails_has_no_ratio() {
        let failed = || vec![Err("refused".to_owned())];
        let found = row(1, &[vec![Ok(1.0)], failed(), failed()]);
        let cell = "failed in 1 of 1 rounds: refused";
        assert_eq!(found, format!("| 1 | 1 (1–1) | {cell} | {cell} | none | none |"));
    }
}
