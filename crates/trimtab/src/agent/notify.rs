//! Telling systemd how it stands: datagrams to `$NOTIFY_SOCKET` (sd_notify(3)).

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Whoever started us, if it wants to be told.
pub(super) struct Notify {
    /// Whether it wants to hear that we live.
    watchdog: bool,
    to: Option<(UnixDatagram, SocketAddr)>,
}

impl Notify {
    pub(super) fn from_environment() -> Self {
        let socket = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty());
        // Whoever cannot be told does without: it is not what the agent is for.
        let watchdog = std::env::var_os("WATCHDOG_USEC").is_some();
        Self { watchdog, to: socket.and_then(|path| open(&path).ok()) }
    }

    /// Says that we live.
    pub(super) fn alive(&self) {
        if self.watchdog {
            self.say("WATCHDOG=1");
        }
    }

    /// Says so: `READY=1`, `STOPPING=1`.
    pub(super) fn say(&self, what: &str) {
        if let Some((socket, address)) = &self.to {
            _ = socket.send_to_addr(what.as_bytes(), address);
        }
    }
}

fn open(path: &OsString) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match path.as_bytes() {
        // A name that is in no directory.
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(path)?,
    };
    let socket = UnixDatagram::unbound()?;
    // If nobody takes what is said, it must not be waited for.
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}
