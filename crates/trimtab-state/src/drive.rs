//! A drive's state, readable by any process.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use trimtab_io::{Nanos, Request};
use trimtab_predict::units::{self, UnitFunction};
use trimtab_predict::{DriveState, Forecast, Trained, Unit, Verdict};
use trimtab_shm::{Field, Mapping, field};

use crate::Error;
use crate::abi::{Config, Counters, Device, FUNCTIONS, UNITS};
use crate::memory::StateMemory;
use crate::snapshot::{Pieces, StateSnapshot};
use crate::verdict::{self, SizeClass};

/// How often a copy is retried that the kernel was writing: some microseconds in all. A write
/// takes a tenth of a microsecond, that of a long request one or two.
const TRIES: u32 = 128;

/// How long a caller that cannot go on without the unit functions waits for a writer whose
/// processor was taken away: in a virtual machine that may last for some ten milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_micros(100);

/// A drive whose state is tracked by the kernel.
///
/// It may be used by several threads, and cloned: all clones read the same memory.
#[derive(Clone)]
pub struct LiveDrive {
    memory: Arc<StateMemory>,
    index: usize,
    functions: Arc<[UnitFunction]>,
    /// For these functions: see [`units::least_shift`].
    least_shift: u32,
    /// The generation of these functions.
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
    /// The drive at this index of the memory.
    ///
    /// # Errors
    /// As [`refresh_patiently`](Self::refresh_patiently).
    ///
    /// # Panics
    /// The memory has no such drive.
    pub fn new(memory: Arc<StateMemory>, index: usize) -> Result<Self, Error> {
        let mut this = Self::without_functions(memory, index);
        this.refresh_patiently()?;
        Ok(this)
    }

    pub(crate) fn without_functions(memory: Arc<StateMemory>, index: usize) -> Self {
        Self { memory, index, functions: Arc::new([]), least_shift: 0, generation: 0 }
    }

    /// [`refresh`](Self::refresh), repeated for up to a second while the kernel is writing.
    ///
    /// # Errors
    /// The kernel was writing for that long, or the functions are of another version.
    pub fn refresh_patiently(&mut self) -> Result<(), Error> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.refresh() {
                Err(Error::Busy) if Instant::now() < until => thread::sleep(PAUSE),
                result => return result,
            }
        }
    }

    /// Adopts the unit functions that are in force now, in some microseconds.
    ///
    /// # Errors
    /// [`Error::Busy`]: the kernel was writing the state at each attempt, which happens on a
    /// loaded machine; the functions are as before, and the caller may try again. Or the
    /// functions are of another version.
    pub fn refresh(&mut self) -> Result<(), Error> {
        let mut config = Config::default();
        let is_consistent = self.read_consistent(|devices| {
            devices.copy(self.index, field!(Device.config), &mut config);
        });
        if !is_consistent {
            return Err(Error::Busy);
        }
        self.functions = config.functions().ok_or(Error::UnitFunctions)?.into();
        self.least_shift = units::least_shift(&self.functions);
        self.generation = config.generation;
        Ok(())
    }

    fn generation(&self) -> u32 {
        self.memory.devices().load(self.index, field!(Device.config.generation))
    }

    /// The drive's number in the kernel's encoding, major << 20 | minor.
    #[must_use]
    pub fn kernel_number(&self) -> u32 {
        self.memory.tracker(self.index).number
    }

    /// The drive's unit functions.
    #[must_use]
    pub fn functions(&self) -> &[UnitFunction] {
        &self.functions
    }

    /// Whether these are the drive's unit functions. Those beyond the third are ignored: no
    /// more are tracked or used.
    #[must_use]
    pub fn tells_apart_by(&self, functions: &[UnitFunction]) -> bool {
        *self.functions == functions[..functions.len().min(FUNCTIONS)]
    }

    /// Whether the state is current: the programs are attached, their tracker runs, and the
    /// unit functions are those adopted here (otherwise: [`refresh`](Self::refresh)). If not,
    /// nothing may be refused.
    #[must_use]
    pub fn is_fresh(&self, now: Nanos) -> bool {
        self.is_tracked(now) && self.generation() == self.generation
    }

    /// Whether the programs are attached and their tracker runs.
    #[must_use]
    pub fn is_tracked(&self, now: Nanos) -> bool {
        self.memory.is_tracked(self.index, now)
    }

    /// The age of the tracker's last heartbeat, which comes every 50 ms; `None` if the
    /// programs are not attached. [`is_tracked`](Self::is_tracked) applies a default limit.
    #[must_use]
    pub fn age(&self, now: Nanos) -> Option<Nanos> {
        let tracker = self.memory.tracker(self.index);
        (tracker.attached != 0).then(|| now.since(Nanos(tracker.heartbeat_ns)))
    }

    /// Whether the unit functions in force are those adopted here; otherwise call
    /// [`refresh`](Self::refresh).
    #[must_use]
    pub fn has_current_functions(&self) -> bool {
        self.generation() == self.generation
    }

    /// The drive's state now; `None` if the kernel was writing it at each attempt.
    #[must_use]
    pub fn state(&self) -> Option<DriveState> {
        let mut drive = DriveState::default();
        let is_consistent = self.read_consistent(|devices| {
            devices.copy(self.index, field!(Device.drive), &mut drive);
        });
        is_consistent.then_some(drive)
    }

    /// A snapshot of the state for a request of these bytes.
    #[must_use]
    pub fn snapshot(&self, offset: u64, length: u64) -> StateSnapshot {
        let mut snapshot = StateSnapshot::default();
        self.snapshot_into(&mut snapshot, self.units_at(offset), offset, length);
        snapshot
    }

    /// The units of an offset (bytes), by each function.
    #[inline]
    pub fn units_at(&self, offset: u64) -> [u16; FUNCTIONS] {
        let mut units = [0; FUNCTIONS];
        for (unit, function) in units.iter_mut().zip(&*self.functions) {
            *unit = function.unit(offset) % UNITS as u16;
        }
        units
    }

    /// [`snapshot`](Self::snapshot), for callers that know the units of a request's first
    /// byte. A snapshot is half a kilobyte and is written in place: copying it would take as
    /// long again.
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

    /// A separate function: most requests have one piece and should not pay for this.
    #[inline(never)]
    fn copy_pieces(&self, snapshot: &mut StateSnapshot, offset: u64, length: u64) {
        let pieces = Pieces::new(&self.functions, offset, length);
        self.copy_units(snapshot, |function| self.busiest(function, pieces.of(function)));
    }

    /// A snapshot for the unit that `unit` returns for each function.
    #[inline]
    fn copy_units(&self, snapshot: &mut StateSnapshot, unit: impl Fn(usize) -> u16) {
        snapshot.functions = self.functions.len().min(FUNCTIONS);
        // Repeated while the kernel writes: only the necessary work is done here.
        snapshot.is_consistent = self.read_consistent(|devices| {
            devices.copy(self.index, field!(Device.drive), &mut snapshot.drive);
            snapshot.changed = Nanos(devices.load(self.index, field!(Device.now_ns)));
            for (function, to) in snapshot.units[..snapshot.functions].iter_mut().enumerate() {
                devices.copy(self.index, unit_at(function, unit(function)), to);
            }
        });
    }

    /// The forecast for a request that would be sent now; `None` if the predictor needs more
    /// than a drive's state ([`HeurAdv`](trimtab_predict::PredictorKind::HeurAdv)).
    #[must_use]
    pub fn forecast(&self, trained: &Trained, now: Nanos, request: &Request) -> Option<Forecast> {
        let snapshot = self.snapshot(request.offset, request.length);
        trained.forecast(now, request, &snapshot.drive, snapshot.units())
    }

    /// The decision of the network in the kernel
    /// (`trimtab_tracker::StateTracker::set_network`) about a read of this class that would be
    /// sent now: one memory load. The caller must then check [`is_fresh`](Self::is_fresh) too.
    /// `None`: no network is loaded.
    ///
    /// The kernel updates it after each change of the drive's state, within a microsecond or
    /// two; until then this is the previous decision.
    #[must_use]
    pub fn verdict(&self, class: SizeClass) -> Option<Verdict> {
        verdict::unpack(self.published(class)).0
    }

    fn published(&self, class: SizeClass) -> u64 {
        let devices = self.memory.devices();
        devices.load(self.index, field!(Device.published.verdicts).element(class as usize))
    }

    /// For tests: the state that the present verdicts, small reads' first, are for; `None` if
    /// some are pending, or there is no network.
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

    /// All units of one of the functions (by index), each at about this moment.
    ///
    /// # Panics
    /// If there is no such function.
    #[must_use]
    pub fn units(&self, function: usize) -> Vec<Unit> {
        (0..self.functions[function].units()).map(|i| self.unit(function, i as u16)).collect()
    }

    /// The unit with the most reads in flight at this moment among some units of one function,
    /// the first of these: see [`Unit::busiest`].
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

    /// The reads in flight in a unit of one of the functions.
    fn reads(&self, function: usize, unit: u16) -> u32 {
        let reads = unit_at(function, unit).then(field!(Unit.reads));
        self.memory.devices().load(self.index, reads)
    }

    /// A unit of one of the functions, at this moment.
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

    /// How many requests have been sent since tracking began.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.memory.devices().part(self.index, field!(Device.sent))
    }

    /// Counters of events that affect tracking.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.memory.devices().part(self.index, field!(Device.counters))
    }

    /// Calls `read` until the kernel did not write meanwhile; returns whether that succeeded.
    /// After the last attempt the state is used as it is.
    #[inline]
    fn read_consistent(&self, mut read: impl FnMut(&Mapping<Device>)) -> bool {
        let devices = self.memory.devices();
        let seq = || devices.load(self.index, field!(Device.seq));
        for left in (0..TRIES).rev() {
            let before = seq();
            // The following loads happen after that of the sequence count,
            fence(Ordering::Acquire);
            let is_written = before & 1 == 1;
            if !is_written || left == 0 {
                read(devices);
                // and before it is loaded again.
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

/// The field of a unit of one of the functions.
#[inline]
fn unit_at(function: usize, unit: u16) -> Field<Device, Unit> {
    assert!(function < FUNCTIONS && usize::from(unit) < UNITS);
    field!(Device.units).element(function * UNITS + usize::from(unit))
}
