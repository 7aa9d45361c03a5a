//! Runs against servers under the tests' control. No assertion depends on how quick the machine is.

use super::*;
use crate::echo::EchoInTest;
use crate::generator::{ConnectionOptions, Outcome, Window};
use crate::workload::pings;

pub(super) fn group(connections: usize, pacing: Pacing, options: ConnectionOptions) -> GroupSpec {
    GroupSpec { options, ..GroupSpec::new(connections, pings(), pacing) }
}

pub(super) fn run(address: SocketAddr, group: GroupSpec, window: &Window) -> Outcome {
    let interrupt = Interrupt::default();
    let mut generator = Generator::connect(address, &[group], Share::whole(1), &interrupt).expect("connects");
    let [outcome] = generator.run(window).expect("runs").split().expect("one group");
    outcome
}

pub(super) fn counted(operations: u64) -> Window {
    Window { warm_up: Duration::ZERO, duration: Duration::from_secs(60), operations: Some(operations) }
}

pub(super) fn open(arrivals: &str) -> Pacing {
    Pacing::Open(arrivals.parse().expect("arrivals"))
}

/// Runs one group against an echo, without a failure.
fn check(
    pacing: Pacing,
    options: ConnectionOptions,
    connections: usize,
    reply_bytes: usize,
    window: &Window,
) -> Outcome {
    let echo = EchoInTest::start(reply_bytes);
    let spec = group(connections, pacing, options);
    let what = format!("{:?} {:?}", spec.pacing, spec.options);
    let outcome = run(echo.address, spec, window);
    assert_eq!(outcome.errors(), std::collections::BTreeMap::new(), "{what} fails");
    assert!(outcome.timed() == 0 || outcome.reply_bytes == reply_bytes, "{what}: {}", outcome.reply_bytes);
    outcome
}

fn plain() -> ConnectionOptions {
    ConnectionOptions::default()
}

#[test]
fn a_closed_loop_sends_as_many_operations_as_asked() {
    let outcome = check(Pacing::Closed, plain(), 7, 300, &counted(500));
    assert_eq!((outcome.operations(), outcome.connected, outcome.reply_bytes), (500, 7, 300));
    assert_eq!((outcome.connections.asked, outcome.connections.opened), (7, 7));
}

#[test]
fn replies_may_come_in_parts() {
    assert_eq!(check(Pacing::Closed, plain(), 3, 3_000_000, &counted(20)).operations(), 20);
}

#[test]
fn connections_may_be_short() {
    let short = |operations| ConnectionOptions { operations_per_connection: Some(operations), ..plain() };
    let outcome = check(Pacing::Closed, short(1), 5, 300, &counted(100));
    assert_eq!((outcome.operations(), outcome.connections.opened), (100, 100));
    let outcome = check(Pacing::Closed, short(10), 1, 300, &counted(100));
    assert_eq!((outcome.operations(), outcome.connections.opened), (100, 10));
    let outcome =
        check(open("1000"), short(1), 5, 300, &Window::lasting(Duration::ZERO, Duration::from_millis(50)));
    assert_eq!((outcome.timed(), outcome.connections.opened), (50, 50));
}

#[test]
fn once_is_once_for_each_connection() {
    assert_eq!(check(Pacing::Once, plain(), 50, 300, &counted(u64::MAX)).operations(), 50);
}

#[test]
fn an_open_loop_sends_every_intended_operation() {
    let window = Window::lasting(Duration::ZERO, Duration::from_millis(50));
    assert_eq!(check(open("4000"), plain(), 20, 300, &window).timed(), 200, "50 ms at 4,000 a second");
    assert_eq!(check(open("30/20ms"), plain(), 20, 300, &window).timed(), 90, "three bursts");
}

#[test]
fn connections_that_think_send_less() {
    let think = Duration::from_millis(40);
    let window = Window::lasting(Duration::ZERO, Duration::from_millis(100));
    let outcome = check(Pacing::Closed, ConnectionOptions { think, ..plain() }, 4, 300, &window);
    assert!((1..=12).contains(&outcome.timed()), "{} operations with 40 ms between them", outcome.timed());
}

#[test]
fn off_phases_send_nothing() {
    let hour = Duration::from_secs(3_600);
    let phases = Some(crate::generator::Phases { on: Duration::ZERO, off: hour });
    let window = Window::lasting(Duration::ZERO, Duration::from_millis(50));
    assert_eq!(check(Pacing::Closed, ConnectionOptions { phases, ..plain() }, 4, 300, &window).timed(), 0);
}

#[test]
fn storms_open_connections_during_the_run() {
    for opening in [Opening::AtOnce, Opening::PerSecond(1_000.0)] {
        let outcome =
            check(Pacing::Once, ConnectionOptions { opening, ..plain() }, 30, 300, &counted(u64::MAX));
        let found = (outcome.connected, outcome.connections.opened, outcome.operations());
        assert_eq!(found, (0, 30, 30), "{opening:?}");
    }
}

#[test]
fn a_generator_can_run_again() {
    let echo = EchoInTest::start(300);
    let group = group(5, Pacing::Closed, plain());
    let mut generator =
        Generator::connect(echo.address, &[group], Share::whole(1), &Interrupt::default()).expect("connects");
    for _ in 0..3 {
        let [outcome] = generator.run(&counted(40)).expect("runs").split().expect("one group");
        assert_eq!((outcome.operations(), outcome.connected), (40, 5));
    }
}

#[test]
fn refused_connections_are_errors_and_end_the_run() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    drop(listener);
    let outcome = run(address, group(3, Pacing::Closed, plain()), &counted(10));
    assert_eq!((outcome.error_count(), outcome.connected, outcome.connections.refused), (3, 0, 3));
}
