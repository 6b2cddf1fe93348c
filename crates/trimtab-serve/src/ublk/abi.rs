//! Numbers and structures of `include/uapi/linux/ublk_cmd.h` in Linux, as of version 6.5: the first
//! with all that is used here.

/// Control commands, for `/dev/ublk-control`: `_IOR` or `_IOWR` of type `u` and
/// `struct ublksrv_ctrl_cmd`.
pub(super) mod control {
    const fn write_read(number: u32) -> u32 {
        3 << 30 | 32 << 16 | (b'u' as u32) << 8 | number
    }
    const fn read(number: u32) -> u32 {
        2 << 30 | 32 << 16 | (b'u' as u32) << 8 | number
    }
    pub(crate) const GET_DEV_INFO: u32 = read(0x02);
    pub(crate) const ADD_DEV: u32 = write_read(0x04);
    pub(crate) const DEL_DEV: u32 = write_read(0x05);
    pub(crate) const START_DEV: u32 = write_read(0x06);
    pub(crate) const STOP_DEV: u32 = write_read(0x07);
    pub(crate) const SET_PARAMS: u32 = write_read(0x08);
    pub(crate) const GET_PARAMS: u32 = read(0x09);
    pub(crate) const START_USER_RECOVERY: u32 = write_read(0x10);
    pub(crate) const END_USER_RECOVERY: u32 = write_read(0x11);
    pub(crate) const GET_FEATURES: u32 = read(0x13);
    /// Since Linux 6.9.
    pub(crate) const DEL_DEV_ASYNC: u32 = read(0x14);
}

/// Commands for `/dev/ublkcN`: `_IOWR` of type `u` and `struct ublksrv_io_cmd`.
pub(super) mod io {
    const fn write_read(number: u32) -> u32 {
        3 << 30 | 16 << 16 | (b'u' as u32) << 8 | number
    }
    /// Sends the first request of a tag.
    pub(crate) const FETCH_REQ: u32 = write_read(0x20);
    /// Answers a tag's request, and sends its next.
    pub(crate) const COMMIT_AND_FETCH_REQ: u32 = write_read(0x21);
}

/// Features of the driver.
pub(super) mod feature {
    /// With a killed server the device stays, and requests wait.
    pub(crate) const USER_RECOVERY: u64 = 1 << 3;
    /// Also those that the killed server had.
    pub(crate) const USER_RECOVERY_REISSUE: u64 = 1 << 4;
    /// Commands are numbered as ioctls.
    pub(crate) const CMD_IOCTL_ENCODE: u64 = 1 << 6;
    /// Data are read and written as bytes of `/dev/ublkcN`.
    pub(crate) const USER_COPY: u64 = 1 << 7;
}

/// Operations of requests.
pub(super) mod op {
    pub(crate) const READ: u8 = 0;
    pub(crate) const WRITE: u8 = 1;
    pub(crate) const FLUSH: u8 = 2;
    pub(crate) const DISCARD: u8 = 3;
    pub(crate) const WRITE_ZEROES: u8 = 5;
}

/// States of a device.
pub(super) mod state {
    pub(crate) const LIVE: u16 = 1;
    /// Its server was killed, and its requests wait.
    pub(crate) const QUIESCED: u16 = 2;
}

/// The id of [`ADD_DEV`](control::ADD_DEV) for a free one, and no queue.
pub(super) const ANY: u32 = u32::MAX;
pub(super) const NO_QUEUE: u16 = u16::MAX;

/// Most requests of a queue: by it the kernel places the queues' descriptors in the mapping.
pub(super) const MAX_DEPTH: usize = 4096;

/// Where a request's data are in `/dev/ublkcN`.
pub(super) const fn data_at(queue: u16, tag: u16) -> u64 {
    0x8000_0000 + ((queue as u64) << 41) + ((tag as u64) << 25)
}

/// `struct ublksrv_ctrl_cmd`, in the 80 bytes of a long submission entry.
pub(super) fn control_command(
    device: u32,
    queue: u16,
    bytes: u16,
    address: u64,
    data: u64,
) -> [u8; 80] {
    let mut command = [0; 80];
    command[..4].copy_from_slice(&device.to_ne_bytes());
    command[4..6].copy_from_slice(&queue.to_ne_bytes());
    command[6..8].copy_from_slice(&bytes.to_ne_bytes());
    command[8..16].copy_from_slice(&address.to_ne_bytes());
    command[16..24].copy_from_slice(&data.to_ne_bytes());
    command
}

/// `struct ublksrv_io_cmd`.
pub(super) fn io_command(queue: u16, tag: u16, result: i32) -> [u8; 16] {
    let mut command = [0; 16];
    command[..2].copy_from_slice(&queue.to_ne_bytes());
    command[2..4].copy_from_slice(&tag.to_ne_bytes());
    command[4..8].copy_from_slice(&result.to_ne_bytes());
    command
}

/// `struct ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DevInfo {
    pub(super) queues: u16,
    pub(super) depth: u16,
    pub(super) state: u16,
    pub(super) pad0: u16,
    pub(super) max_io_bytes: u32,
    pub(super) id: u32,
    pub(super) pid: i32,
    pub(super) pad1: u32,
    pub(super) flags: u64,
    /// The server's own: the kernel only returns it.
    pub(super) server_flags: u64,
    pub(super) owner: [u32; 2],
    pub(super) reserved: [u64; 2],
}

/// `struct ublk_params`, as far as it is used.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Params {
    pub(super) bytes: u32,
    pub(super) types: u32,
    // `struct ublk_param_basic`.
    pub(super) attributes: u32,
    pub(super) logical_shift: u8,
    pub(super) physical_shift: u8,
    pub(super) io_opt_shift: u8,
    pub(super) io_min_shift: u8,
    pub(super) max_sectors: u32,
    pub(super) chunk_sectors: u32,
    pub(super) sectors: u64,
    pub(super) virt_boundary_mask: u64,
    // `struct ublk_param_discard`.
    pub(super) discard_alignment: u32,
    pub(super) discard_granularity: u32,
    pub(super) max_discard_sectors: u32,
    pub(super) max_write_zeroes_sectors: u32,
    pub(super) max_discard_segments: u16,
    pub(super) reserved: u16,
    /// The first field of what is not used.
    pub(super) rest: u32,
}

impl Params {
    pub(super) const BASIC: u32 = 1 << 0;
    pub(super) const DISCARD: u32 = 1 << 1;
    pub(super) const ROTATIONAL: u32 = 1 << 1;
    pub(super) const VOLATILE_CACHE: u32 = 1 << 2;
}

/// `struct ublksrv_io_desc`: a request, in memory that the kernel writes to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    op_flags: u32,
    sectors: u32,
    start_sector: u64,
    _address: u64,
}

impl Descriptor {
    pub(super) const fn op(&self) -> u8 {
        self.op_flags as u8
    }

    /// First byte.
    pub(super) const fn offset(&self) -> u64 {
        self.start_sector << 9
    }

    /// Bytes.
    pub(super) const fn length(&self) -> u64 {
        (self.sectors as u64) << 9
    }
}

const _: () = assert!(size_of::<DevInfo>() == 64);
const _: () = assert!(size_of::<Params>() == 64);
const _: () = assert!(size_of::<Descriptor>() == 24);

#[cfg(test)]
mod tests {
    use super::*;

    /// The same as the preprocessor makes of the header.
    #[test]
    fn numbers_are_those_of_the_header() {
        assert_eq!(control::GET_FEATURES, 0x8020_7513);
        assert_eq!(control::ADD_DEV, 0xC020_7504);
        assert_eq!(io::FETCH_REQ, 0xC010_7520);
        assert_eq!(data_at(0, 0), 0x8000_0000);
        assert_eq!(data_at(1, 2), 0x8000_0000 + (1 << 41) + (2 << 25));
    }

    #[test]
    fn descriptor_gives_bytes() {
        let descriptor =
            Descriptor { op_flags: 1 << 13 | 1, sectors: 8, start_sector: 3, _address: 0 };
        assert_eq!(
            (descriptor.op(), descriptor.offset(), descriptor.length()),
            (op::WRITE, 1536, 4096)
        );
    }
}
