//! The BPF programs of trimtab: compiled, loaded, attached and measured.
//!
//! The programs themselves are C, in the folder bpf/ of the repository. This crate's build
//! script compiles them, so that the objects ([`RECORD`], [`STATE`], [`REFUSE`]) come with the library
//! and a user needs neither a compiler nor kernel headers. Type information (BTF) of the
//! running kernel adapts them when they are loaded (CO-RE).
//!
//! ```text
//!   bpf/*.bpf.c ── build.rs ──> object ── load ──> verified ── attach ──> tracepoints
//!                                            │
//!                                            └─ maps ──> trimtab_shm::Mapping
//! ```
//!
//! The memory that the programs of each object share with user space is mirrored by the crates
//! that use it (`trimtab-record`, `trimtab-state`, `trimtab-tracker`, `trimtab-refuse`); [`btf`]
//! compares such mirrors with the object's own type information, field by field.
//!
//! ```no_run
//! # fn main() -> Result<(), trimtab_bpf::Error> {
//! trimtab_bpf::check_privilege()?;
//! let arrival = trimtab_bpf::available(trimtab_bpf::Arrival::Auto)?;
//! println!("arrivals are seen by {arrival:?}");
//! # Ok(())
//! # }
//! ```

mod arrival;
pub mod btf;
mod devices;
mod error;
mod load;
mod overhead;

pub use arrival::{Arrival, available};
pub use devices::{ChosenDevice, DeviceHash, DeviceTable};
pub use error::Error;
pub use load::{check_privilege, load, load_object};
pub use overhead::{Handler, Overhead, measure_run_time, translated_instructions};

/// The recorder's programs, compiled from bpf/record.bpf.c.
pub static RECORD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/record.bpf.o"));

/// The state tracker's programs, compiled from bpf/state.bpf.c.
pub static STATE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/state.bpf.o"));

/// The programs that refuse reads, compiled from bpf/refuse.bpf.c.
pub static REFUSE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/refuse.bpf.o"));
