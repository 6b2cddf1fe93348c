//! trimtab on the wall clock, on stock Linux.
//!
//! [`mod@array`] serves reads from several drives under a strategy of `trimtab-steer`.
//!
//! [`block`] claims devices and files that are to be written to, if nothing else uses them.
//!
//! [`read`] reads from a device or a file, and refuses a read that would be late.
//!
//! [`record`] watches real block devices and gives every request they serve as
//! a [`trimtab_trace::Record`]. The kernel's side are small eBPF programs on
//! stable tracepoints (bpf/record.bpf.c); no patched kernel and no kernel
//! headers are needed, only Linux 5.15 or newer with type information (BTF).
//!
//! [`monitor`] tells what drives do, and how right their models are, while they do it.
//!
//! [`drive`] makes emulated drives: the flash model of `trimtab-device` as a real
//! block device, by FUSE and a loop device.
//!
//! [`state`] keeps what is known of each drive always current, in memory that any
//! process may read, and makes forecasts from it.

pub mod block;
mod bpf;
pub mod drive;
pub mod monitor;
mod pages;
pub mod read;
pub mod record;
pub mod state;
