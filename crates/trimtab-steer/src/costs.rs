//! The cost of a decision.

use trimtab_io::Nanos;

/// The time that deciding adds to a read before its request is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// For each forecast.
    pub inference: Nanos,
    /// For each failover to another replica, on top of that: the return to the code that
    /// selects the next replica. LinnOS (§5.1) states 15 µs for both, of which 6 µs are
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
