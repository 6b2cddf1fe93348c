//! Errors of models, data and files.

#[cfg(any(feature = "train", feature = "files"))]
use alloc::string::String;
use core::fmt;

/// Why a model cannot be made, fitted, read or written.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// Two sizes that must match differ.
    Shape {
        /// The object.
        what: &'static str,
        /// Its expected length.
        expected: usize,
        /// Its length.
        found: usize,
    },
    /// A setting or a datum is out of range.
    Value {
        /// The requirement.
        what: &'static str,
        /// The value found.
        found: f64,
    },
    /// A weight does not fit its integer type.
    Saturated {
        /// The layer, from 0.
        layer: usize,
        /// The neuron of that layer, from 0.
        neuron: usize,
        /// The weight or bias as trained.
        value: f32,
    },
    /// A tree is malformed, or a forest cannot represent it.
    Tree {
        /// The tree, from 0.
        tree: usize,
        /// The node or leaf of that tree, from 0.
        node: usize,
        /// The problem.
        what: &'static str,
    },
    /// A text is not a valid model.
    #[cfg(feature = "train")]
    Text {
        /// The line, from 1.
        line: usize,
        /// The problem.
        what: String,
    },
    /// A file does not hold a valid model.
    #[cfg(feature = "files")]
    Stored {
        /// The tensor's name; empty for the whole file.
        tensor: String,
        /// The problem.
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

/// Checks a length.
pub(crate) fn same(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found { Ok(()) } else { Err(Error::Shape { what, expected, found }) }
}
