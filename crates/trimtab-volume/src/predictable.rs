//! Members whose firmware helps, for the policy `ioda`: which reads they refuse, and the leases
//! under which they do.
//!
//! ```text
//!   Server ── Leases, a thread: asks and renews ──> drives
//!                │ flag tables, or why a member does not help
//!                ▼
//!   Engine ── Predictable: flags reads, sees which were refused
//! ```
//!
//! Reads of a member that does not help are sent without the flag, and counted: it is no emulated drive,
//! has no such firmware, or does not answer. It is asked again every few seconds.

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

/// What a member does for the array.
#[derive(Debug, Default)]
enum Help {
    /// It has not been asked.
    #[default]
    None,
    /// It looks here for reads that are flagged.
    Given(Arc<FlagTable>),
    /// Nothing, for this reason.
    Refused(String),
}

/// The engine's side.
#[derive(Debug, Default)]
pub(crate) struct Predictable {
    /// By role.
    helps: Vec<Help>,
    /// Reads that were sent without the flag, because the member does not help ...
    pub(crate) no_help: u64,
    /// ... or has too many.
    pub(crate) no_slot: u64,
}

impl Predictable {
    /// Flags a read that is about to be sent, if the member's drive helps.
    pub(crate) fn flag(&mut self, role: usize, offset: u64, length: u64) -> Option<FlaggedRead> {
        let Some(Help::Given(table)) = self.helps.get(role) else {
            self.no_help += 1;
            return None;
        };
        let announced = table.announce(offset, length);
        self.no_slot += u64::from(announced.is_none());
        Some(FlaggedRead(Arc::clone(table), announced?))
    }

    /// A member begins to help, or helps no more.
    fn set(&mut self, role: usize, help: Help) {
        if self.helps.len() <= role {
            self.helps.resize_with(role + 1, Help::default);
        }
        self.helps[role] = help;
    }

    /// Whether a member helps.
    pub(crate) fn helps(&self, role: usize) -> bool {
        matches!(self.helps.get(role), Some(Help::Given(_)))
    }

    /// Why it does not, if it was asked.
    pub(crate) fn refusal(&self, role: usize) -> Option<&str> {
        match self.helps.get(role)? {
            Help::Refused(why) => Some(why),
            _ => None,
        }
    }
}

/// The emulated drive that a member is.
fn drive_of(path: &Path) -> Result<PredictableDrive, Error> {
    PredictableDrive::of_device(path)?
        .ok_or_else(|| Error::BadInput(format!("{} is no emulated drive", path.display())))
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

/// Says of these devices why their firmware cannot help an array of so many members, one line each.
/// Changes nothing.
pub(crate) fn cannot_help<'a>(
    devices: impl IntoIterator<Item = &'a PathBuf>,
    members: usize,
) -> Vec<String> {
    let drives = members as u32;
    let why = |path: &PathBuf| drive_of(path).and_then(|drive| window(&drive, drives)).err();
    let all = devices.into_iter();
    all.filter_map(why)
        .map(|error| format!("{error}: it is read without the policy ioda"))
        .collect()
}

/// Checks that the firmware of one of the members can help. Changes nothing.
pub(crate) fn check(members: &[PathBuf]) -> Result<(), Error> {
    let drives = members.len() as u32;
    let mut first = None;
    for path in members {
        match drive_of(path).and_then(|drive| window(&drive, drives)) {
            Ok(_) => return Ok(()),
            Err(error) => first = first.or(Some(error)),
        }
    }
    first.map_or(Ok(()), |error| {
        let why = "the policy ioda needs members whose firmware helps";
        Err(Error::BadInput(format!("{error}: {why}")))
    })
}

/// A member, on the thread's side.
struct Seat {
    path: Option<PathBuf>,
    drive: Option<PredictableDrive>,
    helps: bool,
    /// Why it does not, as was told last.
    told: Option<String>,
    /// Rounds since it was asked without an answer.
    silent: u32,
}

/// What all drives are asked.
#[derive(Clone)]
struct Terms {
    owner: String,
    start: Nanos,
    /// The shortest that the first drives gave; none had answered.
    length: Option<Nanos>,
}

/// The drives' leases, renewed until this is dropped.
#[derive(Debug)]
pub(crate) struct Leases {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Leases {
    /// Takes leases of the drives of all members that help, by role.
    pub(crate) fn begin(
        array: &str,
        members: Vec<Option<PathBuf>>,
        mailbox: Mailbox,
    ) -> Result<Self, Error> {
        let drives = members.len() as u32;
        let lengths = members.iter().flatten();
        let lengths = lengths.filter_map(|path| window(&drive_of(path).ok()?, drives).ok());
        let owner = format!("array `{array}` (process {})", std::process::id());
        let terms = Terms { owner, start: monotonic() + AHEAD, length: lengths.min() };
        let seats = members.into_iter().map(Seat::new).collect();
        let mut round = Round { seats, terms, mailbox };
        (0..round.seats.len()).for_each(|role| round.renew(role));
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

impl Seat {
    const fn new(path: Option<PathBuf>) -> Self {
        Self { path, drive: None, helps: false, told: None, silent: 0 }
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
            self.renew(role);
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
            self.mailbox.post(move |engine| {
                engine.predictable.set(role, Help::None);
                Ok(())
            });
            if let Some(drive) = &seat.drive {
                // It cleans by itself again. If it has another role now, it gets another lease.
                let owner = self.terms.owner.clone();
                _ = drive.ask(&PredictableCommand::End { owner }, PATIENCE);
            }
            *seat = Seat { silent: ROUNDS - 1, ..Seat::new(path) };
        }
    }

    /// Takes or renews the lease of a member's drive. If that does not help, this is told once.
    fn renew(&mut self, role: usize) {
        let Err(error) = self.ask(role) else { return };
        let seat = &mut self.seats[role];
        // Another may have taken its place by then.
        seat.drive = None;
        if std::mem::take(&mut seat.helps) {
            seat.silent = 0;
        }
        let why = error.to_string();
        if seat.told.as_ref() != Some(&why) {
            warn(format_args!("member {role} is read without the policy ioda: {why}"));
            seat.told = Some(why.clone());
            self.post(role, Help::Refused(why));
        }
    }

    fn ask(&mut self, role: usize) -> Result<(), Error> {
        let drives = self.seats.len() as u32;
        let seat = &mut self.seats[role];
        let Some(path) = &seat.path else { return Ok(()) };
        let drive = match &seat.drive {
            Some(drive) => drive,
            None => seat.drive.insert(drive_of(path)?),
        };
        let length = match self.terms.length {
            Some(length) => length,
            None => *self.terms.length.insert(window(drive, drives)?),
        };
        let lease = PredictableCommand::Lease(Lease {
            owner: self.terms.owner.clone(),
            position: role as u32,
            drives,
            start_ns: self.terms.start.0,
            length_ns: length.0,
            for_ms: LEASE.as_millis() as u64,
        });
        drive.ask(&lease, PATIENCE).map_err(|error| match error {
            Error::Failed(why) => Error::Failed(format!("drive `{}`: {why}", drive.name())),
            error => error,
        })?;
        if !seat.helps {
            let table = Arc::new(drive.flags()?);
            (seat.helps, seat.told) = (true, None);
            self.post(role, Help::Given(table));
        }
        Ok(())
    }

    fn post(&self, role: usize, help: Help) {
        self.mailbox.post(move |engine| {
            engine.predictable.set(role, help);
            Ok(())
        });
    }

    /// Ends all leases.
    fn end(&mut self) {
        let owner = &self.terms.owner;
        for (role, seat) in self.seats.iter().enumerate() {
            self.post(role, Help::None);
            if let Some(drive) = seat.drive.as_ref().filter(|_| seat.helps) {
                // If it does not answer, its lease ends by itself.
                _ = drive.ask(&PredictableCommand::End { owner: owner.clone() }, PATIENCE);
            }
        }
    }
}
