//! fio's I/O logs (`write_iolog`), versions 2 and 3.
//!
//! The first line names the version. Version 2 has no times: `wait` lines give the microseconds
//! between requests. In version 3 (fio 3.31) each line begins with microseconds since the start of
//! the job, in ascending order.
//!
//! ```text
//!   fio version 2 iolog            fio version 3 iolog
//!   /dev/sdx add                   0 /dev/sdx add
//!   /dev/sdx open                  52 /dev/sdx open
//!   /dev/sdx read 8192 4096        60 /dev/sdx read 8192 4096
//!   /dev/sdx wait 500 0            571 /dev/sdx sync 0 0
//! ```
//!
//! Source: fio's HOWTO, "Trace file format", and fio 3.33's behaviour: the HOWTO gives no unit for
//! version 3, the program writes and replays microseconds. File names contain no blanks, because
//! fio could not read them.

use trimtab_io::{Nanos, Op};

use crate::error::Malformed;
use crate::fields::{Ascending, Column, MAX_TIME_NS, column, show, split_blank, words};
use crate::names::Names;
use crate::record::Record;
use crate::source::LineParser;

const HEADER_2: &[u8] = b"fio version 2 iolog";
const HEADER_3: &[u8] = b"fio version 3 iolog";
const TIMESTAMP: Column = column(1, "timestamp");
const MICROSECOND_NS: u64 = 1_000;

#[derive(Default)]
pub(super) struct FioIolog {
    version: Option<Version>,
    /// Version 2's clock: the sum of the waits.
    waited: u64,
    order: Ascending,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

/// A line's content behind its time.
enum Entry<'a> {
    /// A file was added, opened or closed.
    File,
    Wait {
        ns: u64,
    },
    Io {
        file: &'a [u8],
        op: Op,
        offset: u64,
        length: u64,
    },
}

impl LineParser for FioIolog {
    fn line(
        &mut self,
        line: &[u8],
        names: &mut Names,
        out: &mut Vec<Record>,
    ) -> Result<(), Malformed> {
        let Some(version) = self.version else {
            self.version = Some(match line.trim_ascii_end() {
                HEADER_2 => Version::Two,
                HEADER_3 => Version::Three,
                _ => {
                    let what = format!("expected fio version 2|3 iolog, found {}", show(line));
                    return Err(Malformed::new(what));
                }
            });
            return Ok(());
        };
        let (entry, arrival) = match version {
            Version::Two => (entry(line, version)?, Nanos(self.waited)),
            Version::Three => {
                let line = line.trim_ascii_start();
                let blank = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
                let (time, rest) = line.split_at(blank);
                let ns = TIMESTAMP.integer(time, MAX_TIME_NS / MICROSECOND_NS)? * MICROSECOND_NS;
                let arrival = self.order.check(TIMESTAMP, time, ns)?;
                let entry = entry(rest, version)?;
                self.order.passed(arrival);
                (entry, arrival)
            }
        };
        match entry {
            Entry::File => {}
            Entry::Wait { ns } => {
                self.waited = self.waited.saturating_add(ns).min(MAX_TIME_NS);
            }
            Entry::Io { file, op, offset, length } => {
                let device = names.intern_device(file)?;
                out.push(Record::arriving(arrival, device, op, offset, length));
            }
        }
        Ok(())
    }
}

/// Parses `file action` and `file action offset length`.
fn entry(line: &[u8], version: Version) -> Result<Entry<'_>, Malformed> {
    let before = match version {
        Version::Two => 0,
        Version::Three => 1,
    };
    let action_column = column(before + 2, "action");
    let offset_column = column(before + 3, "offset");
    let length_column = column(before + 4, "length");

    if words(line).count() == 2 {
        let [_, action] = split_blank(line)?;
        return match action {
            b"add" | b"open" | b"close" => Ok(Entry::File),
            _ => Err(action_column.expected("add, open or close, or an offset behind it", action)),
        };
    }
    let [file, action, offset, length] = split_blank(line)?;
    let op = match action {
        b"read" => Op::Read,
        b"write" => Op::Write,
        b"trim" => Op::Discard,
        b"sync" | b"datasync" => Op::Flush,
        b"wait" if version == Version::Two => {
            let us = offset_column.integer(offset, MAX_TIME_NS / MICROSECOND_NS)?;
            length_column.length(length, 1)?;
            return Ok(Entry::Wait { ns: us * MICROSECOND_NS });
        }
        _ => return Err(action_column.expected("read, write, trim, sync or datasync", action)),
    };
    let offset = offset_column.offset(offset, 1)?;
    let length = length_column.length(length, 1)?;
    // fio repeats the last request's offset in a flush, without meaning.
    let (offset, length) = if op == Op::Flush { (0, 0) } else { (offset, length) };
    Ok(Entry::Io { file, op, offset, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Record>, String> {
        let mut parser = FioIolog::default();
        let (mut names, mut out) = (Names::default(), Vec::new());
        for line in text.lines() {
            parser.line(line.as_bytes(), &mut names, &mut out).map_err(|e| e.0)?;
        }
        Ok(out)
    }

    #[test]
    fn waits_advance_the_clock() {
        let records = read(
            "fio version 2 iolog\nf add\nf read 0 512\nf wait 300 0\nf wait 50 0\nf trim 512 512",
        )
        .unwrap();
        let times: Vec<_> = records.iter().map(|r| r.arrival).collect();
        assert_eq!(times, [Nanos(0), Nanos(350_000)]);
        assert_eq!(records[1].op, Op::Discard);
    }

    #[test]
    fn version_three_has_times_and_no_waits() {
        let records = read("fio version 3 iolog\n5 f add\n7 f datasync 4096 0").unwrap();
        assert_eq!((records[0].arrival, records[0].op), (Nanos(7_000), Op::Flush));
        assert_eq!((records[0].offset, records[0].length), (0, 0));
        assert!(
            read("fio version 3 iolog\n5 f wait 7 0").unwrap_err().contains("column 3 (action)")
        );
        assert!(read("fio version 3 iolog\n5 f add\n4 f open").unwrap_err().contains("not before"));
    }

    #[test]
    fn invalid_logs_are_refused() {
        assert!(read("fio version 1 iolog").is_err());
        assert!(read("f read 0 512").is_err());
        assert!(read("fio version 2 iolog\nf read 0").unwrap_err().contains("expected 4 columns"));
        assert!(read("fio version 2 iolog\nf shred").unwrap_err().contains("column 2 (action)"));
    }
}
