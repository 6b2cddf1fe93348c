//! Reports to systemd: datagrams to `$NOTIFY_SOCKET` (sd_notify(3)).

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The service manager, if it asked for reports.
#[derive(Debug)]
pub struct Notify {
    /// Whether it asked for heartbeats.
    watchdog: bool,
    to: Option<(UnixDatagram, SocketAddr)>,
}

impl Notify {
    /// Configured by the environment; without a service manager, reports are dropped.
    #[must_use]
    pub fn from_environment() -> Self {
        let socket = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty());
        let watchdog = std::env::var_os("WATCHDOG_USEC").is_some();
        Self { watchdog, to: socket.and_then(|path| open(&path).ok()) }
    }

    /// A heartbeat.
    pub fn alive(&self) {
        if self.watchdog {
            self.report("WATCHDOG=1");
        }
    }

    /// Reports a state: `READY=1`, `STOPPING=1`.
    pub fn report(&self, what: &str) {
        if let Some((socket, address)) = &self.to {
            _ = socket.send_to_addr(what.as_bytes(), address);
        }
    }
}

fn open(path: &OsString) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match path.as_bytes() {
        // An abstract socket address.
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(path)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not block the agent.
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}
