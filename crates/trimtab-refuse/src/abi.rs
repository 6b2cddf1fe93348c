//! The mirror of bpf/refuse.h.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// `RF_DRIVES`: drives that the files of one program lie on.
pub(crate) const DRIVES: usize = 16;
/// `RF_NO_DRIVE`
pub(crate) const NO_DRIVE: u32 = u32::MAX;
/// `RF_PATH`
pub(crate) const PATH: usize = 4096;
/// `RF_WHOLE`
pub(crate) const WHOLE: u64 = 1_000_000;
/// `RF_REASONS`
pub(crate) const REASONS: usize = 8;

/// Why a read was admitted or refused: `enum rf_reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Reason {
    /// Refused: the expected wait exceeds the limit.
    Refused = 0,
    /// Admitted: the expected wait is within the limit.
    InTime = 1,
    /// Admitted although it is expected to be late: one of the share.
    Share = 2,
    /// Admitted: the file is on no single drive that has a slot.
    NotOnDrive = 3,
    /// Admitted: no tracker follows the drive, or the drive is gone.
    NotTracked = 4,
    /// Admitted: no model is loaded that fits the drive.
    NoModel = 5,
    /// Admitted: the model or the state does not decide.
    Unsure = 6,
    /// Admitted: what was published is too old.
    Stale = 7,
}

/// `struct rf_setup`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
pub(crate) struct Setup {
    pub(crate) limit_ns: u64,
    pub(crate) stale_ns: u64,
    pub(crate) share: u64,
    pub(crate) o_direct: u32,
    pub(crate) reserved: u32,
}

/// `struct rf_drive`
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub(crate) struct Drive {
    pub(crate) wait_ns: u64,
    pub(crate) published_ns: u64,
    pub(crate) reason: u64,
    reserved: [u64; 5],
}

/// `struct rf_file`
#[repr(C)]
#[derive(Clone, Copy, IntoBytes, Immutable)]
pub(crate) struct NamedFile {
    pub(crate) drive: u32,
    pub(crate) reserved: u32,
}

/// `struct rf_counts`
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes)]
pub(crate) struct Counts {
    pub(crate) counts: [u64; REASONS],
}

/// `struct rf_health`
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub(crate) struct Health {
    pub(crate) was_called: u64,
    pub(crate) lost: u64,
}

/// `struct rf_opened`
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub(crate) struct OpenedFile {
    pub(crate) inode: u64,
    pub(crate) device: u32,
    pub(crate) length: u32,
    pub(crate) path: [u8; PATH],
}

#[cfg(test)]
mod tests {
    use trimtab_bpf::{REFUSE, mirrors};

    use super::*;

    #[test]
    fn mirrors_have_the_layout_of_the_header() {
        mirrors!(REFUSE, "rf_setup" => Setup { limit_ns, stale_ns, share, o_direct });
        mirrors!(REFUSE, "rf_drive" => Drive { wait_ns, published_ns, reason });
        mirrors!(REFUSE, "rf_file" => NamedFile { drive });
        mirrors!(REFUSE, "rf_counts" => Counts { counts });
        mirrors!(REFUSE, "rf_health" => Health { was_called, lost });
        mirrors!(REFUSE, "rf_opened" => OpenedFile { inode, device, length, path });
    }
}
