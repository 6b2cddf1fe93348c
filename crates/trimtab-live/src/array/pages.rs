//! Memory that direct I/O accepts.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::Error;

/// Whole pages that the kernel reads from and writes to. Requests share them: what
/// is read is not looked at, and what is written is zeroes.
#[derive(Debug)]
pub(super) struct Pages {
    start: NonNull<c_void>,
    bytes: usize,
}

impl Pages {
    pub(super) fn new(bytes: usize) -> Result<Self, Error> {
        let bytes = bytes.max(1);
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at a place that the kernel chooses.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, access, flags) };
        let start = start.map_err(|source| Error::Memory { bytes, source: source.into() })?;
        let start = NonNull::new(start).expect("nothing is mapped at zero");
        Ok(Self { start, bytes })
    }

    /// Where the first `bytes` of them are.
    pub(super) fn first(&self, bytes: u32) -> *mut u8 {
        assert!(bytes as usize <= self.bytes, "the largest request was known");
        self.start.as_ptr().cast()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody has a reference into it.
        let unmapped = unsafe { munmap(self.start.as_ptr(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
