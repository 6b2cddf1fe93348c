//! Tencent block-store traces: `timestamp,offset,size,iotype,volumeid`.
//!
//! The timestamp is in seconds since the Unix epoch, offset and size are in
//! sectors of 512 bytes, the type is 0 for a read and 1 for a write. Source:
//! Y. Zhang, P. Huang, K. Zhou, H. Wang, J. Hu, Y. Ji, B. Cheng, "OSCA: An
//! Online-Model Based Cache Allocation Scheme in Cloud Block Storage Systems",
//! USENIX ATC'20; SNIA IOTTA repository, trace set 27917.

use trimtab_io::{Nanos, Op};

use crate::error::Malformed;
use crate::fields::{Column, column, is_header, split};
use crate::names::Names;
use crate::record::Record;
use crate::source::LineParser;

const TIMESTAMP: Column = column(1, "timestamp");
const OFFSET: Column = column(2, "offset");
const SIZE: Column = column(3, "size");
const TYPE: Column = column(4, "I/O type");
const VOLUME: Column = column(5, "volume id");

const HEADER: [&str; 5] = ["timestamp", "offset", "size", "iotype", "volumeid"];
const SECTOR: u64 = 512;
const SECOND_NS: u64 = 1_000_000_000;

/// 2100-01-01; later is a misread column.
const MAX_TIME_S: u64 = 4_102_444_800;

pub(super) struct Tencent;

impl LineParser for Tencent {
    fn line(
        &mut self,
        line: &[u8],
        names: &mut Names,
        out: &mut Vec<Record>,
    ) -> Result<(), Malformed> {
        let fields @ [timestamp, offset, size, kind, volume] = split(line, b',')?;
        if is_header(&fields, &HEADER) {
            return Ok(());
        }
        let seconds = TIMESTAMP.integer(timestamp, MAX_TIME_S)?;
        let offset = OFFSET.offset(offset, SECTOR)?;
        let size = SIZE.length(size, SECTOR)?;
        let op = match kind {
            b"0" => Op::Read,
            b"1" => Op::Write,
            _ => return Err(TYPE.expected("0 (read) or 1 (write)", kind)),
        };
        VOLUME.integer(volume, u64::from(u32::MAX))?;
        let device = names.intern_device(volume)?;
        out.push(Record::arriving(Nanos(seconds * SECOND_NS), device, op, offset, size));
        Ok(())
    }
}
