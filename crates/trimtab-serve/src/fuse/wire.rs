//! The kernel's FUSE messages that a file system of one file needs.
//!
//! Layouts and numbers are those of `include/uapi/linux/fuse.h` in Linux, protocol 7.31 (Linux 5.4)
//! and newer: a message is a header of fixed fields in native byte order, followed by the fields of
//! its operation.

use std::ffi::CStr;

use rustix::io::Errno;

/// Bytes of `struct fuse_in_header`.
const IN_HEADER: usize = 40;
/// Bytes of `struct fuse_out_header`.
const OUT_HEADER: usize = 16;
/// Bytes of `struct fuse_write_in`, which precedes the data.
const WRITE_IN: usize = 40;

/// The protocol version: `FUSE_KERNEL_VERSION`, and the lowest minor with all features in use.
const MAJOR: u32 = 7;
const MINOR: u32 = 31;

/// Inode of the mounted directory, `FUSE_ROOT_ID`.
pub(super) const ROOT: u64 = 1;

/// Flags requested in the answer to `FUSE_INIT`.
mod init {
    pub(super) const ASYNC_READ: u32 = 1 << 0;
    pub(super) const BIG_WRITES: u32 = 1 << 5;
    pub(super) const ASYNC_DIO: u32 = 1 << 15;
    pub(super) const PARALLEL_DIROPS: u32 = 1 << 18;
    pub(super) const MAX_PAGES: u32 = 1 << 22;
}

/// `FOPEN_DIRECT_IO` and `FOPEN_PARALLEL_DIRECT_WRITES`: no page cache, and concurrent writes.
const OPEN_DIRECT: u32 = 1 << 0 | 1 << 6;

/// A message from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    /// Its number, which the answer repeats.
    pub(super) unique: u64,
    /// The inode it concerns.
    pub(super) inode: u64,
    pub(super) call: Call<'a>,
}

/// The operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call<'a> {
    Init {
        major: u32,
        flags: u32,
    },
    Lookup {
        name: &'a [u8],
    },
    GetAttributes,
    StatFs,
    Open,
    Read {
        offset: u64,
        size: u32,
    },
    Write {
        offset: u64,
        data: &'a [u8],
    },
    Flush,
    Sync,
    Allocate {
        offset: u64,
        length: u64,
        mode: u32,
    },
    /// Acknowledged only: a file is closed, the file system unmounted.
    Release,
    /// Needs no answer.
    Notice,
    Other,
}

impl<'a> Message<'a> {
    /// Parses a message. `None` if it is truncated or malformed.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, body) = bytes.split_at_checked(IN_HEADER)?;
        if u32_at(header, 0)? as usize != bytes.len() {
            return None;
        }
        let call = match u32_at(header, 4)? {
            1 => Call::Lookup { name: CStr::from_bytes_until_nul(body).ok()?.to_bytes() },
            // FORGET, INTERRUPT, BATCH_FORGET.
            2 | 36 | 42 => Call::Notice,
            3 => Call::GetAttributes,
            14 => Call::Open,
            15 => Call::Read { offset: u64_at(body, 8)?, size: u32_at(body, 16)? },
            16 => Call::Write { offset: u64_at(body, 8)?, data: written(body)? },
            17 => Call::StatFs,
            // RELEASE, DESTROY.
            18 | 38 => Call::Release,
            20 => Call::Sync,
            25 => Call::Flush,
            26 => Call::Init { major: u32_at(body, 0)?, flags: u32_at(body, 12)? },
            43 => Call::Allocate {
                offset: u64_at(body, 8)?,
                length: u64_at(body, 16)?,
                mode: u32_at(body, 24)?,
            },
            _ => Call::Other,
        };
        Some(Self { unique: u64_at(header, 8)?, inode: u64_at(header, 16)?, call })
    }
}

/// The data of a write, if its length field matches.
fn written(body: &[u8]) -> Option<&[u8]> {
    let data = body.get(WRITE_IN..)?;
    (data.len() == u32_at(body, 16)? as usize).then_some(data)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The header of an answer with `length` bytes of data, or of an error.
pub(super) fn header(unique: u64, outcome: Result<usize, Errno>) -> [u8; OUT_HEADER] {
    let (length, error) = match outcome {
        Ok(length) => (length, 0),
        Err(error) => (0, -error.raw_os_error()),
    };
    let mut header = [0; OUT_HEADER];
    header[..4].copy_from_slice(&((OUT_HEADER + length) as u32).to_ne_bytes());
    header[4..8].copy_from_slice(&error.to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    header
}

/// Builds the fields of an answer.
#[derive(Debug, Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn zeroes(mut self, bytes: usize) -> Self {
        self.0.resize(self.0.len() + bytes, 0);
        self
    }

    /// `struct fuse_attr`.
    fn attributes(self, of: &Attributes) -> Self {
        // The timestamps, all 1970, are 36 bytes of zeroes.
        let ids = self.u64(of.inode).u64(of.size).u64(0).zeroes(36).u32(of.mode).u32(1);
        ids.zeroes(12).u32(of.block).u32(0)
    }
}

/// Attributes of a file or directory. It belongs to root, and never changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes {
    pub(super) inode: u64,
    pub(super) size: u64,
    /// Type and permissions, as in `st_mode`.
    pub(super) mode: u32,
    /// Preferred request size, bytes.
    pub(super) block: u32,
}

/// How long the kernel may cache attributes, in seconds: forever.
const FOREVER: u64 = 1 << 30;

/// `struct fuse_init_out`; `None` for another major version.
pub(super) fn initialised(
    major: u32,
    offered: u32,
    in_flight: u16,
    most_bytes: u32,
    page: u32,
) -> Option<Vec<u8>> {
    let wanted = init::ASYNC_READ
        | init::BIG_WRITES
        | init::ASYNC_DIO
        | init::PARALLEL_DIROPS
        | init::MAX_PAGES;
    let fields = Fields::default().u32(MAJOR).u32(MINOR).u32(most_bytes).u32(offered & wanted);
    let fields = fields.u16(in_flight).u16(in_flight).u32(most_bytes).u32(1);
    let fields = fields.u16((most_bytes / page) as u16).zeroes(34);
    (major == MAJOR).then_some(fields.0)
}

/// `struct fuse_entry_out`.
pub(super) fn entry(attributes: &Attributes) -> Vec<u8> {
    let fields = Fields::default().u64(attributes.inode).u64(0).u64(FOREVER).u64(FOREVER);
    fields.zeroes(8).attributes(attributes).0
}

/// `struct fuse_attr_out`.
pub(super) fn attributes(attributes: &Attributes) -> Vec<u8> {
    Fields::default().u64(FOREVER).zeroes(8).attributes(attributes).0
}

/// `struct fuse_open_out`, for direct I/O.
pub(super) fn opened() -> Vec<u8> {
    Fields::default().u64(0).u32(OPEN_DIRECT).u32(0).0
}

/// The answer to a write of this many bytes: `struct fuse_write_out`.
pub(super) fn wrote(bytes: u32) -> [u8; 8] {
    let mut fields = [0; 8];
    fields[..4].copy_from_slice(&bytes.to_ne_bytes());
    fields
}

/// `struct fuse_statfs_out`: a full file system of `blocks` blocks and two files.
pub(super) fn filesystem(blocks: u64, block: u32) -> Vec<u8> {
    let counts = Fields::default().u64(blocks).u64(0).u64(0).u64(2).u64(0);
    counts.u32(block).u32(255).u32(block).zeroes(28).0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
        let header = Fields::default().u32((IN_HEADER + body.len()) as u32).u32(opcode);
        let mut bytes = header.u64(7).u64(2).zeroes(16).0;
        bytes.extend(body);
        bytes
    }

    fn parsed(opcode: u32, body: &[u8]) -> Option<String> {
        let bytes = message(opcode, body);
        let message = Message::parse(&bytes)?;
        assert_eq!((message.unique, message.inode), (7, 2));
        Some(format!("{:?}", message.call))
    }

    #[test]
    fn truncated_messages_are_rejected() {
        let read = Fields::default().u64(0).u64(4096).u32(512).zeroes(20).0;
        assert_eq!(parsed(15, &read).unwrap(), "Read { offset: 4096, size: 512 }");
        assert_eq!(parsed(15, &read[..16]), None);
        let write = |said| Fields::default().u64(0).u64(8192).u32(said).zeroes(20).u16(0x0101).0;
        assert_eq!(parsed(16, &write(2)).unwrap(), "Write { offset: 8192, data: [1, 1] }");
        assert_eq!(parsed(16, &write(3)), None);
        assert_eq!(parsed(1, b"disk\0").unwrap(), "Lookup { name: [100, 105, 115, 107] }");
        assert_eq!(parsed(1, b"disk"), None);
        let punch = Fields::default().u64(0).u64(1).u64(2).u32(3).u32(0).0;
        assert_eq!(parsed(43, &punch).unwrap(), "Allocate { offset: 1, length: 2, mode: 3 }");
        assert_eq!(parsed(9999, &[]).unwrap(), "Other");
        let longer = [message(3, &[0; 16]), vec![0]].concat();
        assert_eq!(Message::parse(&longer), None);
        assert_eq!(Message::parse(&longer[..39]), None);
    }

    /// The kernel rejects answers of other lengths than its structures'.
    #[test]
    fn answers_have_the_lengths_of_the_kernels_structures() {
        let of = Attributes { inode: 2, size: 1 << 30, mode: 0o100_600, block: 4096 };
        assert_eq!(entry(&of).len(), 128);
        assert_eq!(attributes(&of).len(), 104);
        assert_eq!(opened().len(), 16);
        assert_eq!(filesystem(1, 4096).len(), 80);
        assert_eq!(initialised(7, u32::MAX, 512, 1 << 20, 4096).unwrap().len(), 64);
        assert_eq!(initialised(8, 0, 512, 1 << 20, 4096), None);
        assert_eq!(header(1, Err(Errno::IO))[4..8], (-5_i32).to_ne_bytes());
    }
}
