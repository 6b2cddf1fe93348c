//! Errors in C: `errno`, and a line of text for each thread.

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rustix::io::Errno;
use trimtab_read::{Error, ReadError, Refusal};
use trimtab_replicas::{OpenError, ReadError as SetReadError};

/// The last error of a thread.
enum Told {
    Nothing,
    /// Refusals are frequent, so the text is made only on request.
    Refused(Refusal),
    /// The same for a read that missed its deadline.
    TimedOut(Duration),
    /// The same for a read of a set.
    SetTimedOut(Duration),
    Text(CString),
}

thread_local! {
    static LAST: RefCell<Told> = const { RefCell::new(Told::Nothing) };
    /// See `trimtab_refused_wait`.
    static WAIT: Cell<i64> = const { Cell::new(-1) };
}

/// The error of a function.
pub(crate) struct Failure {
    errno: i32,
    told: Told,
}

impl Failure {
    pub(crate) fn new(errno: Errno, why: &str) -> Self {
        // No byte of it is zero: paths contain none.
        let text = CString::new(why).unwrap_or_default();
        Self { errno: errno.raw_os_error(), told: Told::Text(text) }
    }

    pub(crate) fn invalid(why: &str) -> Self {
        Self::new(Errno::INVAL, why)
    }

    fn of(error: &io::Error, why: &str) -> Self {
        let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        Self { errno, ..Self::new(Errno::IO, why) }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::of(&error, &format!("cannot read: {error}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            Error::Open { source, .. } => Self::of(source, &error.to_string()),
            Error::Option(why) => Self::invalid(why),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let line = error.to_string();
        match &error {
            OpenError::Replica { source: Error::Open { source, .. }, .. }
            | OpenError::None { source: Error::Open { source, .. }, .. } => Self::of(source, &line),
            _ => Self::invalid(&line),
        }
    }
}

impl From<SetReadError> for Failure {
    fn from(error: SetReadError) -> Self {
        match &error {
            SetReadError::TimedOut(within) => {
                let told = Told::SetTimedOut(*within);
                Self { errno: Errno::TIMEDOUT.raw_os_error(), told }
            }
            SetReadError::Io(source) => Self::of(source, &error.to_string()),
        }
    }
}

/// A read was refused.
pub(crate) fn refused(refusal: Refusal) -> Failure {
    let wait = refusal.expected_wait.map(|wait| i64::try_from(wait.as_nanos()));
    WAIT.set(wait.and_then(Result::ok).unwrap_or(-1));
    Failure { errno: Errno::BUSY.raw_os_error(), told: Told::Refused(refusal) }
}

/// A read missed its deadline.
pub(crate) fn timed_out(within: Duration) -> Failure {
    Failure { errno: Errno::TIMEDOUT.raw_os_error(), told: Told::TimedOut(within) }
}

pub(crate) fn refused_wait() -> i64 {
    WAIT.get()
}

/// Runs a function's body. Records an error, and returns `failed`; also after a panic.
pub(crate) fn guarded<T>(failed: T, body: impl FnOnce() -> Result<T, Failure>) -> T {
    let result = catch_unwind(AssertUnwindSafe(body));
    let bug =
        |_| Err(Failure::new(Errno::IO, "a defect in trimtab: see its message on standard error"));
    match result.unwrap_or_else(bug) {
        Ok(value) => value,
        Err(Failure { errno, told }) => {
            // While a thread ends, its text may already be destroyed.
            _ = LAST.try_with(|last| last.replace(told));
            set_errno(errno);
            failed
        }
    }
}

pub(crate) fn last_error() -> *const c_char {
    let text = LAST.try_with(|last| {
        let told = &mut *last.borrow_mut();
        let text = match told {
            Told::Refused(refusal) => Some(refusal.to_string()),
            Told::TimedOut(within) => Some(ReadError::TimedOut(*within).to_string()),
            Told::SetTimedOut(within) => Some(SetReadError::TimedOut(*within).to_string()),
            Told::Text(_) | Told::Nothing => None,
        };
        if let Some(text) = text {
            *told = Told::Text(CString::new(text).unwrap_or_default());
        }
        match told {
            Told::Text(text) => text.as_ptr(),
            _ => c"".as_ptr(),
        }
    });
    text.unwrap_or(c"".as_ptr())
}

fn set_errno(errno: i32) {
    // SAFETY: it belongs to this thread, and always exists.
    unsafe { *libc::__errno_location() = errno };
}
