//! A part of a value, named by its offset and its type.

use std::marker::PhantomData;

/// A part of type `U` in a value of type `T`. [`field!`](crate::field) makes one.
///
/// Construction checks that the part lies within the value and is aligned in it, so that
/// every use is a safe read.
pub struct Field<T, U> {
    offset: usize,
    parts: PhantomData<fn(&T) -> &U>,
}

impl<T, U> Clone for Field<T, U> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, U> Copy for Field<T, U> {}

impl<T, U> Field<T, U> {
    /// The part at this offset, bytes. The function ties the type to the field; it is never
    /// called.
    ///
    /// # Panics
    /// The part reaches beyond the value, or is not aligned. In a constant that is an error
    /// of compilation.
    #[must_use]
    pub const fn new(offset: usize, _part: fn(&T) -> &U) -> Self {
        assert!(offset.saturating_add(size_of::<U>()) <= size_of::<T>(), "beyond the value");
        assert!(offset.is_multiple_of(align_of::<U>()) && align_of::<U>() <= align_of::<T>());
        Self { offset, parts: PhantomData }
    }

    /// Bytes from the beginning of the value.
    #[must_use]
    pub const fn offset(self) -> usize {
        self.offset
    }

    /// A part of this part.
    #[must_use]
    pub const fn then<V>(self, inner: Field<U, V>) -> Field<T, V> {
        Field { offset: self.offset + inner.offset, parts: PhantomData }
    }
}

impl<T, U, const N: usize> Field<T, [U; N]> {
    /// One element of an array.
    ///
    /// # Panics
    /// There is no such element.
    #[must_use]
    #[inline]
    pub const fn element(self, index: usize) -> Field<T, U> {
        assert!(index < N, "no such element");
        Field { offset: self.offset + index * size_of::<U>(), parts: PhantomData }
    }
}

/// The [`Field`] of a struct: `field!(Device.counters.missed)`.
#[macro_export]
macro_rules! field {
    ($of:ident . $($field:ident).+) => {
        const {
            $crate::Field::<$of, _>::new(
                ::core::mem::offset_of!($of, $($field).+),
                |value: &$of| &value.$($field).+,
            )
        }
    };
}

#[cfg(test)]
mod tests {
    #[repr(C)]
    struct Outer {
        first: u64,
        inner: Inner,
        many: [u32; 6],
    }

    #[repr(C)]
    struct Inner {
        left: u32,
        right: u32,
    }

    #[test]
    fn offsets_follow_the_layout() {
        assert_eq!(field!(Outer.inner.right).offset(), 12);
        assert_eq!(field!(Outer.inner).then(field!(Inner.right)).offset(), 12);
        assert_eq!(field!(Outer.many).element(5).offset(), 36);
    }

    #[test]
    #[should_panic(expected = "no such element")]
    fn element_beyond_the_array_panics() {
        _ = field!(Outer.many).element(6);
    }
}
