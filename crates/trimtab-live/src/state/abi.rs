//! The kernel's side of the contract: bpf/state.h, mirrored. What is known of a
//! drive and of a unit is mirrored in `trimtab_predict`.

use std::mem::offset_of;

use trimtab_predict::units::{self, MOST_PIECES, UnitFunction};
use trimtab_predict::{DriveState, Unit};

/// `ST_VERSION`
pub(super) const VERSION: u32 = 3;
pub(super) const MAX_DEVICES: usize = 16;
pub(super) const FUNCTIONS: usize = 3;
pub(super) const UNITS: usize = 4096;
const MASKS: usize = 12;
/// `ST_PIECES`
const PIECES: usize = 16;
pub(super) const SLOTS: usize = 4096;

/// What happened beside the state, since it was begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    /// Requests whose end was not seen; given up when the kernel used their
    /// structure again, or when it said that nothing was in flight.
    pub never_completed: u64,
    /// Requests whose end was not seen, or did not come; given up for their age.
    pub expired: u64,
    /// Requests that were absorbed by others before the drive got them.
    pub absorbed: u64,
    /// Requests for which there was no room: not watched.
    pub table_full: u64,
    /// Events that waited for another to be taken in.
    pub deferred: u64,
    /// Events that were lost, because too many waited.
    pub missed: u64,
    reserved: [u64; 2],
}

/// `struct st_function`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Function {
    kind: u8,
    shift: u8,
    digit: u8,
    digits: u8,
    units: u32,
}

/// `struct st_config`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Config {
    functions: u32,
    pub(super) generation: u32,
    function: [Function; FUNCTIONS],
    masks: [[u64; MASKS]; FUNCTIONS],
    parities: [[[u16; 16]; 16]; FUNCTIONS],
    least_shift: u64,
    reserved: [u64; 23],
}

impl Config {
    pub(super) fn new(functions: &[UnitFunction]) -> Self {
        let functions = &functions[..functions.len().min(FUNCTIONS)];
        let mut this = Self {
            functions: functions.len() as u32,
            least_shift: units::least_shift(functions).into(),
            ..Self::default()
        };
        for (i, function) in functions.iter().enumerate() {
            this.set(i, function);
        }
        this
    }

    fn set(&mut self, i: usize, function: &UnitFunction) {
        let to = &mut self.function[i];
        to.shift = function.stretch_shift() as u8;
        match function {
            UnitFunction::Page { .. } => to.kind = 1,
            UnitFunction::Stripe { units, .. } => (to.kind, to.units) = (2, *units),
            UnitFunction::Parity { masks } => {
                (to.kind, to.units) = (3, masks.len() as u32);
                self.masks[i][..masks.len()].copy_from_slice(masks);
                let bits = masks.iter().fold(0, |all, mask| all | mask);
                let first = bits.trailing_zeros() as u8 / 4;
                let end = (64 - bits.leading_zeros() as u8).div_ceil(4);
                (to.digit, to.digits) = (first, end.saturating_sub(first));
                for (digit, numbers) in self.parities[i].iter_mut().enumerate() {
                    for (value, number) in (0..).zip(numbers) {
                        *number = function.unit(value << (4 * digit));
                    }
                }
            }
        }
    }

    /// The functions; `None` if one is none.
    pub(super) fn get(&self) -> Option<Vec<UnitFunction>> {
        let all = self.function.get(..self.functions as usize)?;
        let function = |(function, masks): (&Function, &[u64; MASKS])| {
            let shift = function.shift.into();
            let function = match function.kind {
                1 => UnitFunction::Page { shift },
                2 => UnitFunction::Stripe { shift, units: function.units },
                3 => UnitFunction::Parity { masks: masks.get(..function.units as usize)?.to_vec() },
                _ => return None,
            };
            function.is_valid().then_some(function)
        };
        all.iter().zip(&self.masks).map(function).collect()
    }
}

/// `struct st_device`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Device {
    pub(super) seq: u64,
    pub(super) now: u64,
    pub(super) sent: u64,
    reserved: [u64; 5],
    pub(super) drive: DriveState,
    pub(super) counters: Counters,
    pub(super) config: Config,
    /// The network's verdicts, small reads first: see bpf/state.h.
    pub(super) verdicts: [u64; 2],
    reserved2: [u64; 6],
    pub(super) kept: Kept,
    reserved3: [u8; 1408],
    pub(super) units: [Unit; FUNCTIONS * UNITS],
}

/// `struct st_kept`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub(super) beat: u64,
    pub(super) attached: u32,
    pub(super) number: u32,
    pub(super) version: u32,
    reserved: u32,
    reserved2: [u64; 5],
}

/// `struct st_control`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Control {
    pub(super) devices: u32,
    pub(super) device: [u32; MAX_DEVICES],
    reserved: [u32; 15],
    pub(super) log_taken: u64,
    reserved2: [u64; 7],
}

/// `struct st_setup`
pub(super) fn setup(by_issue: bool, log_bits: u32, age_limit_ns: u64, networks: bool) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..4].copy_from_slice(&u32::from(by_issue).to_ne_bytes());
    bytes[4..8].copy_from_slice(&log_bits.to_ne_bytes());
    bytes[8..16].copy_from_slice(&age_limit_ns.to_ne_bytes());
    bytes[16..20].copy_from_slice(&u32::from(networks).to_ne_bytes());
    bytes
}

/// `struct st_log_entry`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct LogEntry {
    pub(super) time: u64,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) slot: u32,
    pub(super) step: u8,
    pub(super) op: u8,
    pub(super) data: u8,
    pub(super) device: u8,
    pub(super) place: u64,
    reserved: [u64; 3],
}

const _: () = {
    assert!(size_of::<Counters>() == 64);
    assert!(PIECES == MOST_PIECES);
    assert!(size_of::<Config>() == 2048);
    assert!(offset_of!(Config, function) == 8);
    assert!(offset_of!(Config, least_shift) == 1856);
    assert!(offset_of!(Device, drive) == 64);
    assert!(offset_of!(Device, counters) == 448);
    assert!(offset_of!(Device, config) == 512);
    assert!(offset_of!(Device, verdicts) == 2560);
    assert!(offset_of!(Device, kept) == 2624);
    assert!(offset_of!(Device, units) == 4096);
    assert!(size_of::<Device>() == 4096 + 64 * FUNCTIONS * UNITS);
    assert!(size_of::<Kept>() == 64);
    assert!(size_of::<Control>() == 192);
    assert!(offset_of!(Control, log_taken) == 128);
    assert!(size_of::<LogEntry>() == 64);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_come_back_as_they_were() {
        let functions = [
            UnitFunction::Page { shift: 13 },
            UnitFunction::Stripe { shift: 12, units: 6 },
            UnitFunction::Parity { masks: vec![0b101 << 12; 12] },
        ];
        assert_eq!(Config::new(&functions).get().unwrap(), functions);
        let config = Config::new(&functions);
        assert_eq!(config.function.map(|function| function.shift), [13, 12, 12]);
        assert_eq!((config.least_shift, Config::new(&functions[..1]).least_shift), (12, 13));
        let mut none = config;
        none.function[1].kind = 0;
        assert!(none.get().is_none());
    }

    /// As bpf/state_pieces.h puts it together.
    #[test]
    fn parities_are_those_of_the_digits() {
        let masks = vec![0x1_2345_0000, 0x8_0000_1000, 0x0f0f_f000];
        let function = UnitFunction::Parity { masks };
        let config = Config::new(std::slice::from_ref(&function));
        let Function { digit, digits, .. } = config.function[0];
        for offset in (0..1000).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            let of_digit = |digit: u8| {
                config.parities[0][usize::from(digit)][(offset >> (4 * digit) & 15) as usize]
            };
            let unit = (digit..digit + digits).fold(0, |unit, digit| unit ^ of_digit(digit));
            assert_eq!(unit, function.unit(offset));
        }
    }
}
