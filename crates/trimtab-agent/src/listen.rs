//! The address of the metrics: an IP address or a name, and a port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};

use serde::{Deserialize, Serialize};

const EXPECTED: &str = "expected ADDRESS:PORT, [ADDRESS]:PORT or NAME:PORT, as in 127.0.0.1:9753, \
                        [::1]:9753 or localhost:9753";

/// `ADDRESS:PORT` or `NAME:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Listen {
    host: Host,
    port: u16,
    /// As it was written.
    text: String,
}

/// `listen` is invalid, or has no address. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Its syntax.
    #[error("listen = {text:?}: {why}: {EXPECTED}")]
    Invalid {
        /// As it was written.
        text: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The name has no address.
    #[error("listen = \"{listen}\": cannot resolve {name}: {why}; use an address")]
    Unresolved {
        /// As it was written.
        listen: String,
        /// Its name.
        name: String,
        /// The resolver's error.
        why: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Address(SocketAddr),
    Name(String),
}

impl Listen {
    /// The addresses to bind, each once. `localhost` is both loopback addresses, whatever the
    /// machine resolves it to; other names are resolved.
    pub(crate) fn addresses(&self) -> Result<Vec<SocketAddr>, ListenError> {
        let name = match &self.host {
            Host::Address(address) => return Ok(vec![canonical(*address)]),
            Host::Name(name) => name.as_str(),
        };
        if name.eq_ignore_ascii_case("localhost") {
            let both = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
            return Ok(both.map(|ip| SocketAddr::new(ip, self.port)).to_vec());
        }
        let cannot =
            |why| ListenError::Unresolved { listen: self.to_string(), name: name.to_owned(), why };
        let found = (name, self.port).to_socket_addrs().map_err(|e| cannot(e.to_string()))?;
        let mut addresses: Vec<SocketAddr> = found.map(canonical).collect();
        addresses.sort();
        addresses.dedup();
        if addresses.is_empty() { Err(cannot("it has none".to_owned())) } else { Ok(addresses) }
    }
}

/// Converts an IPv4-mapped IPv6 address (`::ffff:127.0.0.1`) to IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

impl Default for Listen {
    fn default() -> Self {
        let text = "127.0.0.1:9753".to_owned();
        Self { host: Host::Address(SocketAddr::from(([127, 0, 0, 1], 9753))), port: 9753, text }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Listen> for String {
    fn from(listen: Listen) -> Self {
        listen.text
    }
}

impl TryFrom<String> for Listen {
    type Error = ListenError;

    fn try_from(text: String) -> Result<Self, ListenError> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self { host: Host::Address(address), port: address.port(), text });
        }
        let wrong = |why| Err(ListenError::Invalid { text: text.clone(), why });
        let Some((name, port)) = text.rsplit_once(':') else { return wrong("has no port") };
        let Ok(port) = port.parse() else { return wrong("its port is no number up to 65535") };
        if name.is_empty() {
            return wrong("has no address");
        }
        // Rejects malformed addresses: `1.2.3.400`, `[::1`, `::1` without brackets.
        let of_names = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if !name.chars().all(of_names) || name.chars().all(|c| c.is_ascii_digit() || c == '.') {
            return wrong("is neither an address nor a name");
        }
        Ok(Self { host: Host::Name(name.to_owned()), port, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> Result<Vec<String>, ListenError> {
        let addresses = Listen::try_from(text.to_owned())?.addresses()?;
        Ok(addresses.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn localhost_resolves_to_both_loopback_addresses() {
        for (text, expected) in [
            ("127.0.0.1:9753", &["127.0.0.1:9753"][..]),
            ("[::1]:0", &["[::1]:0"]),
            ("[::ffff:127.0.0.1]:80", &["127.0.0.1:80"]),
            ("[::ffff:0.0.0.0]:80", &["0.0.0.0:80"]),
            ("localhost:9753", &["127.0.0.1:9753", "[::1]:9753"]),
            ("LocalHost:1", &["127.0.0.1:1", "[::1]:1"]),
        ] {
            assert_eq!(addresses(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn invalid_addresses_fail_in_one_line() {
        for (text, expected) in [
            ("localhost", "has no port"),
            ("", "has no port"),
            (":9753", "has no address"),
            ("localhost:70000", "no number up to 65535"),
            ("localhost:http", "no number up to 65535"),
            ("1.2.3.400:80", "neither an address nor a name"),
            ("::1:80x", "no number"),
            ("fe80::g:80", "neither an address nor a name"),
            ("two words:80", "neither an address nor a name"),
            ("no-such-host.invalid:80", "cannot resolve no-such-host.invalid: "),
        ] {
            let error = addresses(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(error.contains("expected ") || error.contains("use an address"), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}
