//! Memory that direct I/O accepts.

use std::collections::TryReserveError;

/// What direct I/O needs to be aligned to, at most.
const ALIGNMENT: usize = 4096;

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; ALIGNMENT]);

/// Zeroed memory, aligned for direct I/O.
pub(crate) struct Buffer(Vec<Page>);

impl Buffer {
    /// A buffer of at least this many bytes.
    pub(crate) fn new(bytes: u64) -> Result<Self, TryReserveError> {
        let pages = usize::try_from(bytes.div_ceil(ALIGNMENT as u64)).unwrap_or(usize::MAX);
        let mut content = Vec::new();
        content.try_reserve_exact(pages)?;
        content.resize(pages, Page([0; ALIGNMENT]));
        Ok(Self(content))
    }

    /// The start of the buffer, for a request of `bytes` bytes.
    pub(crate) fn for_request(&mut self, bytes: u32) -> *mut u8 {
        assert!(bytes as usize <= self.0.len() * ALIGNMENT, "the largest request was known");
        self.0.as_mut_ptr().cast()
    }
}
