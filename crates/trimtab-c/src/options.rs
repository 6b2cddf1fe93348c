//! `struct trimtab_options`, which grows with the interface.

use std::ffi::{CStr, OsStr, c_char, c_uint};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;
use std::{ptr, slice};

use trimtab_predict::Model;
use trimtab_read::{ReadOptions, Source};

use crate::error::Failure;

const DIRECT: c_uint = 1;

/// As in include/trimtab.h. Fields are added at the end, and zero in a new field means the
/// earlier behaviour: so an older library accepts a newer structure with zeros, and a newer
/// library a shorter structure.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct COptions {
    model: *const c_char,
    pins: *const c_char,
    oldest_ns: u64,
    probe_every_ns: u64,
    most_refused: f64,
    probes_out: u32,
    sample_every: u32,
    flags: c_uint,
    reserved: u32,
    /// Since version 3.
    most_abandoned: u32,
    reserved_too: u32,
    /// Since version 6. 0: the drive's least latency.
    memory_below_ns: u64,
    /// 0: the default.
    failover_ns: u64,
}

/// The size of the first version with options.
const LEAST: usize = offset_of!(COptions, most_abandoned);

impl Default for COptions {
    fn default() -> Self {
        let options = ReadOptions::default();
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            model: ptr::null(),
            pins: ptr::null(),
            oldest_ns: nanos(options.oldest),
            probe_every_ns: nanos(options.probe_every),
            most_refused: options.most_refused,
            probes_out: options.probes_out,
            sample_every: options.sample_every,
            flags: 0,
            reserved: 0,
            most_abandoned: options.most_abandoned,
            reserved_too: 0,
            memory_below_ns: 0,
            failover_ns: nanos(options.auto.failover),
        }
    }
}

impl COptions {
    /// The options of a function that takes no others.
    pub(crate) fn new(model: *const c_char, pins: *const c_char, flags: c_uint) -> Self {
        Self { model, pins, flags, ..Self::default() }
    }

    /// The options of a program whose structure has `size` bytes.
    ///
    /// # Safety
    /// `size` bytes can be read there, and the strings in them are valid as for [`text`].
    pub(crate) unsafe fn of(options: *const u8, size: usize) -> Result<Self, Failure> {
        if options.is_null() || size < LEAST {
            return Err(Failure::invalid("trimtab_open_with: no options, or not their size"));
        }
        let mut ours = Self::default();
        let known = size.min(size_of::<Self>());
        // SAFETY: the caller's promise; all bit patterns are valid.
        let beyond = unsafe {
            ptr::copy_nonoverlapping(options, (&raw mut ours).cast::<u8>(), known);
            slice::from_raw_parts(options.add(known), size - known)
        };
        if ours.most_abandoned == 0 {
            ours.most_abandoned = Self::default().most_abandoned;
        }
        if ours.reserved != 0 || ours.reserved_too != 0 || beyond.iter().any(|byte| *byte != 0) {
            let why = "trimtab_open_with: an option that this library does not know is set; begin \
                       with trimtab_default_options";
            return Err(Failure::invalid(why));
        }
        Ok(ours)
    }

    /// Fills in the defaults for the fields that the program has. Fields unknown to this
    /// library become zero.
    ///
    /// # Safety
    /// There is space for `size` bytes.
    pub(crate) unsafe fn fill(options: *mut u8, size: usize) {
        let ours = Self::default();
        // SAFETY: the caller's promise.
        unsafe {
            ptr::write_bytes(options, 0, size);
            let known = size.min(size_of::<Self>());
            ptr::copy_nonoverlapping((&raw const ours).cast::<u8>(), options, known);
        }
    }

    /// The same as Rust options, with the model loaded.
    ///
    /// # Safety
    /// The strings are valid as for [`text`].
    pub(crate) unsafe fn load(&self, function: &str) -> Result<ReadOptions, Failure> {
        // SAFETY: the caller's promise.
        let [model, pins] = unsafe { [text(self.model), text(self.pins)] };
        if self.flags & !DIRECT != 0 {
            let flags = self.flags;
            return Err(Failure::invalid(&format!("{function}: unknown flags {flags:#x}")));
        }
        let mut options = ReadOptions {
            oldest: Duration::from_nanos(self.oldest_ns),
            probe_every: Duration::from_nanos(self.probe_every_ns),
            probes_out: self.probes_out,
            sample_every: self.sample_every,
            most_refused: self.most_refused,
            most_abandoned: self.most_abandoned,
            direct: self.flags & DIRECT != 0,
            ..ReadOptions::default()
        };
        if self.memory_below_ns > 0 {
            options.memory_below = Some(Duration::from_nanos(self.memory_below_ns));
        }
        if self.failover_ns > 0 {
            options.auto.failover = Duration::from_nanos(self.failover_ns);
        }
        if let Some(model) = model {
            let model = Model::load(model).map_err(|e| Failure::invalid(&e.to_string()))?;
            options.model = Some(model.into());
        }
        if let Some(pins) = pins {
            options.source = Source::Pinned(pins.to_owned());
        }
        Ok(options)
    }
}

/// A path from C; `None` if it is null.
///
/// # Safety
/// It is a valid C string for as long as the result is used, or null.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Option<&'a Path> {
    // SAFETY: the caller's promise.
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })?;
    Some(Path::new(OsStr::from_bytes(text.to_bytes())))
}
