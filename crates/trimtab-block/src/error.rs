//! Errors of finding devices.

/// The name is not that of a block device, or the device cannot be used as requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {why}")]
pub struct DeviceError {
    /// The name as given.
    pub name: String,
    /// The problem.
    pub why: String,
}

impl DeviceError {
    /// An error of the device with this name.
    #[must_use]
    pub fn new(name: &str, why: impl Into<String>) -> Self {
        Self { name: name.to_owned(), why: why.into() }
    }
}
