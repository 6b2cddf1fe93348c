//! The field of 256 elements: bytes as polynomials over bits, modulo 0x11d. Sums are XOR.

/// x⁸ is this.
pub(super) const REDUCED: u8 = 0x1d;

pub(super) const fn double(a: u8) -> u8 {
    (a << 1) ^ ((a >> 7) * REDUCED)
}

pub(super) const fn product(a: u8, by: u8) -> u8 {
    let (mut sum, mut bit) = (0, 8);
    while bit > 0 {
        bit -= 1;
        sum = double(sum) ^ (a * (by >> bit & 1));
    }
    sum
}

/// gⁱ. All 255 elements but 0 are powers of g, so exponents are modulo 255.
pub(super) const fn power(exponent: usize) -> u8 {
    POWERS[exponent % 255]
}

/// 1/a, for a ≠ 0: a²⁵⁴, as a²⁵⁵ = 1.
pub(super) const fn inverse(a: u8) -> u8 {
    let (mut inverse, mut factor, mut exponent) = (1, a, 254);
    while exponent > 0 {
        if exponent % 2 == 1 {
            inverse = product(inverse, factor);
        }
        factor = product(factor, factor);
        exponent /= 2;
    }
    inverse
}

const POWERS: [u8; 255] = {
    let mut powers = [1; 255];
    let mut i = 1;
    while i < 255 {
        powers[i] = double(powers[i - 1]);
        i += 1;
    }
    powers
};

/// For each factor its products with 0 to 15, then with 0, 16, 32, ... 240: the product with a byte
/// is the sum of two.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub(super) static NIBBLES: [[u8; 32]; 256] = {
    let mut tables = [[0; 32]; 256];
    let mut by = 0;
    while by < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            tables[by][nibble] = product(nibble as u8, by as u8);
            tables[by][16 + nibble] = product((nibble << 4) as u8, by as u8);
            nibble += 1;
        }
        by += 1;
    }
    tables
};

/// For each factor the matrix of bits that multiplies by it, as `GF2P8AFFINEQB` has it: bit i of
/// the product is the parity of the byte AND byte 7 − i of the matrix.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub(super) static MATRICES: [u64; 256] = {
    let mut matrices = [0; 256];
    let mut by = 0;
    while by < 256 {
        let mut column = 0;
        while column < 8 {
            let image = product(1 << column, by as u8);
            let mut row = 0;
            while row < 8 {
                matrices[by] |= (image as u64 >> row & 1) << ((7 - row) * 8 + column);
                row += 1;
            }
            column += 1;
        }
        by += 1;
    }
    matrices
};

#[cfg(test)]
mod tests {
    use super::*;

    /// From the logarithm tables for 0x11d, as in Anvin's paper and the kernel's lib/raid6.
    #[test]
    fn powers_are_those_of_md() {
        let first = [1, 2, 4, 8, 16, 32, 64, 128, 0x1d, 0x3a, 0x74, 0xe8, 0xcd, 0x87, 0x13, 0x26];
        assert_eq!(POWERS[..16], first);
        assert_eq!((power(25), power(254), power(255)), (3, 0x8e, 1));
        let mut all = POWERS.to_vec();
        all.sort_unstable();
        assert_eq!(all, (1..=255).collect::<Vec<u8>>());
    }

    #[test]
    fn powers_add_their_exponents_in_products() {
        for a in 0..255 {
            for b in 0..255 {
                assert_eq!(product(power(a), power(b)), power(a + b));
            }
            assert_eq!(product(power(a), inverse(power(a))), 1);
            assert_eq!(product(power(a), 0), 0);
            assert_eq!(product(0, power(a)), 0);
        }
    }
}
