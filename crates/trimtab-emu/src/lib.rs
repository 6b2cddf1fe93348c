//! Emulated drives: block devices that behave like a modelled drive.
//!
//! ```text
//!   any program ─> /dev/ublkbN, or /dev/loopN over FUSE ─> server ─┬─ model: latency
//!                                                                   └─ store: content
//! ```
//!
//! The model is a [`trimtab_device::Drive`], flash or a disk, the same state machine that runs in
//! simulation; it determines when a request is answered. A server process advances the model with the wall clock,
//! stores the content, and answers the kernel's requests at the model's times. The kernel sees a
//! disk: with a scheduler, with tracepoints, for any file system. Needs ublk, or FUSE and loop
//! devices.
//!
//! - **Lag is harmless.** The model's times are exact however late it is advanced, so only answers
//!   must be on time. With no request in flight, the drive cleans in arrears and the server sleeps
//!   (engine.rs).
//! - **One thread takes requests and answers them.** Handing a request to another thread costs a
//!   wake-up, and wake-ups are nearly all that an emulated request costs. A library's loop
//!   waits for requests only, so the protocols, a dozen messages each, are implemented in
//!   `trimtab-serve`. That thread has all hardware queues of a ublk device. Content in a file has threads of its own, because it may block on a disk.
//! - **Punctual without burning a core.** The thread spins for the last 8 µs before an answer (30
//!   where processors enter idle states), if at most 4 requests are in flight and it has spun for
//!   less than 60 µs since the last answer. Otherwise it sleeps at least 10 µs: with many in
//!   flight, the rest of the path needs the core.
//! - **Latency compensation** (compensation.rs). The server does not see what lies before and after
//!   it; the block layer's tracepoints do (path.rs). Answers are early by the path latency that
//!   they show, by queue depth. Waiting for processors is reported as saturation, and not
//!   compensated. While a drive is in use, processors are kept out of idle states (cpu_idle.rs).
//! - **Help for an array** (predictable.rs): while an array has a lease, the firmware is IODA's.
//! - **Power cuts** are faults that revert what was not flushed (undo.rs, store.rs, power.rs).
//! - **Back ends, run directory and commands** are those of `trimtab-serve`.
//!
//! Life cycle: [`Server::start`] makes a drive from a [`Spec`], and [`Server::serve`] handles
//! commands until one ends it; dropping a `Server` takes everything down. Other processes find
//! it with [`Drive::find`] and send commands. [`RunDirectory::remove_dead`], or the next drive
//! of the same name, removes what a killed server left.
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use std::sync::atomic::AtomicBool;
//! use trimtab_device::Profile;
//! use trimtab_emu::{self as emu, Data, Fill, Helper, RunDirectory, Server, Spec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The server runs this program again for jobs that it must not do itself.
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

mod check;
mod clock;
mod compensation;
mod content;
mod control;
mod cpu_idle;
mod engine;
mod figures;
mod flush;
mod info;
mod kernel;
mod machine;
mod path;
mod path_latency;
mod power;
mod predictable;
mod server;
mod spec;
mod stat;
mod state;
mod store;
mod tune;
mod undo;
mod volume_id;

// Faults are part of a drive's specification and commands.
#[doc(no_inline)]
pub use trimtab_device::{Effect, Fault, FaultError, FaultOps};

pub use check::{Load, Measurement, added_latency, measure};
pub use control::Drive;
pub use figures::{Latencies, OpCount, PathCounts, PathStat, SATURATED, Sample, TOO_EARLY};
pub use info::{DriveInfo, DriveStatus, RunDirectory};
pub use machine::check as check_machine;
pub use predictable::PredictableStat;
pub use server::Server;
pub use spec::{Data, Fill, Flush, Spec};
pub use stat::{DiskFlushes, DiskStat, FlashStat, Stat};
#[doc(no_inline)]
pub use trimtab_serve::{BackendChoice, Error, Helper, assist};
pub use tune::{TUNABLE, TUNABLE_OF_DISKS};
pub use undo::PowerLoss;
