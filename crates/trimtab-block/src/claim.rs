//! Block devices and files that a user names to be written to, and what else uses them.
//!
//! [`Claim::exclusive`] opens one for writing if nothing else uses it, and keeps others off
//! for as long as the claim lives. A user who names a device consents to the loss of its
//! content, not of a file system that happens to be mounted from it: so a claim that cannot
//! be had is an error, and nothing overrides it.
//!
//! A path is looked up once. From then on the object is known by its device number, or by
//! file system and inode: symbolic links, a second device node and hard links lead to the
//! same object.
//!
//! ```text
//!   mounts ──┐                       ┌── loop devices, mapped devices
//!   swap ────┼──> disk, partitions <─┤       on top of it
//!            │         │             └── emulated drives
//!            │         └─ is a loop device? ─> its back end, the same again
//! ```
//!
//! What cannot be seen: an overlay and the layer below it have different inodes for one file,
//! so a loop device over the one is not found through the other; neither is one on another
//! machine that shares the disk.

mod drives;
mod exclusive;
mod holder;
mod loops;
mod mounts;
mod number;
mod survey;
mod swaps;

pub use exclusive::{Claim, ClaimError};
pub use holder::{Holder, InUse, Part};
pub use loops::{Backing, backing_of};
pub use mounts::{FileSystem, mounted_here};
pub use number::Identity;
