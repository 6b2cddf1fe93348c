//! Runs a drive's model on the wall clock.
//!
//! ```text
//!             ┌──────────── one thread ────────────┐
//!   kernel ── take ──> submit ──> model ──> answer ── kernel
//!                                  ▲
//!                          time ───┘
//! ```
//!
//! The model is a state machine: it says when its next event is due, and completes requests as its
//! time advances. Its times are exact, however late it is advanced. So only answers need to be on
//! time; with no request in flight the model may lag, and the drive's cleaning is done in arrears.
//!
//! One thread takes the kernel's requests, advances time, and answers. Handing a request to another
//! thread costs a wake-up, which takes longer than the work itself; with one thread the only
//! wake-up is the kernel's, and none happens while the thread is busy: requests that arrive
//! meanwhile are taken together. Before an answer the thread spins, because waking up takes longer
//! than the time left. It does not spin with many requests in flight, because other threads on the
//! path need the core.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use trimtab_io::{Nanos, Op};
use trimtab_serve::{Error, Flag};

use super::clock;
use super::state::{Next, State};

/// The longest spin before an answer: about a wake-up, with processors awake and asleep.
pub(super) const SPIN_AWAKE: Nanos = Nanos::from_micros(8);
pub(super) const SPIN_ASLEEP: Nanos = Nanos::from_micros(30);
/// With more requests in flight than this, the thread does not spin.
const MAX_SPINNING: usize = 4;
/// Total spin since the last answer, at most: a read that waits milliseconds for cleaning sees many
/// events that answer nothing.
const MAX_SPIN_TOTAL: Nanos = Nanos::from_micros(60);
/// The shortest sleep, when not spinning.
const MIN_SLEEP: Nanos = Nanos::from_micros(10);
/// How far the model may lag with no request in flight. It catches up in a few milliseconds.
const MAX_IDLE_LAG: Nanos = Nanos::from_millis(20);

/// A request from the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming<T> {
    /// Wall-clock time at which it was taken.
    pub(super) arrival: Nanos,
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// What the back end needs to answer it.
    pub(super) ticket: T,
    /// An array flagged it as latency-critical.
    pub(super) flag: Option<Flag>,
}

/// A request whose answer is due.
#[derive(Debug)]
pub(super) struct DueAnswer<T> {
    pub(super) ticket: T,
    /// Whether it fails with `EIO`.
    pub(super) fails: bool,
}

/// Answers one request, from any thread.
pub(super) trait Answer: Send {
    /// The request succeeded.
    fn done(self);
    /// The request failed with `EIO`.
    fn failed(self);
}

/// The kernel's side of a drive: source of requests, sink of answers. Used by one thread.
pub(super) trait BackEnd {
    /// What it needs to answer a request.
    type Ticket: Send;

    /// Appends the requests that have arrived, without blocking. Breaks when no more can arrive.
    fn take(&mut self, incoming: &mut Vec<Incoming<Self::Ticket>>) -> ControlFlow<()>;

    /// Answers a request.
    fn answer(&mut self, ready: DueAnswer<Self::Ticket>);

    /// Sleeps until a request arrives, the event is signalled, or `until`. May return earlier.
    fn wait(&mut self, wake: &WakeEvent, until: Option<Nanos>);
}

/// An eventfd that wakes the thread that serves a drive.
#[derive(Debug)]
pub(super) struct WakeEvent(OwnedFd);

impl WakeEvent {
    fn new() -> Result<Self, Error> {
        let made = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        Ok(Self(made.map_err(Error::system("make an eventfd"))?))
    }

    fn signal(&self) {
        // Fails only if the counter is full, that is, signalled already.
        _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Clears the event. For the thread that was woken.
    pub(super) fn clear(&self) {
        _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for WakeEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A drive's model, and the requests in flight.
pub(super) struct Engine<T> {
    state: Mutex<State<T>>,
    wake: WakeEvent,
    spin: Nanos,
}

/// What to do until the next event is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// Check again at once.
    Spin,
    /// Sleep until then; `None`: until woken.
    Until(Option<Nanos>),
}

impl<T: Send> Engine<T> {
    /// With `spin` as the longest spin before an answer.
    ///
    /// # Errors
    /// The process may not open more files.
    pub(super) fn new(state: State<T>, spin: Nanos) -> Result<Self, Error> {
        Ok(Self { state: Mutex::new(state), wake: WakeEvent::new()?, spin })
    }

    /// The state, for statistics and commands. Answers that become due meanwhile are sent at the
    /// serving thread's next turn.
    pub(super) fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the serving thread recompute its next event.
    pub(super) fn call(&self) {
        self.wake.signal();
    }

    /// Submits a request from a thread that does not serve the drive.
    pub(super) fn submit(&self, request: Incoming<T>) {
        self.state().submit(request);
        self.call();
    }

    /// Serves the drive until its back end ends. Run by one thread.
    pub(super) fn serve(&self, back_end: &mut impl BackEnd<Ticket = T>) {
        trimtab_serve::set_timer_slack();
        let (mut incoming, mut ready) = (Vec::new(), Vec::new());
        let mut spins = SpinBudget::default();
        while back_end.take(&mut incoming).is_continue() {
            let mut idle = incoming.is_empty();
            let (next, now) = {
                let mut state = self.state();
                incoming.drain(..).for_each(|request| state.submit(request));
                let now = clock::now();
                state.pass_time(now);
                state.take_ready(now, &mut ready);
                (state.next_event(), now)
            };
            idle &= ready.is_empty();
            if !ready.is_empty() {
                spins = SpinBudget::default();
                ready.drain(..).for_each(|ready| back_end.answer(ready));
            }
            // Otherwise more requests may have arrived meanwhile.
            if idle && let Pause::Until(until) = spins.pause(next, now, self.spin) {
                back_end.wait(&self.wake, until);
            }
        }
    }
}

/// Time spun since the last answer.
#[derive(Debug, Default)]
struct SpinBudget {
    total: Nanos,
    since: Option<Nanos>,
}

impl SpinBudget {
    /// What to do until the next event; `spin` is the longest spin before it.
    fn pause(&mut self, next: Next, now: Nanos, spin: Nanos) -> Pause {
        if let Some(since) = self.since.take() {
            self.total += now.since(since);
        }
        let Next { at, waiting } = next;
        match at {
            None => Pause::Until(None),
            Some(at) if waiting == 0 => Pause::Until(Some(at.max(now + MAX_IDLE_LAG))),
            Some(at) if waiting > MAX_SPINNING || self.total > MAX_SPIN_TOTAL => {
                Pause::Until(Some(at.max(now + MIN_SLEEP)))
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

    /// A back end whose requests come over a channel. The ticket is the reply channel.
    struct Channel(Receiver<Incoming<Sender<()>>>);

    impl BackEnd for Channel {
        type Ticket = Sender<()>;

        fn take(&mut self, incoming: &mut Vec<Incoming<Sender<()>>>) -> ControlFlow<()> {
            loop {
                match self.0.try_recv() {
                    Ok(request) => incoming.push(request),
                    Err(TryRecvError::Empty) => return ControlFlow::Continue(()),
                    Err(TryRecvError::Disconnected) => return ControlFlow::Break(()),
                }
            }
        }

        fn answer(&mut self, ready: DueAnswer<Sender<()>>) {
            assert!(!ready.fails, "there are no faults");
            ready.ticket.send(()).expect("the sender waits");
        }

        fn wait(&mut self, wake: &WakeEvent, until: Option<Nanos>) {
            let until = until.map(|until| until.since(clock::now()).0);
            let timeout =
                until.map(|ns| Timespec { tv_sec: 0, tv_nsec: ns.min(999_999_999) as i64 });
            poll(&mut [PollFd::new(wake, PollFlags::IN)], timeout.as_ref()).unwrap();
            wake.clear();
        }
    }

    /// Requests come over the back end or from other threads, alone and together, and are due at
    /// once or after a sleep. None is lost, even if no request follows it.
    #[test]
    fn every_request_is_answered() {
        const THREADS: u64 = 3;
        const EACH: u64 = 4_000;
        let profile = Profile::builtin("femu").unwrap().with_capacity(1 << 30).unwrap();
        let spec = Spec {
            fill: Fill { share: 1.0, overwrites: 0.0 },
            // Reads are then due at once.
            compensation: Some(Nanos::from_micros(30)),
            ..Spec::new("test", profile)
        };
        let flash = spec.model(&mut |_| ControlFlow::Continue(()));
        let ControlFlow::Continue(flash) = flash else { unreachable!("not stopped") };
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
                        let request =
                            Incoming { arrival, op, offset, length: 4096, ticket, flag: None };
                        if i % 2 == 0 {
                            engine.submit(request);
                        } else {
                            back_end.send(request).unwrap();
                            engine.call();
                        }
                        let incoming = answered.recv_timeout(Duration::from_secs(30));
                        incoming.expect("an answer within half a minute");
                        if i % 64 == 0 {
                            // All threads go idle now and then.
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
