//! DiskSim's default trace format: five columns separated by blanks: arrival time, device, first
//! sector, sectors, and 1 for a read or 0 for a write.
//!
//! DiskSim takes times in milliseconds. Simulators that adopted its format use nanoseconds, and the
//! file does not say which. Milliseconds are written with decimals, nanoseconds without; detection
//! relies on that. Of DiskSim's flags only bit 0 (read) is understood; others are refused rather
//! than dropped. Requests are in arrival order. Source: J. Bucy et al., "The DiskSim Simulation
//! Environment Version 4.0 Reference Manual", CMU-PDL-08-101, section on input traces.

use trimtab_io::Op;

use crate::error::Malformed;
use crate::fields::{Ascending, Column, column, split_blank};
use crate::names::Names;
use crate::record::Record;
use crate::source::LineParser;

const TIME: Column = column(1, "time");
const DEVICE: Column = column(2, "device");
const FIRST: Column = column(3, "first sector");
const SECTORS: Column = column(4, "sectors");
const FLAGS: Column = column(5, "flags");

const SECTOR: u64 = 512;

pub(super) struct Disksim {
    /// `None` until the first record decides.
    unit: Option<Unit>,
    order: Ascending,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Nanosecond,
    Millisecond,
}

impl Disksim {
    /// Milliseconds if the first record's time has decimals, else nanoseconds.
    pub(super) fn by_decimals() -> Self {
        Self { unit: None, order: Ascending::default() }
    }

    /// Whole nanoseconds.
    pub(super) fn in_ns() -> Self {
        Self { unit: Some(Unit::Nanosecond), ..Self::by_decimals() }
    }

    /// Milliseconds, with or without decimals.
    pub(super) fn in_ms() -> Self {
        Self { unit: Some(Unit::Millisecond), ..Self::by_decimals() }
    }
}

impl LineParser for Disksim {
    fn line(
        &mut self,
        line: &[u8],
        names: &mut Names,
        out: &mut Vec<Record>,
    ) -> Result<(), Malformed> {
        let [time, device, first, sectors, flags] = split_blank(line)?;
        let has_decimals = memchr::memchr(b'.', time).is_some();
        let unit = match self.unit {
            Some(unit) => unit,
            None if has_decimals => Unit::Millisecond,
            None => Unit::Nanosecond,
        };
        let arrival = match unit {
            Unit::Nanosecond if has_decimals => {
                return Err(TIME.expected("whole nanoseconds", time));
            }
            Unit::Nanosecond => TIME.time(time, 1)?,
            Unit::Millisecond => TIME.time(time, 1_000_000)?,
        };
        let arrival = self.order.check(TIME, time, arrival)?;
        DEVICE.integer(device, u64::from(u32::MAX))?;
        let offset = FIRST.offset(first, SECTOR)?;
        let length = SECTORS.length(sectors, SECTOR)?;
        let op = match flags {
            b"1" => Op::Read,
            b"0" => Op::Write,
            _ => return Err(FLAGS.expected("1 (read) or 0 (write)", flags)),
        };
        let device = names.intern_device(device)?;
        out.push(Record::arriving(arrival, device, op, offset, length));
        self.order.passed(arrival);
        self.unit = Some(unit);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(mut parser: Disksim, lines: &[&str]) -> Result<Vec<u64>, String> {
        let (mut names, mut out) = (Names::default(), Vec::new());
        for line in lines {
            parser.line(line.as_bytes(), &mut names, &mut out).map_err(|e| e.0)?;
        }
        Ok(out.iter().map(|r| r.arrival.0).collect())
    }

    const WHOLE: &str = "7 0 8 8 1";
    const DECIMAL: &str = "7.5 0 8 8 1";

    #[test]
    fn first_record_decides_the_unit() {
        assert_eq!(arrivals(Disksim::by_decimals(), &[WHOLE]), Ok(vec![7]));
        assert_eq!(arrivals(Disksim::by_decimals(), &[DECIMAL]), Ok(vec![7_500_000]));
        let whole_later = arrivals(Disksim::by_decimals(), &[DECIMAL, "8 0 8 8 1"]);
        assert_eq!(whole_later, Ok(vec![7_500_000, 8_000_000]));
        let decimals_later = arrivals(Disksim::by_decimals(), &[WHOLE, DECIMAL]).unwrap_err();
        assert!(decimals_later.contains("whole nanoseconds, found `7.5`"), "{decimals_later}");
    }

    #[test]
    fn bad_record_does_not_decide_the_unit() {
        let mut parser = Disksim::by_decimals();
        let (mut names, mut out) = (Names::default(), Vec::new());
        assert!(parser.line(b"9 0 8 8 x", &mut names, &mut out).is_err());
        assert!(parser.line(DECIMAL.as_bytes(), &mut names, &mut out).is_ok());
    }

    #[test]
    fn explicit_units_are_enforced() {
        assert_eq!(arrivals(Disksim::in_ms(), &[WHOLE]), Ok(vec![7_000_000]));
        assert_eq!(arrivals(Disksim::in_ms(), &[DECIMAL]), Ok(vec![7_500_000]));
        assert_eq!(arrivals(Disksim::in_ns(), &[WHOLE]), Ok(vec![7]));
        assert!(arrivals(Disksim::in_ns(), &[DECIMAL]).is_err());
    }
}
