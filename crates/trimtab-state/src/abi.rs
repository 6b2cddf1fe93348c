//! The part of bpf/state.h that readers share with the kernel's programs, mirrored. The state
//! of a drive and of a unit is mirrored in `trimtab_predict`. A test of the state tracker
//! compares each field with the type information of the compiled programs.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use trimtab_predict::units::{self, MOST_PIECES, UnitFunction};
use trimtab_predict::{DriveState, Unit};

/// `ST_VERSION`: of the layout below.
pub const VERSION: u32 = 3;
/// `ST_FUNCTIONS`: unit functions of a drive.
pub const FUNCTIONS: usize = 3;
/// `ST_UNITS`: the most units per function.
pub const UNITS: usize = 4096;
const MASKS: usize = 12;

/// `ST_PIECES`
const _: () = assert!(16 == MOST_PIECES);

/// Events beside the state since tracking began (`struct st_counters`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes)]
#[repr(C)]
pub struct Counters {
    /// Requests whose completion was not seen; reaped when the kernel reused their structure,
    /// or counted nothing in flight.
    pub never_completed: u64,
    /// Requests without a completion, reaped because of their age.
    pub expired: u64,
    /// Requests that were merged into others before they were issued to the drive.
    pub merged: u64,
    /// Requests for which the table had no slot: not tracked.
    pub table_full: u64,
    /// Events that were queued because the drive's lock was taken.
    pub deferred: u64,
    /// Events that were lost because that queue was full.
    pub missed: u64,
    reserved: [u64; 2],
}

/// The mapping of offsets to units (`struct st_function`).
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
struct Function {
    kind: u8,
    shift: u8,
    digit: u8,
    digits: u8,
    units: u32,
}

/// The unit functions of a drive (`struct st_config`).
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
pub struct Config {
    functions: u32,
    /// Incremented by each configuration.
    pub generation: u32,
    function: [Function; FUNCTIONS],
    masks: [[u64; MASKS]; FUNCTIONS],
    parities: [[[u16; 16]; 16]; FUNCTIONS],
    least_shift: u64,
    reserved: [u64; 23],
}

impl Config {
    /// The configuration of these functions; those beyond [`FUNCTIONS`] are ignored.
    #[must_use]
    pub fn new(functions: &[UnitFunction]) -> Self {
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

    /// The functions; `None` if one of them is invalid.
    #[must_use]
    pub fn functions(&self) -> Option<Vec<UnitFunction>> {
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

/// The part of a drive's state that any process may read (`struct st_device`).
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct Device {
    /// Even: the value is consistent. Odd: a program is writing it.
    pub seq: u64,
    /// The time of the last event.
    pub now_ns: u64,
    /// Requests that were sent since tracking began.
    pub sent: u64,
    reserved: [u64; 5],
    /// The drive as a whole.
    pub drive: DriveState,
    /// Events that affect tracking.
    pub counters: Counters,
    /// The unit functions in force.
    pub config: Config,
    /// Decisions in the kernel.
    pub published: Published,
    /// The tracker that updates it.
    pub tracker: TrackerStatus,
    reserved2: [u8; 1408],
    /// The units, by function.
    pub units: [Unit; FUNCTIONS * UNITS],
}

/// The last decisions of the network in the kernel (`struct st_published`).
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct Published {
    /// One word for each [`SizeClass`](crate::SizeClass).
    pub verdicts: [u64; 2],
    reserved: [u64; 6],
}

/// The state tracker of a drive (`struct st_tracker`).
#[repr(C)]
#[derive(Clone, Copy, FromBytes)]
pub struct TrackerStatus {
    /// Its last heartbeat.
    pub heartbeat_ns: u64,
    /// Whether the programs are attached.
    pub attached: u32,
    /// The drive's number, major << 20 | minor.
    pub number: u32,
    /// [`VERSION`]
    pub version: u32,
    reserved: u32,
    reserved2: [u64; 5],
}

#[cfg(test)]
mod tests {
    use trimtab_bpf::{STATE, mirrors};
    use trimtab_predict::{CompletedIo, Window};

    use super::*;

    #[test]
    fn mirrors_have_the_layout_of_the_header() {
        mirrors!(STATE, "st_device" => Device {
            seq, now_ns, sent, drive, counters, config, published, tracker, units,
        });
        mirrors!(STATE, "st_counters" => Counters {
            never_completed, expired, merged, table_full, deferred, missed,
        });
        mirrors!(STATE, "st_function" => Function { kind, shift, digit, digits, units });
        mirrors!(STATE, "st_config" => Config {
            functions, generation, function, masks, parities, least_shift,
        });
        mirrors!(STATE, "st_published" => Published { verdicts });
        mirrors!(STATE, "st_tracker" => TrackerStatus { heartbeat_ns, attached, number, version });
        mirrors!(STATE, "st_unit" => Unit {
            reads, read_pages, writes, write_pages, latency, mean_latency, service_ns, sent,
            last_done, written,
        });
        mirrors!(STATE, "st_window" => Window { stretch, current, before });
        mirrors!(STATE, "st_answer" => CompletedIo { latency, pages_then, queue_then });
        mirrors!(STATE, "st_drive" => DriveState {
            whole, written, last_write_done, last_write_latency, last_sent,
            stall_ended: stall.ended, stall_length: stall.length, stall_written: stall.written,
            rest_ended: rest.ended, rest_written: rest.written,
            oldest_read, oldest_other, read_bytes, write_bytes, requests, pages, latencies,
            bytes_written, reads_completed, read_latencies, history,
        });
    }

    #[test]
    fn functions_survive_conversion() {
        let functions = [
            UnitFunction::Page { shift: 13 },
            UnitFunction::Stripe { shift: 12, units: 6 },
            UnitFunction::Parity { masks: vec![0b101 << 12; 12] },
        ];
        assert_eq!(Config::new(&functions).functions().unwrap(), functions);
        let config = Config::new(&functions);
        assert_eq!(config.function.map(|function| function.shift), [13, 12, 12]);
        assert_eq!((config.least_shift, Config::new(&functions[..1]).least_shift), (12, 13));
        let mut none = config;
        none.function[1].kind = 0;
        assert!(none.functions().is_none());
    }

    /// As bpf/state_pieces.h computes it.
    #[test]
    fn parities_equal_those_of_digits() {
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
