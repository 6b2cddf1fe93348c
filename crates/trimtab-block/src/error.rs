//! Errors of finding devices.

/// A name that is that of no block device, or of one that cannot be used as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {why}")]
pub struct DeviceError {
    /// As it was given.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
}

impl DeviceError {
    /// Of a device by this name.
    #[must_use]
    pub fn new(name: &str, why: impl Into<String>) -> Self {
        Self { name: name.to_owned(), why: why.into() }
    }
}
