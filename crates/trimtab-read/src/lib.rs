//! Reads with a deadline.
//!
//! A [`Reader`] is a device or file to read from. Each read carries its urgency. A read that
//! is predicted to miss its deadline is refused within microseconds, without I/O, and the
//! caller gets the data from another replica or from parity. The prediction comes from a
//! model of the drive ([`trimtab_predict::Model`]) and the drive's current state
//! (`trimtab_state`), which the kernel tracks for the I/O of all processes.
//!
//! ```text
//!  read_at ─> where on the drive? ─> state, model: in time? ── yes ─────────────> pread
//!                                                      │ no
//!                                        in the page cache? ── yes ─────────────> copy
//!                                                      │ no
//!                                     probe? sample? ceiling? ── one of them,
//!                                                      │         and few are out ──> pread
//!                                                      │ none
//!                                                   Refusal (EBUSY)
//! ```
//!
//! **A deadline holds.** A read with a deadline is submitted so that its caller can abandon it
//! (detachable.rs): by the deadline it returns data or [`ReadError::TimedOut`], even if the
//! drive stalls, with or without a model. The reads in flight on a drive that does not
//! complete them are bounded (outstanding.rs): those predicted late, and those abandoned.
//!
//! **Fails open.** With no model, a mismatched model or stale state, reads are submitted
//! normally and counted by reason ([`Figures::failed_open`]). A refused drive is probed, the
//! share refused has a ceiling ([`ReadOptions`]), and a read with [`Urgency::None`] is never
//! refused: use it for the last replica.
//!
//! ```no_run
//! use trimtab_read::{ReadOptions, ReadError, Reader, Urgency};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A state tracker runs: `trimtab watch nvme0n1 nvme1n1 --pin …`.
//! let open = |path, model: &str| -> Result<Reader, Box<dyn std::error::Error>> {
//!     let model = trimtab_predict::Model::load(model.as_ref())?;
//!     Ok(Reader::open(path, &ReadOptions::with_model(model))?)
//! };
//! let first = open("/mnt/a/data", "nvme0n1.safetensors")?;
//! let second = open("/mnt/b/data", "nvme1n1.safetensors")?;
//! let mut page = [0; 4096];
//! let within = Urgency::Deadline(std::time::Duration::from_micros(500));
//! match first.read_exact_at(&mut page, 8192, within) {
//!     Ok(()) => {}
//!     // Not sent, or not answered by its deadline.
//!     Err(ReadError::Refused(_) | ReadError::TimedOut(_)) => {
//!         second.read_exact_at(&mut page, 8192, Urgency::None)?;
//!     }
//!     Err(ReadError::Io(error)) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **Memory.** A read whose deadline is below the drive's least latency is expected in the page
//! cache: it is refused if its pages were there and are gone, and never at first access
//! (memory.rs). [`addrcheck`] says the same of mapped memory.
//!
//! **Automatic deadlines.** [`Urgency::Auto`] follows the last reads, and what failing over
//! costs ([`auto`]).
//!
//! With io_uring, [`Reader::prepare`] decides and returns an entry to push; [`Reader::admit`]
//! decides for callers that send reads in another way. The C interface is `include/trimtab.h`
//! of the crate `trimtab-c`.
//!
//! # Design
//!
//! - **The forecast comes before the page cache.** Most reads are in time and pay for no
//!   system call; only a read that would be refused is looked up in the cache, by `cachestat`,
//!   since `RWF_NOWAIT` starts readahead.
//! - **Probes depend on how long a part of a drive has been avoided**, not on other traffic:
//!   other parts may be read while one is refused. A busy period shorter than the probe
//!   interval gets no probe, since each would cost a late read.
//! - **The refusal cap is a share of the reads of each second**, counted from its beginning;
//!   nothing is carried over. One word holds the second, the reads before it and the refusals
//!   in it, updated by compare and swap: the share is exact for all threads.
//! - **Unknown places are drawn.** A forest was never trained on a read without units, and
//!   zeros would be an idle unit, so it is evaluated for three random places.
//! - **Counters are the published file.** A reader counts in mapped memory that other
//!   processes read: publishing is free, and nothing has to be flushed when a process is
//!   killed.

mod addrcheck;
mod admission;
pub mod auto;
mod auto_reads;
mod cached;
mod detachable;
mod drive_state;
mod error;
mod fetch;
mod figures;
mod floor;
mod forecast;
mod lane;
mod limiter;
mod mapping;
mod memory;
mod options;
mod outstanding;
mod page_fetch;
mod probes;
mod publish;
mod published;
mod reader;
mod refusal_cap;
mod resident;
mod ring;
mod sums;
mod token;

pub use addrcheck::addrcheck;
pub use auto::{AutoDeadline, AutoGrant, AutoOptions};
pub use auto_reads::{AutoRead, SharedAuto};
pub use drive_state::Source;
pub use error::{Error, ReadError, Refusal, RefusalCause, Urgency};
pub use figures::{FailedOpen, Figures};
pub use options::ReadOptions;
pub use published::{Published, published, readers};
pub use reader::{Expected, Reader};
pub use sums::{ReaderSums, Sum};
pub use token::ReadToken;
