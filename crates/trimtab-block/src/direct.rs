//! Memory that direct I/O accepts.

use std::ffi::c_void;
use std::io;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Whole pages that the kernel reads from and writes to. A forked child does not inherit them,
/// so the kernel never has to copy them for it.
#[derive(Debug)]
pub struct DirectBuffer {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: it is a mapping that belongs to no thread.
unsafe impl Send for DirectBuffer {}

impl DirectBuffer {
    /// A buffer of this many bytes (at least one), all zero.
    ///
    /// # Errors
    /// The kernel has no memory for it.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.max(1);
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, access, flags) }?;
        let start = NonNull::new(start).expect("nothing is mapped at zero");
        // SAFETY: the mapping that was just made. Otherwise a child would share it
        // copy-on-write.
        _ = unsafe { madvise(start.as_ptr(), bytes, Advice::LinuxDontFork) };
        Ok(Self { start, bytes })
    }

    /// Its size.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of the first `bytes` of it.
    ///
    /// # Panics
    /// It is smaller.
    #[must_use]
    pub fn first(&self, bytes: u32) -> *mut u8 {
        assert!(bytes as usize <= self.bytes, "the largest request was known");
        self.start.as_ptr().cast()
    }

    /// The first `bytes` of it. The kernel must not be writing there.
    ///
    /// # Panics
    /// It is smaller.
    pub fn content(&mut self, bytes: usize) -> &mut [u8] {
        assert!(bytes <= self.bytes, "no more than there is");
        // SAFETY: the mapping has as many bytes, all of them set, and is borrowed as long as
        // they are.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), bytes) }
    }
}

impl Drop for DirectBuffer {
    fn drop(&mut self) {
        // SAFETY: this owns the mapping, and there are no references into it.
        let unmapped = unsafe { munmap(self.start.as_ptr(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
