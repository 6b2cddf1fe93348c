//! The terminal: an alternate screen, and unbuffered keys.

use std::io::{self, Write};
use std::sync::{Mutex, Once};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpgrp, getpid, getsid, kill_process};
use rustix::stdio;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcgetwinsize,
    tcsetattr,
};

use super::screen::{Line, Style};
use crate::console;

/// The keys that have a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(u8),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// The terminal is gone; there will be no more keys.
    Gone,
}

/// The terminal's mode before it was taken over. A panic restores it before printing: what is
/// written to the alternate screen is lost.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);
static PANICS: Once = Once::new();

/// Switches to the alternate screen without cursor and wrapping; and back.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &[u8] = b"\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The terminal, taken over until this is dropped.
pub(super) struct Terminal(());

impl Terminal {
    /// Whether there is a terminal to read from and draw on.
    pub(super) fn is_there() -> bool {
        isatty(stdio::stdin()) && isatty(stdio::stdout())
    }

    /// Takes the terminal over. Keys arrive at once and are not echoed; Ctrl-C, Ctrl-\\ and
    /// Ctrl-Z still raise signals, which the caller must have caught.
    pub(super) fn open() -> io::Result<Self> {
        PANICS.call_once(|| {
            let report = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                report(panic);
            }));
        });
        let before = tcgetattr(stdio::stdin())?;
        *BEFORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(before);
        // From here on, dropping restores the terminal.
        let this = Self(());
        this.set_up()?;
        Ok(this)
    }

    /// Sets the terminal up again after others have changed it: a shell sets its own modes
    /// while this process is stopped.
    pub(super) fn set_up(&self) -> io::Result<()> {
        let before = BEFORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let Some(mut raw) = before else { return Ok(()) };
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN;
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        if is_alone() {
            raw.special_codes[SpecialCodeIndex::VSUSP] = 0;
        }
        // Keeps input that was typed before.
        tcsetattr(stdio::stdin(), OptionalActions::Now, &raw)?;
        write(ENTER)
    }

    /// Restores the terminal, stops this process, and takes the terminal over again when the
    /// process continues.
    pub(super) fn stop(&self) -> io::Result<()> {
        let before = give_back();
        // Not SIGTSTP, which is caught.
        kill_process(getpid(), Signal::STOP)?;
        *BEFORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = before;
        self.set_up()
    }

    /// Columns and lines.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(stdio::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.into(), size.ws_row.into())
            }
            // A serial line has no size.
            _ => (80, 24),
        }
    }

    /// Draws these lines from the top, in one write, so that no partial screen is visible.
    pub(super) fn draw(&self, lines: &[Line]) -> io::Result<()> {
        let mut text = String::from("\x1b[H");
        for (i, line) in lines.iter().enumerate() {
            if i > 0 {
                text += "\r\n";
            }
            // Erased first, because after a full line it would erase the last letter.
            text += "\x1b[K";
            text += match line.style {
                Style::Plain => "",
                Style::Bold => "\x1b[1m",
                Style::Reverse => "\x1b[7m",
                Style::Dim => "\x1b[2m",
            };
            text += &line.text;
            text += "\x1b[0m";
        }
        text += "\x1b[J";
        write(text.as_bytes())
    }

    /// The keys pressed, waiting at most this long for the first of them.
    pub(super) fn keys(&self, patience: Duration) -> io::Result<Vec<Key>> {
        let mut ready = [PollFd::from_borrowed_fd(stdio::stdin(), PollFlags::IN)];
        let patience = Timespec::try_from(patience).expect("less than a second");
        match poll(&mut ready, Some(&patience)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        let mut bytes = [0; 64];
        match rustix::io::read(stdio::stdin(), &mut bytes) {
            Ok(0) | Err(rustix::io::Errno::IO) => Ok(vec![Key::Gone]),
            Ok(read) => Ok(parse(&bytes[..read])),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(Vec::new()),
            Err(e) => Err(e.into()),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the previous mode, and returns it.
fn give_back() -> Option<Termios> {
    let before = BEFORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
    if let Some(before) = &before {
        // Nothing can be done if the terminal is gone.
        _ = write(LEAVE);
        _ = tcsetattr(stdio::stdin(), OptionalActions::Flush, before);
    }
    before
}

/// Whether no shell has this process as a job (it is a terminal's first program, say): nothing
/// would continue it after Ctrl-Z.
fn is_alone() -> bool {
    getsid(None).is_ok_and(|session| session == getpgrp())
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = console::screen();
    out.write_all(bytes)?;
    out.flush()
}

/// Keys from the bytes that the terminal sends: arrows and the like are sequences.
fn parse(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let [first, rest @ ..] = bytes {
        bytes = match bytes {
            [0x1b, b'[' | b'O', rest @ ..] => {
                let end = rest.iter().position(|byte| (0x40..0x7f).contains(byte));
                let end = end.map_or(rest.len(), |end| end + 1);
                keys.extend(sequence(&rest[..end]));
                &rest[end..]
            }
            _ => {
                keys.push(Key::Char(*first));
                rest
            }
        };
    }
    keys
}

/// The key of a sequence, without its prefix. Most sequences are not keys.
const fn sequence(bytes: &[u8]) -> Option<Key> {
    match bytes {
        b"A" => Some(Key::Up),
        b"B" => Some(Key::Down),
        b"5~" => Some(Key::PageUp),
        b"6~" => Some(Key::PageDown),
        b"H" | b"1~" | b"7~" => Some(Key::Home),
        b"F" | b"4~" | b"8~" => Some(Key::End),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrow_sequences_are_keys_and_unknown_ones_are_ignored() {
        assert_eq!(parse(b"q"), [Key::Char(b'q')]);
        assert_eq!(parse(b"\x1b[A\x1bOBs"), [Key::Up, Key::Down, Key::Char(b's')]);
        assert_eq!(parse(b"\x1b[15~p\x1b[1;5C"), [Key::Char(b'p')]);
        assert_eq!(parse(b"\x1b["), []);
        let far = [Key::PageUp, Key::PageDown, Key::Home, Key::End];
        assert_eq!(parse(b"\x1b[5~\x1b[6~\x1b[H\x1b[F"), far);
        assert_eq!(parse(b"\x1b[1~\x1bOF"), [Key::Home, Key::End]);
    }
}
