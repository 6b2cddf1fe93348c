//! Not read yet.

use crate::error::Malformed;
use crate::names::Names;
use crate::record::Record;
use crate::source::LineParser;

#[derive(Default)]
pub(super) struct FioLatency;

impl LineParser for FioLatency {
    fn line(&mut self, _: &[u8], _: &mut Names, _: &mut Vec<Record>) -> Result<(), Malformed> {
        Err(Malformed::new("not read yet"))
    }
}

/// Whether a latency log's lines have a column for the offset (fio's
/// `log_offset`).
pub(crate) fn has_offset_column(_sample: &[u8]) -> bool {
    true
}
