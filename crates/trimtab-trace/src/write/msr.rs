//! MSR Cambridge CSV, as `format::msr` reads it.
//!
//! Timestamps and response times are in ticks of 100 ns, truncated. Times with an origin of their
//! own are written as if that were 1970. The format has reads and writes only, each with its
//! response time: a zero in place of an unknown one would be false.

use std::io::{self, BufWriter, Write};

use trimtab_io::Op;

use super::text::{Labels, plain};
use super::{AtomicFile, LeftOut};
use crate::format::msr::{MAX_RESPONSE_TICKS, MAX_TICKS, TICK_NS, UNIX_EPOCH_TICKS};
use crate::names::Names;
use crate::record::Record;

pub(super) struct Msr {
    file: BufWriter<AtomicFile>,
    labels: Labels,
}

impl Msr {
    pub(super) fn new(file: AtomicFile) -> Self {
        Self { file: BufWriter::with_capacity(256 << 10, file), labels: Labels::default() }
    }

    pub(super) fn write(
        &mut self,
        records: &[Record],
        names: &Names,
        left_out: &mut LeftOut,
    ) -> io::Result<()> {
        for record in records {
            let kind = match record.op {
                Op::Read => "Read",
                Op::Write => "Write",
                Op::Discard => {
                    left_out.discards += 1;
                    continue;
                }
                Op::Flush => {
                    left_out.flushes += 1;
                    continue;
                }
            };
            let Some(response) = record.response_time() else {
                left_out.unanswered += 1;
                continue;
            };
            let ticks = UNIX_EPOCH_TICKS + record.arrival.0 / TICK_NS;
            let response = response.0 / TICK_NS;
            if ticks > MAX_TICKS || response > MAX_RESPONSE_TICKS {
                left_out.out_of_range += 1;
                continue;
            }
            let (label, _) = self.labels.get(record.device, names, host_and_disk);
            let Record { offset, length, .. } = record;
            writeln!(self.file, "{ticks},{label},{kind},{offset},{length},{response}")?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> io::Result<()> {
        self.file.into_inner().map_err(io::IntoInnerError::into_error)?.commit()
    }
}

/// `usr,0` for `usr.0`, and `sda,0` for `sda`: a disk needs a number.
fn host_and_disk(name: &str, suffix: &str) -> String {
    let name = plain(name);
    let (host, disk) = match name.rsplit_once('.') {
        Some((host, disk)) if !disk.is_empty() && disk.bytes().all(|b| b.is_ascii_digit()) => {
            (host, disk)
        }
        _ => (name.as_str(), "0"),
    };
    format!("{host}{suffix},{disk}")
}
