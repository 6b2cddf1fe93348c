//! Memory that BPF programs and processes share.
//!
//! A BPF array with `BPF_F_MMAPABLE` is memory that any process with a descriptor of the
//! map can map. The kernel's programs write it; a process reads it in some nanoseconds,
//! without a system call. This crate maps such arrays and reads them soundly. It needs
//! neither libbpf nor any other crate of the project, so that a program which only reads
//! the state of a drive stays small.
//!
//! # Reading memory that changes
//!
//! Another CPU may write a value at any moment. Three rules keep reading sound in Rust:
//!
//! - Values are plain data ([`zerocopy::FromBytes`]): any bits are a value, so a torn copy
//!   is old or mixed, never invalid.
//! - Every load is a relaxed atomic load of one machine word. Where order matters an acquire
//!   *fence* follows. (An acquire *load* is outside what Rust's standard library promises
//!   for memory that is mapped read-only: see [`std::sync::atomic`], "Atomic accesses to
//!   read-only memory".)
//! - A part of a value is named by a [`Field`]: an offset with the type that lies there,
//!   checked when it is compiled. No pointer leaves the mapping.
//!
//! ```no_run
//! use trimtab_shm::{Mapping, field};
//! use zerocopy::{FromBytes, Immutable};
//!
//! #[derive(Clone, Copy, FromBytes, Immutable)]
//! #[repr(C)]
//! struct Counters {
//!     sent: u64,
//!     lost: u64,
//! }
//!
//! # fn main() -> Result<(), trimtab_shm::Error> {
//! let map = trimtab_shm::PinnedMap::open("/sys/fs/bpf/example".as_ref())?;
//! let counters: Mapping<Counters> = Mapping::new(&map, map.entries())?;
//! let lost = counters.load(0, field!(Counters.lost));
//! # Ok(())
//! # }
//! ```

mod error;
mod field;
mod mapping;
mod pinned;

pub use error::Error;
pub use field::Field;
pub use mapping::{Mapping, Word, WritableMapping};
pub use pinned::PinnedMap;
