//! Asks a server for its `serverStatus` beside a run, on a connection of its own. A server that refuses,
//! hangs or answers something else leaves holes in the series; it never holds up the run.

use crate::command_client::{CommandClient, is_ok};
use crate::error::BenchError;
use crate::result::server_status;
use crate::result::{ServerInfo, ServerSample};
use crate::security::ServerPlace;
use document::{Document, doc};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a server has for connecting, and for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// A thread that samples; it ends with [`Sampler::stop`] or when dropped.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// Dropped to end the thread.
    running: Option<Sender<()>>,
    /// The connection that is in use, to end a wait on it. A leaf lock: nothing else is locked under it.
    connection: Arc<Mutex<Option<TcpStream>>>,
    thread: Option<JoinHandle<Vec<(Instant, ServerSample)>>>,
}

impl Sampler {
    /// Samples at once and then after each interval.
    pub(crate) fn start(place: impl Into<ServerPlace>, interval: Duration) -> Self {
        let (running, ended) = channel();
        let connection = Arc::new(Mutex::new(None));
        let observer = Observer { place: place.into(), connection: Arc::clone(&connection), client: None };
        let thread = std::thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || observer.observe(interval, &ended))
            .ok();
        Sampler { running: Some(running), connection, thread }
    }

    /// Ends it and gives the samples since `begin`, the beginning of the measured window.
    pub(crate) fn stop(mut self, begin: Instant) -> Vec<ServerSample> {
        let samples = self.end();
        let after = |(at, sample): (Instant, ServerSample)| {
            let at_seconds = at.checked_duration_since(begin)?.as_secs_f64();
            Some(ServerSample { at_seconds, ..sample })
        };
        samples.into_iter().filter_map(after).collect()
    }

    fn end(&mut self) -> Vec<(Instant, ServerSample)> {
        self.running = None;
        if let Some(socket) = self.connection.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }

    /// What the server says of itself; empty where it says nothing.
    pub(crate) fn describe(place: impl Into<ServerPlace>) -> ServerInfo {
        let Ok(mut client) = CommandClient::connect_within(place, PATIENCE) else {
            return ServerInfo::default();
        };
        let mut ask = |command: Document| client.command(&command).ok().filter(is_ok);
        let build_info = ask(doc! { "buildInfo": 1, "$db": "admin" });
        let status = ask(status_command());
        server_status::server_info(build_info.as_ref(), status.as_ref())
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

/// The thread's side.
struct Observer {
    place: ServerPlace,
    connection: Arc<Mutex<Option<TcpStream>>>,
    client: Option<CommandClient>,
}

impl Observer {
    fn observe(mut self, interval: Duration, ended: &Receiver<()>) -> Vec<(Instant, ServerSample)> {
        let mut samples = Vec::new();
        let mut next = Instant::now();
        loop {
            match self.sample() {
                Ok(sample) => samples.extend(sample.map(|sample| (Instant::now(), sample))),
                // A late reply must not be taken for the next one: what follows gets a new connection.
                Err(_) => self.client = None,
            }
            next = (next + interval).max(Instant::now());
            match ended.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return samples,
            }
        }
    }

    /// `None` when the server answers with an error.
    fn sample(&mut self) -> Result<Option<ServerSample>, BenchError> {
        if self.client.is_none() {
            let client = CommandClient::connect_within(self.place.clone(), PATIENCE)?;
            *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.closer()?);
            self.client = Some(client);
        }
        let Some(client) = &mut self.client else { return Ok(None) };
        let status = client.command(&status_command())?;
        Ok(is_ok(&status).then(|| server_status::sample(&status)))
    }
}

fn status_command() -> Document {
    doc! { "serverStatus": 1, "$db": "admin" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::fake_server::{Answer, FakeServer, Seen};
    use std::net::TcpListener;

    const INTERVAL: Duration = Duration::from_millis(5);

    /// Waits until the server was asked so often.
    fn wait_for(server: &FakeServer, times: u64) {
        let begun = Instant::now();
        while server.requests() < times {
            assert!(begun.elapsed() < Duration::from_secs(60), "the server is not asked again");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn status(seen: &Seen) -> Answer {
        Answer::Reply(doc! { "connections": { "current": (seen.number as i32) }, "ok": 1.0 })
    }

    #[test]
    fn samples_come_in_order() {
        let server = FakeServer::start(status);
        let begin = Instant::now();
        let sampler = Sampler::start(server.address, INTERVAL);
        wait_for(&server, 4);
        let samples = sampler.stop(begin);
        let found: Vec<Option<u64>> =
            samples.iter().map(|sample| sample.figure("connections")).take(3).collect();
        assert_eq!(found, [Some(0), Some(1), Some(2)]);
        assert!(samples.is_sorted_by(|one, next| one.at_seconds < next.at_seconds), "{samples:?}");
    }

    #[test]
    fn samples_before_the_window_are_left_out() {
        let server = FakeServer::start(status);
        let sampler = Sampler::start(server.address, INTERVAL);
        wait_for(&server, 3);
        let samples = sampler.stop(Instant::now() + Duration::from_secs(3_600));
        assert_eq!(samples, []);
    }

    #[test]
    fn errors_and_closed_connections_leave_holes() {
        let server = FakeServer::start(|seen| match seen.number {
            0 => Answer::Reply(doc! { "ok": 0.0, "code": 13, "errmsg": "not authorized" }),
            1 => Answer::Last(Vec::new()),
            2 => Answer::Bytes(vec![0xFF; 64]),
            _ => status(seen),
        });
        let begin = Instant::now();
        let sampler = Sampler::start(server.address, INTERVAL);
        wait_for(&server, 6);
        let samples = sampler.stop(begin);
        let found: Vec<Option<u64>> =
            samples.iter().map(|sample| sample.figure("connections")).take(2).collect();
        assert_eq!(found, [Some(3), Some(4)], "it goes on after each failure");
    }

    #[test]
    fn a_server_that_hangs_does_not_hold_up_the_end() {
        let server = FakeServer::start(|_| Answer::Silence);
        let sampler = Sampler::start(server.address, INTERVAL);
        wait_for(&server, 1);
        // Would wait for ever if the connection were not ended: the patience is far longer than the test's
        // own.
        let (stopped, end) = channel();
        std::thread::spawn(move || stopped.send(sampler.stop(Instant::now())));
        assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok(Vec::new()));
    }

    #[test]
    fn nobody_there_is_no_error() {
        let gone =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("bound");
        assert_eq!(Sampler::start(gone, INTERVAL).stop(Instant::now()), []);
        assert_eq!(Sampler::describe(gone), ServerInfo::default());
    }

    #[test]
    fn a_server_is_described() {
        let server = FakeServer::start(|seen| {
            Answer::Reply(match seen.number {
                0 => doc! { "version": "7.0.0", "ok": 1.0 },
                _ => doc! { "storageEngine": { "name": "rocksdb" }, "ok": 1.0 },
            })
        });
        let info = Sampler::describe(server.address);
        assert_eq!(
            (info.version.as_deref(), info.storage_engine.as_deref()),
            (Some("7.0.0"), Some("rocksdb"))
        );
    }
}
