//! Disk-drive validation traces: `R Hit 1024 8 663.0 45422.0`.
//!
//! Read or write, cache hit or miss, first sector, sectors, measured service time, and the gap from
//! the previous completion to this issue, both in microseconds. Requests were sent one at a time, so
//! none waited: arrival equals issue. The trace's clock starts at the first request.
//!
//! That the gap comes before its line's request, and not after, follows from the data: completions
//! of reads on the same track differ by whole revolutions only in this reading (the resultant of
//! their angles is 0.82 to 0.94 in it and 0.05 to 0.2 in the other, over 95 to 435 pairs of the
//! three published disks). Source: the
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
    /// When the last request completed.
    complete: Option<u64>,
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
        let gap_ns = GAP.time(gap, MICROSECOND_NS)?;
        let issue = self.complete.map_or(0, |complete| complete + gap_ns);
        let complete = issue + SERVICE.time(service, MICROSECOND_NS)?;
        if complete > MAX_TIME_NS {
            return Err(GAP.expected("the trace to last at most 146 years", gap));
        }
        let device = names.intern_device(SOLE_DEVICE)?;
        let arrival = Nanos(issue);
        out.push(Record {
            issue: Some(arrival),
            complete: Some(Nanos(complete)),
            ..Record::arriving(arrival, device, op, offset, length)
        });
        self.complete = Some(complete);
        Ok(())
    }
}
