//! The spool of a recording: what survives a crash.
//!
//! A trace file gets its name when it is whole ([`AtomicFile`](crate::AtomicFile)), so a
//! recording that is killed leaves none. Until then its records also go into a
//! spool beside it, `OUT.parquet.spool`, which is removed when the trace has its name. After
//! SIGKILL or a power cut, [`Reader`] gives back all but the last seconds.
//!
//! Records go into the spool in the order in which they completed, as the recorder gets
//! them, not in order of arrival as into the trace. A single request whose end is not seen
//! holds back all later arrivals, for minutes perhaps, and a crash would lose them.
//!
//! The trace is written at the same time, not from the spool at the end: a day's recording
//! would take minutes to convert, and what ends it (a shutdown, a logout) does not wait
//! minutes. Converting would write the same number of bytes, and read them once more. What
//! the spool adds is kept small instead: about as many bytes as the trace has
//! (docs/recording.md has the figures).
//!
//! ```text
//!   recorder ── Feed::push ── queue ── thread: pack, compress, append; fdatasync each second
//! ```
//!
//! # Format
//!
//! The 16 bytes `trimtab-spool 1\n`, then frames. Numbers are little-endian.
//!
//! | bytes | meaning |
//! | --- | --- |
//! | 1 | kind: `n` note, `d` device, `c` command, `r` records |
//! | 4 | length of the payload |
//! | 4 | CRC-32 of kind, length and payload |
//! | … | payload |
//!
//! A note's payload is `KEY=VALUE`. Devices and commands are names, numbered in order of
//! appearance. Records are their count (4 bytes), and 56 bytes for each, compressed
//! with Zstandard: first the first bytes of all records, then all second bytes, and so on;
//! times are differences from the time before.
//!
//! Reading ends at the first frame that is cut off or whose checksum is wrong: a crash tears
//! the end off. The recorder holds a lock on the file (`flock`) as long as it lives.

mod frame;
mod read;
mod write;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use read::{Leftover, Reader, leftovers};
pub use write::{Feed, Spool, SpoolFile};

/// What a spool begins with.
pub(crate) const MAGIC: &[u8; 16] = b"trimtab-spool 1\n";

/// The ending of a spool's name.
const ENDING: &str = "spool";

/// Names for the spool of a trace, in order of preference: a leftover of an earlier
/// recording must not be replaced.
fn names_beside(target: &Path) -> impl Iterator<Item = PathBuf> {
    let with = |ending: String| {
        let mut name = target.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let first = with(format!(".{ENDING}"));
    std::iter::once(first).chain((2_u64..).map(move |n| with(format!(".{n}.{ENDING}"))))
}

/// The trace that a spool was beside: `a.parquet` for `a.parquet.spool` and
/// `a.parquet.2.spool`. None for names of another form.
#[must_use]
pub fn trace_of(spool: &Path) -> Option<PathBuf> {
    if spool.extension()? != ENDING {
        return None;
    }
    let trace = spool.with_extension("");
    let number = trace.extension().and_then(|e| e.to_str()).map(str::parse::<u64>);
    Some(if matches!(number, Some(Ok(_))) { trace.with_extension("") } else { trace })
}
