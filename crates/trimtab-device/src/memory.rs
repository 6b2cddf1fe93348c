//! Large tables.

/// Lazily zeroed memory, in huge pages if the system has them: random accesses to a table of a
/// gigabyte otherwise cost more in TLB misses than in reads.
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
