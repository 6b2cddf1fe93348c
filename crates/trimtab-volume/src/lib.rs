//! Arrays as block devices, that read around late members.
//!
//! ```text
//!   any program ─> /dev/ublkbN, or /dev/loopN over FUSE ─> Engine ─┬─ Planner, policy: which members
//!                                                                   └─ io_uring ─> members
//! ```
//!
//! The planner and its policies are those of `trimtab-array`, the same that run in simulation; on the
//! members an array has Linux md's format (`trimtab-md`), so that `mdadm` takes it. Members are block
//! devices, files and emulated drives, claimed for as long as the array runs.
//!
//! - **engine.rs** is the driver in real time: one thread, an io_uring. It says what holds for data.
//! - **metadata.rs** and keeper.rs: superblocks and write-intent bitmap, and the threads that write
//!   them. **regions.rs** says which bits may be cleared.
//! - **slots.rs** has the devices, and **engine/replace.rs** members that are replaced in use.
//! - **tasks.rs** and windows.rs: resynchronising, rebuilding, replacing and checking, some stripes
//!   at a time, with writes to these held back. **examine.rs** is their arithmetic.
//! - **pace.rs** says how fast that may be, so that programs hardly notice it.
//! - **logs.rs**, engine/ppl.rs and recover.rs: partial parity logs, which close the write hole of RAID 5.
//! - **doubt.rs** counts what is computed for missing members from parity that may not fit.
//! - **zeroes.rs** takes discards apart: whole stripes, and what is written as zeroes.
//! - **guard.rs** keeps policies from computing where members may differ.
//! - **predictable.rs** has the help of members' firmware for the policy `ioda`: leases, and flags.
//! - [`Server`] makes an array from a [`Spec`], [`Array`] is the handle of other processes. Back ends
//!   and run directory are those of `trimtab-serve`.
//!
//! Otherwise the write hole of RAID 5 and 6 is md's own with a bitmap: if the machine stops while a stripe is
//! written and a member is lost before the stripe is resynchronised, what the stripe has on that
//! member may be wrong (docs/array-devices.md).
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use trimtab_volume::{BackendChoice, Consistency, Helper, Origin, PolicyKind, Rates, RunDirectory, Server, Spec, assist};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The server runs this program again for jobs that it must not do itself.
//! if std::env::args().nth(1).as_deref() == Some("assist") {
//!     return Ok(assist()?);
//! }
//! let spec = Spec {
//!     name: "mine".to_owned(),
//!     members: ["a", "b", "c"].map(|disk| format!("/var/tmp/{disk}.img").into()).to_vec(),
//!     origin: Origin::Create { level: 5, chunk: 64 << 10, consistency: Consistency::Bitmap, assume_clean: false, force: false },
//!     backend: BackendChoice::Auto,
//!     policy: PolicyKind::Adaptive,
//!     rates: Rates { most: 200 << 20, least: 1 << 20 },
//! };
//! let helper = Helper::new(std::env::current_exe()?, ["assist"]);
//! let server = Server::start(&RunDirectory::from_environment(), &spec, helper)?;
//! println!("{}", server.device().display());
//! server.serve(&AtomicBool::new(false))?;
//! # Ok(())
//! # }
//! ```

mod assemble;
mod buckets;
mod buffers;
mod control;
mod create;
mod doubt;
mod engine;
mod examine;
mod figures;
mod guard;
mod keeper;
mod logs;
mod member;
mod metadata;
mod pace;
mod predictable;
mod recover;
mod regions;
mod server;
mod slots;
mod spec;
mod stat;
mod tasks;
mod windows;
mod zeroes;

pub use buckets::Buckets;
pub use control::Array;
pub use figures::{Latencies, Requests};
pub use pace::Rates;
pub use server::Server;
pub use spec::{ArrayInfo, ArrayStatus, Consistency, Origin, PolicyKind, RunDirectory, Spec};
pub use stat::{MemberStat, Replacement, Stat, TurnsStat, WithoutPolicy};
pub use tasks::Check;
#[doc(no_inline)]
pub use trimtab_serve::{BackendChoice, Error, Helper, assist};
