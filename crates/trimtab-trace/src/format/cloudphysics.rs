//! CloudPhysics traces of virtual disks: `version,time,op,size,lbn`.
//!
//! The time is in whole seconds, the operation a SCSI opcode in hexadecimal,
//! the size in bytes, the block number counts sectors of 512 bytes. The header
//! is required: without it the columns could be anything. Source: C. Waldspurger
//! et al., "Efficient MRC Construction with SHARDS", FAST'15; opcodes from SCSI
//! Block Commands (SBC-4).

use trimtab_io::{Nanos, Op};

use crate::error::Malformed;
use crate::fields::{Column, SOLE_DEVICE, column, is_header, show, split};
use crate::names::Names;
use crate::record::Record;
use crate::source::LineParser;

const VERSION: Column = column(1, "version");
const TIME: Column = column(2, "time");
const OP: Column = column(3, "op");
const SIZE: Column = column(4, "size");
const LBN: Column = column(5, "lbn");

const HEADER: [&str; 5] = ["version", "time", "op", "size", "lbn"];
const SECTOR: u64 = 512;
const SECOND_NS: u64 = 1_000_000_000;

#[derive(Default)]
pub(super) struct Cloudphysics {
    header_seen: bool,
}

impl LineParser for Cloudphysics {
    fn line(
        &mut self,
        line: &[u8],
        names: &mut Names,
        out: &mut Vec<Record>,
    ) -> Result<(), Malformed> {
        let fields @ [version, time, op, size, lbn] = split(line, b',')?;
        if is_header(&fields, &HEADER) {
            self.header_seen = true;
            return Ok(());
        }
        if !self.header_seen {
            let what = format!("expected the header {}, found {}", HEADER.join(","), show(line));
            return Err(Malformed::new(what));
        }
        VERSION.integer(version, u64::from(u8::MAX))?;
        let arrival = Nanos(TIME.time(time, SECOND_NS)?);
        let op = operation(op).ok_or_else(|| {
            OP.expected("a SCSI opcode that reads, writes, flushes or unmaps", op)
        })?;
        let length = SIZE.length(size, 1)?;
        let offset = LBN.offset(lbn, SECTOR)?;
        let device = names.intern_device(SOLE_DEVICE)?;
        out.push(Record::arriving(arrival, device, op, offset, length));
        Ok(())
    }
}

/// The operation of a SCSI opcode, in hexadecimal.
fn operation(opcode: &[u8]) -> Option<Op> {
    Some(match opcode.to_ascii_lowercase()[..] {
        // READ and WRITE with addresses of 6, 10, 12 and 16 bytes.
        [b'0', b'8'] | [b'2', b'8'] | [b'a', b'8'] | [b'8', b'8'] => Op::Read,
        [b'0', b'a'] | [b'2', b'a'] | [b'a', b'a'] | [b'8', b'a'] => Op::Write,
        // SYNCHRONIZE CACHE (10) and (16).
        [b'3', b'5'] | [b'9', b'1'] => Op::Flush,
        // UNMAP.
        [b'4', b'2'] => Op::Discard,
        _ => return None,
    })
}
