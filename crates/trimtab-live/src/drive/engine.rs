//! The flash model on the wall clock.
//!
//! ```text
//!   reader threads ── submit ──> model ── answers ──> whoever let time pass
//!                                  ▲
//!   timer thread ── sleeps, spins ─┘
//! ```
//!
//! The model is a state machine: it says when something happens next, and what
//! has been answered once its time has been let pass. Its own times are exact,
//! however late it is told that they have come. So only answers need to be on
//! time, and nothing at all as long as nobody waits: the drive cleans in arrears.
//!
//! One thread lets time pass. It sleeps until shortly before the next answer can
//! come, and spins the rest. Where many wait, or long, it does not spin: answers
//! are then so many that naps between them are short anyway, and a core that spins
//! is missing elsewhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

use trimtab_io::{Nanos, Op};

use super::clock;
use super::state::{Next, State};

/// Spins so long before an answer, at most: what waking up may take.
const SPIN: Nanos = Nanos::from_micros(30);
/// With more requests than these in flight it does not spin.
const FEW: usize = 4;
/// Having spun so long since the last answer, it does not any more: a read that
/// waits for cleaning does so for milliseconds, in which much happens that answers
/// nobody.
const SPIN_IN_A_ROW: Nanos = Nanos::from_micros(60);
/// The shortest sleep, where it does not spin.
const NAP: Nanos = Nanos::from_micros(10);
/// How far the model may be behind when nobody waits. It then catches up in a
/// few milliseconds.
const ARREARS: Nanos = Nanos::from_millis(20);

/// Where an answer goes: a request of some block device back end. Answering is a
/// system call, so it happens outside the model's lock.
pub(super) trait Answer: Send {
    /// It was done.
    fn done(self);
    /// It failed with `EIO`.
    fn failed(self);
}

/// An answer whose time has come.
pub(super) struct Ready<A> {
    pub(super) answer: A,
    pub(super) fails: bool,
}

impl<A: Answer> Ready<A> {
    fn send(self) {
        if self.fails { self.answer.failed() } else { self.answer.done() }
    }
}

/// A drive's model, and who waits for it.
pub(super) struct Engine<A> {
    state: Mutex<State<A>>,
    /// Someone has put something on the timer's agenda.
    called: AtomicBool,
    ended: AtomicBool,
    timer: OnceLock<Thread>,
}

impl<A: Answer> Engine<A> {
    pub(super) fn new(state: State<A>) -> Self {
        Self {
            state: Mutex::new(state),
            called: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            timer: OnceLock::new(),
        }
    }

    /// The state, for looking at it and for what is commanded. Answers that become
    /// due meanwhile go out at the timer's next turn.
    pub(super) fn state(&self) -> MutexGuard<'_, State<A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request has arrived at `arrival`.
    pub(super) fn submit(&self, arrival: Nanos, op: Op, offset: u64, length: u64, answer: A) {
        let mut ready = Vec::new();
        let earlier = {
            let mut state = self.state();
            state.submit(arrival, op, offset, length, answer);
            state.take_ready(clock::now(), &mut ready);
            state.next_is_earlier()
        };
        ready.into_iter().for_each(Ready::send);
        if earlier {
            self.call();
        }
    }

    /// Has the timer look again what comes next.
    pub(super) fn call(&self) {
        self.called.store(true, Ordering::Release);
        if let Some(timer) = self.timer.get() {
            timer.unpark();
        }
    }

    /// Ends [`run`](Self::run).
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.call();
    }

    /// Lets time pass, until the end. To be run by one thread.
    pub(super) fn run(&self) {
        clock::be_punctual();
        _ = self.timer.set(thread::current());
        let mut ready = Vec::new();
        let mut spun = Nanos::ZERO;
        while !self.ended.load(Ordering::Acquire) {
            self.called.store(false, Ordering::Release);
            let mut now = clock::now();
            let next = {
                let mut state = self.state();
                state.pass_time(now);
                state.take_ready(now, &mut ready);
                state.next(now)
            };
            if !ready.is_empty() {
                spun = Nanos::ZERO;
                ready.drain(..).for_each(Ready::send);
                now = clock::now();
            }
            self.wait(next, now, &mut spun);
        }
    }

    /// Waits until about the next moment at which something may be answered.
    fn wait(&self, next: Next, now: Nanos, spun: &mut Nanos) {
        let Next { at, waiting } = next;
        match at {
            _ if self.called.load(Ordering::Acquire) => {}
            None => thread::park(),
            Some(at) if waiting == 0 => clock::sleep(now, at.max(now + ARREARS)),
            Some(at) if waiting > FEW || *spun > SPIN_IN_A_ROW => {
                clock::sleep(now, at.max(now + NAP));
            }
            Some(at) if at > now + SPIN => clock::sleep(now, at.since(SPIN)),
            Some(at) => *spun += clock::spin(at, &self.called).since(now),
        }
    }
}
