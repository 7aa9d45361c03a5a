//! Child processes that are servers, each on a free port.

use crate::error::BenchError;
use crate::rig::Rig;
use rustix::process::{Pid, Signal, kill_process};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(20);

/// What is started.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// What messages call it.
    pub(crate) name: String,
    /// A program and its arguments that run this one, such as valgrind; usually none.
    pub(crate) wrapper: Vec<String>,
    /// Arguments of this program; `--port` is added.
    pub(crate) arguments: Vec<String>,
    /// How long it may take until it accepts connections.
    pub(crate) patience: Duration,
}

impl Launch {
    pub(crate) fn new(name: &str, arguments: Vec<String>) -> Self {
        const PATIENCE: Duration = Duration::from_secs(30);
        Launch { name: name.to_owned(), wrapper: Vec::new(), arguments, patience: PATIENCE }
    }
}

/// A child process that is a server; ended when dropped.
#[derive(Debug)]
pub(crate) struct ChildServer {
    child: Child,
    name: String,
    pub(crate) address: SocketAddr,
}

impl ChildServer {
    /// Starts this program again and waits until it accepts connections.
    pub(crate) fn start(rig: &Rig, launch: Launch) -> Result<Self, BenchError> {
        let address = free_address()?;
        let program = std::env::current_exe().map_err(BenchError::io("find this program's file"))?;
        let mut words = launch.wrapper.iter().map(Into::into).chain([program.into_os_string()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command
            .args(words)
            .args(&launch.arguments)
            .args(["--port", &address.port().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let child =
            rig.pin.with_server_cores(|| command.spawn().map_err(BenchError::io("start a server")))?;
        let mut server = ChildServer { child, name: launch.name, address };
        server.wait_until_up(rig, launch.patience)?;
        Ok(server)
    }

    fn wait_until_up(&mut self, rig: &Rig, patience: Duration) -> Result<(), BenchError> {
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            self.check_alive()?;
            if begun.elapsed() > patience {
                let (name, address) = (self.name.clone(), self.address.to_string());
                return Err(BenchError::NotUp { name, address, seconds: patience.as_secs() });
            }
            rig.interrupt.pause(POLL)?;
        }
        Ok(())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Fails when the process has ended.
    pub(crate) fn check_alive(&mut self) -> Result<(), BenchError> {
        match self.child.try_wait().map_err(BenchError::io("look after a server"))? {
            Some(status) => Err(BenchError::Died { name: self.name.clone(), status: status.to_string() }),
            None => Ok(()),
        }
    }

    /// Asks the process to end and waits until it has.
    pub(crate) fn terminate(mut self, rig: &Rig, patience: Duration) -> Result<(), BenchError> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).map_err(|error| BenchError::io("end a server")(error.into()))?;
        let begun = Instant::now();
        while self.child.try_wait().map_err(BenchError::io("look after a server"))?.is_none() {
            if begun.elapsed() > patience {
                let problem = format!("did not end within {} s after SIGTERM", patience.as_secs());
                return Err(BenchError::Died { name: self.name.clone(), status: problem });
            }
            rig.interrupt.pause(POLL)?;
        }
        Ok(())
    }
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        // The process may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> Result<SocketAddr, BenchError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(BenchError::io("find a free port"))
}
