//! The output of the commands that write a trace.

use std::io::Write as _;

use anyhow::Result;
use serde::Serialize;
use trimtab_io::Nanos;
use trimtab_report::count;
use trimtab_trace::{Error, LeftOut, Names, Record, Writer};

use crate::console;
use crate::output::all_written;
use crate::units;

/// A trace being written, and its size.
pub(super) struct Output {
    writer: Writer,
    span: Option<(Nanos, Nanos)>,
    requests: u64,
}

/// The trace that was written.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Written {
    /// Requests.
    pub(super) requests: u64,
    /// From the first arrival to the last.
    duration_ns: Nanos,
    /// What the output format could not hold.
    #[serde(skip)]
    left_out: LeftOut,
}

impl Output {
    pub(super) const fn new(writer: Writer) -> Self {
        Self { writer, span: None, requests: 0 }
    }

    pub(super) fn write(&mut self, records: &[Record], names: &Names) -> Result<(), Error> {
        let [first, .., last] = records else {
            return match records {
                [only] => self.write_some(records, names, only.arrival, only.arrival),
                _ => Ok(()),
            };
        };
        self.write_some(records, names, first.arrival, last.arrival)
    }

    fn write_some(
        &mut self,
        records: &[Record],
        names: &Names,
        first: Nanos,
        last: Nanos,
    ) -> Result<(), Error> {
        self.span = Some((self.span.map_or(first, |(first, _)| first), last));
        self.requests += records.len() as u64;
        self.writer.write(records, names)
    }

    pub(super) const fn requests(&self) -> u64 {
        self.requests
    }

    pub(super) fn finish(self) -> Result<Written, Error> {
        let left_out = *self.writer.left_out();
        self.writer.finish()?;
        let duration_ns = self.span.map_or(Nanos::ZERO, |(first, last)| last.since(first));
        Ok(Written { requests: self.requests - left_out.total(), duration_ns, left_out })
    }
}

impl Written {
    /// The command's result, once all its output is written: incomplete if the format could
    /// not hold some records.
    pub(super) fn into_result(self) -> Result<()> {
        all_written(&self.left_out)
    }

    /// Prints the result on standard output.
    pub(super) fn print(&self, json: bool) -> Result<()> {
        let mut out = console::out(json);
        if json {
            serde_json::to_writer(&mut out, self)?;
            writeln!(out)?;
        } else {
            let (requests, duration) = (count(self.requests), units::long(self.duration_ns));
            writeln!(out, "wrote {requests} requests that arrive within {duration}")?;
        }
        Ok(())
    }
}
