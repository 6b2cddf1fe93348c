//! The flash model on the wall clock.
//!
//! ```text
//!             ┌──────────── one thread ────────────┐
//!   kernel ── take ──> submit ──> model ──> answer ── kernel
//!                                  ▲
//!                          time ───┘
//! ```
//!
//! The model is a state machine: it says when something happens next, and what
//! has been answered once its time has been let pass. Its own times are exact,
//! however late it is told that they have come. So only answers need to be on
//! time, and nothing at all as long as no request is in flight: the drive cleans in arrears.
//!
//! One thread takes the kernel's requests, lets time pass, and answers. A request that
//! is handed to another thread costs a wake-up on each hand-over, which takes longer than
//! the work itself; with one thread the only wake-up is the one by the kernel, and there
//! is none while the thread is busy: requests that come meanwhile are taken together.
//! Before an answer it spins: waking up takes longer than what is left. It does not where
//! many requests are in flight, because a core that spins is missing elsewhere.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use trimtab_io::{Nanos, Op};

use super::clock;
use super::error::Error;
use super::state::{Next, State};

/// Spins so long before an answer, at most: what waking up may take, where processors
/// are awake, and where they sleep.
pub(super) const SPIN_AWAKE: Nanos = Nanos::from_micros(8);
pub(super) const SPIN_ASLEEP: Nanos = Nanos::from_micros(30);
/// With more requests than these in flight it does not spin.
const FEW: usize = 4;
/// Having spun so long since the last answer, it does not any more: a read that
/// waits for cleaning does so for milliseconds, in which much happens that answers
/// nothing.
const SPIN_IN_A_ROW: Nanos = Nanos::from_micros(60);
/// The shortest sleep, where it does not spin.
const NAP: Nanos = Nanos::from_micros(10);
/// How far the model may be behind when no request is in flight. It then catches up in a
/// few milliseconds.
const ARREARS: Nanos = Nanos::from_millis(20);

/// A request, as the kernel sent it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived<T> {
    /// When it was taken, by the wall clock.
    pub(super) arrival: Nanos,
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// What the back end needs to answer it.
    pub(super) ticket: T,
}

/// A request whose answer is due.
#[derive(Debug)]
pub(super) struct Ready<T> {
    pub(super) ticket: T,
    /// It ends with `EIO`.
    pub(super) fails: bool,
}

/// Where one answer goes, from whatever thread.
pub(super) trait Answer: Send {
    /// It was done.
    fn done(self);
    /// It failed with `EIO`.
    fn failed(self);
}

/// Where requests come from and answers go: the kernel's side of a drive. One thread uses
/// it.
pub(super) trait BackEnd {
    /// What it needs to answer a request.
    type Ticket: Send;

    /// Appends the requests that have come, without waiting for any. Breaks off when none
    /// can come any more.
    fn take(&mut self, came: &mut Vec<Arrived<Self::Ticket>>) -> ControlFlow<()>;

    /// Answers a request.
    fn answer(&mut self, ready: Ready<Self::Ticket>);

    /// Sleeps until a request comes, the bell rings, or `until`. May return earlier.
    fn wait(&mut self, bell: &Bell, until: Option<Nanos>);
}

/// Wakes the thread that serves a drive.
#[derive(Debug)]
pub(super) struct Bell(OwnedFd);

impl Bell {
    fn new() -> Result<Self, Error> {
        let made = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        Ok(Self(made.map_err(Error::system("make an eventfd"))?))
    }

    fn ring(&self) {
        // It fails where it has been rung 2^64 times and not been heard.
        _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Is silent again. For the thread that heard it.
    pub(super) fn silence(&self) {
        _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A drive's model, and the requests in flight.
pub(super) struct Engine<T> {
    state: Mutex<State<T>>,
    bell: Bell,
    spin: Nanos,
}

/// What to do until something is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// Look again at once.
    Spin,
    /// Sleep, if there is a time, until then.
    Until(Option<Nanos>),
}

impl<T: Send> Engine<T> {
    /// With what is spun before an answer, at most.
    ///
    /// # Errors
    /// The process may not open any more files.
    pub(super) fn new(state: State<T>, spin: Nanos) -> Result<Self, Error> {
        Ok(Self { state: Mutex::new(state), bell: Bell::new()?, spin })
    }

    /// The state, for looking at it and for what is commanded. Answers that become
    /// due meanwhile go out at the serving thread's next turn.
    pub(super) fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the serving thread look again what comes next.
    pub(super) fn call(&self) {
        self.bell.ring();
    }

    /// A request, from a thread that does not serve the drive.
    pub(super) fn submit(&self, arrived: Arrived<T>) {
        self.state().submit(arrived);
        self.call();
    }

    /// Serves the drive until its back end has ended. To be run by one thread.
    pub(super) fn serve(&self, back_end: &mut impl BackEnd<Ticket = T>) {
        clock::be_punctual();
        let (mut came, mut ready) = (Vec::new(), Vec::new());
        let mut spins = Spins::default();
        while back_end.take(&mut came).is_continue() {
            let mut idle = came.is_empty();
            let (next, now) = {
                let mut state = self.state();
                came.drain(..).for_each(|arrived| state.submit(arrived));
                let now = clock::now();
                state.pass_time(now);
                state.take_ready(now, &mut ready);
                (state.look_ahead(), now)
            };
            idle &= ready.is_empty();
            if !ready.is_empty() {
                spins = Spins::default();
                ready.drain(..).for_each(|ready| back_end.answer(ready));
            }
            // Otherwise more may have come meanwhile.
            if idle && let Pause::Until(until) = spins.pause(next, now, self.spin) {
                back_end.wait(&self.bell, until);
            }
        }
    }
}

/// How long was spun since the last answer.
#[derive(Debug, Default)]
struct Spins {
    total: Nanos,
    since: Option<Nanos>,
}

impl Spins {
    /// What to do until something is due; `spin` is the longest spin before it.
    fn pause(&mut self, next: Next, now: Nanos, spin: Nanos) -> Pause {
        if let Some(since) = self.since.take() {
            self.total += now.since(since);
        }
        let Next { at, waiting } = next;
        match at {
            None => Pause::Until(None),
            Some(at) if waiting == 0 => Pause::Until(Some(at.max(now + ARREARS))),
            Some(at) if waiting > FEW || self.total > SPIN_IN_A_ROW => {
                Pause::Until(Some(at.max(now + NAP)))
            }
            Some(at) if at > now + spin => Pause::Until(Some(at.since(spin))),
            Some(_) => {
                self.since = Some(now);
                Pause::Spin
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
    use std::thread;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use trimtab_device::Profile;

    use super::super::spec::{Fill, Spec};
    use super::*;

    /// A back end whose requests come over a channel. A ticket is where the answer goes.
    struct Channel(Receiver<Arrived<Sender<()>>>);

    impl BackEnd for Channel {
        type Ticket = Sender<()>;

        fn take(&mut self, came: &mut Vec<Arrived<Sender<()>>>) -> ControlFlow<()> {
            loop {
                match self.0.try_recv() {
                    Ok(arrived) => came.push(arrived),
                    Err(TryRecvError::Empty) => return ControlFlow::Continue(()),
                    Err(TryRecvError::Disconnected) => return ControlFlow::Break(()),
                }
            }
        }

        fn answer(&mut self, ready: Ready<Sender<()>>) {
            assert!(!ready.fails, "there are no faults");
            ready.ticket.send(()).expect("someone waits");
        }

        fn wait(&mut self, bell: &Bell, until: Option<Nanos>) {
            let until = until.map(|until| until.since(clock::now()).0);
            let timeout =
                until.map(|ns| Timespec { tv_sec: 0, tv_nsec: ns.min(999_999_999) as i64 });
            poll(&mut [PollFd::new(bell, PollFlags::IN)], timeout.as_ref()).unwrap();
            bell.silence();
        }
    }

    /// Requests that come over the back end or from other threads, alone and together, and
    /// that are answered at once or after a sleep: none may be forgotten, though none may
    /// come after it.
    #[test]
    fn every_request_is_answered() {
        const THREADS: u64 = 3;
        const EACH: u64 = 4_000;
        let profile = Profile::builtin("femu").unwrap().with_capacity(1 << 30).unwrap();
        let spec = Spec {
            fill: Fill { share: 1.0, overwrites: 0.0 },
            // Reads are then due in the very next moment.
            lead: Some(Nanos::from_micros(30)),
            ..Spec::new("test", profile)
        };
        let flash = spec.flash(&mut |_| ControlFlow::Continue(()));
        let ControlFlow::Continue(flash) = flash else { unreachable!("it is not ended") };
        let state = State::new(&spec, flash, clock::now());
        let engine = Arc::new(Engine::new(state, SPIN_ASLEEP).unwrap());
        let (back_end, requests) = channel();
        let serves = Arc::clone(&engine);
        let server = thread::spawn(move || serves.serve(&mut Channel(requests)));
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (engine, back_end) = (&engine, back_end.clone());
                scope.spawn(move || {
                    for i in 0..EACH {
                        let (ticket, answered) = channel();
                        let op = if (i + number) % 3 == 0 { Op::Write } else { Op::Read };
                        let offset = (i * 7_919 + number * 104_729) % 200_000 * 4096;
                        let arrival = clock::now();
                        let arrived = Arrived { arrival, op, offset, length: 4096, ticket };
                        if i % 2 == 0 {
                            engine.submit(arrived);
                        } else {
                            back_end.send(arrived).unwrap();
                            engine.call();
                        }
                        let came = answered.recv_timeout(Duration::from_secs(30));
                        came.expect("an answer within half a minute");
                        if i % 64 == 0 {
                            // All come to rest now and then.
                            thread::sleep(Duration::from_micros(100 * (1 + number)));
                        }
                    }
                });
            }
        });
        drop(back_end);
        engine.call();
        server.join().unwrap();
    }
}
