//! fio's latency logs (`write_lat_log`): lat and clat. `fio_logs` distinguishes them from fio's
//! other logs, which have the same columns.
//!
//! ```text
//!   time ms, latency ns, direction, block size[, offset][, priority][, issue time]
//! ```
//!
//! The direction is 0 for a read, 1 for a write, 2 for a trim. The optional columns depend on fio's
//! version and options:
//!
//! | columns | since   | behind the block size |
//! | ------- | ------- | --- |
//! | 4       | 2.0     | nothing |
//! | 5       | 2.1.11  | offset (with `log_offset`) |
//! | 5       | 3.18    | priority |
//! | 6       | 3.18    | offset, priority (with `log_offset`) |
//! | 6       | 3.37    | priority, issue time (with `log_issue_time`) |
//! | 7       | 3.37    | offset, priority, issue time |
//!
//! The priority is 0 or 1 (real-time class), or with `log_prio` four hexadecimal digits behind
//! `0x`; offsets of a real device soon look different, which resolves the ambiguity of 5 and of 6
//! columns. The issue time is on another clock and is not used. The time is that of completion, in
//! milliseconds; `backdate` derives arrivals from it. Lines with a block size of 0 are averages
//! over a window (`log_avg_msec`), not requests. Source: fio's HOWTO, "Log File Formats", and fio
//! 3.33.

use trimtab_io::Op;

use super::backdate::Backdate;
use crate::error::Malformed;
use crate::fields::{Column, MAX_TIME_NS, SOLE_DEVICE, column, show, split_up_to, wrong_count};
use crate::names::Names;
use crate::record::Record;
use crate::source::LineParser;

const TIME: Column = column(1, "time");
const LATENCY: Column = column(2, "latency");
const DIRECTION: Column = column(3, "direction");
const SIZE: Column = column(4, "block size");

const MILLISECOND_NS: u64 = 1_000_000;
/// After this many fifth columns that look like priorities, they are priorities.
const DECISIVE_LINES: u32 = 256;

#[derive(Default)]
pub(super) struct FioLatency {
    /// Columns in the first line.
    columns: usize,
    layout: Layout,
    clock: Backdate,
}

/// Meaning of the columns behind the block size.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Layout {
    #[default]
    Unknown,
    Nothing,
    Offset,
    Priority,
    /// One column that was 0 or 1 in this many lines: still ambiguous.
    OffsetOrPriority(u32),
    OffsetPriority,
    PriorityIssue,
    OffsetPriorityIssue,
}

impl Layout {
    fn of(more: &[&[u8]]) -> Option<Self> {
        Some(match more {
            [] => Self::Nothing,
            [only] if is_flag(only) => Self::OffsetOrPriority(0),
            [only] if is_hexadecimal(only) => Self::Priority,
            [_] => Self::Offset,
            [_, last] if is_priority(last) => Self::OffsetPriority,
            [_, _] => Self::PriorityIssue,
            [_, _, _] => Self::OffsetPriorityIssue,
            _ => return None,
        })
    }

    fn has_offset(self) -> bool {
        matches!(self, Self::Offset | Self::OffsetPriority | Self::OffsetPriorityIssue)
    }
}

fn is_flag(text: &[u8]) -> bool {
    matches!(text, b"0" | b"1")
}

fn is_hexadecimal(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"0x").unwrap_or_default();
    digits.len() == 4 && digits.iter().all(u8::is_ascii_hexdigit)
}

fn is_priority(text: &[u8]) -> bool {
    is_flag(text) || is_hexadecimal(text)
}

impl FioLatency {
    /// Whether the lines so far have a column for the offset.
    pub(super) fn has_offset(&self) -> bool {
        self.layout.has_offset()
    }

    /// The offset, after validating everything behind the block size.
    fn offset(&mut self, more: &[&[u8]]) -> Result<u64, Malformed> {
        const FIFTH: Column = column(5, "offset");
        let priority = |number: usize, text: &[u8]| {
            if is_priority(text) {
                return Ok(());
            }
            Err(column(number, "priority").expected("0, 1 or four digits behind 0x", text))
        };
        if let (Layout::OffsetOrPriority(seen), [only]) = (self.layout, more) {
            self.layout = match seen + 1 {
                _ if !is_flag(only) => Layout::Offset,
                DECISIVE_LINES => Layout::Priority,
                seen => Layout::OffsetOrPriority(seen),
            };
        }
        match (self.layout, more) {
            (Layout::Offset, [offset]) => FIFTH.offset(offset, 1),
            (Layout::Priority, [text]) => priority(5, text).map(|()| 0),
            (Layout::OffsetPriority, [offset, text]) => {
                priority(6, text)?;
                FIFTH.offset(offset, 1)
            }
            (Layout::PriorityIssue, [text, issue]) => {
                priority(5, text)?;
                column(6, "issue time").integer(issue, MAX_TIME_NS)?;
                Ok(0)
            }
            (Layout::OffsetPriorityIssue, [offset, text, issue]) => {
                priority(6, text)?;
                column(7, "issue time").integer(issue, MAX_TIME_NS)?;
                FIFTH.offset(offset, 1)
            }
            // An offset of 0 or a priority: 0 either way.
            _ => Ok(0),
        }
    }
}

impl LineParser for FioLatency {
    fn line(
        &mut self,
        line: &[u8],
        names: &mut Names,
        out: &mut Vec<Record>,
    ) -> Result<(), Malformed> {
        let (mut fields, count) = split_up_to::<7>(line, b',')?;
        if count < 4 || (self.columns != 0 && count != self.columns) {
            return Err(wrong_count(self.columns.max(4), count, line));
        }
        // fio puts a blank behind each comma. A CSV of five whole numbers has none, so this
        // distinguishes the two.
        for field in &mut fields[1..count] {
            *field = field.strip_prefix(b" ").ok_or_else(|| {
                let line = show(line);
                Malformed::new(format!(
                    "expected a comma and a blank between columns, found {line}"
                ))
            })?;
        }
        let [time, latency, direction, size, more @ ..] = fields;
        let more = &more[..count - 4];
        let time = TIME.integer(time, MAX_TIME_NS / MILLISECOND_NS)? * MILLISECOND_NS;
        let latency = LATENCY.time(latency, 1)?;
        let op = match direction {
            b"0" => Op::Read,
            b"1" => Op::Write,
            b"2" => Op::Discard,
            _ => return Err(DIRECTION.expected("0 (read), 1 (write) or 2 (trim)", direction)),
        };
        let length = SIZE.length(size, 1)?;
        if length == 0 {
            return Err(SIZE.expected("single requests, not averages (log_avg_msec)", size));
        }
        let known = self.layout;
        if known == Layout::Unknown {
            self.layout = Layout::of(more).unwrap_or_default();
        }
        let offset = self.offset(more).inspect_err(|_| self.layout = known)?;
        self.columns = count;

        let (arrival, complete) = self.clock.times(time, latency);
        let device = names.intern_device(SOLE_DEVICE)?;
        out.push(Record {
            complete: Some(complete),
            ..Record::arriving(arrival, device, op, offset, length)
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use trimtab_io::Nanos;

    use super::super::fio_logs::has_offset_column;
    use super::*;

    fn read(text: &str) -> Result<Vec<Record>, String> {
        let mut parser = FioLatency::default();
        let (mut names, mut out) = (Names::default(), Vec::new());
        for line in text.lines() {
            parser.line(line.as_bytes(), &mut names, &mut out).map_err(|e| e.0)?;
        }
        Ok(out)
    }

    #[test]
    fn layouts_of_all_versions_parse() {
        for (line, has_offset) in [
            ("0, 9000, 0, 4096", false),
            ("0, 9000, 0, 4096, 8192", true),
            ("0, 9000, 0, 4096, 0", false),
            ("0, 9000, 0, 4096, 0x4001", false),
            ("0, 9000, 0, 4096, 8192, 0", true),
            ("0, 9000, 0, 4096, 8192, 0x0000", true),
            ("0, 9000, 0, 4096, 0, 7123456", false),
            ("0, 9000, 0, 4096, 8192, 0, 7123456", true),
        ] {
            assert_eq!(has_offset_column(line.as_bytes()), has_offset, "{line}");
            let offset = if has_offset { 8192 } else { 0 };
            assert_eq!(read(line).unwrap()[0].offset, offset, "{line}");
        }
    }

    #[test]
    fn offset_column_may_start_with_zeros() {
        let log = "0, 9000, 0, 4096, 0\n1, 9000, 0, 4096, 4096\n";
        assert!(has_offset_column(log.as_bytes()));
        assert_eq!(read(log).unwrap()[1].offset, 4096);
    }

    #[test]
    fn priority_column_is_sticky() {
        let mut log = "0, 9000, 0, 4096, 0\n".repeat(DECISIVE_LINES as usize);
        log.push_str("1, 9000, 0, 4096, 4096");
        assert!(read(&log).unwrap_err().contains("column 5 (priority)"));
    }

    #[test]
    fn layout_is_constant_per_log() {
        let error = read("0, 9, 0, 4096, 0\n0, 9, 0, 4096").unwrap_err();
        assert!(error.contains("expected 5 columns, found 4"), "{error}");
        assert!(read("0, 9, 3, 4096").unwrap_err().contains("column 3 (direction)"));
        assert!(read("0, 9, 0, 0, 0").unwrap_err().contains("log_avg_msec"));
        assert!(read("0,9,0,4096").is_err());
        assert_eq!(read("0, 9, 2, 4096").unwrap()[0].response_time(), Some(Nanos(9)));
    }
}
