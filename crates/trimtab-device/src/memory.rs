//! Large tables.

use std::ops::{Deref, DerefMut};

/// A table in huge pages, if the system has them: random accesses to a table of a gigabyte
/// otherwise cost more in TLB misses than in reads. So does a copy of it.
#[derive(Debug)]
pub(crate) struct Table<T>(Vec<T>);

impl<T: Copy + Default> Table<T> {
    /// Zeroes. The system gives them memory as they are touched.
    pub(crate) fn zeroes(count: usize) -> Self {
        let table = vec![T::default(); count];
        advise_huge_pages(&table);
        Self(table)
    }
}

// A derived one would copy into memory without the advice.
impl<T: Copy + Default> Clone for Table<T> {
    fn clone(&self) -> Self {
        let mut copy = Self::zeroes(self.len());
        copy.copy_from_slice(self);
        copy
    }
}

impl<T> Deref for Table<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for Table<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

#[cfg(target_os = "linux")]
fn advise_huge_pages<T>(table: &[T]) {
    use rustix::mm::{Advice, madvise};

    const PAGE: usize = 4096;
    let range = table.as_ptr_range();
    let start = (range.start as usize).next_multiple_of(PAGE);
    let end = range.end as usize / PAGE * PAGE;
    if start < end {
        // SAFETY: the range lies within the table's own memory, and the advice does not change its
        // contents. Failure is harmless.
        _ = unsafe { madvise(start as *mut _, end - start, Advice::LinuxHugepage) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages<T>(_: &[T]) {}

/// Prefetches an entry of a table.
#[cfg(target_arch = "x86_64")]
pub(crate) fn prefetch<T>(table: &[T], index: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    if let Some(place) = table.get(index) {
        // SAFETY: an address within the table; prefetching affects the caches only.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn prefetch<T>(_: &[T], _: usize) {}
