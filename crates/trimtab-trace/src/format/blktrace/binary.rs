//! Decodes blktrace's binary output into events.
//!
//! A file is a sequence of `struct blk_io_trace` (include/uapi/linux/ blktrace_api.h), each
//! followed by `pdu_len` bytes, in the byte order of the recording machine:
//!
//! | byte | field | byte | field |
//! | --- | --- | --- | --- |
//! | 0 | u32 magic `0x65617407` | 32 | u32 pid |
//! | 4 | u32 sequence | 36 | u32 device: major << 20, minor |
//! | 8 | u64 time in ns | 40 | u32 cpu |
//! | 16 | u64 sector | 44 | u16 error |
//! | 24 | u32 bytes | 46 | u16 pdu_len |
//! | 28 | u32 action, category << 16 | 48 | pdu |

use rustc_hash::FxHashMap;
use trimtab_io::{DeviceId, Flags, Nanos, Op};

use super::event::{Action, Event, SECTOR};
use crate::error::Malformed;
use crate::fields::MAX_OFFSET;
use crate::names::{CommandId, Names};

/// The high 24 bits of the magic number, and the version in its low 8.
const MAGIC: u32 = 0x65_6174;
const VERSION: u8 = 7;
const HEADER: usize = 48;
/// The kernel's longest messages have 1 KiB; a much longer one is damage.
const MAX_PDU: usize = 4096;

/// Categories, as bits of the action's upper half.
mod category {
    pub(super) const WRITE: u32 = 1 << 17;
    pub(super) const FLUSH: u32 = 1 << 18;
    pub(super) const SYNC: u32 = 1 << 19;
    pub(super) const PASS_THROUGH: u32 = 1 << 25;
    pub(super) const NOTIFY: u32 = 1 << 26;
    pub(super) const AHEAD: u32 = 1 << 27;
    pub(super) const META: u32 = 1 << 28;
    pub(super) const DISCARD: u32 = 1 << 29;
    pub(super) const FUA: u32 = 1 << 31;
}
/// The pdu begins with a cgroup's number.
const FROM_CGROUP: u32 = 1 << 8;
const CGROUP_BYTES: usize = 8;
/// The notification with a process's name.
const PROCESS: u32 = 0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The byte order of a file with these first bytes.
    fn of(magic: [u8; 4]) -> Option<Self> {
        if u32::from_le_bytes(magic) >> 8 == MAGIC {
            Some(Self::Little)
        } else if u32::from_be_bytes(magic) >> 8 == MAGIC {
            Some(Self::Big)
        } else {
            None
        }
    }
}

/// Whether a file starts like blktrace's output.
pub(super) fn looks_like(sample: &[u8]) -> bool {
    sample.first_chunk().is_some_and(|&magic| ByteOrder::of(magic).is_some())
}

/// Process names in the recording.
#[derive(Default)]
pub(super) struct Processes {
    commands: FxHashMap<u32, CommandId>,
}

impl Processes {
    /// The number of distinct pids in Linux (`PID_MAX_LIMIT`).
    const MAX: usize = 1 << 22;

    pub(super) fn command(&self, pid: u32) -> Option<CommandId> {
        self.commands.get(&pid).copied()
    }

    fn learn(&mut self, pid: u32, name: &[u8], names: &mut Names) -> Result<(), Malformed> {
        let name = name.split(|&b| b == 0).next().unwrap_or_default();
        if !name.is_empty() && self.commands.len() < Self::MAX {
            self.commands.insert(pid, names.intern_command(name)?);
        }
        Ok(())
    }
}

/// Turns bytes into events.
#[derive(Default)]
pub(super) struct Decoder {
    /// Byte order of the first record.
    order: Option<ByteOrder>,
    /// The last event's device: most recordings have one only.
    last_device: Option<(u32, DeviceId)>,
    /// Time of the earliest record, including those that are not events here: blkparse counts from
    /// it.
    pub(super) earliest: Option<Nanos>,
}

/// An invalid record.
pub(super) struct Bad {
    /// Its start within the given bytes.
    pub(super) at: usize,
    /// The start of the next record, if known.
    pub(super) next: Option<usize>,
    pub(super) what: Malformed,
}

impl Decoder {
    /// Appends the events of all complete records in `bytes`, and returns the bytes consumed.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        events: &mut Vec<Event>,
        names: &mut Names,
        processes: &mut Processes,
    ) -> Result<usize, Bad> {
        let mut at = 0;
        while let Some(header) = bytes[at..].first_chunk() {
            let header = self.header(header).map_err(|what| Bad { at, next: None, what })?;
            let next = at + header.length();
            let Some(pdu) = bytes.get(at + HEADER..next) else { break };
            match self.event(&header, pdu, names, processes) {
                Ok(event) => events.extend(event),
                Err(what) => return Err(Bad { at, next: Some(next), what }),
            }
            at = next;
        }
        Ok(at)
    }

    /// Length of the record at the start of `bytes`, as far as it is known.
    pub(super) fn length(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        bytes.first_chunk().map_or(Ok(HEADER), |header| Ok(self.header(header)?.length()))
    }

    fn header(&mut self, bytes: &[u8; HEADER]) -> Result<Header, Malformed> {
        let magic = *bytes.first_chunk().expect("a header is longer");
        let order = ByteOrder::of(magic);
        let order = match order {
            Some(order) if *self.order.get_or_insert(order) == order => order,
            _ => {
                let found = u32::from_le_bytes(magic);
                return Err(Malformed::new(format!(
                    "expected a record that begins with 0x65617407, found {found:#010x}"
                )));
            }
        };
        let header = match order {
            ByteOrder::Little => {
                Header::read(bytes, u16::from_le_bytes, u32::from_le_bytes, u64::from_le_bytes)
            }
            ByteOrder::Big => {
                Header::read(bytes, u16::from_be_bytes, u32::from_be_bytes, u64::from_be_bytes)
            }
        };
        if header.version != VERSION {
            let found = header.version;
            return Err(Malformed::new(format!(
                "expected blktrace's version {VERSION}, found version {found}"
            )));
        }
        if usize::from(header.pdu_len) > MAX_PDU {
            let found = header.pdu_len;
            return Err(Malformed::new(format!(
                "expected a pdu_len of at most {MAX_PDU}, found {found}"
            )));
        }
        Ok(header)
    }

    /// The event, if it is relevant.
    fn event(
        &mut self,
        header: &Header,
        pdu: &[u8],
        names: &mut Names,
        processes: &mut Processes,
    ) -> Result<Option<Event>, Malformed> {
        let has = |category| header.action & category != 0;
        let from_cgroup = header.action & FROM_CGROUP != 0;
        let action = header.action & 0xffff & !FROM_CGROUP;
        if has(category::NOTIFY) {
            if action == PROCESS {
                let name =
                    if from_cgroup { pdu.get(CGROUP_BYTES..).unwrap_or_default() } else { pdu };
                processes.learn(header.pid, name, names)?;
            }
            return Ok(None);
        }
        let time = Nanos(header.time);
        self.earliest = Some(self.earliest.map_or(time, |earliest| earliest.min(time)));
        let action = ACTIONS.get(action as usize).copied().flatten();
        let Some(action) = action.filter(|_| !has(category::PASS_THROUGH)) else {
            return Ok(None);
        };
        if header.bytes > 0 && header.sector > MAX_OFFSET / SECTOR {
            return Err(Malformed::new(format!(
                "sector: expected at most {}, found {}",
                MAX_OFFSET / SECTOR,
                header.sector
            )));
        }
        let op = if has(category::DISCARD) {
            Op::Discard
        } else if has(category::WRITE) {
            Op::Write
        } else if has(category::FLUSH) && header.bytes == 0 {
            Op::Flush
        } else {
            Op::Read
        };
        let mut flags = Flags::empty();
        flags.set(Flags::PREFLUSH, has(category::FLUSH));
        flags.set(Flags::FUA, has(category::FUA));
        flags.set(Flags::SYNC, has(category::SYNC));
        flags.set(Flags::META, has(category::META));
        flags.set(Flags::READAHEAD, has(category::AHEAD));
        flags.set(Flags::ERROR, action == Action::Complete && header.error != 0);
        Ok(Some(Event {
            time,
            offset: if header.bytes > 0 { header.sector * SECTOR } else { 0 },
            bytes: header.bytes,
            pid: header.pid,
            device: self.device(header.device, names)?,
            flags,
            op,
            action,
        }))
    }

    fn device(&mut self, number: u32, names: &mut Names) -> Result<DeviceId, Malformed> {
        if let Some((last, id)) = self.last_device
            && last == number
        {
            return Ok(id);
        }
        let (major, minor) = (number >> 20, number & 0xf_ffff);
        let id = names.intern_device(format!("{major},{minor}").as_bytes())?;
        self.last_device = Some((number, id));
        Ok(id)
    }
}

/// The actions by their numbers.
const ACTIONS: [Option<Action>; 14] = [
    None,
    Some(Action::Queue),
    Some(Action::BackMerge),
    Some(Action::FrontMerge),
    Some(Action::GetRequest),
    // Waiting for a request.
    None,
    Some(Action::Requeue),
    Some(Action::Issue),
    Some(Action::Complete),
    // Plugging, and two ways of unplugging.
    None,
    None,
    None,
    Some(Action::Insert),
    Some(Action::Split),
];

/// `struct blk_io_trace`, without unused fields.
struct Header {
    version: u8,
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    error: u16,
    pdu_len: u16,
}

impl Header {
    #[inline]
    fn read(
        bytes: &[u8; HEADER],
        u16_of: impl Fn([u8; 2]) -> u16,
        u32_of: impl Fn([u8; 4]) -> u32,
        u64_of: impl Fn([u8; 8]) -> u64,
    ) -> Self {
        fn at<const N: usize>(bytes: &[u8; HEADER], offset: usize) -> [u8; N] {
            bytes[offset..offset + N].try_into().expect("the length is N")
        }
        Self {
            version: u32_of(at(bytes, 0)) as u8,
            time: u64_of(at(bytes, 8)),
            sector: u64_of(at(bytes, 16)),
            bytes: u32_of(at(bytes, 24)),
            action: u32_of(at(bytes, 28)),
            pid: u32_of(at(bytes, 32)),
            device: u32_of(at(bytes, 36)),
            error: u16_of(at(bytes, 44)),
            pdu_len: u16_of(at(bytes, 46)),
        }
    }

    fn length(&self) -> usize {
        HEADER + usize::from(self.pdu_len)
    }
}
