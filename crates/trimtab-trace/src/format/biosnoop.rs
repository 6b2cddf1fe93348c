//! Text output of biosnoop, of bcc and of bcc's libbpf-tools.
//!
//! ```text
//!   TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   QUE(ms) LAT(ms)
//!   0.000000    jbd2/sda1-8    312    sda     W 1050272    8192       0.02    0.74
//! ```
//!
//! `QUE(ms)` is present with -Q, and before it a column `P` (S, R or ?) with -P. The time is that
//! of completion, LAT is issue to completion, QUE arrival to issue. Without QUE the arrival is
//! taken to be the issue. libbpf-tools prints -1 if it missed the arrival, and the kernel's letters
//! for the operation (such as `WS`, `RA`, `FF`) where bcc has R or W; bcc prints R for everything
//! but writes. A command may contain blanks, so columns are counted from the right. Source: bcc,
//! tools/biosnoop.py and libbpf-tools/biosnoop.c.

use trimtab_io::{Flags, Nanos, Op};

use super::backdate::Backdate;
use crate::error::Malformed;
use crate::fields::{Column, MAX_LENGTH, column, show, words};
use crate::names::Names;
use crate::record::Record;
use crate::source::LineParser;

const TIME: Column = column(1, "TIME(s)");
const PID: Column = column(3, "PID");
const KIND: Column = column(5, "T");
const SECTOR: Column = column(6, "SECTOR");
const BYTES: Column = column(7, "BYTES");

const SECTOR_BYTES: u64 = 512;
const SECOND_NS: u64 = 1_000_000_000;
const MILLISECOND_NS: u64 = 1_000_000;
/// 30 years: sums of a time, a latency and a queueing time cannot overflow.
const MAX_TIME_NS: u64 = 1_000_000_000_000_000_000;

const BEFORE: [&[u8]; 7] = [b"TIME(s)", b"COMM", b"PID", b"DISK", b"T", b"SECTOR", b"BYTES"];

#[derive(Default)]
pub(super) struct Biosnoop {
    columns: Option<Columns>,
    clock: Backdate,
}

/// The optional columns.
#[derive(Clone, Copy)]
struct Columns {
    pattern: bool,
    queue: bool,
}

impl Columns {
    fn of_header(line: &[u8]) -> Option<Self> {
        let names: Vec<_> = words(line).collect();
        let (pattern, queue) = match names.strip_prefix(&BEFORE[..])? {
            [b"LAT(ms)"] => (false, false),
            [b"QUE(ms)", b"LAT(ms)"] => (false, true),
            [b"P" | b"PATTERN", b"LAT(ms)"] => (true, false),
            [b"P" | b"PATTERN", b"QUE(ms)", b"LAT(ms)"] => (true, true),
            _ => return None,
        };
        Some(Self { pattern, queue })
    }

    fn count(self) -> usize {
        BEFORE.len() + usize::from(self.pattern) + usize::from(self.queue) + 1
    }
}

impl LineParser for Biosnoop {
    fn line(
        &mut self,
        line: &[u8],
        names: &mut Names,
        out: &mut Vec<Record>,
    ) -> Result<(), Malformed> {
        if let Some(columns) = Columns::of_header(line) {
            self.columns = Some(columns);
            return Ok(());
        }
        let Some(columns) = self.columns else {
            let what = format!("expected the header TIME(s) COMM PID …, found {}", show(line));
            return Err(Malformed::new(what));
        };
        let mut rest = line;
        let mut last = || {
            let (before, word) = split_last_word(rest)?;
            rest = before;
            Some(word)
        };
        let too_few = || {
            let (expected, found) = (columns.count(), words(line).count());
            let shown = show(line);
            Malformed::new(format!("expected {expected} columns, found {found}: {shown}"))
        };
        let latency = last().ok_or_else(too_few)?;
        let queue = if columns.queue { Some(last().ok_or_else(too_few)?) } else { None };
        let pattern = if columns.pattern { Some(last().ok_or_else(too_few)?) } else { None };
        let bytes = match pattern {
            // bcc prints no blank between seven digits and the pattern.
            Some([bytes @ .., b'S' | b'R' | b'?']) if !bytes.is_empty() => bytes,
            Some([b'S' | b'R' | b'?']) | None => last().ok_or_else(too_few)?,
            Some(other) => return Err(column(8, "P").expected("S, R or ?", other)),
        };
        let sector = last().ok_or_else(too_few)?;
        let kind = last().ok_or_else(too_few)?;
        let disk = last().ok_or_else(too_few)?;
        let pid = last().ok_or_else(too_few)?;
        let rest = rest.trim_ascii();
        let blank = rest.iter().position(u8::is_ascii_whitespace).ok_or_else(too_few)?;
        let (time, command) = rest.split_at(blank);

        let time = short(TIME, time, SECOND_NS)?;
        let pid = PID.integer(pid, u64::from(u32::MAX))? as u32;
        let length = BYTES.integer(bytes, MAX_LENGTH)?;
        let (op, flags) = operation(kind, length)
            .ok_or_else(|| KIND.expected("an operation such as R, W, D or FF", kind))?;
        let offset = SECTOR.offset(sector, SECTOR_BYTES)?;
        let number = columns.count();
        let latency = short(column(number, "LAT(ms)"), latency, MILLISECOND_NS)?;
        let queued = match queue {
            None | Some(b"-1.000") => 0,
            Some(queue) => short(column(number - 1, "QUE(ms)"), queue, MILLISECOND_NS)?,
        };

        let device = names.intern_device(disk)?;
        let command = names.intern_command(command.trim_ascii())?;
        let (arrival, complete) = self.clock.times(time, latency + queued);
        out.push(Record {
            issue: Some(arrival + Nanos(queued)),
            complete: Some(complete),
            pid: Some(pid),
            command: Some(command),
            flags,
            ..Record::arriving(arrival, device, op, offset, length)
        });
        Ok(())
    }
}

/// A time small enough for sums.
fn short(column: Column, text: &[u8], unit_ns: u64) -> Result<u64, Malformed> {
    match column.time(text, unit_ns)? {
        ns if ns <= MAX_TIME_NS => Ok(ns),
        _ => Err(column.expected("less than 30 years", text)),
    }
}

/// A line's last word, and the text before it.
fn split_last_word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii_end();
    let start = line.iter().rposition(u8::is_ascii_whitespace).map_or(0, |blank| blank + 1);
    if line.is_empty() { None } else { Some(line.split_at(start)) }
}

/// The kernel's letters for an operation: F for a preceding flush, then the operation, then its
/// flags.
fn operation(kind: &[u8], length: u64) -> Option<(Op, Flags)> {
    let (flush_first, kind) = match kind {
        [b'F', rest @ ..] if matches!(rest, [b'R' | b'W' | b'D' | b'F', ..]) => (true, rest),
        _ => (false, kind),
    };
    let (op, marks) = match kind {
        // The kernel requests a flush by an empty write that flushes.
        [b'W', marks @ ..] if flush_first && length == 0 => (Op::Flush, marks),
        [b'W', marks @ ..] => (Op::Write, marks),
        [b'R', marks @ ..] => (Op::Read, marks),
        [b'D', b'E', marks @ ..] | [b'D', marks @ ..] => (Op::Discard, marks),
        [b'F', marks @ ..] => (Op::Flush, marks),
        _ => return None,
    };
    let mut flags = Flags::empty();
    for mark in marks {
        flags |= match mark {
            b'F' => Flags::FUA,
            b'A' => Flags::READAHEAD,
            b'S' => Flags::SYNC,
            b'M' => Flags::META,
            _ => return None,
        };
    }
    Some((op, flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_letters_of_both_tools_parse() {
        let none = Flags::empty();
        for (kind, length, expected) in [
            (&b"R"[..], 512, (Op::Read, none)),
            (b"W", 512, (Op::Write, none)),
            (b"RAM", 512, (Op::Read, Flags::READAHEAD | Flags::META)),
            (b"FWS", 512, (Op::Write, Flags::SYNC)),
            (b"FWS", 0, (Op::Flush, Flags::SYNC)),
            (b"FF", 0, (Op::Flush, none)),
            (b"F", 0, (Op::Flush, none)),
            (b"DE", 512, (Op::Discard, none)),
            (b"WFS", 512, (Op::Write, Flags::FUA | Flags::SYNC)),
        ] {
            assert_eq!(operation(kind, length), Some(expected), "{}", show(kind));
        }
        for bad in [&b""[..], b"N", b"FN", b"RX", b"r"] {
            assert_eq!(operation(bad, 512), None, "{}", show(bad));
        }
    }

    #[test]
    fn headers_of_both_tools_parse() {
        let count = |header: &str| Columns::of_header(header.as_bytes()).map(Columns::count);
        assert_eq!(count("TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)"), Some(8));
        assert_eq!(count("TIME(s) COMM PID DISK T SECTOR BYTES P QUE(ms) LAT(ms)"), Some(10));
        assert_eq!(count("TIME(s) COMM PID DISK T SECTOR BYTES"), None);
    }

    #[test]
    fn truncated_line_is_an_error() {
        let mut parser = Biosnoop::default();
        let (mut names, mut out) = (Names::default(), Vec::new());
        let mut feed = |line: &[u8]| parser.line(line, &mut names, &mut out).map_err(|e| e.0);
        feed(b"TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)").unwrap();
        let message = feed(b"0.1 fio 1 sda R").unwrap_err();
        assert!(message.contains("expected 8 columns, found 5"), "{message}");
    }
}
