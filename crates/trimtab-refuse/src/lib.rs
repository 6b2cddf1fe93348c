//! Refuses late reads of an unchanged program inside the kernel.
//!
//! A program that keeps its data on several replicas, and reads another one when a read fails,
//! gains from a read that fails early. This crate makes the kernel fail such reads with `EBUSY`
//! for a program that knows nothing of trimtab: BPF programs at the kernel's security hooks (BPF
//! LSM) see each read before it is submitted.
//!
//! ```text
//!   state tracker ─> LiveDrive ─> expected wait ──┐ rf_drives (mapped memory)
//!                                                 v
//!   pread, preadv2, io_uring ─> file_permission: in the group? direct? a named file?
//!                                                 wait > limit? ─> -EBUSY, but for a share
//! ```
//!
//! The idea is MittOS's fast rejection (the dissertation, ch. 4): the caller says how long a read
//! may take, and the system answers at once. The hook is passed by a read's file and not by its
//! offset or length, so the verdict is about the drive, and is computed ahead.
//!
//! - **Opt-in.** Only processes of the [`ProgramGroup`] are refused, only at files that a
//!   [`Pattern`] names, only if they are open for direct I/O (other reads may be in the page
//!   cache). Writes never are.
//! - **Fails open.** [`Reason`] lists why reads are admitted: no tracker, no model that fits, a
//!   publisher that has stopped. If the process ends, the programs go with it.
//! - **A share is always admitted**, so that a drive which has recovered is noticed.
//! - **Cheap.** The program that decides has no loop; a test bounds its instructions.
//!
//! ```no_run
//! use trimtab_io::Nanos;
//! use trimtab_refuse::{Expect, Limits, Pattern, ProgramGroup, Refuser};
//!
//! # fn main() -> Result<(), trimtab_refuse::Error> {
//! let group = ProgramGroup::make()?;
//! let files = vec![Pattern::parse("/var/lib/db/**/*.sst")?];
//! let expect = Expect::State { pins: "/sys/fs/bpf/trimtab".into(), model: None };
//! let limits =
//!     Limits { limit: Nanos::from_millis(2), stale: Nanos::from_millis(50), share: 50_000 };
//! let mut refuser = Refuser::attach(&group, files, expect, limits)?;
//! // Start the program: it enters the group by writing 0 to group.entry(). Then, every half
//! // millisecond:
//! refuser.publish();
//! refuser.follow();
//! println!("{:?}", refuser.decisions()?);
//! # Ok(())
//! # }
//! ```

mod abi;
mod drives;
mod error;
mod files;
mod group;
mod pattern;
mod publisher;
mod refuser;
mod wait;

pub use abi::Reason;
pub use error::Error;
pub use group::ProgramGroup;
pub use pattern::Pattern;
pub use publisher::Expect;
pub use refuser::{Decisions, Limits, Refuser, check_kernel};
