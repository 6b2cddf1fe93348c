//! More strips than needed, from the beginning.

use trimtab_io::Nanos;

use super::{Asks, ReadPolicy, StripeRead};

/// Asks more members than needed at once, and takes the strips that come first.
#[derive(Clone, Copy, Debug)]
pub struct Proactive {
    extra: u32,
}

impl Proactive {
    /// The full stripe, whatever part of it is wanted (IODA, §6.2.1).
    pub const FULL_STRIPE: Self = Self { extra: u32::MAX };

    /// So many strips more than there are chunks of data: with full stripes, so many parities
    /// ("Tail at Store", Hao et al., §3.3.1 of the dissertation).
    #[must_use]
    pub const fn with_extra(extra: u32) -> Self {
        Self { extra }
    }
}

impl ReadPolicy for Proactive {
    fn begin(&mut self, _: Nanos, read: &StripeRead<'_>, asks: &mut Asks) {
        asks.directly(read.wanted());
        asks.strips(read.needed.saturating_add(self.extra));
    }
}
