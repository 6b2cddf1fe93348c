//! Escapes text from outside (names of files, devices and commands, notes, quotes from
//! parsers) for terminals.
//!
//! A terminal interprets control characters: a name could change its title, erase lines, or
//! write text that looks like another line of output. Direction marks make names look
//! different. All of these are printed as escapes (`\x1b`, `\n`, `\u{202e}`); printable
//! characters stay unchanged.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// The text, with escapes for all that a terminal would not show as a character.
///
/// ```
/// use trimtab_report::escaped;
///
/// assert_eq!(escaped("nvme0n1, 85 µs"), "nvme0n1, 85 µs");
/// assert_eq!(escaped("sda\x1b]0;x\x07\n"), "sda\\x1b]0;x\\x07\\n");
/// ```
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_harmful(c) { push_text(&mut safe, c) } else { safe.push(c) }
    }
    Cow::Owned(safe)
}

/// Whether a terminal does something else with a character than to show it: controls (C0,
/// DEL, C1), line and paragraph separators, marks of direction, invisible characters that
/// make two names look alike, and the old language tags.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn push_text(to: &mut String, c: char) {
    let pushed = match c {
        '\n' => write!(to, "\\n"),
        '\r' => write!(to, "\\r"),
        '\t' => write!(to, "\\t"),
        c if c.is_ascii() => write!(to, "\\x{:02x}", c as u32),
        c => write!(to, "\\u{{{:x}}}", c as u32),
    };
    pushed.expect("a String takes everything");
}

/// In JSON these characters occur in strings only, where this means the same.
fn push_json(to: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        write!(to, "\\u{unit:04x}").expect("a String takes everything");
    }
}

/// How escapes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Text,
    Json,
}

/// A writer to a terminal that removes control characters except line ends, so that text from
/// outside is harmless even if a caller forgot [`escaped`]. It cannot distinguish a line end
/// of the program from one in a name: callers that print names use `escaped`.
#[derive(Debug)]
pub struct Printer<W> {
    to: W,
    content: Content,
}

impl<W: Write> Printer<W> {
    /// For text.
    pub const fn text(to: W) -> Self {
        Self { to, content: Content::Text }
    }

    /// For JSON, which stays the same JSON.
    pub const fn json(to: W) -> Self {
        Self { to, content: Content::Json }
    }

    fn print(&mut self, text: &str) -> io::Result<()> {
        let passes = |c: char| c == '\n' || !is_harmful(c);
        if text.chars().all(passes) {
            return self.to.write_all(text.as_bytes());
        }
        let mut safe = String::with_capacity(text.len() + 8);
        for c in text.chars() {
            match self.content {
                _ if passes(c) => safe.push(c),
                Content::Text => push_text(&mut safe, c),
                Content::Json => push_json(&mut safe, c),
            }
        }
        self.to.write_all(safe.as_bytes())
    }
}

impl<W: Write> Write for Printer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for chunk in bytes.utf8_chunks() {
            self.print(chunk.valid())?;
            for byte in chunk.invalid() {
                write!(self.to, "\\x{byte:02x}")?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NASTY: &str = "a\x1b[2J\r\u{9b}1m\u{202e}é日\u{e0041}\x7f\tb";

    #[test]
    fn printable_characters_are_unchanged() {
        for text in ["", "sda", "85 µs – é, 日本, e\u{301}, 👩\u{200d}🔬", "a\\nb"] {
            assert!(matches!(escaped(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn everything_else_is_escaped() {
        let expected = "a\\x1b[2J\\r\\u{9b}1m\\u{202e}é日\\u{e0041}\\x7f\\tb";
        assert_eq!(escaped(NASTY), expected);
        assert_eq!(escaped("x\ny"), "x\\ny");
        for c in (0..=0x10_ffff).filter_map(char::from_u32).filter(|c| c.is_control()) {
            assert!(!escaped(&c.to_string()).contains(c), "{c:?}");
        }
    }

    #[test]
    fn printer_passes_only_line_ends() {
        let mut out = Vec::new();
        writeln!(Printer::text(&mut out), "x: {NASTY}").unwrap();
        Printer::text(&mut out).write_all(b"\xff\n").unwrap();
        let expected = format!("x: {}\n\\xff\n", escaped(NASTY));
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn json_stays_the_same_json() {
        let value = serde_json::json!({ "name": NASTY, "other": [1, "\n"] });
        let mut out = Vec::new();
        serde_json::to_writer_pretty(Printer::json(&mut out), &value).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.chars().all(|c| c == '\n' || !is_harmful(c)), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
