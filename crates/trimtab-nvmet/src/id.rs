//! Names of volumes in NVMe: UUIDs, and qualified names (NQN).

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// What the qualified names of all subsystems begin with that trimtab makes. `internal` is the
/// top-level domain that is reserved for private use.
pub const PREFIX: &str = "nqn.2026-11.internal.trimtab:";

/// The longest qualified name, bytes (NVMe Base Specification, "NVMe Qualified Names").
const NQN_BYTES: usize = 223;

/// The discovery service's name, which every target answers to.
const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// A volume's id. Parses from 32 hexadecimal digits, grouped as RFC 9562 or mdadm has them.
///
/// ```
/// let of_md: trimtab_nvmet::Uuid = "0b2de61c:9d3f4a51:8f2f7f0a:6a1d3c55".parse().unwrap();
/// assert_eq!(of_md.to_string(), "0b2de61c-9d3f-4a51-8f2f-7f0a6a1d3c55");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// Its digits, without groups.
    pub(crate) fn digits(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl FromStr for Uuid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::BadInput(format!("`{text}`: a UUID has 32 hexadecimal digits"));
        let digits: String = text.chars().filter(|c| !matches!(c, '-' | ':')).collect();
        if digits.len() != 32 || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let number = u128::from_str_radix(&digits, 16).map_err(|_| bad())?;
        // The kernel takes it for none.
        if number == 0 {
            return Err(bad());
        }
        Ok(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits();
        let groups =
            [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
        f.write_str(&groups.join("-"))
    }
}

impl serde::Serialize for Uuid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Checks the qualified name of a host, which becomes the name of a directory.
///
/// # Errors
/// It is no such name.
pub fn check_host_nqn(name: &str) -> Result<(), Error> {
    let fits = |c: char| c.is_ascii_graphic() && c != '/';
    if name.starts_with("nqn.")
        && name.len() <= NQN_BYTES
        && name != DISCOVERY
        && name.chars().all(fits)
    {
        return Ok(());
    }
    Err(Error::BadInput(format!(
        "`{name}`: a host's NQN begins with `nqn.` and has at most {NQN_BYTES} characters; the host \
         has it in /etc/nvme/hostnqn"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_parse_in_both_groupings() {
        let md: Uuid = "00112233:44556677:8899aabb:ccddeeff".parse().unwrap();
        let rfc: Uuid = "00112233-4455-6677-8899-AABBCCDDEEFF".parse().unwrap();
        assert_eq!(md, rfc);
        assert_eq!(md.to_string(), "00112233-4455-6677-8899-aabbccddeeff");
        for bad in ["", "0011", "00112233:44556677:8899aabb:ccddeefg", "0-0", &"0".repeat(32)] {
            assert!(bad.parse::<Uuid>().is_err(), "{bad}");
        }
    }

    #[test]
    fn host_names_are_no_paths() {
        check_host_nqn("nqn.2014-08.org.nvmexpress:uuid:00112233-4455-6677-8899-aabbccddeeff")
            .unwrap();
        let long = format!("nqn.{}", "a".repeat(NQN_BYTES));
        for bad in ["", "host", "nqn.a/../b", "nqn.a b", "nqn.a\n", DISCOVERY, &long] {
            assert!(check_host_nqn(bad).unwrap_err().is_bad_input(), "{bad}");
        }
    }
}
