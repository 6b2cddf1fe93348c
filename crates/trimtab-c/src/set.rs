//! Sets of replicas.

use std::ffi::{c_char, c_int, c_uint};
use std::mem::{MaybeUninit, offset_of};
use std::time::Duration;
use std::{ptr, slice};

use trimtab_predict::Model;
use trimtab_read::{Source, Urgency};
use trimtab_replicas::{ReplicaOptions, ReplicaSet, SetFigures, SetOptions, SetStrategy};

use crate::error::{Failure, guarded};
use crate::options::text;
use crate::{AUTO_DEADLINE, NO_DEADLINE, fill};

const DIRECT: c_uint = 1;
/// The set's own deadline.
const SET_DEADLINE: i64 = 0;
const MOST: usize = 8;
/// `enum trimtab_strategy`
const BASE: u32 = 1;
const HEDGE: u32 = 2;
const MITT: u32 = 3;

/// `struct trimtab_replica`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CReplica {
    path: *const c_char,
    model: *const c_char,
    pins: *const c_char,
    reserved: [u64; 3],
}

/// `struct trimtab_set_options`. Grows as `struct trimtab_options` does.
#[derive(Clone, Copy)]
#[repr(C)]
struct CSetOptions {
    deadline_ns: u64,
    most_extra: f64,
    oldest_ns: u64,
    seed: u64,
    flags: c_uint,
    /// Since version 8; reserved before. 0: trimtab's own.
    strategy: u32,
    strategy_ns: u64,
}

/// The size of the first version.
const LEAST: usize = offset_of!(CSetOptions, strategy_ns);

/// `struct trimtab_set_figures`
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct CSetFigures {
    of_set: [u64; 12],
    gain_ns: i64,
    gain_error_ns: u64,
    replicas: u64,
    beyond_p99_ppm: u64,
    of_replicas: [[u64; 6]; MOST],
}

impl Default for CSetOptions {
    fn default() -> Self {
        let SetOptions { most_extra, oldest, seed, .. } = SetOptions::default();
        Self {
            deadline_ns: 0,
            most_extra,
            oldest_ns: u64::try_from(oldest.as_nanos()).unwrap_or(u64::MAX),
            seed,
            flags: 0,
            strategy: 0,
            strategy_ns: 0,
        }
    }
}

impl CSetOptions {
    /// The options of a program whose structure has `size` bytes; the defaults for null.
    ///
    /// # Safety
    /// `size` bytes can be read there, or it is null.
    unsafe fn of(options: *const u8, size: usize) -> Result<Self, Failure> {
        let mut ours = Self::default();
        if options.is_null() {
            return Ok(ours);
        }
        if size < LEAST {
            return Err(Failure::invalid("trimtab_set_open: this is not the size of the options"));
        }
        let known = size.min(size_of::<Self>());
        // SAFETY: the caller's promise; all bit patterns are valid.
        let beyond = unsafe {
            ptr::copy_nonoverlapping(options, (&raw mut ours).cast::<u8>(), known);
            slice::from_raw_parts(options.add(known), size - known)
        };
        let is_unknown = ours.strategy > MITT || ours.flags & !DIRECT != 0;
        if is_unknown || beyond.iter().any(|byte| *byte != 0) {
            let why = "trimtab_set_open: an option that this library does not know is set; begin \
                       with trimtab_set_default_options";
            return Err(Failure::invalid(why));
        }
        Ok(ours)
    }

    fn load(&self) -> SetOptions {
        let deadline = match self.deadline_ns {
            0 => None,
            within => Some(Duration::from_nanos(within)),
        };
        SetOptions {
            deadline,
            most_extra: self.most_extra,
            direct: self.flags & DIRECT != 0,
            oldest: Duration::from_nanos(self.oldest_ns),
            seed: self.seed,
            strategy: self.strategy(),
            ..SetOptions::default()
        }
    }
}

impl CSetOptions {
    fn strategy(&self) -> SetStrategy {
        let time = Duration::from_nanos(self.strategy_ns);
        match self.strategy {
            BASE => SetStrategy::Base,
            HEDGE => SetStrategy::Hedge { after: time },
            MITT => SetStrategy::Mitt { deadline: time },
            _ => SetStrategy::Trimtab,
        }
    }
}

impl CReplica {
    /// # Safety
    /// The strings are valid as for [`text`].
    unsafe fn load(&self, number: usize) -> Result<ReplicaOptions, Failure> {
        // SAFETY: the caller's promise.
        let [path, model, pins] = unsafe { [text(self.path), text(self.model), text(self.pins)] };
        let Some(path) = path else {
            let why = format!("trimtab_set_open: the path of replica {number} is NULL");
            return Err(Failure::invalid(&why));
        };
        if self.reserved != [0; 3] {
            let why = format!("trimtab_set_open: reserved members of replica {number} are not 0");
            return Err(Failure::invalid(&why));
        }
        let mut options = ReplicaOptions::new(path);
        if let Some(model) = model {
            let model = Model::load(model).map_err(|e| Failure::invalid(&e.to_string()))?;
            options = options.with_model(model);
        }
        if let Some(pins) = pins {
            options = options.with_source(Source::Pinned(pins.to_owned()));
        }
        Ok(options)
    }
}

impl From<SetFigures> for CSetFigures {
    fn from(figures: SetFigures) -> Self {
        let mut this = Self {
            of_set: [
                figures.reads,
                figures.errors,
                figures.timed_out,
                figures.plain,
                figures.moved,
                figures.extra,
                figures.hedges,
                figures.rescues,
                figures.probes,
                figures.without_model,
                figures.copied_bytes,
                figures.gain.pairs,
            ],
            gain_ns: figures.gain.mean_ns as i64,
            gain_error_ns: figures.gain.error_ns as u64,
            replicas: figures.replicas.len() as u64,
            beyond_p99_ppm: figures.gain.beyond_p99.map_or(0, |share| (share * 1e6) as u64),
            ..Self::default()
        };
        for (of, replica) in this.of_replicas.iter_mut().zip(&figures.replicas) {
            let is_down = u64::from(replica.is_down);
            *of = [replica.served, replica.sent, replica.errors, replica.typical.0, is_down, 0];
        }
        this
    }
}

/// See include/trimtab.h.
///
/// # Safety
/// `options` has space for `size` bytes, or is null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn trimtab_set_default_options(options: *mut u8, size: usize) {
    if !options.is_null() {
        // SAFETY: the caller's promise.
        unsafe { fill(options, size, &CSetOptions::default()) };
    }
}

/// See include/trimtab.h.
///
/// # Safety
/// There are `count` replicas, with strings that are valid or null, or null; `options` has `size`
/// bytes, or is null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn trimtab_set_open(
    replicas: *const CReplica,
    count: usize,
    options: *const u8,
    size: usize,
) -> *mut ReplicaSet {
    guarded(ptr::null_mut(), || {
        if replicas.is_null() {
            return Err(Failure::invalid("trimtab_set_open: replicas is NULL"));
        }
        // SAFETY: the caller's promise.
        let options = unsafe { CSetOptions::of(options, size) }?.load();
        // A wrong count is refused before anything is read there.
        if !(2..=MOST).contains(&count) {
            return Err(trimtab_replicas::OpenError::Count(count).into());
        }
        // SAFETY: the caller's promise.
        let all = unsafe { slice::from_raw_parts(replicas, count) };
        // SAFETY: as above.
        let load = |(number, replica): (usize, &CReplica)| unsafe { replica.load(number) };
        let replicas = all.iter().enumerate().map(load).collect::<Result<Vec<_>, _>>()?;
        Ok(Box::into_raw(Box::new(ReplicaSet::open(replicas, &options)?)))
    })
}

/// See include/trimtab.h.
///
/// # Safety
/// The set is open, or null; the buffer has space for `length` bytes, or is null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn trimtab_set_read_at(
    set: *mut ReplicaSet,
    buffer: *mut u8,
    length: usize,
    offset: i64,
    within_ns: i64,
) -> isize {
    // SAFETY: the caller's promise.
    let set = unsafe { set.as_ref() };
    guarded(-1, || {
        let (Some(set), Ok(offset)) = (set, u64::try_from(offset)) else {
            return Err(Failure::invalid("trimtab_set_read_at: no set, or a negative offset"));
        };
        if buffer.is_null() || isize::try_from(length).is_err() {
            let why = "trimtab_set_read_at: no buffer, or none of such a length";
            return Err(Failure::invalid(why));
        }
        // SAFETY: the caller's promise, and the length has been checked. The bytes may be
        // uninitialised.
        let buffer = unsafe { slice::from_raw_parts_mut(buffer.cast::<MaybeUninit<u8>>(), length) };
        let bytes = match within_ns {
            SET_DEADLINE => set.read_uninit_at(buffer, offset)?,
            NO_DEADLINE => set.read_uninit_at_within(buffer, offset, None)?,
            AUTO_DEADLINE => set.read_uninit_at_urgency(buffer, offset, Urgency::Auto)?,
            within => match u64::try_from(within) {
                Ok(within) => {
                    let within = Some(Duration::from_nanos(within));
                    set.read_uninit_at_within(buffer, offset, within)?
                }
                Err(_) => {
                    return Err(Failure::invalid("trimtab_set_read_at: a negative deadline"));
                }
            },
        };
        Ok(bytes.cast_signed())
    })
}

/// See include/trimtab.h.
///
/// # Safety
/// The set is open, or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn trimtab_set_failed_over(
    set: *mut ReplicaSet,
    took_ns: i64,
) -> c_int {
    // SAFETY: the caller's promise.
    let set = unsafe { set.as_ref() };
    guarded(-1, || {
        let (Some(set), Ok(took)) = (set, u64::try_from(took_ns)) else {
            return Err(Failure::invalid("trimtab_set_failed_over: no set, or a negative time"));
        };
        set.failed_over(Duration::from_nanos(took));
        Ok(0)
    })
}

/// See include/trimtab.h.
///
/// # Safety
/// The set is open, or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn trimtab_set_auto_deadline(set: *mut ReplicaSet) -> i64 {
    // SAFETY: the caller's promise.
    let set = unsafe { set.as_ref() };
    guarded(-1, || {
        let set = set.ok_or_else(|| Failure::invalid("trimtab_set_auto_deadline: no set"))?;
        Ok(i64::try_from(set.auto_deadline().as_nanos()).unwrap_or(i64::MAX))
    })
}

/// See include/trimtab.h.
///
/// # Safety
/// The set is open, or null; `figures` has space for `size` bytes, or is null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn trimtab_set_get_figures(
    set: *mut ReplicaSet,
    figures: *mut u8,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let set = unsafe { set.as_ref() };
    guarded(-1, || {
        let Some(set) = set.filter(|_| !figures.is_null()) else {
            return Err(Failure::invalid("trimtab_set_get_figures: no set, or no figures"));
        };
        // SAFETY: the caller's promise.
        unsafe { fill(figures, size, &CSetFigures::from(set.figures())) };
        Ok(0)
    })
}

/// See include/trimtab.h.
///
/// # Safety
/// The set is open and no thread uses it, or it is null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn trimtab_set_close(set: *mut ReplicaSet) {
    if !set.is_null() {
        guarded((), || {
            // SAFETY: the caller's promise; `trimtab_set_open` has made it from a box.
            drop(unsafe { Box::from_raw(set) });
            Ok(())
        });
    }
}
