//! Not read yet.

use crate::error::Malformed;
use crate::names::Names;
use crate::record::Record;
use crate::source::LineParser;

pub(super) struct Disksim;

impl Disksim {
    pub(super) fn by_decimals() -> Self {
        Self
    }
    pub(super) fn in_ns() -> Self {
        Self
    }
    pub(super) fn in_ms() -> Self {
        Self
    }
}

impl LineParser for Disksim {
    fn line(&mut self, _: &[u8], _: &mut Names, _: &mut Vec<Record>) -> Result<(), Malformed> {
        Err(Malformed::new("not read yet"))
    }
}
