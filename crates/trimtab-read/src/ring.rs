//! Reads by io_uring, in a ring of the user.

use io_uring::squeue::Entry;
use io_uring::{opcode, types};
use std::os::fd::AsRawFd as _;

use crate::error::{Refusal, Urgency};
use crate::reader::Reader;
use crate::token::ReadToken;

impl Reader {
    /// Decides on a read, and makes the entry for a submission queue that sends it. The caller
    /// sets the entry's user data, and flags such as `IO_LINK`. When its completion brings
    /// data, [`finish`](ReadToken::finish) the token; otherwise drop it.
    ///
    /// The memory at `buffer` must be writable for `length` bytes until the completion;
    /// pushing an entry is `unsafe` for that reason. With
    /// [`ReadOptions::direct`](super::ReadOptions::direct) it must be aligned.
    ///
    /// # Errors
    /// The read is refused: there is nothing to push.
    pub fn prepare(
        &self,
        buffer: *mut u8,
        length: u32,
        offset: u64,
        urgency: Urgency,
    ) -> Result<(Entry, ReadToken<'_>), Refusal> {
        let token = self.admit(length.into(), offset, urgency)?;
        let file = types::Fd(self.file.as_raw_fd());
        // For io_uring an offset of all ones means the file's own position.
        let offset = offset.min(i64::MAX as u64);
        let entry = opcode::Read::new(file, buffer, length).offset(offset).build();
        Ok((entry, token))
    }
}
