//! The device mapper's control device (the kernel's include/uapi/linux/dm-ioctl.h).

use std::ffi::c_void;
use std::fs::File;
use std::io;

use rustix::ioctl::{self, IoctlOutput, Opcode, opcode};

use super::table::Row;

/// The oldest version of the interface with all requests used here.
const VERSION: [u32; 3] = [4, 0, 0];
/// Requests tables rather than the targets' states.
const STATUS_TABLE: u32 = 1 << 4;
/// The buffer was too small.
const BUFFER_FULL: u32 = 1 << 8;
/// The kernel clears its copy: the table of dm-crypt contains the key.
const SECURE_DATA: u32 = 1 << 15;
/// Initial buffer size for a table: doubled until it fits.
const LEAST: usize = 1 << 14;
const MOST: usize = 1 << 24;

/// `struct dm_ioctl`, without the data behind it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Header {
    version: [u32; 3],
    /// Total size, bytes.
    data_size: u32,
    /// Offset of the rows.
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event_nr: u32,
    padding: u32,
    dev: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

const HEADER: usize = size_of::<Header>();
/// `struct dm_target_spec`: start and length in sectors, a status, the offset of the next one,
/// and the target's name.
const ROW: usize = 40;
const DM_TABLE_STATUS: Opcode = opcode::read_write::<Header>(0xfd, 12);

const _: () = assert!(HEADER == 312);

/// The request, with the beginning of a buffer whose size its header gives.
struct TableStatus(*mut Header);

// SAFETY: the opcode has the size of the header; the kernel reads and writes no more than the
// bytes that the header counts, and keeps no pointer.
unsafe impl ioctl::Ioctl for TableStatus {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        DM_TABLE_STATUS
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.0.cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// The table of the device with this number; `None` if the process may not read it, or there
/// is no such device.
pub(super) fn table(number: (u32, u32)) -> Option<Vec<Row>> {
    let control = File::open("/dev/mapper/control").ok()?;
    let mut room = LEAST;
    while room <= MOST {
        match ask(&control, number, room) {
            Ok(Some(rows)) => return Some(rows),
            Ok(None) => room *= 2,
            Err(_) => return None,
        }
    }
    None
}

/// `None`: the buffer was too small.
fn ask(control: &File, number: (u32, u32), room: usize) -> io::Result<Option<Vec<Row>>> {
    // Made of words, so that it is aligned for the header.
    let mut buffer = vec![0_u64; room / size_of::<u64>()];
    let header = Header {
        version: VERSION,
        data_size: room as u32,
        data_start: HEADER as u32,
        target_count: 0,
        open_count: 0,
        flags: STATUS_TABLE | SECURE_DATA,
        event_nr: 0,
        padding: 0,
        dev: kernel_number(number),
        name: [0; 128],
        uuid: [0; 129],
        data: [0; 7],
    };
    let start = buffer.as_mut_ptr().cast::<Header>();
    // SAFETY: the buffer is longer than a header, and aligned for it.
    unsafe { start.write(header) };
    // SAFETY: the header has the buffer's length.
    let done = unsafe { ioctl::ioctl(control, TableStatus(start)) };
    // SAFETY: a header was written there; all bit patterns are valid.
    let header = unsafe { start.read() };
    // SAFETY: the same memory, as bytes.
    let bytes = unsafe { std::slice::from_raw_parts_mut(start.cast::<u8>(), room) };
    let rows = done.map(|()| {
        let data = bytes.get(header.data_start as usize..).unwrap_or_default();
        let is_whole = header.flags & BUFFER_FULL == 0;
        is_whole.then(|| rows(data, header.target_count as usize))
    });
    // The key of dm-crypt must not remain in freed memory.
    bytes.fill(0);
    std::hint::black_box(&buffer);
    Ok(rows?)
}

/// As the kernel encodes a device's number (`huge_encode_dev`).
const fn kernel_number((major, minor): (u32, u32)) -> u64 {
    let (major, minor) = (major as u64, minor as u64);
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The complete rows of a table.
fn rows(data: &[u8], count: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut at = 0;
    for _ in 0..count {
        let Some((row, next)) = row(data, at) else { break };
        rows.extend(row);
        // Otherwise there would be no progress.
        if next <= at {
            break;
        }
        at = next;
    }
    rows
}

/// The row at an offset, and the offset of the next one.
fn row(data: &[u8], at: usize) -> Option<(Option<Row>, usize)> {
    let (fixed, rest) = data.get(at..)?.split_first_chunk::<ROW>()?;
    let word = |at: usize| u64::from_ne_bytes(fixed[at..at + 8].try_into().expect("eight bytes"));
    let next = u32::from_ne_bytes(fixed[20..24].try_into().expect("four bytes"));
    let row = Row::parse(word(0), word(8), string(&fixed[24..])?, string(rest)?);
    Some((row, next as usize))
}

/// Text up to a zero byte, or the end.
fn string(bytes: &[u8]) -> Option<&str> {
    let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    str::from_utf8(&bytes[..length]).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::table::{Place, Rule};
    use super::*;

    fn encoded(start: u64, length: u64, next: u32, target: &str, line: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(start.to_ne_bytes());
        bytes.extend(length.to_ne_bytes());
        bytes.extend(0_i32.to_ne_bytes());
        bytes.extend(next.to_ne_bytes());
        let mut name = target.as_bytes().to_vec();
        name.resize(16, 0);
        bytes.extend(name);
        bytes.extend(line.as_bytes());
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn rows_follow_each_other_by_their_offsets() {
        let first = encoded(0, 100, 56, "linear", "8:0 2048");
        assert_eq!(first.len(), 56);
        let data = [first, encoded(100, 50, 112, "error", "")].concat();
        let rows = rows(&data, 2);
        let linear = Rule::Linear(Place { device: (8, 0), at: 1 << 20 });
        assert_eq!(rows[0], Row { start: 0, length: 51200, rule: linear });
        assert_eq!(rows[1], Row { start: 51200, length: 25600, rule: Rule::Unknown });
        assert_eq!(super::rows(&data, 900).len(), 2, "there are no more");
    }

    #[test]
    fn numbers_are_encoded_as_the_kernel_does() {
        assert_eq!(kernel_number((253, 1)), 0xfd01);
        assert_eq!(kernel_number((259, 0x12345)), 0x1231_0345);
    }

    #[test]
    fn no_device_has_no_table() {
        assert_eq!(table((4095, 77)), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(data in prop::collection::vec(any::<u8>(), 0..400), count: u16) {
            rows(&data, usize::from(count));
        }

        #[test]
        fn any_row_is_taken(
            start: u64, length: u64, next in 0_u32..200, target in "[a-z]{0,16}", line in ".{0,40}",
        ) {
            rows(&encoded(start, length, next, &target, &line), 3);
        }
    }
}
