//! A consistent copy of the part of a drive's state that concerns one request.

use trimtab_io::{Nanos, Request};
use trimtab_predict::units::{MOST_PIECES, UnitFunction};
use trimtab_predict::{DIGITS, DriveState, FEATURES, Unit};

use crate::abi::{FUNCTIONS, UNITS};

/// The state of a drive at a moment, as far as it concerns one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct StateSnapshot {
    /// The drive as a whole.
    pub drive: DriveState,
    /// The time of its last change.
    pub changed: Nanos,
    /// Whether all numbers are of the same moment. Otherwise the kernel was writing at each
    /// attempt, and some are newer than others: the snapshot must not be used.
    pub is_consistent: bool,
    pub(crate) units: [Unit; FUNCTIONS],
    pub(crate) functions: usize,
}

/// The units of a request's pieces, by each function.
pub(crate) struct Pieces {
    units: [[u16; MOST_PIECES]; FUNCTIONS],
    count: [u8; FUNCTIONS],
}

impl Pieces {
    pub(crate) fn new(functions: &[UnitFunction], offset: u64, length: u64) -> Self {
        let mut this = Self { units: [[0; MOST_PIECES]; FUNCTIONS], count: [0; FUNCTIONS] };
        for (i, function) in functions.iter().enumerate() {
            let of_function = function.pieces(offset, length);
            for (unit, found) in this.units[i].iter_mut().zip(of_function) {
                *unit = found % UNITS as u16;
                this.count[i] += 1;
            }
        }
        this
    }

    /// The units of one function; there is at least one.
    pub(crate) fn of(&self, function: usize) -> &[u16] {
        &self.units[function][..self.count[function].into()]
    }
}

impl StateSnapshot {
    /// The busiest of the request's units, by each function.
    #[must_use]
    pub fn units(&self) -> &[Unit] {
        &self.units[..self.functions]
    }

    /// The forest's inputs: see [`DriveState::features`].
    #[must_use]
    pub fn features(&self, now: Nanos, request: &Request) -> [i32; FEATURES] {
        self.drive.features(now, request, self.units())
    }

    /// The inputs of LinnOS's network: see [`DriveState::digits`].
    #[must_use]
    pub fn digits(&self, request: &Request) -> [u8; DIGITS] {
        self.drive.digits(request)
    }
}
