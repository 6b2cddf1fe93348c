//! Where mdadm 4.2 puts what an array's members need, by default.
//!
//! ```text
//! 0        4 KiB      8 KiB              12 KiB or later        a multiple of 1 MiB
//! | boot   | super-   | bitmap, or       | log of   | room to    | data …
//! | sector | block    | log of parities  | bad      | reshape    |
//! |        |          |                  | blocks   | the array  |
//! ```

use crate::bytes::SECTOR;
use crate::superblock::{BadBlockLog, SUPERBLOCK_BYTES};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bitmap and log begin here, from the superblock: behind it.
pub const AREA_OFFSET: i64 = SUPERBLOCK_BYTES as i64;
/// Bytes of the area of partial parity logs: of several of them in turn.
pub const PPL_BYTES: u64 = MIB;
/// Bytes that the chunk of a bitmap has at least, by default.
const LEAST_BITMAP_CHUNK: u64 = 64 * MIB;

/// Bytes that are kept free for a bitmap on a member with so many bytes.
#[must_use]
pub const fn bitmap_room(member_bytes: u64) -> u64 {
    if member_bytes < 64 * KIB {
        0
    } else if member_bytes - 64 * KIB >= 200 * GIB {
        128 * KIB
    } else if member_bytes - 4 * KIB > 8 * GIB {
        64 * KIB
    } else {
        4 * KIB
    }
}

/// Where data begin on members of which the first has so many bytes: `room` is for bitmap or
/// log, and a part is kept free in which md can move data when the array gets another shape:
/// 128 MiB, or on small members about 0.1%. `chunk` is 0 with RAID 1.
#[must_use]
pub const fn data_offset(member_bytes: u64, chunk: u64, room: u64) -> u64 {
    let mut headroom = 128 * MIB;
    while headroom << 10 > member_bytes && (chunk == 0 || headroom >= 4 * chunk) && headroom > 0 {
        headroom >>= 1;
    }
    (12 * KIB + room + headroom).next_multiple_of(MIB)
}

/// The log of bad blocks behind the other area, if there is room for it.
#[must_use]
pub const fn bad_block_log(data_offset: u64, room: u64) -> Option<BadBlockLog> {
    const BYTES: u64 = 8 * SECTOR;
    let offset = AREA_OFFSET as u64 + room;
    if data_offset < SUPERBLOCK_BYTES as u64 + offset + BYTES {
        return None;
    }
    Some(BadBlockLog { offset: offset as i64, bytes: BYTES, shift: 0 })
}

/// Bytes that a bit of the bitmap covers, by default: 64 MiB, or more if the bits need it to fit
/// in `room`.
#[must_use]
pub const fn bitmap_chunk(sync_bytes: u64, room: u64) -> u64 {
    let most_bits = room.saturating_sub(256) * 8;
    let mut chunk = LEAST_BITMAP_CHUNK;
    while most_bits > 0 && sync_bytes.div_ceil(chunk) > most_bits && chunk < 2 * GIB {
        chunk *= 2;
    }
    chunk
}
