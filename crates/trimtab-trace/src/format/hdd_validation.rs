//! Disk-drive validation traces: `R Hit 1024 8 663.0 45422.0`.
//!
//! Read or write, cache hit or miss, first sector, sectors, measured service time, and the gap from
//! this completion to the next issue, both in microseconds. Requests were sent one at a time, so
//! none waited: arrival equals issue. The trace's clock starts at the first request. Source: the
//! validation traces that come with DiskSim (CMU Parallel Data Laboratory), used in G. R. Ganger,
//! B. L. Worthington, Y. N. Patt, "The DiskSim Simulation Environment".

use trimtab_io::{Nanos, Op};

use crate::error::Malformed;
use crate::fields::{Column, MAX_TIME_NS, SOLE_DEVICE, column, split_blank};
use crate::names::Names;
use crate::record::Record;
use crate::source::LineParser;

const OP: Column = column(1, "operation");
const CACHE: Column = column(2, "cache");
const FIRST: Column = column(3, "first sector");
const SECTORS: Column = column(4, "sectors");
const SERVICE: Column = column(5, "service time");
const GAP: Column = column(6, "gap");

const SECTOR: u64 = 512;
const MICROSECOND_NS: u64 = 1_000;

#[derive(Default)]
pub(super) struct HddValidation {
    /// When the next request is issued.
    next: u64,
}

impl LineParser for HddValidation {
    fn line(
        &mut self,
        line: &[u8],
        names: &mut Names,
        out: &mut Vec<Record>,
    ) -> Result<(), Malformed> {
        let [op, cache, first, sectors, service, gap] = split_blank(line)?;
        let op = match op {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err(OP.expected("R or W", op)),
        };
        if !matches!(cache, b"Hit" | b"Miss") {
            return Err(CACHE.expected("Hit or Miss", cache));
        }
        let offset = FIRST.offset(first, SECTOR)?;
        let length = SECTORS.length(sectors, SECTOR)?;
        let complete = self.next + SERVICE.time(service, MICROSECOND_NS)?;
        let next = complete + GAP.time(gap, MICROSECOND_NS)?;
        if next > MAX_TIME_NS {
            return Err(GAP.expected("the trace to last at most 146 years", gap));
        }
        let device = names.intern_device(SOLE_DEVICE)?;
        let arrival = Nanos(self.next);
        out.push(Record {
            issue: Some(arrival),
            complete: Some(Nanos(complete)),
            ..Record::arriving(arrival, device, op, offset, length)
        });
        self.next = next;
        Ok(())
    }
}
