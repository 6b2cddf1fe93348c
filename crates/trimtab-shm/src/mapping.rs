//! A BPF array's memory.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use zerocopy::FromBytes;

use crate::{Error, Field};

/// A number that is loaded at once.
pub trait Word: sealed::Sealed {
    /// # Safety
    /// `from` is aligned and valid for reads of the type. All concurrent writes are atomic, or
    /// made by another processor or the kernel's programs.
    #[doc(hidden)]
    unsafe fn load(from: *const Self) -> Self;
}

mod sealed {
    pub trait Sealed: Copy {}
    impl Sealed for u64 {}
    impl Sealed for u32 {}
    impl Sealed for u8 {}
}

macro_rules! word {
    ($($word:ty, $atomic:ty;)+) => {$(
        impl Word for $word {
            #[inline]
            unsafe fn load(from: *const Self) -> Self {
                // SAFETY: the caller's promise. A relaxed load of a word is defined on
                // memory that is mapped read-only.
                unsafe { <$atomic>::from_ptr(from.cast_mut()) }.load(Relaxed)
            }
        }
    )+};
}

word! {
    u64, AtomicU64;
    u32, AtomicU32;
    u8, AtomicU8;
}

/// The values of a memory-mapped array, read-only. The kernel writes them at any time.
pub struct Mapping<T> {
    start: NonNull<T>,
    count: usize,
}

impl<T> std::fmt::Debug for Mapping<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mapping").field("count", &self.count).finish_non_exhaustive()
    }
}

impl<T: FromBytes> Mapping<T> {
    /// Maps the first `count` values of an array.
    ///
    /// # Errors
    /// The kernel does not map it: it has no `BPF_F_MMAPABLE`, or fewer values.
    pub fn new(map: &impl AsFd, count: usize) -> Result<Self, Error> {
        Self::with_access(map, count, ProtFlags::READ)
    }

    fn with_access(map: &impl AsFd, count: usize, access: ProtFlags) -> Result<Self, Error> {
        let bytes = count * size_of::<T>();
        // SAFETY: a new mapping at an address that the kernel chooses; nothing else refers
        // to it.
        let start =
            unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, map.as_fd(), 0) };
        let start = start.map_err(Error::of("map the memory of a BPF map"))?;
        let start = NonNull::new(start.cast()).expect("a mapping is never at address 0");
        Ok(Self { start, count })
    }

    /// A copy of a whole value. The kernel may be writing it: fields may be of different
    /// moments.
    #[must_use]
    pub fn read(&self, index: usize) -> T {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: both are valid for the size of `T`; the copy initialises all of it.
        unsafe {
            copy_words(self.value(index), value.as_mut_ptr());
            value.assume_init()
        }
    }

    /// A copy of a part of a value, which may be torn as in [`read`](Self::read).
    #[inline]
    #[must_use]
    pub fn part<U: FromBytes>(&self, index: usize, field: Field<T, U>) -> U {
        let mut part = MaybeUninit::<U>::uninit();
        // SAFETY: both are valid for the size of `U`; the copy initialises all of it.
        unsafe {
            copy_words(self.place(index, field), part.as_mut_ptr());
            part.assume_init()
        }
    }

    /// The same, written in place: a long struct that is returned would be copied twice.
    #[inline]
    pub fn copy<U: FromBytes>(&self, index: usize, field: Field<T, U>, to: &mut U) {
        // SAFETY: both are valid for the size of `U`, and any bits are a value of it.
        unsafe { copy_words(self.place(index, field), to) };
    }

    /// One number, by a relaxed load. An acquire fence orders what is read after it.
    #[inline]
    #[must_use]
    pub fn load<U: Word>(&self, index: usize, field: Field<T, U>) -> U {
        // SAFETY: `place` is aligned and within the mapping.
        unsafe { U::load(self.place(index, field)) }
    }

    #[inline]
    fn value(&self, index: usize) -> *mut T {
        assert!(index < self.count, "no such value in the mapping");
        // SAFETY: within the mapping, which lives as long as `self`.
        unsafe { self.start.add(index) }.as_ptr()
    }

    #[inline]
    fn place<U>(&self, index: usize, field: Field<T, U>) -> *mut U {
        // SAFETY: a `Field` lies within its value.
        unsafe { self.value(index).byte_add(field.offset()) }.cast()
    }
}

/// Copies a value by relaxed loads of the largest words that its alignment and size allow.
///
/// # Safety
/// Both are valid for the size of `U` and aligned; concurrent writers of `from` write whole
/// words.
#[inline]
unsafe fn copy_words<U>(from: *const U, to: *mut U) {
    /// # Safety
    /// As above; and the size of `U` is a multiple of the word's, its alignment enough.
    #[inline]
    unsafe fn by<U, W: Word>(from: *const U, to: *mut U) {
        let (from, to) = (from.cast::<W>(), to.cast::<W>());
        for word in 0..size_of::<U>() / size_of::<W>() {
            // SAFETY: a word of either.
            unsafe { to.add(word).write(W::load(from.add(word))) };
        }
    }
    let fits = |bytes| align_of::<U>() >= bytes && size_of::<U>().is_multiple_of(bytes);
    // SAFETY: the caller's promise, and the conditions checked here.
    unsafe {
        if fits(8) {
            by::<U, u64>(from, to);
        } else if fits(4) {
            by::<U, u32>(from, to);
        } else {
            by::<U, u8>(from, to);
        }
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly this range, and every use of it borrows `self`.
        _ = unsafe { munmap(self.start.as_ptr().cast(), self.count * size_of::<T>()) };
    }
}

// SAFETY: the memory belongs to no thread; all reading is by atomic loads, and unmapping
// takes ownership.
unsafe impl<T: Send> Send for Mapping<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Mapping<T> {}

/// The values of a memory-mapped array, of which this process also writes single words.
#[derive(Debug)]
pub struct WritableMapping<T>(Mapping<T>);

impl<T: FromBytes> WritableMapping<T> {
    /// Maps the first `count` values of an array for reading and writing.
    ///
    /// # Errors
    /// As [`Mapping::new`]; or the map is frozen.
    pub fn new(map: &impl AsFd, count: usize) -> Result<Self, Error> {
        Mapping::with_access(map, count, ProtFlags::READ | ProtFlags::WRITE).map(Self)
    }

    /// A word that this process and the kernel's programs share.
    #[must_use]
    pub fn word(&self, index: usize, field: Field<T, u64>) -> &AtomicU64 {
        // SAFETY: aligned and within a mapping that is readable and writable and lives as
        // long as the result; on this side it is only ever used as an atomic.
        unsafe { AtomicU64::from_ptr(self.0.place(index, field)) }
    }

    /// The same, of 32 bits.
    #[must_use]
    pub fn half_word(&self, index: usize, field: Field<T, u32>) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.0.place(index, field)) }
    }

    /// Writes a whole value, word by word: only while no program reads it.
    pub fn write(&self, index: usize, value: &T)
    where
        T: zerocopy::IntoBytes + zerocopy::Immutable,
    {
        let to = self.0.value(index).cast::<u8>();
        for (i, byte) in value.as_bytes().iter().enumerate() {
            // SAFETY: within the value; shared memory is written as atomics only.
            unsafe { AtomicU8::from_ptr(to.add(i)) }.store(*byte, Relaxed);
        }
    }
}

impl<T> std::ops::Deref for WritableMapping<T> {
    type Target = Mapping<T>;

    fn deref(&self) -> &Mapping<T> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;

    use zerocopy::{FromBytes, Immutable, IntoBytes};

    use super::*;
    use crate::field;

    #[derive(Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable)]
    #[repr(C)]
    struct Value {
        number: u64,
        halves: [u32; 2],
        name: [u8; 16],
    }

    /// Maps a file's memory, as for a map.
    fn file(values: &[Value]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(values.as_bytes()).unwrap();
        file
    }

    #[test]
    fn values_and_parts_are_read_as_written() {
        let value =
            |number| Value { number, halves: [number as u32 + 1, 7], name: *b"0123456789abcdef" };
        let map = file(&[value(1), value(2)]);
        let mapping = Mapping::<Value>::new(&map, 2).unwrap();
        assert_eq!(mapping.read(1), value(2));
        assert_eq!(mapping.load(0, field!(Value.number)), 1);
        assert_eq!(mapping.load(1, field!(Value.halves).element(0)), 3);
        assert_eq!(mapping.part(0, field!(Value.name)), *b"0123456789abcdef");
        let mut halves = [0; 2];
        mapping.copy(0, field!(Value.halves), &mut halves);
        assert_eq!(halves, [2, 7]);
    }

    #[test]
    fn written_words_are_seen_through_another_mapping() {
        let map = file(&[Value::default()]);
        let writable = WritableMapping::<Value>::new(&map, 1).unwrap();
        let readable = Mapping::<Value>::new(&map, 1).unwrap();
        writable.word(0, field!(Value.number)).store(9, Relaxed);
        assert_eq!(readable.load(0, field!(Value.number)), 9);
        let value = Value { number: 3, halves: [1, 2], name: [5; 16] };
        writable.write(0, &value);
        assert_eq!(readable.read(0), value);
    }

    #[test]
    #[should_panic(expected = "no such value")]
    fn reading_beyond_the_mapping_panics() {
        let mapping = Mapping::<Value>::new(&file(&[Value::default()]), 1).unwrap();
        _ = mapping.read(1);
    }
}
