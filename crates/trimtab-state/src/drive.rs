//! A drive's state as any process reads it.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use trimtab_io::{Nanos, Request};
use trimtab_predict::units::{self, UnitFunction};
use trimtab_predict::{DriveState, Forecast, Trained, Unit, Verdict};
use trimtab_shm::{Field, Mapping, field};

use crate::Error;
use crate::abi::{Config, Counters, Device, FUNCTIONS, UNITS};
use crate::memory::StateMemory;
use crate::snapshot::{Pieces, StateSnapshot};
use crate::verdict::{self, SizeClass};

/// How often a copy is tried again that the kernel was just writing: some microseconds,
/// where a write takes a tenth of one, and that of a long request one or two.
const TRIES: u32 = 128;

/// A drive whose state the kernel keeps.
///
/// It may be used by several threads, and copied: all copies look at the same
/// memory.
#[derive(Clone)]
pub struct LiveDrive {
    memory: Arc<StateMemory>,
    index: usize,
    functions: Arc<[UnitFunction]>,
    /// Of these functions: see [`units::least_shift`].
    least_shift: u32,
    /// Of the state that these functions are of.
    generation: u32,
}

impl std::fmt::Debug for LiveDrive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { index, functions, generation, .. } = self;
        let mut shown = f.debug_struct("LiveDrive");
        shown.field("index", index).field("functions", functions);
        shown.field("generation", generation).finish_non_exhaustive()
    }
}

impl LiveDrive {
    /// The drive at this place of the memory.
    ///
    /// # Errors
    /// Its unit functions are being changed, or invalid.
    ///
    /// # Panics
    /// The memory has no such drive.
    pub fn new(memory: Arc<StateMemory>, index: usize) -> Result<Self, Error> {
        let mut this =
            Self { memory, index, functions: Arc::new([]), least_shift: 0, generation: 0 };
        this.refresh()?;
        Ok(this)
    }

    /// Takes up the unit functions that are in force now.
    ///
    /// # Errors
    /// They are just being changed, or none of this version.
    pub fn refresh(&mut self) -> Result<(), Error> {
        let mut config = Config::default();
        let is_consistent = self.read_consistent(|devices| {
            devices.copy(self.index, field!(Device.config), &mut config);
        });
        let functions = config.functions().filter(|_| is_consistent);
        self.functions = functions.ok_or(Error::UnitFunctions)?.into();
        self.least_shift = units::least_shift(&self.functions);
        self.generation = config.generation;
        Ok(())
    }

    fn generation(&self) -> u32 {
        self.memory.devices().load(self.index, field!(Device.config.generation))
    }

    /// The drive's number as the kernel has it, major << 20 | minor.
    #[must_use]
    pub fn kernel_number(&self) -> u32 {
        self.memory.tracker(self.index).number
    }

    /// The functions by which units are told apart.
    #[must_use]
    pub fn functions(&self) -> &[UnitFunction] {
        &self.functions
    }

    /// Whether these are the functions by which units are told apart. Of more than
    /// three the others do not count: no more are kept, and none decides.
    #[must_use]
    pub fn tells_apart_by(&self, functions: &[UnitFunction]) -> bool {
        *self.functions == functions[..functions.len().min(FUNCTIONS)]
    }

    /// Whether what is kept is current: the programs are attached, their tracker
    /// lives, and the unit functions are those that are known here (otherwise:
    /// [`refresh`](Self::refresh)). If not, nothing may be refused.
    #[must_use]
    pub fn is_fresh(&self, now: Nanos) -> bool {
        self.is_tracked(now) && self.generation() == self.generation
    }

    /// Whether the programs are attached and their tracker lives.
    #[must_use]
    pub fn is_tracked(&self, now: Nanos) -> bool {
        self.memory.is_tracked(self.index, now)
    }

    /// How long ago the tracker said last that it lives, as it does every 50 ms; none
    /// if the programs are not attached. [`is_tracked`](Self::is_tracked) is for callers without
    /// a limit of their own.
    #[must_use]
    pub fn age(&self, now: Nanos) -> Option<Nanos> {
        let tracker = self.memory.tracker(self.index);
        (tracker.attached != 0).then(|| now.since(Nanos(tracker.heartbeat_ns)))
    }

    /// Whether the unit functions in force are those that are known here; otherwise
    /// there is need to [`refresh`](Self::refresh).
    #[must_use]
    pub fn has_current_functions(&self) -> bool {
        self.generation() == self.generation
    }

    /// The drive as a whole, as it is now; `None` if the kernel was writing it at each try.
    #[must_use]
    pub fn state(&self) -> Option<DriveState> {
        let mut drive = DriveState::default();
        let is_consistent = self.read_consistent(|devices| {
            devices.copy(self.index, field!(Device.drive), &mut drive);
        });
        is_consistent.then_some(drive)
    }

    /// What is known now, for a request of these bytes.
    #[must_use]
    pub fn snapshot(&self, offset: u64, length: u64) -> StateSnapshot {
        let mut snapshot = StateSnapshot::default();
        self.snapshot_into(&mut snapshot, self.units_at(offset), offset, length);
        snapshot
    }

    /// The units that an offset (bytes) lies in, by each function.
    #[inline]
    pub fn units_at(&self, offset: u64) -> [u16; FUNCTIONS] {
        let mut units = [0; FUNCTIONS];
        for (unit, function) in units.iter_mut().zip(&*self.functions) {
            *unit = function.unit(offset) % UNITS as u16;
        }
        units
    }

    /// [`snapshot`](Self::snapshot), for callers that know in which units a request begins. A
    /// snapshot is half a kilobyte and is written in place: copying it took as long.
    #[inline]
    pub fn snapshot_into(
        &self,
        snapshot: &mut StateSnapshot,
        first: [u16; FUNCTIONS],
        offset: u64,
        length: u64,
    ) {
        if units::is_spread(offset, length, self.least_shift) {
            self.copy_pieces(snapshot, offset, length);
        } else {
            self.copy_units(snapshot, |function| first[function]);
        }
    }

    /// Apart, for most requests have one piece: they need not have this in the way.
    #[inline(never)]
    fn copy_pieces(&self, snapshot: &mut StateSnapshot, offset: u64, length: u64) {
        let pieces = Pieces::new(&self.functions, offset, length);
        self.copy_units(snapshot, |function| self.busiest(function, pieces.of(function)));
    }

    /// What is known now, where this says which unit it is about, by each function.
    #[inline]
    fn copy_units(&self, snapshot: &mut StateSnapshot, unit: impl Fn(usize) -> u16) {
        snapshot.functions = self.functions.len().min(FUNCTIONS);
        // While the kernel writes it is read again: only what must be is done here.
        snapshot.is_consistent = self.read_consistent(|devices| {
            devices.copy(self.index, field!(Device.drive), &mut snapshot.drive);
            snapshot.changed = Nanos(devices.load(self.index, field!(Device.now_ns)));
            for (function, to) in snapshot.units[..snapshot.functions].iter_mut().enumerate() {
                devices.copy(self.index, unit_at(function, unit(function)), to);
            }
        });
    }

    /// What is to be expected of a request that would be sent now; none of a
    /// predictor that decides by more than a drive's state
    /// ([`HeurAdv`](trimtab_predict::PredictorKind::HeurAdv)).
    #[must_use]
    pub fn forecast(&self, trained: &Trained, now: Nanos, request: &Request) -> Option<Forecast> {
        let snapshot = self.snapshot(request.offset, request.length);
        trained.forecast(now, request, &snapshot.drive, snapshot.units())
    }

    /// What the network in the kernel (`trimtab_tracker::StateTracker::set_network`) expects
    /// of a read of this class that would be sent now: one memory load, after which
    /// [`is_fresh`](Self::is_fresh) is still to be asked. `None`: no network is loaded.
    ///
    /// It is decided anew after each change of the drive's state, which takes the
    /// kernel a microsecond or two; until then this is what was decided before.
    #[must_use]
    pub fn verdict(&self, class: SizeClass) -> Option<Verdict> {
        verdict::unpack(self.published(class)).0
    }

    fn published(&self, class: SizeClass) -> u64 {
        let devices = self.memory.devices();
        devices.load(self.index, field!(Device.published.verdicts).element(class as usize))
    }

    /// For tests: the state that the present verdicts, small reads' first, are of;
    /// `None` if some are still to come, or there is no network.
    #[doc(hidden)]
    #[must_use]
    pub fn decided(&self) -> Option<(DriveState, [Verdict; 2])> {
        let devices = self.memory.devices();
        let read = || {
            let seq = devices.load(self.index, field!(Device.seq));
            fence(Ordering::Acquire);
            (seq, SizeClass::ALL.map(|class| verdict::unpack(self.published(class))))
        };
        let (seq, verdicts) = read();
        let drive = devices.part(self.index, field!(Device.drive));
        fence(Ordering::Acquire);
        let of_it = verdicts.map(|(verdict, of)| verdict.filter(|_| of == seq && seq & 1 == 0));
        match of_it {
            [Some(small), Some(large)] if read() == (seq, verdicts) => {
                Some((drive, [small, large]))
            }
            _ => None,
        }
    }

    /// All units that one of the functions (by its number) tells apart, each as it
    /// was at about this moment.
    ///
    /// # Panics
    /// If there is no such function.
    #[must_use]
    pub fn units(&self, function: usize) -> Vec<Unit> {
        (0..self.functions[function].units()).map(|i| self.unit(function, i as u16)).collect()
    }

    /// Of some units by one of the functions, the one with the most reads in flight at this
    /// moment, the first of these: see [`Unit::busiest`].
    fn busiest(&self, function: usize, units: &[u16]) -> u16 {
        let [first, others @ ..] = units else { unreachable!("every request has a piece") };
        if others.is_empty() {
            return *first;
        }
        let (mut busiest, mut most) = (*first, self.reads(function, *first));
        for &unit in others {
            let reads = self.reads(function, unit);
            if reads > most {
                (busiest, most) = (unit, reads);
            }
        }
        busiest
    }

    /// The reads in flight in a unit by one of the functions.
    fn reads(&self, function: usize, unit: u16) -> u32 {
        let reads = unit_at(function, unit).then(field!(Unit.reads));
        self.memory.devices().load(self.index, reads)
    }

    /// A unit by one of the functions, as it is at this moment.
    fn unit(&self, function: usize, unit: u16) -> Unit {
        self.memory.devices().part(self.index, unit_at(function, unit))
    }

    /// Reads and writes in flight. Each number is current; together they may be of different
    /// moments.
    #[must_use]
    pub fn in_flight(&self) -> [u32; 2] {
        let devices = self.memory.devices();
        [
            devices.load(self.index, field!(Device.drive.whole.reads)),
            devices.load(self.index, field!(Device.drive.whole.writes)),
        ]
    }

    /// How many requests have been sent since it was begun.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.memory.devices().part(self.index, field!(Device.sent))
    }

    /// What happened beside the state.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.memory.devices().part(self.index, field!(Device.counters))
    }

    /// Reads while the kernel does not write; whether that could be had. In the end the
    /// state is read as it is.
    #[inline]
    fn read_consistent(&self, mut read: impl FnMut(&Mapping<Device>)) -> bool {
        let devices = self.memory.devices();
        let seq = || devices.load(self.index, field!(Device.seq));
        for left in (0..TRIES).rev() {
            let before = seq();
            // What is read next is read after the sequence count.
            fence(Ordering::Acquire);
            let is_written = before & 1 == 1;
            if !is_written || left == 0 {
                read(devices);
                // ... and before it is read again.
                fence(Ordering::Acquire);
                if !is_written && seq() == before {
                    return true;
                }
            }
            spin_loop();
        }
        false
    }
}

/// A unit by one of the functions.
#[inline]
fn unit_at(function: usize, unit: u16) -> Field<Device, Unit> {
    assert!(function < FUNCTIONS && usize::from(unit) < UNITS);
    field!(Device.units).element(function * UNITS + usize::from(unit))
}
