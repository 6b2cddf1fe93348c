//! Protects the Parquet library from hostile files.
//!
//! The library trusts the sizes in page headers, and reserves memory for them before it reads the
//! content. A few damaged bytes could claim gigabytes, and a failed allocation aborts the process.
//! Here each header is parsed first, and refused if its claims are out of proportion. Pages in gzip
//! and Brotli, whose output the library does not limit, are decompressed once without keeping the
//! output, to check that it is no larger than claimed.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};
use rustc_hash::FxHashMap;

/// The largest page, in bytes before and after decompression. Writers aim at
/// 1 MiB; 32 MiB is a page of four million 64-bit numbers.
const MAX_PAGE: u64 = 32 << 20;
/// The largest page header; statistics make some long.
const MAX_HEADER: usize = 64 << 10;
/// Most headers are shorter than this.
const USUAL_HEADER: usize = 512;

/// A file whose page headers are checked before the library sees them.
#[derive(Clone)]
pub(super) struct Guarded {
    file: Arc<File>,
    length: u64,
    failure: Arc<Mutex<Option<io::Error>>>,
    /// Ranges of the file whose pages are test-decompressed.
    unbounded: Arc<[(Range<u64>, Codec)]>,
    /// Claims of headers whose pages were not read yet, by page start.
    claims: Arc<Mutex<FxHashMap<u64, PageHeader>>>,
}

/// A compression whose output the library does not limit.
#[derive(Clone, Copy)]
enum Codec {
    Gzip,
    Brotli,
}

impl Guarded {
    pub(super) fn new(file: File, length: u64) -> Self {
        Self {
            file: Arc::new(file),
            length,
            failure: Arc::default(),
            unbounded: Arc::default(),
            claims: Arc::default(),
        }
    }

    /// Takes the compression of each range from the footer.
    pub(super) fn set_codecs(&mut self, footer: &ParquetMetaData) {
        let columns = footer.row_groups().iter().flat_map(|group| group.columns());
        let of = columns.filter_map(|column| {
            let codec = match column.compression() {
                Compression::GZIP(_) => Codec::Gzip,
                Compression::BROTLI(_) => Codec::Brotli,
                _ => return None,
            };
            let (start, length) = column.byte_range();
            Some((start..start.saturating_add(length), codec))
        });
        self.unbounded = of.collect();
    }

    fn codec_at(&self, place: u64) -> Option<Codec> {
        self.unbounded.iter().find(|(part, _)| part.contains(&place)).map(|&(_, codec)| codec)
    }

    /// Refuses a page that unpacks to more than its header claims.
    fn check_unpacked(&self, start: u64, page: &[u8]) -> Result<()> {
        let claim = self.claims.lock().ok().and_then(|mut claims| claims.remove(&start));
        let (Some(claim), Some(codec)) = (claim, self.codec_at(start)) else { return Ok(()) };
        // In version 2 pages the levels precede the compressed part.
        let levels = claim.levels[0].saturating_add(claim.levels[1]);
        let packed = page.get(levels.min(page.len() as u64) as usize..).unwrap_or_default();
        let max = claim.uncompressed.saturating_sub(levels);
        let unpacked: &mut dyn Read = match codec {
            Codec::Gzip => &mut flate2::read::MultiGzDecoder::new(packed),
            Codec::Brotli => &mut brotli::Decompressor::new(packed, 4096),
        };
        match io::copy(&mut unpacked.take(max + 1), &mut io::sink()) {
            Ok(length) if length > max => Err(bad("page unpacks to more than it claims")),
            // The library reports damage, at the same place.
            _ => Ok(()),
        }
    }

    /// The system's error of a failed read. The library's own errors cannot be told from those of
    /// damaged content.
    pub(super) fn take_failure(&self) -> Option<io::Error> {
        self.failure.lock().ok()?.take()
    }

    /// Up to `max` bytes from `start`, fewer at the end of the file.
    pub(super) fn read_up_to(&self, start: u64, max: usize) -> Result<Vec<u8>> {
        let max = self.length.saturating_sub(start).min(max as u64) as usize;
        let mut bytes = vec![0; max];
        let mut filled = 0;
        while filled < max {
            match self.file.read_at(&mut bytes[filled..], start + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    let error = ParquetError::General(e.to_string());
                    if let Ok(mut failure) = self.failure.lock() {
                        *failure = Some(e);
                    }
                    return Err(error);
                }
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

impl Length for Guarded {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Guarded {
    type T = Cursor<Vec<u8>>;

    /// The page header at `start`; the library reads nothing else this way.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        let mut header = self.read_up_to(start, USUAL_HEADER)?;
        let walked = match PageHeader::walk(&header) {
            Err(HeaderError::Short) if header.len() == USUAL_HEADER => {
                header = self.read_up_to(start, MAX_HEADER)?;
                PageHeader::walk(&header)
            }
            walked => walked,
        };
        let (page, length) = walked.map_err(|fault| bad(fault.describe()))?;
        page.check()?;
        header.truncate(length);
        if self.codec_at(start).is_some()
            && let Ok(mut claims) = self.claims.lock()
        {
            claims.insert(start + length as u64, page);
        }
        Ok(Cursor::new(header))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if length as u64 > MAX_PAGE {
            return Err(bad("page of over 32 MiB"));
        }
        let bytes = self.read_up_to(start, length)?;
        if bytes.len() < length {
            return Err(bad("page goes beyond the end of the file"));
        }
        self.check_unpacked(start, &bytes)?;
        Ok(bytes.into())
    }
}

fn bad(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

/// A page header's claims that affect memory.
#[derive(Debug, Default, PartialEq, Eq)]
struct PageHeader {
    uncompressed: u64,
    compressed: u64,
    dictionary_values: u64,
    encodings: [u64; 2],
    /// Bytes of uncompressed definition and repetition levels.
    levels: [u64; 2],
}

impl PageHeader {
    /// Parses the header at the start of `bytes`; returns its length too.
    fn walk(bytes: &[u8]) -> Walked<(Self, usize)> {
        let mut header = Self::default();
        let mut rest = bytes;
        walk_struct(&mut rest, &mut Vec::new(), &mut |path, value| match *path {
            // Field numbers of PageHeader in parquet.thrift.
            [2] => header.uncompressed = value,
            [3] => header.compressed = value,
            [7, 1] => header.dictionary_values = value,
            [5, 2] => header.encodings[0] = value,
            [8, 4] => header.encodings[1] = value,
            [8, 5] => header.levels[0] = value,
            [8, 6] => header.levels[1] = value,
            _ => {}
        })?;
        Ok((header, bytes.len() - rest.len()))
    }

    fn check(&self) -> Result<()> {
        const DELTA_LENGTH_BYTE_ARRAY: u64 = 6;
        const DELTA_BYTE_ARRAY: u64 = 7;
        if self.uncompressed > MAX_PAGE || self.compressed > MAX_PAGE {
            return Err(bad("page of over 32 MiB"));
        }
        // Each value in a dictionary takes four bytes or more.
        if self.dictionary_values > self.uncompressed / 4 {
            return Err(bad("dictionary page is too small for its number of values"));
        }
        // Their number of values is in compressed content, and cannot be checked before the library
        // reserves memory for it. Common writers use them only on request.
        if self.encodings.iter().any(|&e| e == DELTA_LENGTH_BYTE_ARRAY || e == DELTA_BYTE_ARRAY) {
            return Err(bad("strings in delta encodings are not read; write them as a dictionary"));
        }
        Ok(())
    }
}

/// Why a header cannot be parsed.
#[derive(Debug)]
enum HeaderError {
    /// It continues beyond the given bytes.
    Short,
    Invalid,
}

impl HeaderError {
    const fn describe(&self) -> &'static str {
        match self {
            Self::Short => "page header is cut off",
            Self::Invalid => "page header is damaged",
        }
    }
}

type Walked<T = ()> = std::result::Result<T, HeaderError>;

/// Page headers nest three levels deep.
const MAX_DEPTH: usize = 8;

/// Parses one struct in Thrift's compact protocol, and passes every integer in it to `visit` with
/// its path of field numbers. Negative integers become huge.
fn walk_struct(
    rest: &mut &[u8],
    path: &mut Vec<u64>,
    visit: &mut dyn FnMut(&[u64], u64),
) -> Walked {
    if path.len() >= MAX_DEPTH {
        return Err(HeaderError::Invalid);
    }
    let mut field = 0_u64;
    loop {
        let head = byte(rest)?;
        if head == 0 {
            return Ok(());
        }
        field = match u64::from(head >> 4) {
            0 => zigzag(varint(rest)?),
            delta => field.wrapping_add(delta),
        };
        path.push(field);
        walk_value(head & 0x0f, rest, path, visit)?;
        path.pop();
    }
}

fn walk_value(
    kind: u8,
    rest: &mut &[u8],
    path: &mut Vec<u64>,
    visit: &mut dyn FnMut(&[u64], u64),
) -> Walked {
    match kind {
        1 | 2 => {}
        3 => skip(rest, 1)?,
        4..=6 => {
            let value = zigzag(varint(rest)?);
            visit(path, value);
        }
        7 => skip(rest, 8)?,
        8 => {
            let length = varint(rest)?;
            skip(rest, length)?;
        }
        12 => walk_struct(rest, path, visit)?,
        // Lists, sets and maps do not occur in page headers.
        _ => return Err(HeaderError::Invalid),
    }
    Ok(())
}

fn byte(rest: &mut &[u8]) -> Walked<u8> {
    let (&first, others) = rest.split_first().ok_or(HeaderError::Short)?;
    *rest = others;
    Ok(first)
}

fn skip(rest: &mut &[u8], length: u64) -> Walked {
    if length > MAX_HEADER as u64 {
        return Err(HeaderError::Invalid);
    }
    *rest = rest.get(length as usize..).ok_or(HeaderError::Short)?;
    Ok(())
}

fn varint(rest: &mut &[u8]) -> Walked<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let b = byte(rest)?;
        value |= u64::from(b & 0x7f) << shift;
        if b & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(HeaderError::Invalid)
}

const fn zigzag(n: u64) -> u64 {
    (n >> 1) ^ (n & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// type = 0, uncompressed, compressed, then field 7 with one value.
    fn header(uncompressed: &[u8], values: &[u8]) -> Vec<u8> {
        [&[0x15, 0x00, 0x15], uncompressed, &[0x15, 0x08, 0x4c, 0x15], values, &[0, 0, 0xee]]
            .concat()
    }

    #[test]
    fn header_sizes_parse() {
        let bytes = header(&[0x80, 0x01], &[0x10]);
        let (page, length) = PageHeader::walk(&bytes).unwrap();
        assert_eq!((page.uncompressed, page.compressed, page.dictionary_values), (64, 4, 8));
        assert_eq!(length, bytes.len() - 1);
        assert!(page.check().is_ok());
    }

    /// A page of a few hundred bytes that would fill the memory.
    #[test]
    fn pages_beyond_their_claimed_size_are_refused() {
        use std::io::Write;
        let zeroes = vec![0; 1 << 20];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&zeroes).unwrap();
        let mut brotli = Vec::new();
        brotli::CompressorWriter::new(&mut brotli, 4096, 4, 20).write_all(&zeroes).unwrap();
        for (page, codec) in [(gzip.finish().unwrap(), Codec::Gzip), (brotli, Codec::Brotli)] {
            let mut file = Guarded::new(tempfile::tempfile().unwrap(), 1 << 20);
            file.unbounded = [(0..1 << 20, codec)].into();
            let check = |uncompressed, place| {
                let claim = PageHeader { uncompressed, ..PageHeader::default() };
                file.claims.lock().unwrap().insert(place, claim);
                file.check_unpacked(place, &page)
            };
            assert!(check(1 << 20, 7).is_ok());
            assert!(check((1 << 20) - 1, 7).unwrap_err().to_string().contains("than it claims"));
            assert!(check(1, 2 << 20).is_ok(), "another column, compressed otherwise");
        }
    }

    #[test]
    fn oversized_claims_are_refused() {
        let two_gib = [0xfe, 0xff, 0xff, 0xff, 0x0f];
        assert!(PageHeader::walk(&header(&two_gib, &[0x10])).unwrap().0.check().is_err());
        assert!(PageHeader::walk(&header(&[0x10], &two_gib)).unwrap().0.check().is_err());
        assert!(PageHeader::walk(&header(&[0x01], &[0x10])).unwrap().0.check().is_err());
        let string_of_4_gib = [0x18, 0xff, 0xff, 0xff, 0xff, 0x0f];
        assert!(matches!(PageHeader::walk(&string_of_4_gib), Err(HeaderError::Invalid)));
        assert!(matches!(PageHeader::walk(&[0x15]), Err(HeaderError::Short)));
        assert!(matches!(PageHeader::walk(&[0x1c; 64]), Err(HeaderError::Invalid)));
    }
}
