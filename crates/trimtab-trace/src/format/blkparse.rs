//! blkparse's default text output: the events of [`blktrace`](super::blktrace),
//! one per line.
//!
//! ```text
//!   8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
//!   8,0    3        2     0.000001829   697  A   W 223490 + 8 <- (8,1) 223428
//!   8,0    0       12     0.004162000     0  C   W 223490 + 8 [0]
//! ```
//!
//! Device, CPU, number, time in s, pid, action, `rwbs`; then by action the location in sectors, and
//! in brackets the process or a completion's error. `rwbs` is `F` for a preceding flush; `R`, `W`,
//! `D` or `N` (none); then any of `F` (FUA), `A` (read-ahead), `S` (synchronous), `M` (metadata). A
//! flush has no location. The statistics behind the events are skipped. Source: blkparse(1).

use trimtab_io::{DeviceId, Flags, Nanos, Op};

use super::blktrace::event::{Action, Event, SECTOR};
use super::blktrace::pairing::Pairing;
use crate::error::Malformed;
use crate::fields::{Column, column, show};
use crate::names::{CommandId, Names};
use crate::record::Record;
use crate::source::LineParser;

const DEVICE: Column = column(1, "device");
const TIME: Column = column(4, "time");
const PID: Column = column(5, "pid");
const ACTION: Column = column(6, "action");
const KIND: Column = column(7, "kind");
const SECTOR_NUMBER: Column = column(8, "sector");
const SECTORS: Column = column(10, "sectors");

const SECOND_NS: u64 = 1_000_000_000;
/// Printed by blkparse for an unknown process name.
const UNKNOWN: &[u8] = b"(null)";

#[derive(Default)]
pub(super) struct Blkparse {
    pairing: Pairing,
}

impl LineParser for Blkparse {
    fn line(
        &mut self,
        line: &[u8],
        names: &mut Names,
        out: &mut Vec<Record>,
    ) -> Result<(), Malformed> {
        let Some(event) = Line::split(line).map(|line| line.event(names)).transpose()? else {
            if is_statistics(line) {
                return Ok(());
            }
            return Err(Malformed::new(format!(
                "expected device, CPU, number, time, pid, action and kind, found {}",
                show(line)
            )));
        };
        if let Some((event, command)) = event {
            self.pairing.event(&event, command, out);
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Names, out: &mut Vec<Record>) -> Result<(), Malformed> {
        self.pairing.end(out);
        Ok(())
    }
}

/// The columns of every event, and the rest.
struct Line<'a> {
    device: &'a [u8],
    time: &'a [u8],
    pid: &'a [u8],
    action: &'a [u8],
    kind: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Line<'a> {
    /// `None` if it has no such columns.
    fn split(line: &'a [u8]) -> Option<Self> {
        let mut rest = line;
        let mut word = || next_word(&mut rest);
        let (device, _cpu, _number) = (word()?, word()?, word()?);
        let (time, pid, action, kind) = (word()?, word()?, word()?, word()?);
        // Distinguishes it from the statistics, which have as many words.
        if !device.contains(&b',') || !device[0].is_ascii_digit() {
            return None;
        }
        Some(Self { device, time, pid, action, kind, rest })
    }

    /// The event and its process's name, if the event is relevant.
    fn event(&self, names: &mut Names) -> Result<Option<(Event, Option<CommandId>)>, Malformed> {
        let time = TIME.time(self.time, SECOND_NS)?;
        let pid = PID.integer(self.pid, u32::MAX.into())? as u32;
        let device = self.device(names)?;
        let action = match *self.action {
            [letter] => Action::from_letter(letter),
            _ => None,
        };
        let Some(action) = action else {
            return match self.action {
                // Plug, unplug, remap, wait, bounce, message, abort, driver's.
                b"P" | b"U" | b"UT" | b"A" | b"S" | b"B" | b"m" | b"a" | b"d" => Ok(None),
                other => Err(ACTION.expected("an action that blkparse prints", other)),
            };
        };
        let (op, mut flags) = kind(self.kind)?;
        let Some((extent, behind)) = self.extent(action)? else { return Ok(None) };
        let note = bracketed(behind)?;
        flags.set(Flags::ERROR, action == Action::Complete && note != b"0");
        let command = match note {
            UNKNOWN => None,
            name if action.tells_submitter() => Some(names.intern_command(name)?),
            _ => None,
        };
        let empty = extent.bytes == 0;
        let op = match op {
            Some(op) => op,
            None if empty && flags.contains(Flags::PREFLUSH) => Op::Flush,
            None => Op::Read,
        };
        let Extent { offset, bytes } = extent;
        let time = Nanos(time);
        Ok(Some((Event { time, offset, bytes, pid, device, flags, op, action }, command)))
    }

    fn device(&self, names: &mut Names) -> Result<DeviceId, Malformed> {
        let mut parts = self.device.splitn(2, |&b| b == b',');
        let number = |part: Option<&[u8]>| part.is_some_and(|p| p.iter().all(u8::is_ascii_digit));
        if number(parts.next()) && number(parts.next()) {
            names.intern_device(self.device)
        } else {
            Err(DEVICE.expected("major,minor", self.device))
        }
    }

    /// The location on the device, and the text behind it; `None` for pass-through requests, of
    /// which only a length or the command's bytes are printed.
    fn extent(&self, action: Action) -> Result<Option<(Extent, &'a [u8])>, Malformed> {
        let mut rest = self.rest;
        let completed = action == Action::Complete || action == Action::Requeue;
        match rest.first() {
            Some(b'(') if completed => return Ok(None),
            Some(b'[' | b'(') => return Ok(Some((Extent { offset: 0, bytes: 0 }, rest))),
            _ => {}
        }
        let first = next_word(&mut rest).unwrap_or_default();
        let mut behind = rest;
        match next_word(&mut behind) {
            Some(b"+") => {
                let offset = SECTOR_NUMBER.offset(first, SECTOR)?;
                let length = next_word(&mut behind).unwrap_or_default();
                let bytes = SECTORS.integer(length, MAX_SECTORS)? * SECTOR;
                Ok(Some((Extent { offset, bytes: bytes as u32 }, behind)))
            }
            Some(b"/") if action == Action::Split => {
                let offset = SECTOR_NUMBER.offset(first, SECTOR)?;
                let second = next_word(&mut behind).unwrap_or_default();
                match SECTORS.offset(second, SECTOR)?.checked_sub(offset) {
                    Some(bytes @ 1..=MAX_BYTES) => {
                        Ok(Some((Extent { offset, bytes: bytes as u32 }, behind)))
                    }
                    _ => Err(SECTORS.expected("a sector within the bio that is cut", second)),
                }
            }
            // A completion of no bytes has a sector, without meaning.
            _ if completed => {
                SECTOR_NUMBER.integer(first, u64::MAX)?;
                Ok(Some((Extent { offset: 0, bytes: 0 }, rest)))
            }
            _ => {
                SECTOR_NUMBER.integer(first, u64::MAX)?;
                Ok(None)
            }
        }
    }
}

/// A request's length is 32 bits of bytes.
const MAX_BYTES: u64 = u32::MAX as u64;
const MAX_SECTORS: u64 = MAX_BYTES / SECTOR;

struct Extent {
    offset: u64,
    bytes: u32,
}

/// Removes the next word, and the blanks around it.
fn next_word<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let line = rest.trim_ascii_start();
    if line.is_empty() {
        return None;
    }
    // A word is a few bytes long: looking at each beats a search.
    let end = line.iter().position(|&b| b == b' ' || b == b'\t').unwrap_or(line.len());
    *rest = line[end..].trim_ascii_start();
    Some(&line[..end])
}

/// The text in brackets at the end of a line. (Process names may contain brackets and blanks.)
fn bracketed(text: &[u8]) -> Result<&[u8], Malformed> {
    let text = text.trim_ascii_end();
    match (memchr::memchr(b'[', text), text.last()) {
        (Some(open), Some(b']')) => Ok(&text[open + 1..text.len() - 1]),
        _ => Err(Malformed::new(format!(
            "expected a process or an error in brackets at the end, found {}",
            show(text)
        ))),
    }
}

/// The op (`None` for neither read, write nor discard) and flags of an `rwbs` column.
fn kind(text: &[u8]) -> Result<(Option<Op>, Flags), Malformed> {
    let unknown = || KIND.expected("F, then R, W, D or N, then F, A, S, M", text);
    let mut flags = Flags::empty();
    let rest = match text {
        [b'F', rest @ ..] => {
            flags |= Flags::PREFLUSH;
            rest
        }
        other => other,
    };
    let Some((op, marks)) = rest.split_first() else { return Err(unknown()) };
    let op = match op {
        b'R' => Some(Op::Read),
        b'W' => Some(Op::Write),
        b'D' => Some(Op::Discard),
        b'N' => None,
        _ => return Err(unknown()),
    };
    for mark in marks {
        flags |= match mark {
            b'F' => Flags::FUA,
            b'A' => Flags::READAHEAD,
            b'S' => Flags::SYNC,
            b'M' => Flags::META,
            // Barriers, before Linux 2.6.37.
            b'B' => Flags::empty(),
            _ => return Err(unknown()),
        };
    }
    Ok((op, flags))
}

/// Whether the line belongs to the statistics at the end, or to blktrace's messages about its
/// files.
fn is_statistics(line: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 12] = [
        b"Reads ",
        b"Read ",
        b"Writes ",
        b"IO unplugs:",
        b"Timer unplugs:",
        b"PC Reads ",
        b"PC Read ",
        b"Throughput (",
        b"Events (",
        b"Skips: ",
        b"Input file ",
        b"Total (",
    ];
    let line = line.trim_ascii_start();
    let per_cpu = || {
        let number = line.strip_prefix(b"CPU")?;
        let digits = number.iter().take_while(|b| b.is_ascii_digit()).count();
        (digits > 0 && number[digits..].starts_with(b" (")).then_some(())
    };
    BEGINNINGS.iter().any(|beginning| line.starts_with(beginning)) || per_cpu().is_some()
}
