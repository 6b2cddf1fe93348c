//! One file of blktrace's output, as events in order of time.

use std::io::{self, BufRead};
use std::path::PathBuf;

use super::binary::{Bad, Decoder, Processes};
use super::event::Event;
use trimtab_io::Nanos;

use crate::error::{Error, Malformed, Position};
use crate::names::Names;

/// Reads one file, and puts small disorder right.
///
/// On one CPU an interrupt may slip in between taking an event's time and
/// writing it down; a stream that was gathered from several CPUs as it came
/// (`blktrace -o -`) holds buffer after buffer of them. A window of events is
/// therefore held back and sorted. What is later than that comes out late.
pub(super) struct EventFile {
    content: Content,
    events: Vec<Event>,
    /// Events handed out already, and those that may be.
    taken: usize,
    ready: usize,
    window: usize,
    /// What stopped reading; reported when the events before it are gone.
    stopped: Option<Error>,
}

impl EventFile {
    pub(super) fn new(reader: Box<dyn BufRead + Send>, path: PathBuf, window: usize) -> Self {
        let content = Content {
            reader,
            path,
            byte: 0,
            carry: Vec::new(),
            decoder: Decoder::default(),
            ended: false,
        };
        Self { content, events: Vec::new(), taken: 0, ready: 0, window, stopped: None }
    }

    /// The events that are ready, in order of time, after reading on if there
    /// were none. Empty at the end of the file.
    pub(super) fn ready(
        &mut self,
        names: &mut Names,
        processes: &mut Processes,
    ) -> Result<&[Event], Error> {
        if self.taken == self.ready {
            if let Some(error) = self.stopped.take() {
                return Err(error);
            }
            self.read_on(names, processes);
            if self.ready == 0
                && let Some(error) = self.stopped.take()
            {
                return Err(error);
            }
        }
        Ok(&self.events[self.taken..self.ready])
    }

    /// Events that are ready without reading on.
    pub(super) fn held(&self) -> &[Event] {
        &self.events[self.taken..self.ready]
    }

    /// The time of the earliest record read so far, be it an event or not.
    pub(super) const fn earliest(&self) -> Option<Nanos> {
        self.content.decoder.earliest
    }

    /// Marks the first `count` of the ready events as used.
    pub(super) fn consume(&mut self, count: usize) {
        self.taken += count;
    }

    fn read_on(&mut self, names: &mut Names, processes: &mut Processes) {
        self.events.drain(..self.taken);
        self.taken = 0;
        let enough = 2 * self.window;
        while self.events.len() < enough && !self.content.ended && self.stopped.is_none() {
            self.stopped = self.content.read(&mut self.events, names, processes).err();
        }
        if !self.events.is_sorted_by_key(|event| event.time) {
            self.events.sort_by_key(|event| event.time);
        }
        let last = self.content.ended || self.stopped.is_some();
        self.ready = self.events.len() - if last { 0 } else { self.window };
    }
}

/// A file's bytes, cut into records.
struct Content {
    reader: Box<dyn BufRead + Send>,
    path: PathBuf,
    /// Where the next record begins.
    byte: u64,
    /// The beginning of that record, if its end is not in the reader's buffer.
    carry: Vec<u8>,
    decoder: Decoder,
    ended: bool,
}

impl Content {
    /// Decodes what the reader's buffer holds.
    fn read(
        &mut self,
        events: &mut Vec<Event>,
        names: &mut Names,
        processes: &mut Processes,
    ) -> Result<(), Error> {
        let buffer = match self.reader.fill_buf() {
            Ok(buffer) => buffer,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(source) => {
                self.ended = true;
                return Err(Error::Read { path: self.path.clone(), byte: self.byte, source });
            }
        };
        if buffer.is_empty() {
            self.ended = true;
            if self.carry.is_empty() {
                return Ok(());
            }
            let what = format!("the file ends {} bytes into a record", self.carry.len());
            return Err(self.bad(Bad { at: 0, next: None, what: Malformed(what) }));
        }
        let result = if self.carry.is_empty() {
            let result = self.decoder.decode(buffer, events, names, processes);
            let used = match &result {
                Ok(used) => {
                    self.carry.extend_from_slice(&buffer[*used..]);
                    buffer.len()
                }
                Err(bad) => bad.next.unwrap_or(buffer.len()),
            };
            self.reader.consume(used);
            result
        } else {
            self.read_straddling(events, names, processes)
        };
        match result {
            Ok(used) => {
                self.byte += used as u64;
                Ok(())
            }
            Err(bad) => Err(self.bad(bad)),
        }
    }

    /// Completes the record in `carry`, or at least its header.
    fn read_straddling(
        &mut self,
        events: &mut Vec<Event>,
        names: &mut Names,
        processes: &mut Processes,
    ) -> Result<usize, Bad> {
        let fatal = |what| Bad { at: 0, next: None, what };
        let missing = self.decoder.length(&self.carry).map_err(fatal)? - self.carry.len();
        // The buffer was filled by the caller, so this cannot fail.
        let buffer = self.reader.fill_buf().unwrap_or_default();
        let taken = missing.min(buffer.len());
        self.carry.extend_from_slice(&buffer[..taken]);
        self.reader.consume(taken);
        if self.decoder.length(&self.carry).map_err(fatal)? > self.carry.len() {
            return Ok(0);
        }
        let result = self.decoder.decode(&self.carry, events, names, processes);
        self.carry.clear();
        result
    }

    /// The error for a bad record, behind which reading goes on if it can.
    fn bad(&mut self, bad: Bad) -> Error {
        let Bad { at, next, what: Malformed(what) } = bad;
        let at = Position::Byte(self.byte + at as u64);
        match next {
            Some(next) => self.byte += next as u64,
            None => self.ended = true,
        }
        Error::Malformed { path: self.path.clone(), at, what }
    }
}
