//! Large tables, and how they lie in memory.

use std::ops::{Deref, DerefMut};

/// A table of fixed length. It is asked for in huge pages where the system has them: a
/// table of a gigabyte that is looked at here and there otherwise spends more time on
/// finding its pages than on reading them. A copy of it is too.
#[derive(Debug)]
pub(crate) struct Table<T>(Vec<T>);

impl<T: Copy + Default> Table<T> {
    /// Zeroes that become memory as they are touched.
    pub(crate) fn zeroes(count: usize) -> Self {
        let table = vec![T::default(); count];
        advise_huge_pages(&table);
        Self(table)
    }
}

impl<T: Copy> Clone for Table<T> {
    fn clone(&self) -> Self {
        let mut table = Vec::with_capacity(self.len());
        advise_huge_pages(table.spare_capacity_mut());
        table.extend_from_slice(self);
        Self(table)
    }
}

impl<T> Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for Table<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

#[cfg(target_os = "linux")]
fn advise_huge_pages<T>(memory: &[T]) {
    use rustix::mm::{Advice, madvise};

    const PAGE: usize = 4096;
    let range = memory.as_ptr_range();
    let start = (range.start as usize).next_multiple_of(PAGE);
    let end = range.end as usize / PAGE * PAGE;
    if start < end {
        // SAFETY: the range lies within the given memory, and the advice
        // changes nothing of what is in it. If it is not taken, nothing is lost.
        _ = unsafe { madvise(start as *mut _, end - start, Advice::LinuxHugepage) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages<T>(_: &[T]) {}

/// Says that a place of a table will be read soon.
#[cfg(target_arch = "x86_64")]
pub(crate) fn expect<T>(table: &[T], index: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    if let Some(place) = table.get(index) {
        // SAFETY: an address within the table; prefetching has no effect but on
        // the caches.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn expect<T>(_: &[T], _: usize) {}
