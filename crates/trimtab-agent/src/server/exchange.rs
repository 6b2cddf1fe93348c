//! One connection: a request, its answer, and nothing after that.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};

use super::{Answer, METHODS, NOT_ALLOWED};

/// The head of a request is no larger than that.
pub(super) const LARGEST: usize = 8 << 10;

/// A connection, and how far its request or answer has come.
pub(super) struct Exchange {
    stream: TcpStream,
    /// When it ends, wherever it is by then.
    pub(super) until: Instant,
    state: State,
}

enum State {
    /// What has come of the request's head.
    Asks(Vec<u8>),
    /// What is left to be sent of the answer: from here on.
    Hears { answer: Vec<u8>, sent: usize },
    /// All is sent. What the client may still send is dropped until it ends the connection:
    /// if we did, with something unread, the kernel would take the answer back.
    Ends,
}

impl Exchange {
    pub(super) fn new(stream: TcpStream, until: Instant) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, until, state: State::Asks(Vec::new()) })
    }

    /// Whether nothing would be lost with it: nothing has come yet, or all is sent.
    pub(super) const fn is_silent(&self) -> bool {
        match &self.state {
            State::Asks(head) => head.is_empty(),
            State::Hears { .. } => false,
            State::Ends => true,
        }
    }

    /// What it waits for.
    pub(super) fn awaited(&self) -> PollFd<'_> {
        let what = match self.state {
            State::Asks(_) | State::Ends => PollFlags::IN,
            State::Hears { .. } => PollFlags::OUT,
        };
        PollFd::new(&self.stream, what)
    }

    /// Goes on as far as it can without waiting; whether there is more to do. `respond`
    /// has the answer to a first line, or to none that could be made out.
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
        // Not all at once: others wait.
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

/// Takes a piece of a request's head; whether it has come to its end, or is too large.
fn take(stream: &mut TcpStream, head: &mut Vec<u8>) -> io::Result<bool> {
    let mut piece = [0; 1024];
    let read = stream.read(&mut piece)?;
    head.extend_from_slice(&piece[..read]);
    Ok(read == 0 || head.len() > LARGEST || is_whole(head))
}

fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|end| end == b"\r\n\r\n")
}

/// The first line of a whole head, if it is text.
fn first_line(head: &[u8]) -> Option<String> {
    if head.len() > LARGEST || !is_whole(head) {
        return None;
    }
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    String::from_utf8(line.to_vec()).ok()
}
