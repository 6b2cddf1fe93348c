//! Pages: the unit in which data in flight is counted.

use trimtab_io::{Op, Request};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// 4 KiB pages that a request touches, in part or in whole; 0 for a request that moves no
/// data.
#[must_use]
pub fn pages_of(request: &Request) -> u32 {
    match request.op {
        Op::Read | Op::Write if request.length > 0 => {
            let end = request.end().div_ceil(PAGE);
            u32::try_from(end - request.offset / PAGE).unwrap_or(u32::MAX)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;

    #[test]
    fn counts_pages_touched() {
        let pages = |op, offset, length| pages_of(&request(op, offset, length));
        assert_eq!(pages(Op::Read, 0, 4096), 1);
        assert_eq!(pages(Op::Read, 4095, 2), 2);
        assert_eq!(pages(Op::Write, 512, 4096), 2);
        assert_eq!(pages(Op::Flush, 0, 0), 0);
        assert_eq!(pages(Op::Discard, 0, 1 << 30), 0);
    }
}
