//! Members whose firmware helps, for the policy `ioda`: which reads they refuse, and the leases
//! under which they do.
//!
//! ```text
//!   Server ── Leases, a thread: asks and renews ──> drives
//!                │ flag tables, drives that do not answer
//!                ▼
//!   Engine ── Predictable: flags reads, sees which were refused
//! ```
//!
//! Reads of a member whose drive does not answer are sent without the flag, and counted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use trimtab_io::{Nanos, monotonic};
use trimtab_serve::{
    Announced, Error, FlagTable, Lease, PredictableCommand, PredictableDrive, PredictableReply,
};

use crate::engine::{Mailbox, warn};

/// A drive cleans by itself again if its lease has not been renewed for this time.
const LEASE: Duration = Duration::from_secs(5);
/// How often leases are renewed.
const PERIOD: Duration = Duration::from_secs(1);
/// How long a drive has to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// A drive that does not answer is asked once in so many rounds.
const ROUNDS: u32 = 5;
/// From now to the first window.
const AHEAD: Nanos = Nanos::from_millis(10);

/// A read that was flagged, in the table of its drive.
pub(crate) struct FlaggedRead(Arc<FlagTable>, Announced);

impl FlaggedRead {
    /// It has been answered: how long it would have waited, if it was refused.
    pub(crate) fn refused(self) -> Option<Nanos> {
        self.0.take(self.1)
    }
}

/// The engine's side.
#[derive(Debug, Default)]
pub(crate) struct Predictable {
    /// By role.
    tables: Vec<Option<Arc<FlagTable>>>,
    /// Reads that were sent without the flag, because the drive does not answer ...
    pub(crate) no_answer: u64,
    /// ... or has too many.
    pub(crate) no_slot: u64,
}

impl Predictable {
    /// Flags a read that is about to be sent, if the member's drive helps.
    pub(crate) fn flag(&mut self, role: usize, offset: u64, length: u64) -> Option<FlaggedRead> {
        let Some(table) = self.tables.get(role).and_then(Option::as_ref) else {
            self.no_answer += 1;
            return None;
        };
        let announced = table.announce(offset, length);
        self.no_slot += u64::from(announced.is_none());
        Some(FlaggedRead(Arc::clone(table), announced?))
    }

    /// A drive begins to help, or helps no more.
    fn set(&mut self, role: usize, table: Option<Arc<FlagTable>>) {
        if self.tables.len() <= role {
            self.tables.resize(role + 1, None);
        }
        self.tables[role] = table;
    }

    /// Whether the drive of a member helps.
    pub(crate) fn helps(&self, role: usize) -> bool {
        self.tables.get(role).is_some_and(Option::is_some)
    }
}

/// The emulated drive that a member is.
fn drive_of(path: &Path) -> Result<PredictableDrive, Error> {
    PredictableDrive::of_device(path)?.ok_or_else(|| {
        Error::BadInput(format!(
            "{} is no emulated drive: with the policy ioda the firmware of all members helps",
            path.display()
        ))
    })
}

/// How long the windows of a drive should be.
fn window(drive: &PredictableDrive, drives: u32) -> Result<Nanos, Error> {
    match drive.ask(&PredictableCommand::Window { drives }, PATIENCE) {
        Ok(PredictableReply::Window { length_ns }) => Ok(Nanos(length_ns)),
        Ok(_) => Err(Error::Failed(format!("drive `{}` sent an unexpected reply", drive.name()))),
        Err(Error::BadInput(why)) => {
            Err(Error::BadInput(format!("drive `{}`: {why}", drive.name())))
        }
        Err(error) => Err(error),
    }
}

/// Checks that all members are drives whose firmware can help. Changes nothing.
pub(crate) fn check(members: &[PathBuf]) -> Result<(), Error> {
    let drives = members.len() as u32;
    members.iter().try_for_each(|path| window(&drive_of(path)?, drives).map(drop))
}

/// A member, on the thread's side.
struct Seat {
    path: Option<PathBuf>,
    drive: Option<PredictableDrive>,
    helps: bool,
    /// Rounds since it was asked without an answer.
    silent: u32,
}

/// What all drives are asked.
#[derive(Clone)]
struct Terms {
    owner: String,
    start: Nanos,
    length: Nanos,
}

/// The drives' leases, renewed until this is dropped.
#[derive(Debug)]
pub(crate) struct Leases {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Leases {
    /// Takes leases of the drives of all members, by role; of those that are not there none.
    pub(crate) fn begin(
        array: &str,
        members: Vec<Option<PathBuf>>,
        mailbox: Mailbox,
    ) -> Result<Self, Error> {
        let drives = members.len() as u32;
        let mut seats = Vec::new();
        let mut length = Nanos::MAX;
        for path in members {
            let drive = path.as_deref().map(drive_of).transpose()?;
            if let Some(drive) = &drive {
                length = length.min(window(drive, drives)?);
            }
            seats.push(Seat { path, drive, helps: false, silent: 0 });
        }
        let owner = format!("array `{array}` (process {})", std::process::id());
        let terms = Terms { owner, start: monotonic() + AHEAD, length };
        let mut round = Round { seats, terms, mailbox };
        for role in 0..round.seats.len() {
            if let Err(error) = round.renew(role) {
                round.end();
                return Err(error);
            }
        }
        let (stop, stopped) = channel::<()>();
        let run = move || {
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                round.run();
            }
            round.end();
        };
        let thread = std::thread::Builder::new().name("leases".to_owned()).spawn(run);
        let thread = thread.map_err(Error::system("start a thread"))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        self.stop = None;
        _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The members and their leases.
struct Round {
    seats: Vec<Seat>,
    terms: Terms,
    mailbox: Mailbox,
}

impl Round {
    /// Renews all leases.
    fn run(&mut self) {
        self.look_for_others();
        for role in 0..self.seats.len() {
            let seat = &mut self.seats[role];
            if seat.path.is_none() {
                continue;
            }
            if !seat.helps {
                seat.silent += 1;
                if !seat.silent.is_multiple_of(ROUNDS) {
                    continue;
                }
            }
            if let Err(error) = self.renew(role) {
                let seat = &mut self.seats[role];
                // Another may have taken its place by then.
                seat.drive = None;
                if std::mem::take(&mut seat.helps) {
                    seat.silent = 0;
                    warn(format_args!("member {role} is read without the policy ioda: {error}"));
                    self.post(role, None);
                }
            }
        }
    }

    /// Finds out which members the array has now.
    fn look_for_others(&mut self) {
        let (sender, paths) = sync_channel(1);
        self.mailbox.post(move |engine| {
            _ = sender.send(engine.member_paths());
            Ok(())
        });
        let Ok(paths) = paths.recv_timeout(PATIENCE) else { return };
        for (role, (seat, path)) in self.seats.iter_mut().zip(paths).enumerate() {
            if seat.path == path {
                continue;
            }
            if std::mem::take(&mut seat.helps) {
                self.mailbox.post(move |engine| {
                    engine.predictable.set(role, None);
                    Ok(())
                });
            }
            if let Some(drive) = &seat.drive {
                // It cleans by itself again. If it has another role now, it gets another lease.
                let owner = self.terms.owner.clone();
                _ = drive.ask(&PredictableCommand::End { owner }, PATIENCE);
            }
            let silent = ROUNDS - 1;
            *seat = Seat { path, drive: None, helps: false, silent };
        }
    }

    /// Takes or renews the lease of a member's drive.
    fn renew(&mut self, role: usize) -> Result<(), Error> {
        let drives = self.seats.len() as u32;
        let seat = &mut self.seats[role];
        let Some(path) = &seat.path else { return Ok(()) };
        let drive = match &seat.drive {
            Some(drive) => drive,
            None => seat.drive.insert(drive_of(path)?),
        };
        let lease = PredictableCommand::Lease(Lease {
            owner: self.terms.owner.clone(),
            position: role as u32,
            drives,
            start_ns: self.terms.start.0,
            length_ns: self.terms.length.0,
            for_ms: LEASE.as_millis() as u64,
        });
        drive.ask(&lease, PATIENCE).map_err(|error| match error {
            Error::Failed(why) => Error::Failed(format!("drive `{}`: {why}", drive.name())),
            error => error,
        })?;
        if !seat.helps {
            let table = Arc::new(drive.flags()?);
            seat.helps = true;
            self.post(role, Some(table));
        }
        Ok(())
    }

    fn post(&self, role: usize, table: Option<Arc<FlagTable>>) {
        self.mailbox.post(move |engine| {
            engine.predictable.set(role, table);
            Ok(())
        });
    }

    /// Ends all leases.
    fn end(&mut self) {
        let owner = &self.terms.owner;
        for (role, seat) in self.seats.iter().enumerate() {
            self.post(role, None);
            if let Some(drive) = seat.drive.as_ref().filter(|_| seat.helps) {
                // If it does not answer, its lease ends by itself.
                _ = drive.ask(&PredictableCommand::End { owner: owner.clone() }, PATIENCE);
            }
        }
    }
}
