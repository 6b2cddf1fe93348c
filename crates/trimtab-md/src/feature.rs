//! Feature bits of a superblock (`MD_FEATURE_…` in the kernel's `linux/raid/md_p.h`).

use std::fmt;

/// The feature bits of a superblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u32);

impl Features {
    /// There is a write-intent bitmap.
    pub const BITMAP: u32 = 1;
    /// The member has been rebuilt up to an offset.
    pub const RECOVERY_OFFSET: u32 = 2;
    /// The array changes its shape.
    pub const RESHAPE: u32 = 4;
    /// The log of bad blocks is not empty.
    pub const BAD_BLOCKS: u32 = 8;
    /// The member replaces one that is still active.
    pub const REPLACEMENT: u32 = 16;
    /// A reshape goes from the end to the beginning.
    pub const RESHAPE_BACKWARDS: u32 = 32;
    /// A reshape moves the data.
    pub const NEW_OFFSET: u32 = 64;
    /// The rebuild copies only what the bitmap says.
    pub const RECOVERY_BITMAP: u32 = 128;
    /// The array belongs to a cluster.
    pub const CLUSTERED: u32 = 256;
    /// There is a journal device.
    pub const JOURNAL: u32 = 512;
    /// There is a partial parity log.
    pub const PPL: u32 = 1024;
    /// The area of the partial parity log has several of them.
    pub const MULTIPLE_PPLS: u32 = 2048;
    /// The layout of a RAID 0 says how its zones are mapped.
    pub const RAID0_LAYOUT: u32 = 4096;

    /// Every bit that Linux 6.1 and 6.12 know, with its name.
    const NAMED: [(u32, &str); 13] = [
        (Self::BITMAP, "bitmap"),
        (Self::RECOVERY_OFFSET, "recovery offset"),
        (Self::RESHAPE, "reshape"),
        (Self::BAD_BLOCKS, "bad blocks"),
        (Self::REPLACEMENT, "replacement"),
        (Self::RESHAPE_BACKWARDS, "reshape backwards"),
        (Self::NEW_OFFSET, "new data offset"),
        (Self::RECOVERY_BITMAP, "recovery by bitmap"),
        (Self::CLUSTERED, "cluster"),
        (Self::JOURNAL, "journal"),
        (Self::PPL, "partial parity log"),
        (Self::MULTIPLE_PPLS, "multiple partial parity logs"),
        (Self::RAID0_LAYOUT, "RAID 0 layout"),
    ];

    /// Those that this crate understands.
    pub const SUPPORTED: u32 = Self::BITMAP
        | Self::RECOVERY_OFFSET
        | Self::REPLACEMENT
        | Self::RECOVERY_BITMAP
        | Self::PPL
        | Self::MULTIPLE_PPLS
        | Self::RAID0_LAYOUT;

    /// Whether all of these bits are set.
    #[must_use]
    pub const fn has(self, bits: u32) -> bool {
        self.0 & bits == bits
    }

    /// Those that this crate does not understand.
    #[must_use]
    pub const fn unsupported(self) -> Self {
        Self(self.0 & !Self::SUPPORTED)
    }
}

/// Their names, separated by commas; a bit that Linux 6.12 does not know by its number.
impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for bit in (0..32).map(|shift| 1 << shift).filter(|&bit| self.has(bit)) {
            f.write_str(separator)?;
            match Self::NAMED.iter().find(|(named, _)| *named == bit) {
                Some((_, name)) => f.write_str(name)?,
                None => write!(f, "unknown bit {bit:#x}")?,
            }
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Features;

    #[test]
    fn unsupported_features_have_names() {
        let all = Features(!0).unsupported().to_string();
        for name in ["reshape", "bad blocks", "cluster", "journal", "unknown bit 0x2000"] {
            assert!(all.contains(name), "{all}");
        }
        assert_eq!(Features(Features::SUPPORTED).unsupported().to_string(), "");
    }
}
