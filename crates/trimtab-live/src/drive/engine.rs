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
//! come, and spins the rest. Only a request that is alone, and whose answer is near, is
//! seen through by the thread that took it: waking another one up would take longer.
//! Where many wait, or long, it does not spin: answers are then so many that naps
//! between them are short anyway, and a core that spins is missing elsewhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

use trimtab_io::{Nanos, Op};

use super::clock;
use super::state::{Next, State};

/// Spins so long before an answer, at most: what waking up may take, where processors
/// are awake, and where they sleep.
pub(super) const SPIN_AWAKE: Nanos = Nanos::from_micros(8);
pub(super) const SPIN_ASLEEP: Nanos = Nanos::from_micros(30);
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
    spin: Nanos,
}

impl<A: Answer> Engine<A> {
    /// With what is spun before an answer, at most.
    pub(super) fn new(state: State<A>, spin: Nanos) -> Self {
        Self {
            state: Mutex::new(state),
            called: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            timer: OnceLock::new(),
            spin,
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
        let next = {
            let mut state = self.state();
            state.submit(arrival, op, offset, length, answer);
            state.take_ready(clock::now(), &mut ready);
            state.look_ahead()
        };
        ready.drain(..).for_each(Ready::send);
        self.see_through(next, arrival + self.spin);
        if self.state().timer_is_to_know() {
            self.call();
        }
    }

    /// Spins until a request that is alone has its answer, if that is near.
    ///
    /// The timer knows nothing of it, and need not: whoever comes meanwhile is not alone
    /// and wakes the timer.
    fn see_through(&self, mut next: Next, until: Nanos) {
        let mut ready = Vec::new();
        while next.waiting == 1
            && let Some(at) = next.at.filter(|&at| at <= until)
            && !self.ended.load(Ordering::Acquire)
        {
            let now = clock::spin(at, &self.ended);
            next = {
                let mut state = self.state();
                state.pass_time(now);
                state.take_ready(now, &mut ready);
                state.look_ahead()
            };
            ready.drain(..).for_each(Ready::send);
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
            Some(at) if at > now + self.spin => clock::sleep(now, at.since(self.spin)),
            Some(at) => *spun += clock::spin(at, &self.called).since(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    use trimtab_device::Profile;

    use super::super::spec::{Fill, Spec};
    use super::*;

    struct Waiting(Sender<()>);

    impl Answer for Waiting {
        fn done(self) {
            self.0.send(()).expect("someone waits");
        }

        fn failed(self) {
            unreachable!("there are no faults");
        }
    }

    /// Requests that are answered by whoever took them, by the timer, and at once, in
    /// all orders: none may be forgotten, though nobody may come after it.
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
        let flash = spec.flash(&mut |_| std::ops::ControlFlow::Continue(()));
        let std::ops::ControlFlow::Continue(flash) = flash else { unreachable!("nobody ends it") };
        let engine = Arc::new(Engine::new(State::new(&spec, flash, clock::now()), SPIN_ASLEEP));
        let runs = Arc::clone(&engine);
        let timer = thread::spawn(move || runs.run());
        thread::scope(|scope| {
            for number in 0..THREADS {
                let engine = &engine;
                scope.spawn(move || {
                    for i in 0..EACH {
                        let (answer, answered) = channel();
                        let op = if (i + number) % 3 == 0 { Op::Write } else { Op::Read };
                        let offset = (i * 7_919 + number * 104_729) % 200_000 * 4096;
                        engine.submit(clock::now(), op, offset, 4096, Waiting(answer));
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
        engine.end();
        timer.join().unwrap();
    }
}
