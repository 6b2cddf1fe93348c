//! Virtual NVMe drives: volumes that the kernel's NVMe target (nvmet) exports, to this machine or to
//! other hosts. Composable, as in `LeapIO` (Li et al., ASPLOS'20; dissertation §6.1): a drive that was
//! connected may be a member of an array, which is exported in turn.
//!
//! ```text
//!   host ── NVMe over TCP, or loop ──> nvmet ──> /dev/loopN of an array or emulated drive
//!                                       │
//!                              /sys/kernel/config/nvmet/{subsystems,ports,hosts}
//! ```
//!
//! The kernel serves; this crate sets it up and takes it down. No process is needed meanwhile.
//!
//! - **Planning is apart from doing.** [`Configured`] is what configfs has, `plan.rs` says which
//!   directories, attributes and links to make or to remove, in an order that the kernel accepts, and
//!   [`Target`] does it. An export that fails half-way is undone by the plan that removes what a
//!   killed one has left.
//! - **configfs is the only state.** What trimtab has made is known by its name there: subsystems by
//!   the prefix [`PREFIX`], ports by their numbers ([`PORTS`]). An entry of a host that it makes is
//!   recorded before, in a namespace of the subsystem that is never enabled. Nothing else is ever
//!   changed.
//! - **A volume keeps its id.** The subsystem's name and the namespace's UUID are made from the
//!   volume's own ([`Volume`]), wherever it is served.
//! - **Nothing is opened unasked.** [`Export::new`] refuses an address that other machines reach,
//!   unless it is given the hosts that may connect, or is told that any may.
//!
//! ```no_run
//! use trimtab_nvmet::{Access, Export, Target, Transport, Uuid, Volume};
//!
//! # fn main() -> Result<(), trimtab_nvmet::Error> {
//! let volume = Volume {
//!     noun: "array".to_owned(),
//!     name: "fast".to_owned(),
//!     uuid: "0b2de61c:9d3f4a51:8f2f7f0a:6a1d3c55".parse()?,
//!     device: "/dev/loop0".into(),
//! };
//! let transport = Transport::Tcp("127.0.0.1:4420".parse().expect("an address"));
//! let target = Target::system();
//! target.export(&Export::new(volume, transport, Access::Default)?)?;
//! for exported in target.list()? {
//!     println!("{} {}", exported.nqn, exported.uuid.map(|uuid| uuid.to_string()).unwrap_or_default());
//! }
//! target.unexport("array", "fast", None)?;
//! # Ok(())
//! # }
//! ```

mod configured;
mod error;
mod export;
mod id;
mod listen;
mod plan;
mod target;

pub use configured::{Configured, Exported};
pub use error::Error;
pub use export::{Access, Export, Transport, Volume};
pub use id::{PREFIX, Uuid, check_host_nqn};
pub use listen::parse as parse_listen;
pub use plan::PORTS;
pub use target::Target;
