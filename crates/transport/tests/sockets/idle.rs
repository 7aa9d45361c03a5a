//! Threads that have come to rest.

use crate::support::{ask, command, connect, eventually, options, start};
use document::doc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use transport::{AdaptiveOptions, ServerOptions, ServiceExecutor};

for_each_executor! {
    threads_that_rest_are_told_once_for_each_rest
}

fn threads_that_rest_are_told_once_for_each_rest(executor: ServiceExecutor) {
    // Workers of `adaptive` look by themselves.
    let adaptive = AdaptiveOptions { run_time: Duration::from_hours(1), ..AdaptiveOptions::default() };
    let (server, service) = start(ServerOptions { adaptive, ..options(executor) });
    let rests = || service.rests.load(Ordering::SeqCst);
    let mut stream = connect(&server);
    for round in 0..2 {
        let before = rests();
        ask(&mut stream, &command(doc! { "sleep": 1 }, round));
        if round == 0 || executor != ServiceExecutor::Synchronous && executor != ServiceExecutor::Adaptive {
            eventually("a rest", || {
                server.tidy();
                thread::sleep(Duration::from_millis(1));
                rests() > before
            });
        }
        eventually("silence", || {
            let before = rests();
            for _ in 0..5 {
                server.tidy();
                thread::sleep(Duration::from_millis(20));
            }
            rests() == before
        });
    }
}
