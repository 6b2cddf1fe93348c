//! Arrays of drives: where each byte is, the arithmetic that restores what a drive lost, and which
//! drives to ask.
//!
//! A read that a busy drive would delay can be answered by the others: from a copy (RAID 1), or
//! computed from the rest of its stripe (RAID 4, 5, 6). So a stripe need not wait for any member, as
//! long as no more of them are busy than it has parities (IODA, Li et al., §1). This crate has what
//! that needs, without I/O:
//!
//! - [`Layout`] maps offsets of the array to members and back, exactly as Linux md does, so that
//!   arrays made by `mdadm` can be read and written. No allocation, no division.
//! - [`Parity`] computes, updates and inverts the parities P and Q of md, with the vector
//!   instructions of the processor.
//! - [`Planner`] turns requests of the user into requests to members and computations, under a
//!   [policy](mod@policy) that decides which members a read asks: a state machine, the same in
//!   simulation and under a block device.
//! - [`staging`] is a write buffer in NVRAM below the planner, for strategies that need one.
//! - [`driver`] runs it over the back ends of `trimtab-steer`, and [`Content`] has the bytes.
//!
//! ```text
//!            member 0   member 1   member 2   member 3
//! stripe 0      D0         D1         D2         P        RAID 5, left-symmetric:
//! stripe 1      D4         D5         P          D3       P moves to the left with each
//! stripe 2      D8         P          D6         D7       stripe, and data begin behind it
//! ```
//!
//! A *stripe* is one chunk of each member at the same offset. Its chunks of data have an *index*,
//! from 0, in the order of the user's bytes; a *strip* is the bytes of one chunk, or of a part of
//! it that is the same for all chunks of the stripe.
//!
//! # Example
//!
//! ```
//! use trimtab_array::{Layout, Level, Parity, Role, Rotation};
//!
//! const CHUNK: u64 = 64 << 10;
//! let layout = Layout::new(Level::Raid5, Rotation::LeftSymmetric, 4, CHUNK, 1 << 30)?;
//! assert_eq!(layout.capacity(), 3 << 30);
//!
//! // Byte 5 of D4, which is the second chunk of data of stripe 1, and on member 0.
//! let found = layout.locate(4 * CHUNK + 5);
//! assert_eq!((found.stripe, found.index, found.offset), (1, 1, 5));
//! let member = layout.data_member(found.stripe, found.index);
//! assert_eq!((member, layout.role(1, 2)), (0, Role::P));
//! assert_eq!(layout.member_offset(found.stripe, found.offset), CHUNK + 5);
//!
//! // Member 0 is busy: its strip is computed from the others.
//! let parity = Parity::best();
//! let (d3, d4, d5) = ([3; 512], [4; 512], [5; 512]);
//! let mut p = [0; 512];
//! parity.p(&[&d3, &d4, &d5], &mut p);
//! let mut restored = [0; 512];
//! parity.data_from_p(&[Some(&d3), None, Some(&d5)], &p, &mut restored);
//! assert_eq!(restored, d4);
//! # Ok::<(), trimtab_array::LayoutError>(())
//! ```

mod content;
pub mod driver;
mod layout;
mod members;
mod parity;
pub mod planner;
pub mod policy;
pub mod staging;

pub use content::{Content, PartialParity};
pub use layout::{
    ChunkRange, Layout, LayoutError, Level, MOST_MEMBERS, Piece, Pieces, Position, Role, Rotation,
    UnknownName,
};
pub use members::{Member, Members};
pub use parity::{Parity, TooManyLost};
pub use planner::{Action, Planner};
pub use staging::{Staging, StagingOptions};
