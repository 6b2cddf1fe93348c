//! Addresses to listen on, as users write them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::error::Error;

/// The port that is registered for NVMe over Fabrics.
const PORT: u16 = 4420;

/// Parses `ADDRESS` or `ADDRESS:PORT`; IPv6 as `::1` or `[::1]:4420`. None: loopback. The port is 4420
/// unless given.
///
/// # Errors
/// It is no address: names are not looked up, so that what is opened is what was said.
pub fn parse(text: Option<&str>) -> Result<SocketAddr, Error> {
    let Some(text) = text else { return Ok((Ipv4Addr::LOCALHOST, PORT).into()) };
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let address = match (text.parse::<SocketAddr>(), bare) {
        (Ok(address), _) => Some(address),
        (_, Some(bare)) => bare.parse::<Ipv6Addr>().ok().map(|address| (address, PORT).into()),
        (_, None) => text.parse::<IpAddr>().ok().map(|address| (address, PORT).into()),
    };
    address.filter(|address| address.port() != 0).ok_or_else(|| {
        Error::BadInput(format!(
            "`{text}`: no address to listen on; expected for example 127.0.0.1:{PORT} or [::1]:{PORT}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_registered_port_unless_given() {
        for (text, expected) in [
            (None, "127.0.0.1:4420"),
            (Some("10.0.0.1"), "10.0.0.1:4420"),
            (Some("10.0.0.1:99"), "10.0.0.1:99"),
            (Some("::1"), "[::1]:4420"),
            (Some("[::1]"), "[::1]:4420"),
            (Some("[fe80::1]:99"), "[fe80::1]:99"),
            (Some("0.0.0.0"), "0.0.0.0:4420"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), expected, "{text:?}");
        }
        for bad in
            ["", "localhost", "10.0.0", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:99999", "[10.0.0.1]"]
        {
            assert!(parse(Some(bad)).unwrap_err().is_bad_input(), "{bad}");
        }
    }
}
