//! MSR Cambridge traces: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,
//! ResponseTime`.
//!
//! Timestamps are Windows file times (100 ns ticks since 1601), the response
//! time is in the same ticks, offset and size in bytes. Source: the traces'
//! README, D. Narayanan, A. Donnelly, A. Rowstron, "Write Off-Loading:
//! Practical Power Management for Enterprise Storage", FAST'08; SNIA IOTTA
//! repository, trace set 388.

use trimtab_io::{Nanos, Op};

use crate::error::Malformed;
use crate::fields::{Column, column, is_header, split};
use crate::names::Names;
use crate::record::Record;
use crate::source::LineParser;

const TIMESTAMP: Column = column(1, "timestamp");
const TYPE: Column = column(4, "type");
const OFFSET: Column = column(5, "offset");
const SIZE: Column = column(6, "size");
const RESPONSE: Column = column(7, "response time");

const HEADER: [&str; 7] =
    ["Timestamp", "Hostname", "DiskNumber", "Type", "Offset", "Size", "ResponseTime"];

/// 1970-01-01 as a Windows file time.
pub(crate) const UNIX_EPOCH_TICKS: u64 = 116_444_736_000_000_000;
/// Nanoseconds per tick.
pub(crate) const TICK_NS: u64 = 100;
/// 2100-01-01; later is a misread column.
pub(crate) const MAX_TICKS: u64 = 157_469_184_000_000_000;
/// About 12 days in ticks.
pub(crate) const MAX_RESPONSE_TICKS: u64 = 10_000_000_000_000;

#[derive(Default)]
pub(super) struct Msr {
    /// `usr.0` of the last record, for comparison.
    device: Vec<u8>,
}

impl LineParser for Msr {
    fn line(
        &mut self,
        line: &[u8],
        names: &mut Names,
        out: &mut Vec<Record>,
    ) -> Result<(), Malformed> {
        let fields @ [timestamp, host, disk, kind, offset, size, response] = split(line, b',')?;
        if is_header(&fields, &HEADER) {
            return Ok(());
        }
        let ticks = TIMESTAMP.integer(timestamp, MAX_TICKS)?;
        let ticks = ticks
            .checked_sub(UNIX_EPOCH_TICKS)
            .ok_or_else(|| TIMESTAMP.expected("a Windows file time after 1970", timestamp))?;
        let op = match kind {
            b"Read" => Op::Read,
            b"Write" => Op::Write,
            _ if kind.eq_ignore_ascii_case(b"read") => Op::Read,
            _ if kind.eq_ignore_ascii_case(b"write") => Op::Write,
            _ => return Err(TYPE.expected("Read or Write", kind)),
        };
        self.device.clear();
        self.device.extend_from_slice(host);
        self.device.push(b'.');
        self.device.extend_from_slice(disk);
        let device = names.intern_device(&self.device)?;

        let arrival = Nanos(ticks * TICK_NS);
        let response = Nanos(RESPONSE.integer(response, MAX_RESPONSE_TICKS)? * TICK_NS);
        out.push(Record {
            complete: Some(arrival + response),
            ..Record::arriving(
                arrival,
                device,
                op,
                OFFSET.offset(offset, 1)?,
                SIZE.length(size, 1)?,
            )
        });
        Ok(())
    }
}
