//! What the kernel's messages ask of the only file.

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::wire::{self, Attributes, Call, Message};
use super::{FILE, MAX_BYTES};
use crate::requests::DiskRequest;

/// The inode of the file.
const DISK: u64 = 2;
/// Requests that the kernel may have outstanding (`max_background`); its default of 12 would
/// throttle the device.
const MAX_IN_FLIGHT: u16 = 512;
/// The block of the file system.
const BLOCK: u32 = 4096;

/// The file: a device's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServedFile {
    /// Its bytes.
    pub(super) capacity: u64,
    /// Whether it makes zeroes without data ([`DiskRequest::Zero`]); otherwise the kernel writes them.
    pub(super) makes_zeroes: bool,
    /// The granularity of discards, bytes.
    pub(super) discard_bytes: u32,
}

/// What is to be done about a message.
#[derive(Debug)]
pub(super) enum Handled<'a> {
    /// The server does this, and answers.
    Request(DiskRequest<'a>),
    /// This is the answer.
    Answer(Vec<u8>),
    /// The answer is this error.
    Refusal(Errno),
    /// No answer is needed.
    Silence,
}

impl ServedFile {
    /// Handles a message.
    pub(super) fn handle<'a>(&self, message: &Message<'a>) -> Handled<'a> {
        match message.call {
            Call::Init { major, flags } => {
                let page = rustix::param::page_size() as u32;
                let answer = wire::initialised(major, flags, MAX_IN_FLIGHT, MAX_BYTES, page);
                answer.map_or(Handled::Refusal(Errno::PROTO), Handled::Answer)
            }
            Call::Lookup { name } if message.inode == wire::ROOT && name == FILE.as_bytes() => {
                Handled::Answer(wire::entry(&self.attributes(DISK)))
            }
            Call::Lookup { .. } => Handled::Refusal(Errno::NOENT),
            Call::GetAttributes => {
                Handled::Answer(wire::attributes(&self.attributes(message.inode)))
            }
            // The loop device takes its discard granularity from here.
            Call::StatFs => {
                let block = self.discard_bytes;
                Handled::Answer(wire::filesystem(self.capacity / u64::from(block), block))
            }
            Call::Open if message.inode == DISK => Handled::Answer(wire::opened()),
            Call::Open => Handled::Refusal(Errno::ISDIR),
            // Sent when a file is closed; no flush of the device's buffer.
            Call::Flush | Call::Release => Handled::Answer(Vec::new()),
            Call::Notice => Handled::Silence,
            Call::Other => Handled::Refusal(Errno::NOSYS),
            Call::Sync => Handled::Request(DiskRequest::Flush),
            Call::Read { offset, size } => {
                let offset = offset.min(self.capacity);
                let length = u64::from(size).min(self.capacity - offset);
                Handled::Request(DiskRequest::Read { offset, length })
            }
            Call::Write { offset, data } if self.within(offset, data.len() as u64) => {
                Handled::Request(DiskRequest::Write { offset, data })
            }
            Call::Write { .. } => Handled::Refusal(Errno::NOSPC),
            Call::Allocate { offset, length, mode } if self.makes_zeroes && makes_zeroes(mode) => {
                match self.within(offset, length) {
                    true => Handled::Request(DiskRequest::Zero { offset, length }),
                    false => Handled::Refusal(Errno::INVAL),
                }
            }
            Call::Allocate { .. } => Handled::Refusal(Errno::OPNOTSUPP),
        }
    }

    fn attributes(&self, inode: u64) -> Attributes {
        const FILE_OF_ROOT: u32 = 0o100_600;
        const DIRECTORY_OF_ROOT: u32 = 0o040_700;
        match inode {
            DISK => Attributes { inode, size: self.capacity, mode: FILE_OF_ROOT, block: BLOCK },
            _ => Attributes { inode, size: 0, mode: DIRECTORY_OF_ROOT, block: BLOCK },
        }
    }

    /// Whether a range lies within the device.
    fn within(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.capacity)
    }
}

fn makes_zeroes(mode: u32) -> bool {
    let mode = FallocateFlags::from_bits_retain(mode);
    mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE)
}
