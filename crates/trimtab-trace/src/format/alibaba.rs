//! Not read yet.

use crate::error::Malformed;
use crate::names::Names;
use crate::record::Record;
use crate::source::LineParser;

pub(super) struct Alibaba;

impl LineParser for Alibaba {
    fn line(&mut self, _: &[u8], _: &mut Names, _: &mut Vec<Record>) -> Result<(), Malformed> {
        Err(Malformed::new("not read yet"))
    }
}
