//! The fingerprint of a recording, by which a card names it.

use super::seal::Hash;
use crate::recorded::Recorded;

/// Tells recordings apart: a hash (FNV-1a, 64 bits) of all requests and their times.
#[must_use]
pub fn fingerprint(recorded: &[Recorded]) -> String {
    let mut hash = Hash::default();
    for Recorded { request, complete, .. } in recorded {
        for number in [request.arrival.0, complete.0, request.offset, request.length] {
            hash.add(&number.to_le_bytes());
        }
        hash.add(&[request.op as u8]);
    }
    hash.text()
}
