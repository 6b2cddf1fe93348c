//! Number types of tensors.

use safetensors::Dtype;

mod sealed {
    pub trait Sealed {}
}

/// A number type of a tensor; little-endian in the file.
pub trait Number: Copy + sealed::Sealed {
    /// Its name in the file.
    #[doc(hidden)]
    const DTYPE: Dtype;

    /// To file bytes.
    #[doc(hidden)]
    fn bytes(self) -> impl Iterator<Item = u8>;

    /// From file bytes, as many as the type has.
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
