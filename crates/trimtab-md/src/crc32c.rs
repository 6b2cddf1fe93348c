//! CRC-32C (Castagnoli), which the partial parity log is protected by.

/// The polynomial 0x1edc6f41, with its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut remainder = index as u32;
        let mut bit = 0;
        while bit < 8 {
            let carry = if remainder & 1 == 1 { POLYNOMIAL } else { 0 };
            remainder = remainder >> 1 ^ carry;
            bit += 1;
        }
        table[index] = remainder;
        index += 1;
    }
    table
};

/// The checksum of the parts, one after the other: that of nothing is 0.
pub(crate) fn crc32c<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut remainder = !0;
    for byte in parts.into_iter().flatten() {
        remainder = remainder >> 8 ^ TABLE[usize::from(remainder as u8 ^ byte)];
    }
    !remainder
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    /// RFC 3720, B.4.
    #[test]
    fn agrees_with_the_vectors_of_iscsi() {
        assert_eq!(crc32c([&[0_u8; 32][..]]), 0x8a91_36aa);
        assert_eq!(crc32c([&[0xff_u8; 32][..]]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c([&ascending[..10], &ascending[10..]]), 0x46dd_794e);
        assert_eq!(crc32c([]), 0);
    }
}
