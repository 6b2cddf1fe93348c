//! Reads with a deadline and sets of replicas for C: `libtrimtab.so` and `libtrimtab.a`.
//!
//! The interface is `include/trimtab.h`, which documents each function and its `errno`; this
//! crate implements it with [`trimtab_read`] and [`trimtab_replicas`]. It only translates: pointers into references,
//! errors into `errno`, and a panic, which must not unwind through a caller's frames, into
//! `EIO`.
//!
//! The library exports these functions, and nothing else.

mod error;
mod options;
mod set;

use std::ffi::{c_char, c_int, c_uint};
use std::mem::MaybeUninit;
use std::ptr;
use std::slice;
use std::time::Duration;

use rustix::io::Errno;
use trimtab_read::{Figures, ReadError, Reader, Urgency, addrcheck};

use error::{Failure, guarded, last_error, refused, refused_wait, timed_out};
use options::{COptions, text};

/// The version of the interface.
const VERSION: u32 = 8;
const NO_DEADLINE: i64 = -1;
const AUTO_DEADLINE: i64 = -2;

/// `struct trimtab_figures`
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CFigures([u64; 25]);

impl From<Figures> for CFigures {
    fn from(figures: Figures) -> Self {
        let open = &figures.failed_open;
        Self([
            figures.without_deadline,
            figures.with_deadline,
            figures.admitted,
            figures.refused,
            figures.cached,
            figures.probed,
            figures.sampled,
            figures.over_cap,
            open.total(),
            figures.late,
            figures.forced_samples,
            figures.fast_forced_samples,
            open.no_model,
            open.other_model,
            open.other_drive,
            open.no_device,
            open.not_tracked,
            open.stale,
            open.unsure,
            figures.bounded,
            figures.timed_out,
            open.several_drives,
            open.unknown_mapping,
            figures.evicted,
            figures.first_accesses,
        ])
    }
}

/// See include/trimtab.h.
#[unsafe(no_mangle)]
pub const extern "C" fn trimtab_version() -> u32 {
    VERSION
}

/// See include/trimtab.h.
///
/// # Safety
/// The strings are valid C strings, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_open(
    path: *const c_char,
    model: *const c_char,
    flags: c_uint,
) -> *mut Reader {
    // SAFETY: the caller's promise.
    unsafe { trimtab_open_pinned(path, model, flags, ptr::null()) }
}

/// See include/trimtab.h.
///
/// # Safety
/// The strings are valid C strings, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_open_pinned(
    path: *const c_char,
    model: *const c_char,
    flags: c_uint,
    pins: *const c_char,
) -> *mut Reader {
    let options = COptions::new(model, pins, flags);
    // SAFETY: the caller's promise.
    guarded(ptr::null_mut(), || unsafe { open("trimtab_open", path, &options) })
}

/// See include/trimtab.h.
///
/// # Safety
/// `options` has space for `size` bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_default_options(options: *mut u8, size: usize) {
    if !options.is_null() {
        // SAFETY: the caller's promise.
        unsafe { COptions::fill(options, size) };
    }
}

/// See include/trimtab.h.
///
/// # Safety
/// The path and the strings in the options are valid C strings, or null; `options` has `size`
/// bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_open_with(
    path: *const c_char,
    options: *const u8,
    size: usize,
) -> *mut Reader {
    // SAFETY: the caller's promise.
    guarded(ptr::null_mut(), || unsafe {
        open("trimtab_open_with", path, &COptions::of(options, size)?)
    })
}

/// Opens a reader for C.
///
/// # Safety
/// The path and the strings in the options are valid C strings, or null.
unsafe fn open(
    function: &str,
    path: *const c_char,
    options: &COptions,
) -> Result<*mut Reader, Failure> {
    // SAFETY: the caller's promise.
    let Some(path) = (unsafe { text(path) }) else {
        return Err(Failure::invalid(&format!("{function}: the path is NULL")));
    };
    // SAFETY: the caller's promise.
    let options = unsafe { options.load(function) }?;
    Ok(Box::into_raw(Box::new(Reader::open(path, &options)?)))
}

/// See include/trimtab.h.
///
/// # Safety
/// The reader is open, or null; the buffer has space for `length` bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_read_at(
    reader: *mut Reader,
    buffer: *mut u8,
    length: usize,
    offset: i64,
    within_ns: i64,
) -> isize {
    // SAFETY: the caller's promise.
    let reader = unsafe { reader.as_ref() };
    guarded(-1, || {
        let (Some(reader), Ok(offset)) = (reader, u64::try_from(offset)) else {
            return Err(Failure::invalid("trimtab_read_at: no reader, or a negative offset"));
        };
        if buffer.is_null() || isize::try_from(length).is_err() {
            return Err(Failure::invalid("trimtab_read_at: no buffer, or none of such a length"));
        }
        let urgency = match within_ns {
            0 => Urgency::LatencyCritical,
            NO_DEADLINE => Urgency::None,
            AUTO_DEADLINE => Urgency::Auto,
            within => match u64::try_from(within) {
                Ok(within) => Urgency::Deadline(Duration::from_nanos(within)),
                Err(_) => return Err(Failure::invalid("trimtab_read_at: a negative deadline")),
            },
        };
        // SAFETY: the caller's promise, and the length has been checked. The bytes may be
        // uninitialised.
        let buffer = unsafe { slice::from_raw_parts_mut(buffer.cast::<MaybeUninit<u8>>(), length) };
        match reader.read_uninit_at(buffer, offset, urgency) {
            Ok(bytes) => Ok(bytes.cast_signed()),
            Err(ReadError::Refused(refusal)) => Err(refused(refusal)),
            Err(ReadError::TimedOut(within)) => Err(timed_out(within)),
            Err(ReadError::Io(error)) => Err(error.into()),
        }
    })
}

/// See include/trimtab.h.
///
/// # Safety
/// The reader is open, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_expected_wait(
    reader: *mut Reader,
    length: usize,
    offset: i64,
) -> i64 {
    // SAFETY: the caller's promise.
    let reader = unsafe { reader.as_ref() };
    guarded(-1, || {
        let (Some(reader), Ok(offset)) = (reader, u64::try_from(offset)) else {
            let why = "trimtab_expected_wait: no reader, or a negative offset";
            return Err(Failure::invalid(why));
        };
        let expected = reader.expect(length as u64, offset).and_then(|expected| expected.wait);
        let nanos = |wait: Duration| i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX);
        let why = "there is no forecast for this read";
        expected.map(nanos).ok_or_else(|| Failure::new(Errno::NODATA, why))
    })
}

/// See include/trimtab.h.
#[unsafe(no_mangle)]
pub extern "C" fn trimtab_refused_wait() -> i64 {
    refused_wait()
}

/// See include/trimtab.h.
///
/// The address is given to the kernel, and never read from.
#[unsafe(no_mangle)]
pub extern "C" fn trimtab_addrcheck(address: *const u8, length: usize, within_ns: i64) -> c_int {
    guarded(-1, || {
        let within = match within_ns {
            NO_DEADLINE => Duration::MAX,
            within => Duration::from_nanos(
                u64::try_from(within)
                    .map_err(|_| Failure::invalid("trimtab_addrcheck: a negative deadline"))?,
            ),
        };
        match addrcheck(address, length, within) {
            Ok(()) => Ok(0),
            Err(ReadError::Refused(refusal)) => Err(refused(refusal)),
            Err(ReadError::TimedOut(within)) => Err(timed_out(within)),
            Err(ReadError::Io(error)) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                let why = "trimtab_addrcheck: some of the range is not mapped";
                Err(Failure::new(errno, why))
            }
        }
    })
}

/// See include/trimtab.h.
///
/// # Safety
/// The reader is open, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_failed_over(reader: *mut Reader, took_ns: i64) -> c_int {
    // SAFETY: the caller's promise.
    let reader = unsafe { reader.as_ref() };
    guarded(-1, || {
        let (Some(reader), Ok(took)) = (reader, u64::try_from(took_ns)) else {
            return Err(Failure::invalid("trimtab_failed_over: no reader, or a negative time"));
        };
        reader.failed_over(Duration::from_nanos(took));
        Ok(0)
    })
}

/// See include/trimtab.h.
///
/// # Safety
/// The reader is open, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_auto_deadline(reader: *mut Reader) -> i64 {
    // SAFETY: the caller's promise.
    let reader = unsafe { reader.as_ref() };
    guarded(-1, || {
        let reader = reader.ok_or_else(|| Failure::invalid("trimtab_auto_deadline: no reader"))?;
        Ok(i64::try_from(reader.auto_deadline().as_nanos()).unwrap_or(i64::MAX))
    })
}

/// See include/trimtab.h.
///
/// # Safety
/// The reader is open, or null; `figures` has space for `size` bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_get_figures(
    reader: *mut Reader,
    figures: *mut u8,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let reader = unsafe { reader.as_ref() };
    guarded(-1, || {
        let Some(reader) = reader.filter(|_| !figures.is_null()) else {
            return Err(Failure::invalid("trimtab_get_figures: no reader, or no figures"));
        };
        // SAFETY: the caller's promise.
        unsafe { fill(figures, size, &CFigures::from(reader.figures())) };
        Ok(0)
    })
}

/// Copies a structure of this library into one of the program. Fields unknown to this library
/// become zero.
///
/// # Safety
/// There is space for `size` bytes.
unsafe fn fill<T>(into: *mut u8, size: usize, from: &T) {
    // SAFETY: the caller's promise.
    unsafe {
        ptr::write_bytes(into, 0, size);
        ptr::copy_nonoverlapping((&raw const *from).cast(), into, size.min(size_of::<T>()));
    }
}

/// See include/trimtab.h.
#[unsafe(no_mangle)]
pub extern "C" fn trimtab_last_error() -> *const c_char {
    last_error()
}

/// See include/trimtab.h.
///
/// # Safety
/// The reader is open and no thread uses it, or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trimtab_close(reader: *mut Reader) {
    if !reader.is_null() {
        guarded((), || {
            // SAFETY: the caller's promise; `trimtab_open` has made it from a box.
            drop(unsafe { Box::from_raw(reader) });
            Ok(())
        });
    }
}
