//! Where each byte of an array is.

mod divisor;
mod error;
mod level;
mod pieces;
#[cfg(test)]
mod tests;

pub use error::LayoutError;
pub use level::{Level, Rotation, UnknownName};
pub use pieces::{ChunkRange, Piece, Pieces};

use divisor::Divisor;

/// The most members of an array.
pub const MOST_MEMBERS: usize = 32;

/// Chunks are multiples of this many bytes: the page of md.
const PAGE: u64 = 4096;
const PAGE_SHIFT: u32 = PAGE.trailing_zeros();

/// The largest chunk, in bytes.
const MOST_CHUNK: u64 = 1 << 20;

/// The mapping between the bytes of an array and those of its members (drivers/md/raid0.c, raid1.c
/// and raid5.c of Linux).
///
/// Offsets of members begin where their data begin: md's `data_offset`, behind its superblock, is
/// the caller's to add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    level: Level,
    rotation: Rotation,
    chunk: u64,
    stripes: u64,
    pages_of_chunk: Divisor,
    data_chunks: Divisor,
    members: Divisor,
}

/// The position of a byte of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The stripe, from 0.
    pub stripe: u64,
    /// Which chunk of data of the stripe, from 0.
    pub index: usize,
    /// The byte of the chunk, from 0.
    pub offset: u64,
}

/// What a member holds in a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The chunk of data with this index.
    Data(usize),
    /// The XOR of the data.
    P,
    /// The second parity of RAID 6.
    Q,
    /// RAID 1: the copy with this number, which is the member's. All hold the same.
    Copy(usize),
}

impl Layout {
    /// The layout of an array of `members` drives, of which each has room for `member_capacity`
    /// bytes. What is left of it behind the last whole chunk is not used. `chunk` is in bytes, and
    /// `rotation` matters to RAID 5 and 6 only.
    ///
    /// RAID 1 has no chunks in md. Here they are what a piece of a request ends at.
    ///
    /// # Errors
    /// No such array can be: the error names the parameter.
    pub fn new(
        level: Level,
        rotation: Rotation,
        members: usize,
        chunk: u64,
        member_capacity: u64,
    ) -> Result<Self, LayoutError> {
        if !(level.least_members()..=MOST_MEMBERS).contains(&members) {
            return Err(LayoutError::Members { level, found: members });
        }
        if !(PAGE..=MOST_CHUNK).contains(&chunk) || !chunk.is_multiple_of(PAGE) {
            return Err(LayoutError::Chunk { found: chunk });
        }
        if level.parities() > 0 && !chunk.is_power_of_two() {
            return Err(LayoutError::ChunkOfParity { level, found: chunk });
        }
        let stripes = member_capacity / chunk;
        if stripes == 0 {
            return Err(LayoutError::CapacityTooSmall { found: member_capacity, chunk });
        }
        let data_chunks = if level == Level::Raid1 { 1 } else { members - level.parities() } as u64;
        if (stripes * chunk).checked_mul(data_chunks).is_none() {
            return Err(LayoutError::CapacityTooLarge { found: member_capacity, members });
        }
        // The others' parity, if any, does not move: equal arrays have equal layouts.
        let rotates = matches!(level, Level::Raid5 | Level::Raid6);
        let rotation = if rotates { rotation } else { Rotation::ParityLast };
        Ok(Self {
            level,
            rotation,
            chunk,
            stripes,
            pages_of_chunk: Divisor::new(chunk / PAGE),
            data_chunks: Divisor::new(data_chunks),
            members: Divisor::new(members as u64),
        })
    }

    /// The same array of members that have room for another number of bytes.
    ///
    /// # Errors
    /// No such array can be.
    pub fn with_member_capacity(&self, member_capacity: u64) -> Result<Self, LayoutError> {
        let Self { level, rotation, chunk, .. } = *self;
        Self::new(level, rotation, self.members(), chunk, member_capacity)
    }

    /// The level.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    /// How parity moves: not at all with levels other than RAID 5 and 6.
    #[must_use]
    pub const fn rotation(&self) -> Rotation {
        self.rotation
    }

    /// The number of members.
    #[must_use]
    pub const fn members(&self) -> usize {
        self.members.value() as usize
    }

    /// Chunks of data in a stripe: 1 with RAID 1.
    #[must_use]
    pub const fn data_chunks(&self) -> usize {
        self.data_chunks.value() as usize
    }

    /// Members that can be lost without loss of data.
    #[must_use]
    pub const fn redundancy(&self) -> usize {
        match self.level {
            Level::Raid1 => self.members() - 1,
            level => level.parities(),
        }
    }

    /// Bytes of a chunk.
    #[must_use]
    pub const fn chunk(&self) -> u64 {
        self.chunk
    }

    /// The number of stripes.
    #[must_use]
    pub const fn stripes(&self) -> u64 {
        self.stripes
    }

    /// Bytes that the user sees.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.stripes * self.stripe_bytes()
    }

    /// Bytes of each member that the array uses.
    #[must_use]
    pub const fn member_bytes(&self) -> u64 {
        self.stripes * self.chunk
    }

    /// Bytes of data in a stripe.
    #[must_use]
    pub const fn stripe_bytes(&self) -> u64 {
        self.chunk * self.data_chunks.value()
    }

    /// The position of a byte of the array.
    ///
    /// # Panics
    /// The offset is not below the [capacity](Self::capacity).
    #[must_use]
    #[inline]
    pub fn locate(&self, offset: u64) -> Position {
        assert!(offset < self.capacity(), "offset {offset} of {} bytes", self.capacity());
        let (chunk, offset) = self.chunk_of(offset);
        let (stripe, index) = self.data_chunks.div_rem(chunk);
        Position { stripe, index: index as usize, offset }
    }

    /// The offset in the array of a position: the inverse of [`locate`](Self::locate).
    #[must_use]
    #[inline]
    pub const fn offset(&self, of: Position) -> u64 {
        (of.stripe * self.data_chunks.value() + of.index as u64) * self.chunk + of.offset
    }

    /// The member that holds a chunk of data. With RAID 1 all do, and this is the first.
    ///
    /// # Panics
    /// The stripe has no such chunk.
    #[must_use]
    #[inline]
    pub fn data_member(&self, stripe: u64, index: usize) -> usize {
        assert!(index < self.data_chunks(), "chunk {index} of {}", self.data_chunks());
        self.wrapped(self.first_parity(stripe) + self.level.parities() + index)
    }

    /// The member that holds a stripe's P.
    #[must_use]
    #[inline]
    pub fn p_member(&self, stripe: u64) -> Option<usize> {
        (self.level.parities() >= 1).then(|| self.first_parity(stripe))
    }

    /// The member that holds a stripe's Q.
    #[must_use]
    #[inline]
    pub fn q_member(&self, stripe: u64) -> Option<usize> {
        (self.level.parities() >= 2).then(|| self.wrapped(self.first_parity(stripe) + 1))
    }

    /// What a member holds in a stripe.
    ///
    /// # Panics
    /// There is no such member.
    #[must_use]
    #[inline]
    pub fn role(&self, stripe: u64, member: usize) -> Role {
        assert!(member < self.members(), "member {member} of {}", self.members());
        if self.level == Level::Raid1 {
            return Role::Copy(member);
        }
        // Members are counted from the parity on: P, Q, then the data in their order.
        let number = self.wrapped(member + self.members() - self.first_parity(stripe));
        match number.checked_sub(self.level.parities()) {
            Some(index) => Role::Data(index),
            None if number == 0 => Role::P,
            None => Role::Q,
        }
    }

    /// The offset on a member, the same for all members.
    #[must_use]
    #[inline]
    pub const fn member_offset(&self, stripe: u64, offset: u64) -> u64 {
        stripe * self.chunk + offset
    }

    /// The stripe of an offset on a member, and the offset in its chunk: the inverse of
    /// [`member_offset`](Self::member_offset).
    ///
    /// # Panics
    /// The offset is behind the last stripe.
    #[must_use]
    #[inline]
    pub fn stripe_at(&self, member_offset: u64) -> (u64, u64) {
        let used = self.member_bytes();
        assert!(member_offset < used, "offset {member_offset} of a member's {used} bytes");
        self.chunk_of(member_offset)
    }

    /// The offset in the array of a byte of a member. `None`: it is parity.
    ///
    /// # Panics
    /// There is no such member, or the offset is behind the last stripe.
    #[must_use]
    #[inline]
    pub fn user_offset(&self, member: usize, member_offset: u64) -> Option<u64> {
        let (stripe, offset) = self.stripe_at(member_offset);
        let index = match self.role(stripe, member) {
            Role::Data(index) => index,
            Role::Copy(_) => 0,
            Role::P | Role::Q => return None,
        };
        Some(self.offset(Position { stripe, index, offset }))
    }

    /// Divides a range of the array's bytes at the ends of stripes.
    ///
    /// # Panics
    /// The range is not within the [capacity](Self::capacity).
    #[must_use]
    pub fn pieces(&self, offset: u64, length: u64) -> Pieces {
        let end = offset.checked_add(length).filter(|end| *end <= self.capacity());
        assert!(end.is_some(), "{length} bytes at {offset} of {}", self.capacity());
        Pieces::new(*self, offset, length)
    }

    /// The number of an offset's chunk, and the offset in it. Chunks are whole pages, so only the
    /// number of the page is divided, which has 52 bits.
    #[inline]
    const fn chunk_of(&self, offset: u64) -> (u64, u64) {
        let (chunk, page) = self.pages_of_chunk.div_rem(offset >> PAGE_SHIFT);
        (chunk, (page << PAGE_SHIFT) | (offset % PAGE))
    }

    /// The member with P, where there is parity. Data begin behind the parity and wrap around. That
    /// holds for parity on the last members too, and for none in front of member 0.
    #[inline]
    const fn first_parity(&self, stripe: u64) -> usize {
        match (self.level.parities(), self.rotation) {
            (0, _) => 0,
            (_, Rotation::ParityLast) => self.data_chunks(),
            (_, Rotation::LeftSymmetric) => {
                self.members() - 1 - self.members.div_rem(stripe).1 as usize
            }
        }
    }

    /// A member's number below twice the number of members.
    #[inline]
    const fn wrapped(&self, member: usize) -> usize {
        let members = self.members();
        if member < members { member } else { member - members }
    }
}
