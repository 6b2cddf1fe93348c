//! One file of blktrace's output, as events in time order.

use std::io::{self, BufRead};
use std::path::PathBuf;

use super::binary::{Bad, Decoder, Processes};
use super::event::Event;
use trimtab_io::Nanos;

use crate::error::{Error, Malformed, Position};
use crate::names::Names;

/// Reads one file, and sorts small disorder.
///
/// An interrupt may come between taking an event's time and writing it; a stream gathered from
/// several CPUs (`blktrace -o -`) alternates between their buffers. So a window of events is held
/// back and sorted. An event later than that comes out late.
pub(super) struct EventFile {
    content: Content,
    events: Vec<Event>,
    /// Events returned already, and events that may be returned.
    taken: usize,
    ready: usize,
    window: usize,
    /// The error that stopped reading; reported after the events before it.
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

    /// The available events, in time order; reads on if there are none. Empty at the end of the
    /// file.
    pub(super) fn ready(
        &mut self,
        names: &mut Names,
        processes: &mut Processes,
    ) -> Result<&[Event], Error> {
        if self.taken == self.ready {
            if let Some(error) = self.stopped.take() {
                return Err(error);
            }
            self.refill_events(names, processes);
            if self.ready == 0
                && let Some(error) = self.stopped.take()
            {
                return Err(error);
            }
        }
        Ok(&self.events[self.taken..self.ready])
    }

    /// Events available without reading on.
    pub(super) fn held(&self) -> &[Event] {
        &self.events[self.taken..self.ready]
    }

    /// Time of the earliest record read, event or not.
    pub(super) const fn earliest(&self) -> Option<Nanos> {
        self.content.decoder.earliest
    }

    /// Marks the first `count` of the ready events as used.
    pub(super) fn consume(&mut self, count: usize) {
        self.taken += count;
    }

    fn refill_events(&mut self, names: &mut Names, processes: &mut Processes) {
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

/// Splits a file's bytes into records.
struct Content {
    reader: Box<dyn BufRead + Send>,
    path: PathBuf,
    /// Start of the next record.
    byte: u64,
    /// The beginning of that record, if its end is not in the reader's buffer.
    carry: Vec<u8>,
    decoder: Decoder,
    ended: bool,
}

impl Content {
    /// Decodes the reader's buffer.
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

    /// The error for a bad record; reading continues behind it, if possible.
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
