//! The experiment on parity arrays: strategies of host and firmware on the same requests.
//!
//! It is the experiment of IODA (Li et al., ACM TOS 19(1), §6). Each row has an array of the same
//! drives in the same state, which serves the same requests; rows differ in what the drives'
//! firmware does ([`trimtab_device::FirmwareKind`]) and in which members a read asks
//! ([`trimtab_array::policy`]).
//!
//! ```text
//!   scenario ─> drives, aged ─┬─ firmware of the row ─┐
//!                             │                       ├─> warm-up, judged requests ─> report
//!   scenario ─> requests ─────┴─ policy of the row ───┘
//! ```

mod buffer;
mod entry;
mod faults;
mod part;
mod report;
mod run;
mod spec;
mod strategy;
mod warnings;
mod windows;

pub use part::PartFigures;
pub use report::{ArrayFigures, ArrayReport, ArrayRow, BUSY_CLASSES, BufferFigures};
pub use run::compare_arrays;
pub use spec::ArrayComparison;
pub use strategy::{ArrayStrategy, UnknownArrayStrategy};
pub use warnings::WindowWarning;
