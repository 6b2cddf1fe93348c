//! What can be wrong with a model, with data, or with a file.

#[cfg(any(feature = "train", feature = "files"))]
use alloc::string::String;
use core::fmt;

/// Why a model cannot be made, fitted, read or written.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// Two things that belong together differ in size.
    Shape {
        /// What was given.
        what: &'static str,
        /// How long it should be.
        expected: usize,
        /// How long it is.
        found: usize,
    },
    /// A setting or a datum has a value that cannot be.
    Value {
        /// Which, and what is allowed.
        what: &'static str,
        /// What it is.
        found: f64,
    },
    /// A weight does not fit the integer that is to hold it.
    Saturated {
        /// The layer, from 0.
        layer: usize,
        /// The neuron of that layer, from 0.
        neuron: usize,
        /// The weight or bias as trained.
        value: f32,
    },
    /// A tree is not one, or a forest cannot hold it.
    Tree {
        /// The tree, from 0.
        tree: usize,
        /// The node or leaf of that tree, from 0.
        node: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// A text is not the model that it should be.
    #[cfg(feature = "train")]
    Text {
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        what: String,
    },
    /// A file does not hold the model that it should.
    #[cfg(feature = "files")]
    Stored {
        /// The tensor's name; empty if the file as a whole is meant.
        tensor: String,
        /// What is wrong with it.
        what: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape { what, expected, found } => {
                write!(f, "{what}: {found} where {expected} are expected")
            }
            Self::Value { what, found } => write!(f, "{what}, not {found}"),
            Self::Saturated { layer, neuron, value } => write!(
                f,
                "the weight {value} of layer {layer}, neuron {neuron}, is too large for its \
                 integer; train with smaller steps or standardised inputs"
            ),
            Self::Tree { tree, node, what } => write!(f, "tree {tree}, node {node}: {what}"),
            #[cfg(feature = "train")]
            Self::Text { line, what } => write!(f, "line {line}: {what}"),
            #[cfg(feature = "files")]
            Self::Stored { tensor, what } if tensor.is_empty() => write!(f, "{what}"),
            #[cfg(feature = "files")]
            Self::Stored { tensor, what } => write!(f, "tensor {tensor:?}: {what}"),
        }
    }
}

impl core::error::Error for Error {}

/// An error unless something has the length that it should.
pub(crate) fn same(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found { Ok(()) } else { Err(Error::Shape { what, expected, found }) }
}
