//! The crash-safe spool of a recording.
//!
//! A trace file gets its name when it is complete ([`AtomicFile`](crate::AtomicFile)), so a killed
//! recording leaves none. Until then its records also go into a spool beside it,
//! `OUT.parquet.spool`, which is removed when the trace has its name. After SIGKILL or a power
//! failure, [`Reader`] recovers all but the last seconds.
//!
//! Records are spooled in completion order, as the recorder receives them, not in arrival order as
//! in the trace. In arrival order, a single request without a visible completion would hold back
//! all later arrivals, for minutes perhaps, and a crash would lose them.
//!
//! The trace is written concurrently, not converted from the spool at the end: converting a day's
//! recording would take minutes, and what ends it (a shutdown, a logout) does not wait minutes.
//! Converting would write the same number of bytes, and read them once more. The spool's overhead
//! is kept small instead: about as many bytes as the trace (docs/recording.md has the figures).
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

/// The first bytes of a spool.
pub(crate) const MAGIC: &[u8; 16] = b"trimtab-spool 1\n";

/// The extension of a spool's name.
const ENDING: &str = "spool";

/// Candidate names for the spool of a trace, in order of preference: a leftover of an earlier
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

/// The trace of a spool: `a.parquet` for `a.parquet.spool` and `a.parquet.2.spool`. `None` for
/// other names.
#[must_use]
pub fn trace_of(spool: &Path) -> Option<PathBuf> {
    if spool.extension()? != ENDING {
        return None;
    }
    let trace = spool.with_extension("");
    let number = trace.extension().and_then(|e| e.to_str()).map(str::parse::<u64>);
    Some(if matches!(number, Some(Ok(_))) { trace.with_extension("") } else { trace })
}
