//! Replayed requests with measured latencies: seven columns separated by commas, without a header.
//!
//! The columns are: time in the replayed trace (ms, coarse, not used), latency (µs), 1 for a read
//! or 0 for a write, bytes, offset (bytes), submission time (ms), and the system call's result: the
//! bytes moved, or a negative error number. Lines are in completion order. The issue time was not
//! measured. Published replayers of learned-admission studies (LinnOS, Heimdall) write this form.

use trimtab_io::{Flags, Nanos, Op};

use crate::error::Malformed;
use crate::fields::{Column, SOLE_DEVICE, column, split};
use crate::names::Names;
use crate::record::Record;
use crate::source::LineParser;

const RECORDED: Column = column(1, "record time");
const LATENCY: Column = column(2, "latency");
const OP: Column = column(3, "operation");
const BYTES: Column = column(4, "bytes");
const OFFSET: Column = column(5, "offset");
const SUBMITTED: Column = column(6, "submit time");
const RESULT: Column = column(7, "return value");

const MILLISECOND_NS: u64 = 1_000_000;
const MICROSECOND_NS: u64 = 1_000;
/// The kernel's error numbers end here.
const MAX_ERRNO: u64 = 4_095;

pub(super) struct Replay;

impl LineParser for Replay {
    fn line(
        &mut self,
        line: &[u8],
        names: &mut Names,
        out: &mut Vec<Record>,
    ) -> Result<(), Malformed> {
        let [recorded, latency, op, bytes, offset, submitted, result] = split(line, b',')?;
        RECORDED.time(recorded, MILLISECOND_NS)?;
        let latency = Nanos(LATENCY.time(latency, MICROSECOND_NS)?);
        let op = match op {
            b"1" => Op::Read,
            b"0" => Op::Write,
            _ => return Err(OP.expected("1 (read) or 0 (write)", op)),
        };
        let length = BYTES.length(bytes, 1)?;
        let offset = OFFSET.offset(offset, 1)?;
        let arrival = Nanos(SUBMITTED.time(submitted, MILLISECOND_NS)?);
        let flags = match result.strip_prefix(b"-") {
            Some(errno) => {
                RESULT.integer(errno, MAX_ERRNO)?;
                Flags::ERROR
            }
            None => {
                RESULT.integer(result, length)?;
                Flags::empty()
            }
        };
        let device = names.intern_device(SOLE_DEVICE)?;
        out.push(Record {
            complete: Some(arrival + latency),
            flags,
            ..Record::arriving(arrival, device, op, offset, length)
        });
        Ok(())
    }
}
