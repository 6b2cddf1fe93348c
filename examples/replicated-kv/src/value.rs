//! What is stored, such that any mistake shows: each byte of a value follows from its
//! key and its version.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Bytes of a value, as in YCSB.
pub(crate) const BYTES: usize = 1024;

/// The value that a key has in this version.
pub(crate) fn value(key: u64, version: u64) -> Vec<u8> {
    let words = (0..BYTES as u64 / 8).map(|word| match word {
        0 => key,
        1 => version,
        word => mix(mix(key ^ version.rotate_left(32)).wrapping_add(word)),
    });
    words.flat_map(u64::to_le_bytes).collect()
}

/// The version of a value; none if it is not, to the last byte, a value of this key.
fn version(key: u64, bytes: &[u8]) -> Option<u64> {
    let version = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    (bytes == value(key, version)).then_some(version)
}

/// Spreads consecutive numbers over all numbers (the finaliser of SplitMix64).
pub(crate) const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Which versions of a key may be read: from the last that is on all replicas, to the
/// last that was begun to be written. One writer for each key.
#[derive(Debug)]
pub(crate) struct Book {
    begun: Vec<AtomicU64>,
    done: Vec<AtomicU64>,
}

impl Book {
    /// All records are there in version 0.
    pub(crate) fn new(records: u64) -> Self {
        let zeroes = || (0..records).map(|_| AtomicU64::new(0)).collect();
        Self { begun: zeroes(), done: zeroes() }
    }

    /// The version to write next.
    pub(crate) fn begin(&self, key: u64) -> u64 {
        self.begun[key as usize].fetch_add(1, SeqCst) + 1
    }

    /// All replicas have the version that was begun.
    pub(crate) fn done(&self, key: u64, version: u64) {
        self.done[key as usize].store(version, SeqCst);
    }

    /// What a read that begins now may find at the least.
    pub(crate) fn least(&self, key: u64) -> u64 {
        self.done[key as usize].load(SeqCst)
    }

    /// Whether this is what a read may find that ends now, and had begun at `least`.
    pub(crate) fn is_right(&self, key: u64, least: u64, found: Option<&[u8]>) -> bool {
        let most = self.begun[key as usize].load(SeqCst);
        found.and_then(|bytes| version(key, bytes)).is_some_and(|v| (least..=most).contains(&v))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_wrong_byte_shows() {
        let book = Book::new(10);
        assert_eq!(book.begin(3), 1);
        book.done(3, 1);
        let least = book.least(3);
        let right = value(3, 1);
        assert_eq!(right.len(), BYTES);
        assert!(book.is_right(3, least, Some(&right)));
        for byte in 0..BYTES {
            let mut wrong = right.clone();
            wrong[byte] ^= 1;
            assert!(!book.is_right(3, least, Some(&wrong)), "byte {byte}");
        }
        assert!(!book.is_right(3, least, None));
        assert!(!book.is_right(3, least, Some(&right[..BYTES - 8])));
    }

    #[test]
    fn what_is_older_or_newer_than_can_be_is_wrong() {
        let book = Book::new(1);
        let begun = book.begin(0);
        let least = book.least(0);
        assert!(book.is_right(0, least, Some(&value(0, 0))));
        assert!(book.is_right(0, least, Some(&value(0, 1))));
        assert!(!book.is_right(0, least, Some(&value(0, 2))));
        book.done(0, begun);
        assert!(book.is_right(0, least, Some(&value(0, 0))));
        assert!(!book.is_right(0, book.least(0), Some(&value(0, 0))));
    }
}
