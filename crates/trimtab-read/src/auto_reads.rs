//! The automatic deadline of reads, shared by the threads that make them.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use trimtab_io::{Nanos, monotonic};

use crate::admission::{Admission, ReadRequest};
use crate::auto::{AutoDeadline, AutoGrant, AutoOptions};
use crate::error::{Error, Refusal, Urgency};
use crate::options::nanos;
use crate::reader::Reader;

/// How often a thread tries to take the lock, which is held for less than a microsecond.
const TRIES: u32 = 100;

/// An [`AutoDeadline`] of several threads. No thread blocks: one that does not get the lock in time
/// reads with the greatest deadline, and its read is not counted.
#[derive(Debug)]
pub struct SharedAuto {
    state: Mutex<AutoDeadline>,
    most: Nanos,
}

impl SharedAuto {
    /// Starts without knowledge.
    ///
    /// # Errors
    /// A share or a time is out of range.
    pub fn new(options: &AutoOptions) -> Result<Self, Error> {
        Ok(Self { state: Mutex::new(AutoDeadline::new(options)?), most: nanos(options.most) })
    }

    fn lock(&self) -> Option<MutexGuard<'_, AutoDeadline>> {
        (0..TRIES).find_map(|_| match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => {
                std::hint::spin_loop();
                None
            }
        })
    }

    /// A read begins. Its end is to be reported to what this returns.
    pub fn begin(&self, begun: Nanos) -> AutoRead<'_> {
        let grant = self.lock().map(|mut state| state.begin());
        AutoRead { auto: self, grant, begun }
    }

    /// After a refusal, or a missed deadline, the data came from elsewhere: this long after the
    /// first request.
    pub fn failed_over(&self, took: Duration) {
        if let Some(mut state) = self.lock() {
            state.failed_over(nanos(took));
        }
    }

    /// The present deadline.
    pub fn deadline(&self) -> Duration {
        let deadline = self.lock().map_or(self.most, |state| state.deadline());
        Duration::from_nanos(deadline.0)
    }
}

/// A read with an automatic deadline, until it ends.
#[derive(Debug)]
pub struct AutoRead<'a> {
    auto: &'a SharedAuto,
    /// `None` if the read is not counted.
    grant: Option<AutoGrant>,
    begun: Nanos,
}

impl AutoRead<'_> {
    /// How long it may take.
    #[must_use]
    pub fn within(&self) -> Nanos {
        self.grant.map_or(self.auto.most, |grant| grant.deadline)
    }

    fn end(&self, how: impl FnOnce(&mut AutoDeadline, AutoGrant)) {
        if let (Some(grant), Some(mut state)) = (self.grant, self.auto.lock()) {
            how(&mut state, grant);
        }
    }

    /// The read has brought data.
    pub fn answered(&self) {
        let took = monotonic().since(self.begun);
        self.end(|auto, grant| auto.answered(grant, took));
    }

    /// The read was refused, or abandoned at its deadline.
    pub fn refused(&self) {
        self.end(AutoDeadline::refused);
    }

    /// The read has failed: it tells nothing of the drives.
    pub fn failed(&self) {
        self.end(AutoDeadline::failed);
    }
}

impl Reader {
    /// Decides on a read at this time, and counts it.
    pub(super) fn ask(
        &self,
        wanted: ReadRequest<'_>,
        offset: u64,
        urgency: Urgency,
        now: Nanos,
    ) -> Result<Admission<'_>, Refusal> {
        if urgency != Urgency::Auto {
            return self.decide(wanted, offset, urgency, now);
        }
        let read = self.auto.begin(now);
        let within = Urgency::Deadline(Duration::from_nanos(read.within().0));
        match self.decide(wanted, offset, within, now) {
            Ok(Admission::Send(token)) => Ok(Admission::Send(token.with_auto(read))),
            Ok(done @ Admission::Done(_)) => {
                read.answered();
                Ok(done)
            }
            Err(refusal) => {
                read.refused();
                Err(refusal)
            }
        }
    }

    /// Reports what a failover cost: after a read with [`Urgency::Auto`] was refused or missed
    /// its deadline, another replica had the data this long after the first request. The
    /// deadlines follow it ([`auto`](crate::auto)).
    pub fn failed_over(&self, took: Duration) {
        self.auto.failed_over(took);
    }

    /// The present deadline of reads with [`Urgency::Auto`].
    #[must_use]
    pub fn auto_deadline(&self) -> Duration {
        self.auto.deadline()
    }
}
