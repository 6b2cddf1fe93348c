//! A record as 56 bytes, for temporary files and spools.

use std::num::NonZeroU32;

use trimtab_io::{DeviceId, Flags, Nanos, Op};

use crate::names::CommandId;
use crate::record::Record;

/// Bytes of a packed record.
pub(crate) const PACKED: usize = 56;

const OP_AT: usize = 54;
const PRESENT_AT: usize = 55;

/// The record as bytes.
pub(crate) fn pack(r: &Record) -> [u8; PACKED] {
    let present = u8::from(r.issue.is_some())
        | u8::from(r.complete.is_some()) << 1
        | u8::from(r.pid.is_some()) << 2;
    let mut bytes = [0; PACKED];
    bytes[0..8].copy_from_slice(&r.arrival.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&r.issue.unwrap_or_default().0.to_le_bytes());
    bytes[16..24].copy_from_slice(&r.complete.unwrap_or_default().0.to_le_bytes());
    bytes[24..32].copy_from_slice(&r.offset.to_le_bytes());
    bytes[32..40].copy_from_slice(&r.length.to_le_bytes());
    bytes[40..44].copy_from_slice(&r.device.0.to_le_bytes());
    bytes[44..48].copy_from_slice(&r.pid.unwrap_or_default().to_le_bytes());
    bytes[48..52].copy_from_slice(&r.command.map_or(0, |c| c.0.get()).to_le_bytes());
    bytes[52..54].copy_from_slice(&r.flags.bits().to_le_bytes());
    bytes[OP_AT] = r.op as u8;
    bytes[PRESENT_AT] = present;
    bytes
}

/// The inverse of [`pack`].
pub(crate) fn unpack(bytes: &[u8; PACKED]) -> Record {
    let u64_at = |i: usize| u64::from_le_bytes(bytes[i..i + 8].try_into().expect("8 bytes"));
    let u32_at = |i: usize| u32::from_le_bytes(bytes[i..i + 4].try_into().expect("4 bytes"));
    let present = bytes[PRESENT_AT];
    Record {
        arrival: Nanos(u64_at(0)),
        issue: (present & 1 != 0).then(|| Nanos(u64_at(8))),
        complete: (present & 2 != 0).then(|| Nanos(u64_at(16))),
        offset: u64_at(24),
        length: u64_at(32),
        device: DeviceId(u32_at(40)),
        pid: (present & 4 != 0).then(|| u32_at(44)),
        command: NonZeroU32::new(u32_at(48)).map(CommandId),
        flags: Flags::from_bits_retain(u16::from_le_bytes([bytes[52], bytes[53]])),
        op: Op::from_u8(bytes[OP_AT]).unwrap_or(Op::Read),
    }
}

/// Whether untrusted bytes are a valid packed record.
pub(crate) fn is_packed(bytes: &[u8; PACKED]) -> bool {
    Op::from_u8(bytes[OP_AT]).is_some() && bytes[PRESENT_AT] < 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_round_trips() {
        let full = Record {
            issue: Some(Nanos(7)),
            complete: Some(Nanos(u64::MAX)),
            pid: Some(0),
            command: Some(CommandId(NonZeroU32::MIN)),
            flags: Flags::all(),
            op: Op::Flush,
            ..Record::arriving(Nanos(u64::MAX), DeviceId(3), Op::Write, u64::MAX, 4096)
        };
        for r in [full, Record::arriving(Nanos(1), DeviceId(3), Op::Write, 2, 4096)] {
            let bytes = pack(&r);
            assert!(is_packed(&bytes));
            assert_eq!(unpack(&bytes), r);
        }
    }

    #[test]
    fn invalid_packed_bytes_are_detected() {
        let mut bytes = [0; PACKED];
        bytes[OP_AT] = 200;
        assert!(!is_packed(&bytes));
        (bytes[OP_AT], bytes[PRESENT_AT]) = (0, 8);
        assert!(!is_packed(&bytes));
    }
}
