//! Little-endian numbers in byte slices, and bytes as sectors.

/// Bytes of a sector: the unit of most of md's numbers.
pub(crate) const SECTOR: u64 = 512;

macro_rules! number {
    ($get:ident, $put:ident, $type:ty) => {
        /// The number at a byte of the block, which has it.
        pub(crate) fn $get(block: &[u8], at: usize) -> $type {
            let (number, _) = block[at..].split_first_chunk().expect("a field of the block");
            <$type>::from_le_bytes(*number)
        }

        /// Writes the number at a byte of the block.
        pub(crate) fn $put(block: &mut [u8], at: usize, value: $type) {
            block[at..at + size_of::<$type>()].copy_from_slice(&value.to_le_bytes());
        }
    };
}

number!(get_u16, put_u16, u16);
number!(get_u32, put_u32, u32);
number!(get_u64, put_u64, u64);

/// Bytes of some sectors, unless there are more than 64 bits of them.
pub(crate) fn from_sectors(sectors: u64) -> Option<u64> {
    sectors.checked_mul(SECTOR)
}

/// Sectors of some bytes.
///
/// # Panics
/// They are not whole sectors: the caller made such a field.
#[track_caller]
pub(crate) fn to_sectors(bytes: u64) -> u64 {
    assert!(bytes.is_multiple_of(SECTOR), "{bytes} bytes are not whole sectors");
    bytes / SECTOR
}
