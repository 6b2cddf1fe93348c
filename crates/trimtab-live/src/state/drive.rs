//! A drive's state as any process reads it.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use trimtab_io::{Nanos, Request};
use trimtab_predict::units::{self, MOST_PIECES, UnitFunction};
use trimtab_predict::{DIGITS, DriveState, FEATURES, Forecast, Trained, Unit, Verdict};

use super::abi::{Counters, Device, FUNCTIONS, Kept, UNITS};
use super::network::{self, SizeClass};
use crate::bpf::mapping::Mapping;
use crate::record::Error;

/// How often a copy is tried again that the kernel was just writing: some microseconds,
/// where a write takes a tenth of one, and that of a long request one or two.
const TRIES: u32 = 128;

/// A keeper that has not been seen to live for so long is taken to be gone. It
/// says so every 50 ms; a busy machine may keep it from that for a while.
const GONE_AFTER: Nanos = Nanos::from_secs(1);

/// The memory that the kernel keeps, mapped.
pub(super) struct Memory {
    pub(super) devices: Mapping<Device>,
}

impl Memory {
    /// By whom a drive is kept.
    pub(super) fn kept(&self, index: usize) -> Kept {
        // SAFETY: only the address of a field is taken.
        self.devices.part(index, |device| unsafe { &raw mut (*device).kept })
    }

    /// Whether the programs are attached and their keeper lives.
    pub(super) fn is_kept(&self, index: usize, now: Nanos) -> bool {
        let kept = self.kept(index);
        kept.attached != 0 && now.since(Nanos(kept.beat)) < GONE_AFTER
    }
}

/// A drive whose state the kernel keeps.
///
/// It may be used by several threads, and copied: all copies look at the same
/// memory.
#[derive(Clone)]
pub struct LiveDrive {
    memory: Arc<Memory>,
    index: usize,
    functions: Arc<[UnitFunction]>,
    /// Of these functions: see [`units::least_shift`].
    least_shift: u32,
    /// Of the state that these functions are of.
    generation: u32,
}

/// What was known of a drive at a moment, as far as it concerns one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// The drive as a whole.
    pub drive: DriveState,
    /// When it changed last.
    pub changed: Nanos,
    /// Whether this is how it was at one moment. Otherwise the kernel was writing
    /// each time it was looked at, and some numbers are newer than others.
    pub is_whole: bool,
    units: [Unit; FUNCTIONS],
    functions: usize,
}

/// The units of a request's pieces, by each function.
struct Pieces {
    units: [[u16; MOST_PIECES]; FUNCTIONS],
    count: [u8; FUNCTIONS],
}

impl Pieces {
    fn new(functions: &[UnitFunction], offset: u64, length: u64) -> Self {
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

    /// The units by one function; there is at least one.
    fn of(&self, function: usize) -> &[u16] {
        &self.units[function][..self.count[function].into()]
    }
}

impl Look {
    /// The busiest of the units that the request lies in, by each function.
    #[must_use]
    pub fn units(&self) -> &[Unit] {
        &self.units[..self.functions]
    }

    /// The numbers that our predictor decides by: see [`DriveState::features`].
    #[must_use]
    pub fn features(&self, now: Nanos, request: &Request) -> [i32; FEATURES] {
        self.drive.features(now, request, self.units())
    }

    /// The digits that LinnOS's network decides by: see [`DriveState::digits`].
    #[must_use]
    pub fn digits(&self, request: &Request) -> [u8; DIGITS] {
        self.drive.digits(request)
    }
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
    pub(super) fn new(memory: Arc<Memory>, index: usize) -> Result<Self, Error> {
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
        let failed = || Error::Kernel("the drive's unit functions cannot be read".to_owned());
        let (config, _) = self.whole(|devices| {
            // SAFETY: only the address of a field is taken.
            devices.part(self.index, |device| unsafe { &raw mut (*device).config })
        });
        self.functions = config.get().ok_or_else(failed)?.into();
        self.least_shift = units::least_shift(&self.functions);
        self.generation = config.generation;
        Ok(())
    }

    fn generation(&self) -> u32 {
        // SAFETY: only the address of a field is taken.
        self.memory
            .devices
            .part(self.index, |device| unsafe { &raw mut (*device).config.generation })
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

    /// Whether what is kept is current: the programs are attached, their keeper
    /// lives, and the unit functions are those that are known here (otherwise:
    /// [`refresh`](Self::refresh)). If not, nothing may be refused.
    #[must_use]
    pub fn is_fresh(&self, now: Nanos) -> bool {
        self.is_kept(now) && self.generation() == self.generation
    }

    /// Whether the programs are attached and their keeper lives.
    #[must_use]
    pub fn is_kept(&self, now: Nanos) -> bool {
        self.memory.is_kept(self.index, now)
    }

    /// How long ago the keeper said last that it lives, as it does every 50 ms; none
    /// if the programs are not attached. [`is_kept`](Self::is_kept) is for who has no
    /// limit of their own.
    #[must_use]
    pub fn age(&self, now: Nanos) -> Option<Nanos> {
        let kept = self.memory.kept(self.index);
        (kept.attached != 0).then(|| now.since(Nanos(kept.beat)))
    }

    /// Whether the unit functions in force are those that are known here; otherwise
    /// there is need to [`refresh`](Self::refresh).
    #[must_use]
    pub fn has_current_functions(&self) -> bool {
        self.generation() == self.generation
    }

    /// The drive as a whole, as it is now.
    #[must_use]
    pub fn state(&self) -> DriveState {
        let (drive, _) = self.whole(|devices| {
            // SAFETY: only the address of a field is taken.
            devices.part(self.index, |device| unsafe { &raw mut (*device).drive })
        });
        drive
    }

    /// What is known now, for a request of these bytes.
    #[must_use]
    pub fn look(&self, offset: u64, length: u64) -> Look {
        let mut look = Look::default();
        self.look_into(&mut look, self.units_at(offset), offset, length);
        look
    }

    /// The units that an offset (bytes) lies in, by each function.
    #[inline]
    pub(crate) fn units_at(&self, offset: u64) -> [u16; FUNCTIONS] {
        let mut units = [0; FUNCTIONS];
        for (unit, function) in units.iter_mut().zip(&*self.functions) {
            *unit = function.unit(offset) % UNITS as u16;
        }
        units
    }

    /// [`look`](Self::look), of who knows already in what units a request begins. A look is
    /// half a kilobyte, so it is written where it stays: to copy it took as long.
    #[inline]
    pub(crate) fn look_into(
        &self,
        look: &mut Look,
        first: [u16; FUNCTIONS],
        offset: u64,
        length: u64,
    ) {
        if units::is_spread(offset, length, self.least_shift) {
            self.look_at_pieces(look, offset, length);
        } else {
            self.look_at(look, |function| first[function]);
        }
    }

    /// Apart, for most requests have one piece: they need not have this in the way.
    #[inline(never)]
    fn look_at_pieces(&self, look: &mut Look, offset: u64, length: u64) {
        let pieces = Pieces::new(&self.functions, offset, length);
        self.look_at(look, |function| self.busiest(function, pieces.of(function)));
    }

    /// What is known now, where this says which unit it is about, by each function.
    #[inline]
    fn look_at(&self, look: &mut Look, unit: impl Fn(usize) -> u16) {
        look.functions = self.functions.len().min(FUNCTIONS);
        // While the kernel writes it is read again: only what must be is done here.
        look.is_whole = self.read_whole(|devices| {
            // SAFETY: only the address of a field is taken.
            devices.copy(self.index, |d| unsafe { &raw mut (*d).drive }, &mut look.drive);
            // SAFETY: as above.
            devices.copy(self.index, |d| unsafe { &raw mut (*d).now }, &mut look.changed.0);
            for (function, to) in look.units[..look.functions].iter_mut().enumerate() {
                devices.copy(self.index, unit_at(function, unit(function)), to);
            }
        });
    }

    /// What is to be expected of a request that would be sent now; none of a
    /// predictor that decides by more than a drive's state
    /// ([`HeurAdv`](trimtab_predict::PredictorKind::HeurAdv)).
    #[must_use]
    pub fn forecast(&self, trained: &Trained, now: Nanos, request: &Request) -> Option<Forecast> {
        let look = self.look(request.offset, request.length);
        trained.forecast(now, request, &look.drive, look.units())
    }

    /// What the network in the kernel ([`Keeper::set_network`](super::Keeper)) expects
    /// of a read of this class that would be sent now: one memory load, after which
    /// [`is_fresh`](Self::is_fresh) is still to be asked. `None`: no network is loaded.
    ///
    /// It is decided anew after each change of the drive's state, which takes the
    /// kernel a microsecond or two; until then this is what was decided before.
    #[must_use]
    pub fn verdict(&self, class: SizeClass) -> Option<Verdict> {
        network::verdict(self.published(class)).0
    }

    fn published(&self, class: SizeClass) -> u64 {
        let devices = &self.memory.devices;
        // SAFETY: only the address of a field is taken.
        let word = devices
            .number(self.index, |device| unsafe { &raw mut (*device).verdicts[class as usize] });
        word.load(Ordering::Relaxed)
    }

    /// For tests: the state that the present verdicts, small reads' first, are of;
    /// `None` if some are still to come, or there is no network.
    #[doc(hidden)]
    #[must_use]
    pub fn decided(&self) -> Option<(DriveState, [Verdict; 2])> {
        let devices = &self.memory.devices;
        let read = || {
            // SAFETY: only the address of a field is taken.
            let seq = devices.number(self.index, |device| unsafe { &raw mut (*device).seq });
            let seq = seq.load(Ordering::Acquire);
            (seq, SizeClass::ALL.map(|class| network::verdict(self.published(class))))
        };
        let (seq, verdicts) = read();
        // SAFETY: as above.
        let drive = devices.part(self.index, |device| unsafe { &raw mut (*device).drive });
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
        let at = unit_at(function, unit);
        // SAFETY: only the address of a field is taken.
        self.memory.devices.part(self.index, |device| unsafe { &raw mut (*at(device)).reads })
    }

    /// A unit by one of the functions, as it is at this moment.
    fn unit(&self, function: usize, unit: u16) -> Unit {
        self.memory.devices.part(self.index, unit_at(function, unit))
    }

    /// How many requests have been sent since it was begun.
    #[must_use]
    pub fn sent(&self) -> u64 {
        // SAFETY: only the address of a field is taken.
        self.memory.devices.part(self.index, |device| unsafe { &raw mut (*device).sent })
    }

    /// What happened beside the state.
    #[must_use]
    pub fn counters(&self) -> Counters {
        // SAFETY: only the address of a field is taken.
        self.memory.devices.part(self.index, |device| unsafe { &raw mut (*device).counters })
    }

    /// Reads something while the kernel does not write it; whether that could be had.
    fn whole<T: Default>(&self, read: impl Fn(&Mapping<Device>) -> T) -> (T, bool) {
        let mut value = T::default();
        let is_whole = self.read_whole(|devices| value = read(devices));
        (value, is_whole)
    }

    /// The same, where what is read is left elsewhere.
    #[inline]
    fn read_whole(&self, mut read: impl FnMut(&Mapping<Device>)) -> bool {
        let devices = &self.memory.devices;
        // SAFETY: only the address of a field is taken.
        let seq = devices.number(self.index, |device| unsafe { &raw mut (*device).seq });
        for left in (0..TRIES).rev() {
            let before = seq.load(Ordering::Acquire);
            let is_written = before & 1 == 1;
            // In the end it is taken as it is.
            if !is_written || left == 0 {
                read(devices);
                // What was read was read before `seq` is, again.
                fence(Ordering::Acquire);
                if !is_written && seq.load(Ordering::Relaxed) == before {
                    return true;
                }
            }
            spin_loop();
        }
        false
    }
}

/// Leads to a unit by one of the functions.
#[inline]
fn unit_at(function: usize, unit: u16) -> impl Fn(*mut Device) -> *mut Unit {
    assert!(function < FUNCTIONS && usize::from(unit) < UNITS);
    // SAFETY: only the address of an element is taken, which is within the array.
    move |device| unsafe {
        (&raw mut (*device).units).cast::<Unit>().add(function * UNITS + usize::from(unit))
    }
}
