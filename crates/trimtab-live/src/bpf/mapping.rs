//! A BPF map's memory, shared with the kernel.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::record::Error;

/// The values of a memory-mappable array map. They are plain numbers, for which
/// any bits are a value, and the kernel writes them at any time: single ones
/// are read as atomics, whole ones as volatile copies.
pub(crate) struct Mapping<T> {
    start: NonNull<T>,
    count: usize,
}

impl<T: Copy> Mapping<T> {
    /// Maps the first `count` values.
    pub(crate) fn new(map: BorrowedFd<'_>, count: usize, writable: bool) -> Result<Self, Error> {
        let protection =
            if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let bytes = count * size_of::<T>();
        // SAFETY: a new mapping at an address of the kernel's choice; nothing
        // else can refer to it.
        let start =
            unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, map, 0) };
        let start = start.map_err(Error::system("map the kernel's memory"))?;
        let start = NonNull::new(start.cast()).expect("a mapping is never at address 0");
        Ok(Self { start, count })
    }

    /// A copy of a value, in which fields that the kernel is just writing may be
    /// older or newer than others.
    pub(crate) fn read(&self, index: usize) -> T {
        assert!(index < self.count);
        // SAFETY: within the mapping, which lives as long as `self`; any bits
        // are a value.
        unsafe { self.start.add(index).read_volatile() }
    }

    /// One number of a value.
    pub(crate) fn number(&self, index: usize, of: impl FnOnce(*mut T) -> *mut u64) -> &AtomicU64 {
        assert!(index < self.count);
        // SAFETY: `of` leads to a field of a value within the mapping, which
        // lives as long as the result. It is aligned, as the maps' values are,
        // and on this side only ever written as an atomic.
        unsafe { AtomicU64::from_ptr(of(self.start.add(index).as_ptr())) }
    }
}

impl<T> Mapping<T> {
    /// A copy of a part of a value, which may be torn as in [`read`](Self::read).
    pub(crate) fn part<U: Copy>(&self, index: usize, of: impl FnOnce(*mut T) -> *mut U) -> U {
        assert!(index < self.count);
        // SAFETY: `of` leads to a part of a value within the mapping, which lives
        // as long as `self`; any bits are a value.
        unsafe { of(self.start.add(index).as_ptr()).read_volatile() }
    }

    /// The same, word by word to where it is wanted: a long struct that is returned is copied
    /// field by field, and once more. What is not made of 64-bit words does not compile.
    #[inline]
    pub(crate) fn copy<U: Copy>(
        &self,
        index: usize,
        of: impl FnOnce(*mut T) -> *mut U,
        to: &mut U,
    ) {
        const { assert!(size_of::<U>().is_multiple_of(8) && align_of::<U>().is_multiple_of(8)) };
        assert!(index < self.count);
        // SAFETY: within the mapping.
        let from: *const u64 = of(unsafe { self.start.add(index) }.as_ptr()).cast();
        let to: *mut u64 = std::ptr::from_mut(to).cast();
        for word in 0..size_of::<U>() / 8 {
            // SAFETY: a word of either; `of` leads to a part of a value within the mapping,
            // which lives as long as `self`, and any bits are a value.
            unsafe { to.add(word).write(from.add(word).read_volatile()) };
        }
    }

    /// Where the values are: for whoever may write what the kernel does not.
    pub(crate) fn at(&self, index: usize) -> *mut T {
        assert!(index < self.count);
        // SAFETY: within the mapping.
        unsafe { self.start.add(index).as_ptr() }
    }
}

// SAFETY: it is memory that the kernel writes at any time anyway; all reading is
// of atomics and volatile copies, and unmapping takes ownership.
unsafe impl<T: Send> Send for Mapping<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Mapping<T> {}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: `new` mapped just this range, and every use of it borrows
        // `self`.
        _ = unsafe { munmap(self.start.as_ptr().cast(), self.count * size_of::<T>()) };
    }
}
