//! Sockets that listen: TCP and Unix.

use crate::{ServerOptions, ServiceExecutor, StartError};
use rustix::fs::{Mode, fchmod};
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

/// Unanswered questions before the kernel gives a silent client up, one second apart.
const KEEPALIVE_PROBES: u32 = 10;
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// One listening socket. A Unix socket's file goes with it.
pub(crate) struct Listener {
    pub(crate) socket: Socket,
    unix_path: Option<PathBuf>,
    /// Its entry in the options, or its path.
    pub(crate) name: String,
    /// The priority port: its connections stay on the diagnostic lane.
    pub(crate) is_priority_port: bool,
    /// The thread model of new connections, as its number.
    executor: AtomicU8,
    /// Connections that it may have; `None`: as many as the server.
    limit: Option<Arc<ListenerLimit>>,
}

/// A bound on the connections of one listener.
struct ListenerLimit {
    most: usize,
    open: AtomicUsize,
}

/// One of the connections that a listener may have; dropping it makes room for another.
pub(crate) struct ListenerPlace(Option<Arc<ListenerLimit>>);

impl Drop for ListenerPlace {
    fn drop(&mut self) {
        if let Some(limit) = &self.0 {
            limit.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Listener {
    /// Opens every socket that the options name. Nothing stays open when one of them fails.
    pub(crate) fn open_all(options: &ServerOptions) -> Result<Vec<Self>, StartError> {
        let mut listeners = Vec::new();
        let mut port = options.port;
        for entry in &options.bind_addresses {
            if entry.starts_with('/') {
                listeners.push(Self::open_unix(Path::new(entry), options)?);
                continue;
            }
            for address in resolve(entry, port)? {
                let listener = Self::open_tcp(entry, address, options)?;
                // With port 0 the kernel chooses once, and all addresses share its choice.
                if port == 0 {
                    port = listener.tcp_address().map_or(0, |address| address.port());
                }
                listeners.push(listener);
            }
        }
        if let Some(mut port) = options.priority_port {
            for entry in options.bind_addresses.iter().filter(|entry| !entry.starts_with('/')) {
                for address in resolve(entry, port)? {
                    let mut listener = Self::open_tcp("priority", address, options)?;
                    listener.is_priority_port = true;
                    if port == 0 {
                        port = listener.tcp_address().map_or(0, |address| address.port());
                    }
                    listeners.push(listener);
                }
            }
        }
        if let Some(prefix) = &options.unix_socket_prefix {
            let path = prefix.join(format!("mongodb-{port}.sock"));
            listeners.push(Self::open_unix(&path, options)?);
        }
        Ok(listeners)
    }

    fn open_tcp(name: &str, address: SocketAddr, options: &ServerOptions) -> Result<Self, StartError> {
        let open = || -> io::Result<Socket> {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            if address.is_ipv6() {
                socket.set_only_v6(!address.ip().is_unspecified())?;
            }
            socket.bind(&address.into())?;
            socket.listen(options.listen_backlog)?;
            Ok(socket)
        };
        let socket = open().map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => StartError::PortInUse { address },
            _ => StartError::Listen { address, error },
        })?;
        Ok(Self::new(socket, None, name.to_owned(), options))
    }

    fn open_unix(path: &Path, options: &ServerOptions) -> Result<Self, StartError> {
        remove_stale(path)?;
        let open = || -> io::Result<Socket> {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            // Before binding, so that the file never has wider permissions than asked for.
            fchmod(&socket, Mode::from_raw_mode(options.unix_socket_permissions))?;
            socket.bind(&SockAddr::unix(path)?)?;
            socket.listen(options.listen_backlog)?;
            Ok(socket)
        };
        let socket = open().map_err(|error| StartError::UnixSocket { path: path.to_owned(), error })?;
        Ok(Self::new(socket, Some(path.to_owned()), path.display().to_string(), options))
    }

    fn new(socket: Socket, unix_path: Option<PathBuf>, name: String, options: &ServerOptions) -> Self {
        let own = options.listener_executors.iter().find(|(entry, _)| *entry == name);
        let executor = own.map_or(options.executor, |(_, executor)| *executor);
        let most = options.listener_max_connections.iter().find(|(entry, _)| *entry == name);
        let limit = most.map(|(_, most)| Arc::new(ListenerLimit { most: *most, open: AtomicUsize::new(0) }));
        let executor = AtomicU8::new(executor as u8);
        Self { socket, unix_path, name, is_priority_port: false, executor, limit }
    }

    /// One connection more, unless it has as many as it may.
    ///
    /// # Errors
    /// So many it may have.
    pub(crate) fn take_place(&self) -> Result<ListenerPlace, usize> {
        let Some(limit) = &self.limit else { return Ok(ListenerPlace(None)) };
        let more = |open: usize| (open < limit.most).then_some(open + 1);
        match limit.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(ListenerPlace(Some(Arc::clone(limit)))),
            Err(_) => Err(limit.most),
        }
    }

    /// The thread model of new connections.
    pub(crate) fn executor(&self) -> ServiceExecutor {
        ServiceExecutor::from_number(self.executor.load(Ordering::Relaxed))
    }

    pub(crate) fn set_executor(&self, executor: ServiceExecutor) {
        self.executor.store(executor as u8, Ordering::Relaxed);
    }

    pub(crate) fn tcp_address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()?.as_socket()
    }

    pub(crate) fn unix_path(&self) -> Option<&Path> {
        self.unix_path.as_deref()
    }

    /// Removes the socket's file. Connections that were accepted go on.
    pub(crate) fn remove_file(&self) {
        if let Some(path) = &self.unix_path
            && let Err(error) = fs::remove_file(path)
        {
            tracing::warn!(target: "network", path = %path.display(), %error,
                "cannot remove the unix socket");
        }
    }
}

fn resolve(entry: &str, port: u16) -> Result<Vec<SocketAddr>, StartError> {
    if entry == "*" {
        return Ok(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)]);
    }
    let mut addresses: Vec<SocketAddr> = (entry, port)
        .to_socket_addrs()
        .map_err(|error| StartError::Resolve { host: entry.to_owned(), error })?
        .collect();
    addresses.sort();
    addresses.dedup();
    Ok(addresses)
}

/// Removes the socket of a server that is gone. A file that is no socket is left, and binding then says so.
fn remove_stale(path: &Path) -> Result<(), StartError> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(StartError::UnixSocketInUse { path: path.to_owned() });
    }
    fs::remove_file(path).map_err(|error| StartError::UnixSocket { path: path.to_owned(), error })
}

/// Prepares an accepted connection. None of these is worth losing the connection for.
pub(crate) fn prepare(socket: &Socket, options: &ServerOptions) {
    let is_tcp = socket.local_addr().is_ok_and(|address| address.as_socket().is_some());
    let prepared = || -> io::Result<()> {
        if !options.send_timeout.is_zero() {
            socket.set_write_timeout(Some(options.send_timeout))?;
        }
        if is_tcp {
            socket.set_tcp_nodelay(true)?;
            let keepalive = TcpKeepalive::new()
                .with_time(options.keepalive_idle)
                .with_interval(KEEPALIVE_INTERVAL)
                .with_retries(KEEPALIVE_PROBES);
            socket.set_tcp_keepalive(&keepalive)?;
        }
        Ok(())
    };
    if let Err(error) = prepared() {
        tracing::debug!(target: "network", %error, "cannot set a socket option");
    }
}
