//! Arrays that cannot be.

use super::{Level, MOST_CHUNK, MOST_MEMBERS, PAGE};

/// Why there is no such array. The text begins with the parameter at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Too few for the level, or too many.
    #[error("members: {level} has {} to {MOST_MEMBERS}, not {found}", .level.least_members())]
    Members {
        /// The level.
        level: Level,
        /// The number of members.
        found: usize,
    },
    /// A chunk that no level can have.
    #[error("chunk: {found} bytes is not a multiple of {PAGE} from {PAGE} to {MOST_CHUNK}")]
    Chunk {
        /// Bytes of a chunk.
        found: u64,
    },
    /// A chunk that levels with parity cannot have.
    #[error("chunk: {found} bytes is not a power of two, which {level} needs")]
    ChunkOfParity {
        /// The level.
        level: Level,
        /// Bytes of a chunk.
        found: u64,
    },
    /// Members without room for a chunk.
    #[error("capacity: members of {found} bytes have no room for a chunk of {chunk}")]
    CapacityTooSmall {
        /// Bytes of a member.
        found: u64,
        /// Bytes of a chunk.
        chunk: u64,
    },
    /// More bytes than 64 bits can number.
    #[error("capacity: {members} members of {found} bytes exceed 2^64 bytes")]
    CapacityTooLarge {
        /// Bytes of a member.
        found: u64,
        /// The number of members.
        members: usize,
    },
}
