//! What tells a drive's content from that of all others: its id where it is exported as an NVMe drive.
//!
//! Content in a file has an id made from the machine's and the file's path, so that a drive that is
//! made again over its file is the same volume to hosts. Content in memory ends with its drive, and so
//! does its id, which is random: a host never takes a new drive for one that it had.

use std::fs;
use std::path::Path;

use trimtab_io::mix64;
use trimtab_serve::Error;

use super::spec::{Data, Spec};

/// A UUID, as text.
pub(super) fn of(spec: &Spec) -> Result<String, Error> {
    let number = match &spec.data {
        Data::None | Data::Memory { .. } => random()?,
        Data::File { path, .. } => {
            let failed = Error::system(format!("find {}", path.display()));
            of_file(&machine_id(), &fs::canonicalize(path).map_err(failed)?)
        }
    };
    Ok(text(number))
}

fn random() -> Result<u128, Error> {
    let mut bytes = [0; 16];
    let flags = rustix::rand::GetRandomFlags::empty();
    rustix::rand::getrandom(&mut bytes, flags).map_err(Error::system("get random bytes"))?;
    Ok(u128::from_ne_bytes(bytes))
}

/// The machine's id (machine-id(5)), or that of the time since it started.
fn machine_id() -> String {
    let known = ["/etc/machine-id", "/proc/sys/kernel/random/boot_id"].into_iter();
    let mut read = known.filter_map(|file| fs::read_to_string(file).ok());
    // An image that has not been started yet has the word `uninitialized`.
    let is_id = |id: &String| id.trim().chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    read.find(|id| id.trim().len() >= 32 && is_id(id)).unwrap_or_default()
}

fn of_file(machine: &str, path: &Path) -> u128 {
    let text = [machine.trim().as_bytes(), b"\0", path.as_os_str().as_encoded_bytes()].concat();
    let half = |seed: u64| {
        text.chunks(8).fold(mix64(seed ^ text.len() as u64), |state, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            mix64(state ^ u64::from_le_bytes(word))
        })
    };
    u128::from(half(1)) << 64 | u128::from(half(2))
}

/// With the version that has no meaning for others (RFC 9562, UUIDv8).
fn text(number: u128) -> String {
    let number = number & !(0xf << 76 | 0x3 << 62) | 0x8 << 76 | 0x2 << 62;
    let digits = format!("{number:032x}");
    let groups = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    groups.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_their_ids_and_differ() {
        let id = |machine: &str, path: &str| text(of_file(machine, Path::new(path)));
        let one = id("0123", "/var/tmp/a.img");
        // For good: hosts know the volume by it.
        assert_eq!(one, "da81b328-ef8a-8c90-ba0d-c62f951e1831");
        for (machine, path) in [("0123", "/var/tmp/b.img"), ("0124", "/var/tmp/a.img")] {
            assert_ne!(one, id(machine, path));
        }
        // The machine's id ends where the path begins.
        assert_ne!(id("01", "23"), id("012", "3"));
    }

    #[test]
    fn random_ids_are_well_formed() {
        let (one, two) = (text(random().unwrap()), text(random().unwrap()));
        assert_ne!(one, two);
        assert_eq!((one.len(), &one[14..15]), (36, "8"), "{one}");
        assert!(["8", "9", "a", "b"].contains(&&one[19..20]), "{one}");
    }
}
