//! Which pages of mapped memory are resident: `mincore(2)`.

use std::io;

/// Pages that one system call is asked about.
pub(super) const MOST: usize = 512;

/// Residency of consecutive pages, one byte for each.
pub(super) struct Residency([u8; MOST]);

impl Residency {
    pub(super) const fn new() -> Self {
        Self([0; MOST])
    }

    /// Asks the kernel about `pages` pages (at most [`MOST`]) from the one at `start`.
    ///
    /// # Errors
    /// Some of the range is not mapped (`ENOMEM`).
    pub(super) fn ask(&mut self, start: usize, pages: usize, page: usize) -> io::Result<&[u8]> {
        let into = &mut self.0[..pages];
        let address = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: the kernel writes one byte for each page into the slice, and reads nothing
        // at the address.
        match unsafe { libc::mincore(address, pages * page, into.as_mut_ptr()) } {
            0 => Ok(into),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Whether all of these pages are resident. The other bits of each byte are undefined.
pub(super) fn are_resident(pages: &[u8]) -> bool {
    pages.iter().fold(1, |all, page| all & page) & 1 == 1
}

/// Whether the page at this address is resident; `None` if it is not mapped.
pub(super) fn is_page_resident(address: usize) -> Option<bool> {
    let page = rustix::param::page_size();
    let mut residency = [0];
    let start = std::ptr::with_exposed_provenance_mut(address & !(page - 1));
    // SAFETY: the kernel writes one byte, and reads nothing at the address.
    let result = unsafe { libc::mincore(start, page, residency.as_mut_ptr()) };
    (result == 0).then(|| are_resident(&residency))
}
