//! trimtab-md beside the real tools: metadata that mdadm and the kernel made (`../data`, made by
//! `scripts/md-golden`), `mdadm --examine` on members that this crate made, and arrays that the
//! kernel's md takes and makes, which runs in a guest (`scripts/guest md`).

mod array;
mod examined;
mod golden;
mod kernel;
mod written;
