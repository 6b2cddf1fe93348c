//! Large tables, and how they lie in memory.

/// Zeroes that become memory as they are touched. They are asked for in huge
/// pages where the system has them: a table of a gigabyte that is looked at
/// here and there otherwise spends more time on finding its pages than on
/// reading them.
pub(crate) fn zeroes<T: Copy + Default>(count: usize) -> Vec<T> {
    let table = vec![T::default(); count];
    advise_huge_pages(&table);
    table
}

#[cfg(target_os = "linux")]
fn advise_huge_pages<T>(table: &[T]) {
    use rustix::mm::{Advice, madvise};

    const PAGE: usize = 4096;
    let range = table.as_ptr_range();
    let start = (range.start as usize).next_multiple_of(PAGE);
    let end = range.end as usize / PAGE * PAGE;
    if start < end {
        // SAFETY: the range lies within the table's own memory, and the advice
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
