//! Storage of models in files.
//!
//! The format is [safetensors](https://github.com/huggingface/safetensors): named arrays of
//! numbers, which NumPy, PyTorch and others read. A file may hold several named models; array
//! `bias` of model `m` is the tensor `m.bias`. A model's purpose belongs into a card beside it. The
//! same models give the same bytes.
//!
//! ```
//! use trimtab_learn::{calibrate::Table, store::{Reader, Writer}};
//!
//! let table = Table::new([10].into(), [6_554, 58_982].into())?;
//! let mut writer = Writer::default();
//! writer.put("calibration", &table);
//! let bytes = writer.to_bytes()?;
//!
//! let reader = Reader::new(&bytes)?;
//! assert_eq!(reader.get::<Table>("calibration")?, table);
//! # Ok::<(), trimtab_learn::Error>(())
//! ```

mod models;
mod number;

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use safetensors::{Dtype, SafeTensors, View};

use crate::Error;
pub use number::Number;

/// A model that can be stored in a file.
pub trait Stored: Sized {
    /// Passes its arrays to the writer.
    fn store(&self, to: &mut Section<'_>);

    /// Rebuilds it from the arrays of [`store`](Self::store).
    ///
    /// # Errors
    /// If one is missing, has another type or shape, or invalid values.
    fn load(from: &Tensors<'_>) -> Result<Self, Error>;
}

/// Collects models for a file.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    tensors: Vec<(String, Tensor)>,
}

#[derive(Clone, Debug)]
struct Tensor {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Writer {
    /// Adds a model under a name.
    pub fn put(&mut self, name: &str, model: &impl Stored) {
        model.store(&mut Section { writer: self, name });
    }

    /// The file's bytes.
    ///
    /// # Errors
    /// If two models have the same name.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut names: Vec<&str> = self.tensors.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return wrong(twice[0], "is there twice");
        }
        let tensors = self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
        safetensors::serialize(tensors, None).or_else(|error| wrong("", error))
    }
}

/// Destination of a model's arrays.
#[derive(Debug)]
pub struct Section<'a> {
    writer: &'a mut Writer,
    name: &'a str,
}

impl Section<'_> {
    /// Adds an array.
    ///
    /// # Panics
    /// If the number of values does not match the shape.
    pub fn put<T: Number>(&mut self, name: &str, shape: &[usize], values: &[T]) {
        assert_eq!(shape.iter().product::<usize>(), values.len(), "values of a tensor");
        let bytes = values.iter().flat_map(|value| value.bytes()).collect();
        let tensor = Tensor { dtype: T::DTYPE, shape: shape.into(), bytes };
        self.writer.tensors.push((full_name(self.name, name), tensor));
    }
}

impl View for &Tensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// A file with models.
#[derive(Debug)]
pub struct Reader<'a> {
    file: SafeTensors<'a>,
}

impl<'a> Reader<'a> {
    /// Opens a file.
    ///
    /// # Errors
    /// If it is not in the safetensors format.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let file = SafeTensors::deserialize(bytes);
        let file =
            file.or_else(|error| wrong("", format!("is not a safetensors file: {error}")))?;
        Ok(Self { file })
    }

    /// The model with that name.
    ///
    /// # Errors
    /// If it is missing, or of another type.
    pub fn get<M: Stored>(&self, name: &str) -> Result<M, Error> {
        M::load(&Tensors { reader: self, name })
    }
}

/// The arrays of one model.
#[derive(Debug)]
pub struct Tensors<'a> {
    reader: &'a Reader<'a>,
    name: &'a str,
}

impl Tensors<'_> {
    /// Shape and values of an array.
    ///
    /// # Errors
    /// If it is missing, or has another number type or number of dimensions.
    pub fn get<T: Number, const D: usize>(
        &self,
        name: &str,
    ) -> Result<([usize; D], Vec<T>), Error> {
        let full = full_name(self.name, name);
        let Ok(tensor) = self.reader.file.tensor(&full) else { return wrong(&full, "is missing") };
        if tensor.dtype() != T::DTYPE {
            let what = format!("has numbers of type {:?}, not {:?}", tensor.dtype(), T::DTYPE);
            return wrong(&full, what);
        }
        let Ok(shape) = <[usize; D]>::try_from(tensor.shape()) else {
            return wrong(&full, format!("has {} dimensions, not {D}", tensor.shape().len()));
        };
        Ok((shape, tensor.data().chunks_exact(size_of::<T>()).map(T::of_bytes).collect()))
    }

    /// The values of a one-dimensional array.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn list<T: Number>(&self, name: &str) -> Result<Vec<T>, Error> {
        self.get::<T, 1>(name).map(|(_, values)| values)
    }

    /// The value of a single-element array.
    ///
    /// # Errors
    /// As [`get`](Self::get), and if it has more or fewer values.
    pub fn one<T: Number>(&self, name: &str) -> Result<T, Error> {
        match self.list(name)?[..] {
            [value] => Ok(value),
            _ => self.wrong(name, "has not one value"),
        }
    }

    /// An error about an array.
    ///
    /// # Errors
    /// Always.
    pub fn wrong<R>(&self, name: &str, what: impl core::fmt::Display) -> Result<R, Error> {
        wrong(&full_name(self.name, name), what)
    }
}

fn full_name(model: &str, tensor: &str) -> String {
    format!("{model}.{tensor}")
}

fn wrong<R>(tensor: &str, what: impl core::fmt::Display) -> Result<R, Error> {
    Err(Error::Stored { tensor: tensor.into(), what: what.to_string() })
}
