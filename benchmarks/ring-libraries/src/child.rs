//! A server in a process of its own, which ends with the value that stands for it.

use crate::client;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Patience with a server that starts.
const START: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a server and returns when it has answered a request. What it says on standard output is thrown
    /// away.
    pub(crate) fn start(
        mut command: Command,
        address: SocketAddr,
        reply_bytes: usize,
        interrupt: &AtomicBool,
    ) -> Result<Self, Box<dyn Error>> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", command.get_program().display()))?;
        let mut server = Server { child, address };
        let socket = server.connect(interrupt)?;
        client::check_answer(socket, reply_bytes)?;
        Ok(server)
    }

    fn connect(&mut self, interrupt: &AtomicBool) -> Result<TcpStream, Box<dyn Error>> {
        let end = Instant::now() + START;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the server ended with {status}").into());
            }
            match TcpStream::connect_timeout(&self.address, START) {
                Ok(socket) => return Ok(socket),
                Err(error) if Instant::now() >= end => {
                    return Err(format!("the server took no connection in {START:?}: {error}").into());
                }
                Err(_) if interrupt.load(Ordering::Relaxed) => return Err("interrupted".into()),
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error says that the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of this machine on which nothing listens.
pub(crate) fn free_address() -> Result<SocketAddr, Box<dyn Error>> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
