//! Frames: the unit of appending, complete or ignored.

use std::io;

use flate2::Crc;
use trimtab_io::Nanos;

use super::write::MAX_RECORDS;
use crate::error::Malformed;
use crate::packed::{PACKED, is_packed, pack, unpack};
use crate::record::Record;

/// FrameKind, length, checksum.
pub(super) const HEADER: usize = 9;

/// A longer payload is invalid: records take 459 KB at most.
pub(super) const MAX_LENGTH: usize = 1 << 20;

/// Level 1 takes a third of level 3's time, for some percent more bytes.
const LEVEL: i32 = 1;

/// Content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    Note = b'n' as isize,
    Device = b'd' as isize,
    Command = b'c' as isize,
    Records = b'r' as isize,
}

impl FrameKind {
    const ALL: [Self; 4] = [Self::Note, Self::Device, Self::Command, Self::Records];

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Appends a frame.
pub(super) fn append(kind: FrameKind, payload: &[u8], out: &mut Vec<u8>) {
    let length = (payload.len() as u32).to_le_bytes();
    out.push(kind as u8);
    out.extend_from_slice(&length);
    out.extend_from_slice(&checksum(kind as u8, length, payload).to_le_bytes());
    out.extend_from_slice(payload);
}

/// CRC-32 of the frame without the checksum itself.
pub(super) fn checksum(kind: u8, length: [u8; 4], payload: &[u8]) -> u32 {
    let mut crc = Crc::new();
    for part in [&[kind][..], &length, payload] {
        crc.update(part);
    }
    crc.sum()
}

/// The payload of a frame of records.
pub(super) fn pack_records(records: &[Record]) -> io::Result<Vec<u8>> {
    let mut before = Nanos::ZERO;
    let rows: Vec<[u8; PACKED]> = records
        .iter()
        .map(|record| {
            let row = pack(&differences(record, before));
            before = record.arrival;
            row
        })
        .collect();
    let columns: Vec<u8> =
        (0..PACKED).flat_map(|column| rows.iter().map(move |row| row[column])).collect();
    let mut payload = (records.len() as u32).to_le_bytes().to_vec();
    payload.extend_from_slice(&zstd::bulk::compress(&columns, LEVEL)?);
    Ok(payload)
}

/// Decodes such a payload, and appends its records to `out`.
pub(super) fn unpack_records(payload: &[u8], out: &mut Vec<Record>) -> Result<(), Malformed> {
    let (count, compressed) =
        payload.split_first_chunk().ok_or_else(|| Malformed::new("records without their count"))?;
    let count = u32::from_le_bytes(*count) as usize;
    if count > MAX_RECORDS {
        return Err(Malformed(format!("{count} records at once, expected {MAX_RECORDS} at most")));
    }
    let columns = zstd::bulk::decompress(compressed, count * PACKED)
        .map_err(|e| Malformed(format!("damaged records: {e}")))?;
    if columns.len() != count * PACKED {
        let what = format!("{count} records in {} bytes, expected {PACKED} each", columns.len());
        return Err(Malformed(what));
    }
    let mut before = Nanos::ZERO;
    for i in 0..count {
        let row = std::array::from_fn(|column| columns[column * count + i]);
        if !is_packed(&row) {
            return Err(Malformed::new("a record of an unknown operation"));
        }
        let record = from_differences(unpack(&row), before);
        before = record.arrival;
        out.push(record);
    }
    Ok(())
}

/// The record with delta-encoded times, which compress well. They wrap around, so any times
/// round-trip.
fn differences(record: &Record, before: Nanos) -> Record {
    let since = |at: Nanos, from: Nanos| Nanos(at.0.wrapping_sub(from.0));
    Record {
        arrival: since(record.arrival, before),
        issue: record.issue.map(|at| since(at, record.arrival)),
        complete: record.complete.map(|at| since(at, record.arrival)),
        ..*record
    }
}

fn from_differences(record: Record, before: Nanos) -> Record {
    let after = |from: Nanos, by: Nanos| Nanos(from.0.wrapping_add(by.0));
    let arrival = after(before, record.arrival);
    Record {
        arrival,
        issue: record.issue.map(|by| after(arrival, by)),
        complete: record.complete.map(|by| after(arrival, by)),
        ..record
    }
}
