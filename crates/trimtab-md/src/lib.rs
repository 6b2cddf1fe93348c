//! Linux md's format on disk: an array that trimtab writes can be taken by `mdadm`, and the other
//! way round.
//!
//! Each member of an array has a *superblock* that says what the array is and which part of it the
//! member has, and optionally what is needed after a crash: a *write-intent bitmap* with a bit for
//! each part of the members that may differ, or with RAID 5 a *partial parity log*. A *superblock*
//! counts *events*: a member that failed or was away is told by its old count.
//!
//! Everything but [`Member`] works on byte slices and numbers, without I/O:
//!
//! - [`Superblock`] parses and writes superblocks of version 1.2. Other versions, and features that
//!   are not supported, are refused by name.
//! - [`NewArray`] makes the metadata of new arrays, placed as `mdadm` places them ([`geometry`]).
//! - [`Assembly`] decides from the superblocks of several devices which of them make the array,
//!   whether it can start, and what has to be resynchronised or rebuilt.
//! - [`Bitmap`] parses, writes, marks and clears write-intent bitmaps.
//! - [`PplHeader`] and [`PplLog`] parse and write partial parity logs, and plan the recovery.
//!
//! Offsets and sizes are in bytes; on disk most are in sectors of 512. The format is that of the
//! kernel's `include/uapi/linux/raid/md_p.h` and of `md(4)`; `docs/md-format.md` says what is
//! supported.
//!
//! # Example
//!
//! ```
//! use trimtab_array::{Level, Rotation};
//! use trimtab_md::{
//!     ArrayName, Assembly, Candidate, NewArray, NewConsistency, NewMember, Start, Superblock,
//!     Timestamp, Uuid,
//! };
//!
//! let member = |id| Some(NewMember { bytes: 1 << 30, uuid: Uuid([id; 16]), flags: 0 });
//! let array = NewArray {
//!     uuid: Uuid([9; 16]),
//!     name: ArrayName::new("host:data").expect("a short name"),
//!     level: Level::Raid5,
//!     rotation: Rotation::LeftSymmetric,
//!     chunk: 64 << 10,
//!     members: vec![member(0), member(1), member(2)],
//!     spares: vec![],
//!     consistency: NewConsistency::Bitmap(None),
//!     is_in_sync: true,
//!     now: Timestamp { seconds: 1_790_000_000, microseconds: 0 },
//! };
//! let metadata = array.create()?;
//! let block = metadata[0].superblock.to_bytes();
//! assert_eq!(Superblock::parse(&block).as_ref(), Ok(&metadata[0].superblock));
//!
//! // Member 1 is not there.
//! let candidates = [0, 2].map(|index| Candidate {
//!     name: format!("disk{index}"),
//!     bytes: 1 << 30,
//!     superblock: Ok(metadata[index].superblock.clone()),
//!     bitmap: None,
//! });
//! let assembly = Assembly::of(&candidates, None)?;
//! assert_eq!(assembly.members, [Some(0), None, Some(1)]);
//! assert_eq!(assembly.start, Start::Degraded { missing: vec![1] });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod assemble;
mod bitmap;
mod bytes;
mod crc32c;
mod create;
mod error;
mod feature;
pub mod geometry;
mod identity;
mod member;
mod ppl;
mod superblock;

pub use assemble::{AssembleError, Assembly, Candidate, MemberState, Rebuild, Resync, Start};
pub use bitmap::{BITMAP_HEADER_BYTES, Bitmap, BitmapHeader};
pub use create::{CreateError, NewArray, NewConsistency, NewMember, NewMetadata};
pub use error::{BitmapError, PplError, SuperblockError};
pub use feature::Features;
pub use identity::{ArrayName, NoUuid, Timestamp, Uuid};
pub use member::{Member, MemberError};
pub use ppl::{
    MOST_PPL_ENTRIES, PPL_HEADER_BYTES, ParityUpdate, PplEntry, PplHeader, PplLog, PplRecovery,
    newest_ppl, ppl_signature,
};
pub use superblock::{
    BadBlockLog, Consistency, DeviceRole, MOST_DEVICES, Recovery, SUPERBLOCK_BYTES,
    SUPERBLOCK_OFFSET, Superblock, layout_number,
};
