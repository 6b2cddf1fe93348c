//! The numbers that models are made of.

use safetensors::Dtype;

mod sealed {
    pub trait Sealed {}
}

/// A type of numbers that a tensor can hold; in a file they are little-endian.
pub trait Number: Copy + sealed::Sealed {
    /// What the file calls it.
    #[doc(hidden)]
    const DTYPE: Dtype;

    /// As in the file.
    #[doc(hidden)]
    fn bytes(self) -> impl Iterator<Item = u8>;

    /// From the file. `bytes` are as many as the type has.
    #[doc(hidden)]
    fn of_bytes(bytes: &[u8]) -> Self;
}

macro_rules! number {
    ($($type:ty: $dtype:ident),*) => {$(
        impl sealed::Sealed for $type {}

        impl Number for $type {
            const DTYPE: Dtype = Dtype::$dtype;

            fn bytes(self) -> impl Iterator<Item = u8> {
                self.to_le_bytes().into_iter()
            }

            fn of_bytes(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("as many bytes as it has"))
            }
        }
    )*};
}

number!(u8: U8, i16: I16, u16: U16, i32: I32, u32: U32, i64: I64, u64: U64, f32: F32, f64: F64);
