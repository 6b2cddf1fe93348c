//! Text encodings: UTF-8 with a byte order mark, and UTF-16 with one. Parsers get plain UTF-8.

use std::io::{self, BufRead, Read};

const UTF8_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
const UTF16_LITTLE_MARK: &[u8] = &[0xff, 0xfe];
const UTF16_BIG_MARK: &[u8] = &[0xfe, 0xff];

/// Bytes decoded at a time.
const CHUNK: usize = 64 << 10;

/// The content as UTF-8 without a mark. Content without a mark is passed through unchanged.
pub(crate) fn decoded<R: BufRead + Send + 'static>(
    mut reader: R,
) -> io::Result<Box<dyn BufRead + Send>> {
    let mut start = Vec::with_capacity(UTF8_MARK.len());
    reader.by_ref().take(UTF8_MARK.len() as u64).read_to_end(&mut start)?;
    let big = match &start[..] {
        UTF8_MARK => return Ok(Box::new(reader)),
        [a, b, ..] if [*a, *b] == UTF16_LITTLE_MARK => false,
        [a, b, ..] if [*a, *b] == UTF16_BIG_MARK => true,
        _ => return Ok(Box::new(io::Cursor::new(start).chain(reader))),
    };
    let rest = io::Cursor::new(start.split_off(UTF16_BIG_MARK.len())).chain(reader);
    Ok(Box::new(Utf16 { reader: rest, big, lone: None, high: None, text: Vec::new(), used: 0 }))
}

/// Converts UTF-16 to UTF-8, a chunk at a time.
struct Utf16<R> {
    reader: R,
    /// Whether the first byte of two is the high one.
    big: bool,
    /// The first byte of two, where the second is in the next chunk.
    lone: Option<u8>,
    /// The first half of a surrogate pair, likewise.
    high: Option<u16>,
    /// The current decoded chunk, and how much of it was consumed.
    text: Vec<u8>,
    used: usize,
}

impl<R: BufRead> Utf16<R> {
    /// Decodes the next chunk, replacing the last; empty at the end.
    fn decode(&mut self) -> io::Result<()> {
        self.text.clear();
        self.used = 0;
        while self.text.is_empty() {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                let cut_off = self.lone.take().is_some() || self.high.take().is_some();
                return if cut_off { Err(broken("ends within a character")) } else { Ok(()) };
            }
            let length = chunk.len().min(CHUNK);
            let order = if self.big { u16::from_be_bytes } else { u16::from_le_bytes };
            let mut units = Vec::with_capacity(length / 2 + 2);
            units.extend(self.high.take());
            let bytes = &chunk[..length];
            let pairs = match self.lone.take() {
                Some(first) => {
                    units.push(order([first, bytes[0]]));
                    &bytes[1..]
                }
                None => bytes,
            };
            let (pairs, lone) = pairs.as_chunks::<2>();
            units.extend(pairs.iter().map(|&pair| order(pair)));
            self.lone = lone.first().copied();
            self.reader.consume(length);
            self.high = units.pop_if(|last| (0xd800..0xdc00).contains(last));
            for decoded in char::decode_utf16(units) {
                let character = decoded.map_err(|_| broken("has half a surrogate pair"))?;
                self.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        Ok(())
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("its UTF-16 text {what}"))
}

impl<R: BufRead> BufRead for Utf16<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used == self.text.len() {
            self.decode()?;
        }
        Ok(&self.text[self.used..])
    }

    fn consume(&mut self, amount: usize) {
        self.used = (self.used + amount).min(self.text.len());
    }
}

impl<R: BufRead> Read for Utf16<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let amount = self.fill_buf()?.read(out)?;
        self.consume(amount);
        Ok(amount)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    const TEXT: &str = "1,a,0,Read,µ,𝄞\r\n2,日本,x\r\n";

    fn utf16(text: &str, order: fn(u16) -> [u8; 2]) -> Vec<u8> {
        "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(order).collect()
    }

    /// Through a buffer of this many bytes, so that characters straddle chunks.
    fn read(bytes: &[u8], buffer: usize) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let reader = BufReader::with_capacity(buffer, io::Cursor::new(bytes.to_vec()));
        decoded(reader)?.read_to_end(&mut text)?;
        Ok(text)
    }

    #[test]
    fn all_byte_order_marks_decode_alike() {
        let marked = [UTF8_MARK, TEXT.as_bytes()].concat();
        let all = [utf16(TEXT, u16::to_le_bytes), utf16(TEXT, u16::to_be_bytes), marked];
        for (bytes, buffer) in all.iter().flat_map(|b| [1, 2, 3, 5, 64].map(|n| (b, n))) {
            assert_eq!(read(bytes, buffer).unwrap(), TEXT.as_bytes(), "{buffer}");
        }
    }

    #[test]
    fn unmarked_content_passes_through() {
        for bytes in [&b""[..], b"a", b"ab", b"abc", b"\xef\xbbx", b"a\xff\xfe\x00", b"\xff"] {
            assert_eq!(read(bytes, 2).unwrap(), bytes);
        }
        for mark in [UTF8_MARK, UTF16_LITTLE_MARK, UTF16_BIG_MARK] {
            assert_eq!(read(mark, 1).unwrap(), b"");
        }
    }

    #[test]
    fn invalid_utf16_is_an_error() {
        for (bytes, part) in [
            (&b"\xff\xfea\x00b"[..], "ends within a character"),
            (b"\xff\xfe\x34\xd8", "ends within a character"),
            (b"\xff\xfe\x34\xd8a\x00", "half a surrogate pair"),
            (b"\xfe\xff\xdc\x00", "half a surrogate pair"),
        ] {
            let error = read(bytes, 64).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
