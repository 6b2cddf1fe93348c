//! Synthetic traces, described in TOML.
//!
//! ```toml
//! seed = 1               # the same seed gives the same trace, on any machine
//! requests = 100_000     # how many requests, and/or
//! duration_s = 60        # for how long: whichever ends first
//! capacity_gb = 100      # the device's size, in 10^9 bytes
//! read_share = 0.7       # reads among the requests, 0 to 1; the others write
//! align_bytes = 4096     # offsets are multiples of this; if left out, 4096
//! device = "nvme0n1"     # the device's name in the trace; if left out, "synth"
//!
//! [arrivals]
//! kind = "poisson"       # independent arrivals at a constant rate
//! iops = 5000            # mean requests per second
//!
//! [offsets]
//! kind = "uniform"       # anywhere
//!
//! [[sizes]]              # as often as there are sizes
//! bytes = 4096           # a multiple of 512
//! weight = 3             # how often, relative to the other sizes
//!
//! [[sizes]]
//! bytes = 65536
//! weight = 1
//! ```
//!
//! Writes can have sizes of their own: a list `write_sizes` like `sizes`, which then
//! is of reads only.
//!
//! # Arrivals
//!
//! `poisson`
//! : `iops`. Gaps are exponential.
//!
//! `bursty`
//! : `on_iops`, `off_iops` (may be 0), `on_ms`, `off_ms`. Poisson arrivals
//!   whose rate switches between two phases of exponential length, with the
//!   means `on_ms` and `off_ms`. The trace begins in the on phase.
//!
//! `periodic`
//! : `on_iops`, `on_ms`, `period_ms`, `begin_ms` (0 if left out). Poisson arrivals
//!   in the first `on_ms` of each period, exactly, and none in the rest of it; the first
//!   period begins at `begin_ms`.
//!
//! `queue_depth`, `service_us`, `think_us`. `queue_depth` clients: each sends a request, waits for
//! its completion, thinks, and sends the next. Both times are exponential with these means. The
//! service time is *nominal*: it only spaces the arrivals. It is not in the trace, which holds no
//! completions, and a drive on which the trace is replayed takes its own time. The mean rate is
//! `queue_depth` / (`service_us` + `think_us`). A simulation uses the description as a
//! [`Workload`], whose clients wait for the drive.
//!
//! # Offsets
//!
//! `uniform`
//! : Anywhere, independently.
//!
//! `zipf`
//! : `theta`. The block of rank *r* has a probability proportional to
//!   1/*r*^`theta`: 0 is uniform, 0.99 usual for stores, more is more skewed.
//!   Blocks are of `align_bytes`. Ranks are scattered over the device: hot
//!   blocks are as far apart as they can be.
//!
//! `sequential`
//! : `streams`, `run_requests`. Each request belongs to one of the streams, at
//!   random, and begins where the stream's previous one ended. After
//!   `run_requests` requests (0: never), or at the device's end, the stream goes
//!   on somewhere else. Sizes must be multiples of `align_bytes`.
//!
//! # Reproducibility
//!
//! Arrivals, ops, sizes and offsets each draw from a PCG-64 generator of their
//! own, seeded from `seed`, so that changing one of them leaves the others as
//! they are. Integers and IEEE 754 arithmetic behave the same everywhere;
//! logarithms and powers do not where the system's library computes them, and
//! are therefore computed by `libm`'s Rust code.

mod arrivals;
mod offsets;
mod random;
mod spec;
mod workload;
mod zipf;

use trimtab_io::{DeviceId, Nanos};

use crate::error::Error;
use crate::format::Format;
use crate::names::Names;
use crate::reader::{Clock, Meta};
use crate::record::Record;
use crate::source::BATCH;

pub use self::arrivals::Arrivals;
pub use self::spec::{InvalidValue, Spec};
pub use self::workload::{GeneratedRequest, Requests, ThinkTime, Timing, Workload};

use self::random::Random;

/// A generator of a synthetic trace, read like a [`Trace`](crate::Trace).
///
/// ```
/// # fn main() -> Result<(), trimtab_trace::Error> {
/// let mut synth = trimtab_trace::Synth::from_toml(
///     r#"
///     seed = 1
///     requests = 10_000
///     capacity_gb = 1
///     read_share = 0.5
///     arrivals = { kind = "poisson", iops = 1000 }
///     offsets = { kind = "uniform" }
///     sizes = [{ bytes = 4096, weight = 1 }]
///     "#,
///     None,
/// )?;
/// let mut batch = Vec::new();
/// let mut requests = 0;
/// while synth.read(&mut batch) {
///     requests += batch.len();
/// }
/// assert_eq!(requests, 10_000);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Synth {
    arrivals: Arrivals,
    requests: Requests,
    /// Requests still to be made.
    left: u64,
    end: Nanos,
    names: Names,
    device: DeviceId,
    meta: Meta,
}

/// Numbers of the random streams, which keep their sequences independent.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    Arrivals,
    Ops,
    Sizes,
    Offsets,
    WriteSizes,
    Bursts,
}

impl Synth {
    /// Starts the trace described by `text`, with another seed if one is given.
    ///
    /// # Errors
    /// The text is not TOML, or a key is unknown, missing, or out of range.
    pub fn from_toml(text: &str, seed: Option<u64>) -> Result<Self, Error> {
        let spec = Spec::parse(text)?;
        let seed = seed.or(spec.seed).unwrap_or_default();
        let capacity = spec.capacity_bytes().unwrap_or_default();
        let mut names = Names::default();
        let device = names.add_device(&spec.device)?;
        let notes = vec![
            ("synthetic".to_owned(), text.to_owned()),
            ("synthetic_seed".to_owned(), seed.to_string()),
        ];
        Ok(Self {
            arrivals: Arrivals::new(&spec.arrivals, Random::new(seed, Purpose::Arrivals)),
            requests: Requests::new(&spec, seed, capacity),
            left: spec.requests.unwrap_or(u64::MAX),
            end: spec.duration().unwrap_or(Nanos::MAX),
            names,
            device,
            meta: Meta { format: Format::Parquet, clock: Clock::Own, has_offsets: true, notes },
        })
    }

    /// Replaces the content of `batch` with the next records; returns false, with an empty batch,
    /// at the end.
    pub fn read(&mut self, batch: &mut Vec<Record>) -> bool {
        batch.clear();
        while self.left > 0 && batch.len() < BATCH {
            let arrival = self.arrivals.next();
            if arrival >= self.end {
                self.left = 0;
                break;
            }
            self.left -= 1;
            let GeneratedRequest { op, offset, length } = self.requests.draw();
            batch.push(Record::arriving(arrival, self.device, op, offset, length));
        }
        !batch.is_empty()
    }

    /// The device's name.
    #[must_use]
    pub const fn names(&self) -> &Names {
        &self.names
    }

    /// The trace's properties; its notes hold the description and the seed.
    #[must_use]
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }
}

#[cfg(test)]
mod tests;
