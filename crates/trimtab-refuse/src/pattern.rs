//! Patterns of file names: `/var/lib/db/**/*.sst`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use crate::Error;

/// More files than this are not named.
pub(crate) const MOST_FILES: usize = 100_000;
/// Directories nested deeper are not searched.
const MOST_DEPTH: usize = 64;

/// A pattern of absolute paths. `*` stands for any text within a name, `?` for one byte,
/// `[a-z]` and `[!a-z]` for one of a set, and a component `**` for any directories, or none.
/// A backslash takes the next byte as it is. As in a shell, a leading dot must be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    /// The directory before the first component with a wildcard; the whole path without any.
    /// Symbolic links are resolved, as in the paths that the kernel reports.
    base: PathBuf,
    /// The components below it.
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// `**`
    AnyDirectories,
    Name(Vec<Token>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    AnyByte,
    AnyText,
    Set { ranges: Vec<(u8, u8)>, is_negated: bool },
}

impl Pattern {
    /// Reads a pattern. A relative one is below the working directory.
    ///
    /// # Errors
    /// It is empty, or a set is not closed; or there is no working directory.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Pattern { pattern: text.to_owned(), why: why.to_owned() };
        if text.is_empty() || text.contains('\0') {
            return Err(wrong("expected a pattern of files such as /var/lib/db/*.sst"));
        }
        if text.ends_with('/') {
            return Err(wrong("expected files, and this names directories: append * or **/*"));
        }
        let working =
            || std::env::current_dir().map_err(|e| wrong(&format!("it is relative: {e}")));
        let mut base = if text.starts_with('/') { PathBuf::from("/") } else { working()? };
        let mut parts = Vec::new();
        for component in Path::new(text).components() {
            match component {
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
                Component::ParentDir if parts.is_empty() => base.push(".."),
                Component::ParentDir => return Err(wrong("`..` cannot follow a wildcard")),
                Component::Normal(name) => {
                    let part = Part::parse(name.as_bytes()).map_err(wrong)?;
                    match part.literal() {
                        Some(name) if parts.is_empty() => base.push(name),
                        _ => parts.push(part),
                    }
                }
            }
        }
        Ok(Self { text: text.to_owned(), base: resolved(&base), parts })
    }

    /// Whether a path is of the pattern; it must be absolute and without symbolic links.
    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        let Ok(below) = path.strip_prefix(&self.base) else { return false };
        let names: Vec<_> = below.iter().collect();
        matches_names(&self.parts, &names)
    }

    /// The files that are of the pattern now, in order, links followed; at most 100,000, and
    /// whether there are more. Directories that cannot be read are passed over.
    #[must_use]
    pub fn files(&self) -> (Vec<PathBuf>, bool) {
        let mut found = Vec::new();
        if self.parts.is_empty() {
            found.extend(is_readable_kind(&self.base).then(|| self.base.clone()));
        } else {
            search(&self.base, &self.parts, 0, &mut found);
        }
        found.sort_unstable();
        found.dedup();
        let more = found.len() > MOST_FILES;
        found.truncate(MOST_FILES);
        (found, more)
    }

    /// The deepest existing directory that all files of the pattern are below.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        let mut directory = self.base.as_path();
        while !directory.is_dir() {
            let Some(parent) = directory.parent() else { break };
            directory = parent;
        }
        directory.to_owned()
    }

    /// As it was given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The path without symbolic links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let mut missing: Vec<&OsStr> = Vec::new();
    let mut there = path;
    loop {
        if let Ok(mut found) = fs::canonicalize(there) {
            found.extend(missing.iter().rev());
            return found;
        }
        let (Some(parent), Some(name)) = (there.parent(), there.file_name()) else {
            return path.to_owned();
        };
        missing.push(name);
        there = parent;
    }
}

/// Files and block devices can be read directly.
fn is_readable_kind(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    fs::metadata(path).is_ok_and(|found| found.is_file() || found.file_type().is_block_device())
}

fn search(directory: &Path, parts: &[Part], depth: usize, found: &mut Vec<PathBuf>) {
    let Some((part, rest)) = parts.split_first() else { return };
    if depth > MOST_DEPTH || found.len() > MOST_FILES {
        return;
    }
    if *part == Part::AnyDirectories {
        search(directory, rest, depth, found);
    }
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        match part {
            // Links are not followed here: they may form a circle.
            Part::AnyDirectories => {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !is_hidden(&name) {
                    search(&path, parts, depth + 1, found);
                }
            }
            Part::Name(tokens) if matches_name(tokens, name.as_bytes()) => {
                if rest.is_empty() {
                    found.extend(is_readable_kind(&path).then_some(path));
                } else {
                    search(&path, rest, depth + 1, found);
                }
            }
            Part::Name(_) => {}
        }
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().first() == Some(&b'.')
}

fn matches_names(parts: &[Part], names: &[&OsStr]) -> bool {
    match (parts, names) {
        ([], names) => names.is_empty(),
        ([Part::AnyDirectories, rest @ ..], names) => {
            matches_names(rest, names)
                || names
                    .split_first()
                    .is_some_and(|(first, names)| !is_hidden(first) && matches_names(parts, names))
        }
        ([Part::Name(tokens), rest @ ..], [name, names @ ..]) => {
            matches_name(tokens, name.as_bytes()) && matches_names(rest, names)
        }
        ([Part::Name(_), ..], []) => false,
    }
}

/// Compares without recursion: of several `*` only the last needs to be tried again, so the
/// time is at most the product of both lengths.
fn matches_name(tokens: &[Token], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && tokens.first() != Some(&Token::Byte(b'.')) {
        return false;
    }
    let (mut token, mut at) = (0, 0);
    // The last `*`, and where its text ends.
    let mut star = None;
    while at < name.len() {
        if let Some(Token::AnyText) = tokens.get(token) {
            star = Some((token, at));
            token += 1;
        } else if tokens.get(token).is_some_and(|token| token.takes(name[at])) {
            (token, at) = (token + 1, at + 1);
        } else if let Some((any, end)) = star {
            (token, at) = (any + 1, end + 1);
            star = Some((any, end + 1));
        } else {
            return false;
        }
    }
    tokens[token..].iter().all(|token| *token == Token::AnyText)
}

impl Part {
    fn parse(mut text: &[u8]) -> Result<Self, &'static str> {
        if text == b"**" {
            return Ok(Self::AnyDirectories);
        }
        let mut tokens = Vec::new();
        while let [first, rest @ ..] = text {
            text = rest;
            tokens.push(match first {
                b'*' => Token::AnyText,
                b'?' => Token::AnyByte,
                b'[' => Token::set(&mut text)?,
                b'\\' => {
                    let [byte, rest @ ..] = text else { return Err("nothing follows the `\\`") };
                    text = rest;
                    Token::Byte(*byte)
                }
                byte => Token::Byte(*byte),
            });
        }
        Ok(Self::Name(tokens))
    }

    /// The name, if it is the only one of the pattern.
    fn literal(&self) -> Option<OsString> {
        let Self::Name(tokens) = self else { return None };
        let byte = |token: &Token| if let Token::Byte(byte) = token { Some(*byte) } else { None };
        let bytes = tokens.iter().map(byte).collect::<Option<Vec<u8>>>()?;
        Some(OsStr::from_bytes(&bytes).to_owned())
    }
}

impl Token {
    /// Reads a set up to its closing bracket.
    fn set(text: &mut &[u8]) -> Result<Self, &'static str> {
        const OPEN: &str = "a `[` is not closed by a `]`; write \\[ for the character";
        let is_negated = matches!(text.first(), Some(b'!' | b'^'));
        let mut rest = &text[usize::from(is_negated)..];
        let mut ranges = Vec::new();
        loop {
            rest = match rest {
                [] => return Err(OPEN),
                // A bracket that comes first is one of the set.
                [b']', after @ ..] if !ranges.is_empty() => {
                    *text = after;
                    return Ok(Self::Set { ranges, is_negated });
                }
                [from, b'-', to, after @ ..] if *to != b']' => {
                    ranges.push((*from, *to));
                    after
                }
                [byte, after @ ..] => {
                    ranges.push((*byte, *byte));
                    after
                }
            };
        }
    }

    fn takes(&self, byte: u8) -> bool {
        match self {
            Self::Byte(expected) => *expected == byte,
            Self::AnyByte => true,
            Self::AnyText => false,
            Self::Set { ranges, is_negated } => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&byte)) != *is_negated
            }
        }
    }
}

#[cfg(test)]
mod tests;
