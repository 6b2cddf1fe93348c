//! Emulated drives: real block devices that behave like a drive that is not there.
//!
//! ```text
//!   any program ─> /dev/loopN ─> loop ─> FUSE ─> server ─┬─ flash model: when
//!                                                         └─ store: what
//! ```
//!
//! The flash model is [`trimtab_device::Ssd`], the same state machine that runs in
//! simulation: it says when a request is answered. A server process lets its time
//! pass with the wall clock, keeps the content, and answers the kernel's requests
//! when the model says so. What the kernel sees is a disk: with a scheduler, with
//! tracepoints, for any file system. It needs nothing but FUSE and loop devices. Answers
//! are given earlier than the model says by what the way to the disk takes (lead.rs), and
//! while a drive is in use processors are kept from sleeping (awake.rs), so that a program
//! sees the drive's times and not those of the emulation.
//!
//! Content knows what was flushed: a power cut, which is a fault, takes what was not
//! (undo.rs, store.rs, power.rs).
//!
//! A drive's life: [`Server::start`] makes one from a [`Spec`], and [`Server::serve`]
//! obeys commands until one ends it; when a `Server` is dropped, nothing is left
//! behind. Other processes find it with [`Drive::find`] and give it commands. What a
//! killed server has left behind is removed by [`RunDirectory::remove_dead`], or by the next
//! one of its name. A server never touches what it serves, lest it wait for itself: a
//! [`Helper`] attaches its device, reads from it and detaches it (helper.rs).
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use std::sync::atomic::AtomicBool;
//! use trimtab_device::Profile;
//! use trimtab_emu::{self as emu, Data, Fill, Helper, RunDirectory, Server, Spec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The server starts this program again for what it must not do itself.
//! if std::env::args().nth(1).as_deref() == Some("assist") {
//!     return Ok(emu::assist()?);
//! }
//! let helper = Helper::new(std::env::current_exe()?, ["assist"]);
//! let profile = Profile::builtin("consumer-a").unwrap().with_capacity(1 << 30).unwrap();
//! let spec = Spec {
//!     data: Data::Memory { cap_bytes: 256 << 20 },
//!     ..Spec::new("mine", profile)
//! };
//! let go_on = &mut |_| ControlFlow::Continue(());
//! let server = Server::start(&RunDirectory::from_environment(), spec, helper, go_on)?;
//! println!("{}", server.device().display());
//! server.serve(&AtomicBool::new(false))?;
//! # Ok(())
//! # }
//! ```

mod awake;
mod check;
mod clock;
mod compensation;
mod content;
mod control;
mod device;
mod drive_directory;
mod engine;
mod error;
mod faults;
mod figures;
mod flush;
mod fuse;
mod fusectl;
mod helper;
mod holder;
mod lead;
mod loopdev;
mod machine;
mod path;
mod power;
mod protect;
mod run_directory;
mod server;
mod spec;
mod stat;
mod state;
mod store;
mod tune;
mod undo;

pub use check::{Load, Measured, added, measure};
pub use control::Drive;
pub use error::Error;
pub use faults::{Effect, Fault, Ops};
pub use figures::{Count, Latencies, PathCounts, PathStat, SATURATED, Sample, TOO_EARLY};
pub use helper::{Helper, assist};
pub use machine::check as check_machine;
pub use run_directory::{Found, Info, RunDirectory};
pub use server::Server;
pub use spec::{Data, Fill, Flush, Spec};
pub use stat::{DiskFlushes, Stat};
pub use tune::TUNABLE;
pub use undo::Loss;
