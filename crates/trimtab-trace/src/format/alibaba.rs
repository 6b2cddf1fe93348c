//! Alibaba block-store traces: `device_id,opcode,offset,length,timestamp`.
//!
//! The opcode is R or W, offset and length are in bytes, the timestamp is in
//! microseconds since the Unix epoch. Source: the README of Alibaba's
//! block-traces repository; J. Li, Q. Wang, P. P. C. Lee, C. Shi, "An In-Depth
//! Analysis of Cloud Block Storage Workloads in Large-Scale Production",
//! IISWC'20.

use trimtab_io::{Nanos, Op};

use crate::error::Malformed;
use crate::fields::{Column, MAX_TIME_NS, column, is_header, split};
use crate::names::Names;
use crate::record::Record;
use crate::source::LineParser;

const DEVICE: Column = column(1, "device id");
const OPCODE: Column = column(2, "opcode");
const OFFSET: Column = column(3, "offset");
const LENGTH: Column = column(4, "length");
const TIMESTAMP: Column = column(5, "timestamp");

const HEADER: [&str; 5] = ["device_id", "opcode", "offset", "length", "timestamp"];

pub(super) struct Alibaba;

impl LineParser for Alibaba {
    fn line(
        &mut self,
        line: &[u8],
        names: &mut Names,
        out: &mut Vec<Record>,
    ) -> Result<(), Malformed> {
        let fields @ [device, opcode, offset, length, timestamp] = split(line, b',')?;
        if is_header(&fields, &HEADER) {
            return Ok(());
        }
        DEVICE.integer(device, u64::from(u32::MAX))?;
        let op = match opcode {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err(OPCODE.expected("R or W", opcode)),
        };
        let offset = OFFSET.offset(offset, 1)?;
        let length = LENGTH.length(length, 1)?;
        let arrival = Nanos(TIMESTAMP.integer(timestamp, MAX_TIME_NS / 1_000)? * 1_000);
        let device = names.intern_device(device)?;
        out.push(Record::arriving(arrival, device, op, offset, length));
        Ok(())
    }
}
