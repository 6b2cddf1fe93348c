//! UMass/SPC traces: `ASU,LBA,size,opcode,timestamp`.
//!
//! The application-specific unit is a number, the address counts sectors of 512 bytes, the size is
//! in bytes, the opcode is R or W in either case, the timestamp is in seconds from the start of the
//! trace. Further fields are ignored. Timestamps must not decrease. Source: Storage Performance
//! Council, "SPC Trace File Format Specification", revision 1.0.1; UMass trace repository.

use trimtab_io::Op;

use crate::error::Malformed;
use crate::fields::{Ascending, Column, column, split_first};
use crate::names::Names;
use crate::record::Record;
use crate::source::LineParser;

const ASU: Column = column(1, "ASU");
const LBA: Column = column(2, "LBA");
const SIZE: Column = column(3, "size");
const OPCODE: Column = column(4, "opcode");
const TIMESTAMP: Column = column(5, "timestamp");

const SECTOR: u64 = 512;
const SECOND_NS: u64 = 1_000_000_000;

#[derive(Default)]
pub(super) struct Spc {
    order: Ascending,
}

impl LineParser for Spc {
    fn line(
        &mut self,
        line: &[u8],
        names: &mut Names,
        out: &mut Vec<Record>,
    ) -> Result<(), Malformed> {
        let [asu, lba, size, opcode, timestamp] = split_first(line, b',')?;
        ASU.integer(asu, u64::from(u32::MAX))?;
        let offset = LBA.offset(lba, SECTOR)?;
        let size = SIZE.length(size, 1)?;
        let op = match opcode {
            b"R" | b"r" => Op::Read,
            b"W" | b"w" => Op::Write,
            _ => return Err(OPCODE.expected("R or W", opcode)),
        };
        let arrival = TIMESTAMP.time(timestamp, SECOND_NS)?;
        let arrival = self.order.check(TIMESTAMP, timestamp, arrival)?;
        let device = names.intern_device(asu)?;
        out.push(Record::arriving(arrival, device, op, offset, size));
        self.order.passed(arrival);
        Ok(())
    }
}
