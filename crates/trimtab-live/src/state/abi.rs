//! The kernel's side of the contract: bpf/state.h, mirrored. What is known of a
//! drive and of a unit is mirrored in `trimtab_predict`.

use std::mem::offset_of;

use trimtab_predict::units::UnitFunction;
use trimtab_predict::{DriveState, Unit};

pub(super) const MAX_DEVICES: usize = 16;
pub(super) const FUNCTIONS: usize = 3;
pub(super) const UNITS: usize = 4096;
const MASKS: usize = 12;
pub(super) const SLOTS: usize = 4096;
const QUEUE: usize = 64;

/// What happened beside the state, since it was begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that were answered, or given up.
    pub completed: u64,
    /// Requests whose end was not seen; given up when the kernel used their
    /// structure again, or when it said that nothing was in flight.
    pub never_completed: u64,
    /// Requests whose end was not seen; given up for their age.
    pub expired: u64,
    /// Requests that were absorbed by others before the drive got them.
    pub absorbed: u64,
    /// Requests for which there was no room: not watched.
    pub table_full: u64,
    /// Events that waited for another to be taken in.
    pub deferred: u64,
    /// Events that were lost, because too many waited.
    pub missed: u64,
}

/// `struct st_function`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Function {
    kind: u32,
    shift: u32,
    units: u32,
    reserved: u32,
    masks: [u64; MASKS],
}

impl Function {
    pub(super) fn new(function: &UnitFunction) -> Self {
        let mut this = Self::default();
        match function {
            UnitFunction::Page { shift } => (this.kind, this.shift) = (1, *shift),
            UnitFunction::Stripe { shift, units } => {
                (this.kind, this.shift, this.units) = (2, *shift, *units);
            }
            UnitFunction::Parity { masks } => {
                (this.kind, this.units) = (3, masks.len() as u32);
                this.masks[..masks.len()].copy_from_slice(masks);
            }
        }
        this
    }

    /// None if it is none.
    pub(super) fn get(&self) -> Option<UnitFunction> {
        let function = match self.kind {
            1 => UnitFunction::Page { shift: self.shift },
            2 => UnitFunction::Stripe { shift: self.shift, units: self.units },
            3 => UnitFunction::Parity { masks: self.masks.get(..self.units as usize)?.to_vec() },
            _ => return None,
        };
        function.is_valid().then_some(function)
    }
}

/// `struct st_config`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Config {
    pub(super) functions: u32,
    reserved: u32,
    pub(super) function: [Function; FUNCTIONS],
    reserved2: [u64; 21],
}

impl Config {
    pub(super) fn new(functions: &[UnitFunction]) -> Self {
        let mut this = Self { functions: functions.len() as u32, ..Self::default() };
        for (place, function) in this.function.iter_mut().zip(functions) {
            *place = Function::new(function);
        }
        this
    }
}

/// `struct st_device`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Device {
    pub(super) seq: u64,
    pub(super) now: u64,
    pub(super) queue_taken: u64,
    pub(super) queue_read: u64,
    pub(super) lists: [u64; 2],
    pub(super) generation: u64,
    reserved: u64,
    pub(super) drive: DriveState,
    pub(super) counters: Counters,
    pub(super) config: Config,
    queue: [[u64; 8]; QUEUE],
    reserved2: [u8; 3072],
    pub(super) slots: [[u64; 8]; SLOTS],
    pub(super) units: [Unit; FUNCTIONS * UNITS],
}

/// `struct st_control`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Control {
    pub(super) beat: u64,
    pub(super) attached: u32,
    pub(super) devices: u32,
    pub(super) device: [u32; MAX_DEVICES],
    reserved: [u64; 6],
    pub(super) log_taken: u64,
    reserved2: [u64; 7],
}

/// `struct st_setup`
pub(super) fn setup(by_issue: bool, log_bits: u32, age_limit_ns: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&u32::from(by_issue).to_ne_bytes());
    bytes[4..8].copy_from_slice(&log_bits.to_ne_bytes());
    bytes[8..].copy_from_slice(&age_limit_ns.to_ne_bytes());
    bytes
}

/// `struct st_tend`
pub(super) fn tend(index: u32, forget: bool, unless_changed_since: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&index.to_ne_bytes());
    bytes[4..8].copy_from_slice(&u32::from(forget).to_ne_bytes());
    bytes[8..].copy_from_slice(&unless_changed_since.to_ne_bytes());
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
    assert!(size_of::<Function>() == 112);
    assert!(size_of::<Config>() == 512);
    assert!(offset_of!(Device, drive) == 64);
    assert!(offset_of!(Device, counters) == 448);
    assert!(offset_of!(Device, config) == 512);
    assert!(offset_of!(Device, queue) == 1024);
    assert!(offset_of!(Device, slots) == 8192);
    assert!(offset_of!(Device, units) == 8192 + 64 * SLOTS);
    assert!(size_of::<Device>() == 8192 + 64 * SLOTS + 64 * FUNCTIONS * UNITS);
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
        let config = Config::new(&functions);
        assert_eq!(config.function.each_ref().map(|f| f.get().unwrap()), functions);
        assert!(Function::default().get().is_none());
    }
}
