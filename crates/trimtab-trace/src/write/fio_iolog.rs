//! fio's I/O log, version 3: `time name action offset length`, with times in
//! µs, for replay with `fio --read_iolog`.
//!
//! Source: "Trace file format v3" in fio's HOWTO. fio 3.33 waits for the
//! difference between the times of neighbouring lines, and takes a time of 0
//! to mean that there was no line before: the log therefore starts at 1 µs.

use std::io::{self, BufWriter, Write};

use trimtab_io::Op;

use super::text::{Labels, plain};
use super::{AtomicFile, LeftOut};
use crate::names::Names;
use crate::reader::{Clock, Meta};
use crate::record::Record;

/// fio reads a length into 32 bits.
const LONGEST: u64 = u32::MAX as u64;

pub(super) struct FioIolog {
    file: BufWriter<AtomicFile>,
    clock: Clock,
    /// What is taken off every time, and added, in µs; known once the first
    /// record is.
    shift: Option<(u64, u64)>,
    labels: Labels,
    /// Labels in order of appearance, to be closed at the end.
    open: Vec<Box<str>>,
    last_us: u64,
}

impl FioIolog {
    pub(super) fn new(file: AtomicFile, meta: &Meta) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(256 << 10, file);
        writeln!(file, "fio version 3 iolog")?;
        let clock = meta.clock;
        let labels = Labels::default();
        Ok(Self { file, clock, shift: None, labels, open: Vec::new(), last_us: 1 })
    }

    pub(super) fn write(
        &mut self,
        records: &[Record],
        names: &Names,
        left_out: &mut LeftOut,
    ) -> io::Result<()> {
        for record in records {
            if record.length > LONGEST {
                left_out.out_of_range += 1;
                continue;
            }
            let us = record.arrival.0 / 1_000;
            let (off, on) = *self.shift.get_or_insert(match self.clock {
                Clock::Unix => (us, 1),
                Clock::Own => (0, u64::from(us == 0)),
            });
            let us = us - off + on;
            let (label, new) = self.labels.get(record.device, names, file_name);
            if new {
                writeln!(self.file, "{us} {label} add\n{us} {label} open")?;
                self.open.push(label.into());
            }
            let action = match record.op {
                Op::Read => "read",
                Op::Write => "write",
                Op::Discard => "trim",
                Op::Flush => "sync",
            };
            writeln!(self.file, "{us} {label} {action} {} {}", record.offset, record.length)?;
            self.last_us = us;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        for label in &self.open {
            writeln!(self.file, "{} {label} close", self.last_us)?;
        }
        self.file.into_inner().map_err(io::IntoInnerError::into_error)?.commit()
    }
}

/// One word; a device without a name gets one.
fn file_name(name: &str, suffix: &str) -> String {
    let name = if name.is_empty() { "device" } else { name };
    plain(name) + suffix
}
