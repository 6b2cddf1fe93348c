//! One connection: one request, its answer, then the end.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};

use super::{Answer, METHODS, NOT_ALLOWED};

/// The largest head of a request.
pub(super) const LARGEST: usize = 8 << 10;

/// A connection, and the progress of its request or answer.
pub(super) struct Exchange {
    stream: TcpStream,
    /// Its time limit.
    pub(super) until: Instant,
    state: State,
}

enum State {
    /// The part of the request's head received so far.
    Asks(Vec<u8>),
    /// The answer, sent up to `sent`.
    Hears { answer: Vec<u8>, sent: usize },
    /// The answer is sent. Further input is dropped until the client closes the connection:
    /// closing it here with unread input would reset it and discard the answer.
    Ends,
}

impl Exchange {
    pub(super) fn new(stream: TcpStream, until: Instant) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, until, state: State::Asks(Vec::new()) })
    }

    /// Whether closing it loses nothing: nothing has been received yet, or everything is sent.
    pub(super) const fn is_silent(&self) -> bool {
        match &self.state {
            State::Asks(head) => head.is_empty(),
            State::Hears { .. } => false,
            State::Ends => true,
        }
    }

    /// The event that it waits for.
    pub(super) fn awaited(&self) -> PollFd<'_> {
        let what = match self.state {
            State::Asks(_) | State::Ends => PollFlags::IN,
            State::Hears { .. } => PollFlags::OUT,
        };
        PollFd::new(&self.stream, what)
    }

    /// Advances as far as possible without blocking. Returns whether it is still open.
    /// `respond` gives the answer to a first line, or to an unreadable one.
    pub(super) fn go_on(&mut self, respond: impl FnOnce(Option<&str>) -> Answer) -> bool {
        match self.step(respond) {
            Ok(more) => more,
            Err(e) => matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }

    fn step(&mut self, respond: impl FnOnce(Option<&str>) -> Answer) -> io::Result<bool> {
        if let State::Asks(head) = &mut self.state {
            if !take(&mut self.stream, head)? {
                return Ok(true);
            }
            let line = first_line(head);
            let without_content = line.as_deref().is_some_and(|line| line.starts_with("HEAD "));
            let answer = answer(respond(line.as_deref()), without_content);
            self.state = State::Hears { answer, sent: 0 };
        }
        if let State::Hears { answer, sent } = &mut self.state {
            while *sent < answer.len() {
                *sent += self.stream.write(&answer[*sent..])?;
            }
            self.stream.shutdown(Shutdown::Write)?;
            self.state = State::Ends;
        }
        // Not everything at once: other connections wait.
        Ok(self.stream.read(&mut [0; 1024])? > 0)
    }
}

fn answer((status, kind, body): Answer, without_content: bool) -> Vec<u8> {
    let allow = if status == NOT_ALLOWED { format!("Allow: {METHODS}\r\n") } else { String::new() };
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}\
         Connection: close\r\n\r\n",
        body.len()
    );
    if !without_content {
        answer += &body;
    }
    answer.into_bytes()
}

/// Reads a piece of a request's head. Returns whether the head is complete or too large.
fn take(stream: &mut TcpStream, head: &mut Vec<u8>) -> io::Result<bool> {
    let mut piece = [0; 1024];
    let read = stream.read(&mut piece)?;
    head.extend_from_slice(&piece[..read]);
    Ok(read == 0 || head.len() > LARGEST || is_complete(head))
}

fn is_complete(head: &[u8]) -> bool {
    head.windows(4).any(|end| end == b"\r\n\r\n")
}

/// The first line of a complete head, if it is text.
fn first_line(head: &[u8]) -> Option<String> {
    if head.len() > LARGEST || !is_complete(head) {
        return None;
    }
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    String::from_utf8(line.to_vec()).ok()
}
