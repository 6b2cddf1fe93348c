//! The failover: all that the application has to do for it, to copy.
//!
//! A page that SQLite asks for is read with the urgency of the `get` that it is for.
//! If it is refused, so is the `get`, by the error that SQLite has for "try again":
//! the statement ends, the connection stays as it was. Then the next replica is asked;
//! if all refuse, the one that is expected to be the soonest, without a deadline. A page
//! that has not come at its deadline is as one that was refused: the next replica is asked.

use std::cell::Cell;
use std::time::Duration;

use rusqlite::ffi;
use trimtab_read::{ReadError, Reader, Urgency};

use crate::store::{GetError, Got, Store};

thread_local! {
    /// How urgent is what this thread does with its store.
    static URGENCY: Cell<Urgency> = const { Cell::new(Urgency::None) };
    /// How long what was refused would have taken.
    static WAIT: Cell<Duration> = const { Cell::new(Duration::MAX) };
}

/// Does something with a store that is so urgent; also how long it would have taken, if
/// it was refused.
pub(crate) fn with_urgency<T>(urgency: Urgency, work: impl FnOnce() -> T) -> (T, Duration) {
    URGENCY.set(urgency);
    let done = work();
    URGENCY.set(Urgency::None);
    (done, WAIT.replace(Duration::MAX))
}

/// Reads for SQLite; what comes of it is one of its codes.
pub(crate) fn read(reader: &Reader, buffer: &mut [u8], offset: u64) -> i32 {
    match reader.read_at(buffer, offset, URGENCY.get()) {
        Ok(bytes) if bytes == buffer.len() => ffi::SQLITE_OK,
        Ok(bytes) => {
            buffer[bytes..].fill(0);
            ffi::SQLITE_IOERR_SHORT_READ
        }
        Err(ReadError::Refused(refusal)) => {
            WAIT.set(refusal.expected_wait.unwrap_or(Duration::MAX));
            ffi::SQLITE_BUSY
        }
        // How long it would still take is not known: the others are better.
        Err(ReadError::TimedOut(_)) => {
            WAIT.set(Duration::MAX);
            ffi::SQLITE_BUSY
        }
        Err(ReadError::Io(_)) => ffi::SQLITE_IOERR_READ,
    }
}

/// Reads a value from the first replica that has it in time: its home, then the others.
/// Also how many have refused.
pub(crate) fn get(stores: &[Store; 3], home: usize, key: u64, urgency: Urgency) -> (u64, Got) {
    let (mut refused, mut last) = (Vec::new(), Err(GetError::Refused(Duration::MAX)));
    for replica in [home, (home + 1) % 3, (home + 2) % 3] {
        match stores[replica].get(key, urgency) {
            Err(GetError::Refused(wait)) => refused.push((wait, replica)),
            Err(failed) => last = Err(failed),
            value => return (refused.len() as u64, value),
        }
    }
    (refused.len() as u64, anyway(stores, key, refused, last))
}

/// Reads a value without a deadline, from the first that can of those that refused.
pub(crate) fn anyway(
    stores: &[Store; 3],
    key: u64,
    mut refused: Vec<(Duration, usize)>,
    mut last: Got,
) -> Got {
    refused.sort_unstable();
    for (_, replica) in refused {
        last = stores[replica].get(key, Urgency::None);
        if last.is_ok() {
            break;
        }
    }
    last
}
