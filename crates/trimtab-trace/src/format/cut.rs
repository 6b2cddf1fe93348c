//! Excerpts of server traces: five columns separated by blanks: time in milliseconds, device,
//! offset in bytes, bytes, and 1 for a read or 0 for a write.
//!
//! Research tools share shortened MSR Cambridge traces in this form. It resembles DiskSim's format,
//! but counts bytes instead of sectors, and the order is not guaranteed.

use trimtab_io::{Nanos, Op};

use crate::error::Malformed;
use crate::fields::{Column, column, split_blank};
use crate::names::Names;
use crate::record::Record;
use crate::source::LineParser;

const TIME: Column = column(1, "time");
const DEVICE: Column = column(2, "device");
const OFFSET: Column = column(3, "offset");
const BYTES: Column = column(4, "bytes");
const OP: Column = column(5, "operation");

const MILLISECOND_NS: u64 = 1_000_000;

pub(super) struct Cut;

impl LineParser for Cut {
    fn line(
        &mut self,
        line: &[u8],
        names: &mut Names,
        out: &mut Vec<Record>,
    ) -> Result<(), Malformed> {
        let [time, device, offset, bytes, op] = split_blank(line)?;
        let arrival = Nanos(TIME.time(time, MILLISECOND_NS)?);
        DEVICE.integer(device, u64::from(u32::MAX))?;
        let offset = OFFSET.offset(offset, 1)?;
        let length = BYTES.length(bytes, 1)?;
        let op = match op {
            b"1" => Op::Read,
            b"0" => Op::Write,
            _ => return Err(OP.expected("1 (read) or 0 (write)", op)),
        };
        let device = names.intern_device(device)?;
        out.push(Record::arriving(arrival, device, op, offset, length));
        Ok(())
    }
}
