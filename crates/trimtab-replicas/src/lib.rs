//! Reads from the best of several replicas.
//!
//! A [`ReplicaSet`] is two to eight files or block devices with the same content, each on a drive
//! of its own. [`read_at`](ReplicaSet::read_at) returns the data from the replica that has them
//! first, without waiting for a drive that is busy with itself:
//!
//! ```no_run
//! use trimtab_predict::Model;
//! use trimtab_replicas::{ReplicaOptions, ReplicaSet, SetOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = |path: &str| Model::load(path.as_ref());
//! let set = ReplicaSet::open(
//!     [
//!         ReplicaOptions::new("/mnt/a/data").with_model(model("nvme0n1.safetensors")?),
//!         ReplicaOptions::new("/mnt/b/data").with_model(model("nvme1n1.safetensors")?),
//!         // Without a model: by what the set itself observes.
//!         ReplicaOptions::new("/mnt/c/data"),
//!     ],
//!     &SetOptions::default(),
//! )?;
//! let mut page = [0; 4096];
//! let bytes = set.read_at(&mut page, 8192)?;
//! # Ok(())
//! # }
//! ```
//!
//! # How a read is served
//!
//! ```text
//!   read_at ─> order: primary replica by offset, without those that are down
//!      │
//!      │  trimtab_steer::driver ── Trimtab strategy (one for the set, under a lock)
//!      │        │                       └─ forecasts: model and state of the drive,
//!      │        │                          or what the set has seen of it
//!      │        └─ trimtab_uring::ReadBackend (one for each thread): ring and buffers
//!      └─ copy to the application's buffer
//! ```
//!
//! - **The strategy is `trimtab` of `trimtab compare`**, run by the same driver: it sends a read
//!   to its primary replica unless another one is expected to be sooner, hedges it if it takes
//!   longer than expected, within a budget, and measures on a control group whether moving reads
//!   gains anything ([`SetFigures::gain`]).
//! - **A request cannot be taken back** from a drive that has begun it. So each thread reads into
//!   buffers of its own ring, and the data are copied. When `read_at` has returned, nothing
//!   writes to the application's buffer. A buffer is used again when its request has completed.
//! - **Without a model**, without a tracker or with a stale state, a replica's forecast comes from
//!   its reads in flight and the latencies seen (`seen.rs`). Hedges, budget and control group work
//!   as with a model.
//! - **A deadline** ([`read_at_within`](ReplicaSet::read_at_within)) bounds the call, and at half of
//!   the remaining time each the read is sent to another replica, whatever the budget says: of *n*
//!   replicas, the last one is asked when the deadline / 2ⁿ⁻¹ is left. A read without a deadline is
//!   sent to another replica every 100 ms.
//! - **A replica that fails** is down after two errors in a row, or when it has answered nothing
//!   for a second. Reads go on from the others. It is probed every 250 ms beside a read, and the
//!   first data from it end that.
//! - **Nothing can be hedged** if one replica is left, or io_uring is not available (Linux 5.11,
//!   or a system call filter). Then reads are sent to one replica at a time, directly into the
//!   application's buffer where there is no deadline.
//!
//! # Decisions that are not obvious
//!
//! - **The strategy is shared, the rings are not.** A budget, the price of a hedge and the control
//!   group need thousands of reads to be right; a thread of a pool may not live as long. They share
//!   it under a lock held for the time of a decision. Rings are of one thread each
//!   (`IORING_SETUP_DEFER_TASKRUN`), so that no completion interrupts the application's own system
//!   calls.
//! - **What a thread misses is not made up.** A request that outlives its call completes while the
//!   thread is elsewhere. At the next call its latency is known to be in an interval only. Unless
//!   that is short, the latency counts as its lower end, and for the control group not at all.
//!   And such a request is no evidence of a stall while its thread is away.
//! - **The primary replica follows from the offset**, by MiB: each part of the data is read ahead
//!   and cached once.
//! - **Replicas that are alike tie.** Without a model, a replica is preferred to the primary only
//!   if it is at least twice as fast.
//! - **A crate of its own:** a program that only reads with a deadline (`trimtab-read`) compiles
//!   neither strategies nor this.
//!
//! Writing to all replicas is the application's part. A read that runs at the same time as a write
//! may return the data of a replica that has it or of one that has not yet.

mod choice;
mod error;
mod figures;
mod health;
mod options;
mod plain;
mod seen;
mod set;
mod thread;

pub use error::{OpenError, ReadError};
pub use figures::{ReplicaFigures, SetFigures};
pub use options::{ReplicaOptions, SetOptions, SetStrategy};
pub use set::ReplicaSet;
pub use trimtab_steer::ControlFigures;
