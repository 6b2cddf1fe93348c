//! What deciding costs.

use trimtab_io::Nanos;

/// What deciding costs a read, in time before its request goes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// For each verdict that is asked for.
    pub inference: Nanos,
    /// For each change to another drive, on top of that: the way back to whoever
    /// chooses the next. LinnOS (§5.1) has 15 µs for both, of which 6 µs are
    /// inference.
    pub failover: Nanos,
}

impl Costs {
    /// The failover of LinnOS, §5.1, without its inference.
    pub const FAILOVER: Nanos = Nanos::from_micros(9);

    /// With the published cost of a failover.
    #[must_use]
    pub const fn new(inference: Nanos) -> Self {
        Self { inference, failover: Self::FAILOVER }
    }
}
