//! The baseline.

use trimtab_io::Nanos;

use super::{Asks, ReadPolicy, StripeRead};

/// Asks the wanted members, and waits: an ordinary array.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl ReadPolicy for Plain {
    fn begin(&mut self, _: Nanos, read: &StripeRead<'_>, asks: &mut Asks) {
        asks.directly(read.wanted());
    }
}
