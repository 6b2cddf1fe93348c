//! Replica selection and hedging: which of the drives that hold a read's data serves it, and
//! when a second one is asked.
//!
//! A [`Strategy`] decides: which replica is asked first, whether and when a second one is,
//! and what becomes of the first. The published strategies are here beside trimtab's own,
//! so that they can be compared on the same requests: hedged and tied requests (Dean and
//! Barroso, CACM 56(2), 2013), C3 (NSDI'15, §3.1), Cassandra's dynamic snitch, and failover
//! on a prediction (LinnOS, OSDI'20, §3.1 and §5.3).
//!
//! A strategy is a plain state machine. [`Steering`] tracks its reads in flight and
//! guarantees exactly one completion per read. Neither reads a clock or touches a drive:
//!
//! ```text
//!   read, timer, begun, completed ──> Steering ──> Actions: send, cancel, timer, complete
//!   other traffic ─────────────────>  (Strategy)
//! ```
//!
//! The [`driver`] carries the actions out, over any [`driver::Backend`]: simulated drives
//! (`trimtab-sim`) in virtual time, files and block devices (`trimtab-uring`) on the wall
//! clock.
//!
//! # Decisions that are not obvious
//!
//! - **`Steering` stands between strategies and drivers.** The guarantees under every strategy
//!   (one completion per read, no replica asked twice, the last one asked without a deadline)
//!   are implemented there, once. A strategy is a few lines.
//! - **The in-flight table keeps a freed slot's generation.** A timer carries the slot and
//!   the generation, so a timer of a read that has completed finds nothing.
//! - **Small moves need proof, large ones a trial.** A read that is said to gain little elsewhere may as
//!   well lose. `trimtab` moves it once pairs of reads have shown that such moves gain; in a stall
//!   there is no time for that, so what is said to gain much is moved until pairs show a loss.
//!   What is much is measured by reads that do not stall: where most replicas do at times, medians
//!   and means are of their stalls.
//! - **A moved read pays for the reads behind it.** No pair of reads sees that others are delayed. A
//!   request delays all that come until its drive's queue is short again; those are counted at
//!   either drive, whether or not the read moves.
//! - **A hedge has a price.** `trimtab` may send a given share of the reads twice. The
//!   delay before a hedge is the price at which that budget is just spent, the same for all
//!   reads; so a replica with a small risk of being late is not expensive
//!   ([`strategies::Trimtab`]).
//! - **Forecasts are held against what came of them.** A predictor was trained on drives that
//!   served their own reads; a strategy that moves reads changes that. With a control group
//!   forecasts are multiplied by what reads took lately at queues of that length, and are followed
//!   while pairs of reads do not show a loss.
//! - **A failover takes its time.** A strategy that refuses a replica considers the next
//!   one when the failover has happened, with the state known then. `trimtab` forecasts all
//!   replicas when a read arrives, and fails over to the best of them: the time is charged,
//!   but the decision is not repeated after it.
//! - **Replicas that are avoided are probed** ([`Probing`]). A predictor learns from
//!   completions, and a drive without reads has none.
//! - **The driver owns the host queues, the back end the queue depth.** A simulated drive
//!   frees a slot at the instant at which it completes a request, before the completion is
//!   handed over; a ring frees it when the completion is taken.
//!
//! # Example
//!
//! ```
//! use trimtab_io::{DeviceId, Flags, Issuer, Nanos, Op, Outcome, Request, RequestId};
//! use trimtab_steer::{Action, Actions, Order, Reason, Replica, Steering, strategies};
//!
//! let patience = strategies::Patience::new(&[Nanos::from_micros(500); 3]);
//! let mut steering = Steering::new(Box::new(strategies::Hedge::new("hedge", patience)));
//! let read = Request {
//!     id: RequestId(1),
//!     device: DeviceId(0),
//!     arrival: Nanos(0),
//!     op: Op::Read,
//!     offset: 0,
//!     length: 4096,
//!     flags: Flags::LATENCY_CRITICAL,
//!     deadline: None,
//!     issuer: Issuer::of_process(0),
//! };
//! let mut actions = Actions::new();
//! let order = Order::new(&[Replica(2), Replica(0), Replica(1)]);
//! steering.read(Nanos(0), &read, order, &mut actions);
//! // The primary replica is asked, and a timer set.
//! let Action::Send { attempt: first, at: Nanos(0), reason } = actions[0] else { panic!() };
//! let Action::Timer { at, timer } = actions[1] else { panic!() };
//! assert_eq!((first.replica, at), (Replica(2), Nanos::from_micros(500)));
//! assert!(steering.send(Nanos(0), first, reason).is_some());
//! // It does not complete, so the next replica is asked as well.
//! actions.clear();
//! steering.timer(at, timer, &mut actions);
//! let Action::Send { attempt: second, reason: Reason::Duplicate, .. } = actions[0] else { panic!() };
//! assert_eq!(second.replica, Replica(0));
//! steering.send(at, second, Reason::Duplicate);
//! // The first completion is the read's; the second one is dropped.
//! actions.clear();
//! steering.completed(Nanos::from_micros(600), second, Outcome::Done, &mut actions);
//! assert_eq!(actions, [Action::Complete { read: RequestId(1), outcome: Outcome::Done }]);
//! actions.clear();
//! steering.completed(Nanos::from_micros(900), first, Outcome::Done, &mut actions);
//! assert!(actions.is_empty() && steering.in_flight() == 0);
//! assert_eq!(steering.counts().extra_share(), 1.0);
//! ```

mod action;
mod calibration;
mod contest;
mod control;
mod control_figures;
mod costs;
mod delay;
mod drain;
pub mod driver;
mod evidence;
mod externality;
mod hedge_gain;
mod in_flight;
mod median;
mod pair;
mod predictors;
mod probing;
mod question;
mod queue;
mod replica;
mod steering;
pub mod strategies;
mod strategy;
mod strategy_kind;
mod turn;

pub use action::{Action, Actions, Attempt, Reason, Timer};
pub use control_figures::ControlFigures;
pub use costs::Costs;
pub use in_flight::InFlightTable;
pub use predictors::PredictorSet;
pub use probing::Probing;
pub use replica::{MOST_DRIVES, MOST_REPLICAS, Order, Replica};
pub use steering::{Counts, Steering};
pub use strategy::{Ended, Strategy};
pub use strategy_kind::{ReplicaHistory, StrategyInputs, StrategyKind, Tuning, UnknownStrategy};
pub use turn::Turn;
