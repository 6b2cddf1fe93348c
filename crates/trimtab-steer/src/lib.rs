//! Where a read goes, when several drives hold its data.
//!
//! A [`Strategy`] decides: which drive is asked first, whether and when a second
//! one is, and what becomes of the first. The published ones are here beside our
//! own, so that they can be compared on the same requests. A strategy is a plain
//! state machine; [`Steering`] runs one, keeps its reads in flight, and sees to
//! it that each is answered exactly once. Neither knows a clock or a drive:
//!
//! ```text
//!   read, timer, begun, completed ──> Steering ──> Actions: send, cancel, timer, answer
//!   what others send there ────────>  (Strategy)
//! ```
//!
//! The simulation's driver carries the actions out in virtual time, a live one
//! will on the wall clock.
//!
//! # Example
//!
//! ```
//! use trimtab_io::{DeviceId, Flags, Nanos, Op, Outcome, Request, RequestId};
//! use trimtab_steer::{Action, Actions, Order, Replica, Steering, Why, strategies};
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
//! };
//! let mut actions = Actions::new();
//! let order = Order::new(&[Replica(2), Replica(0), Replica(1)]);
//! steering.read(Nanos(0), &read, order, &mut actions);
//! // Its home is asked, and a timer set.
//! let Action::Send { attempt: first, at: Nanos(0), why } = actions[0] else { panic!() };
//! let Action::Timer { at, timer } = actions[1] else { panic!() };
//! assert_eq!((first.replica, at), (Replica(2), Nanos::from_micros(500)));
//! assert!(steering.send(Nanos(0), first, why).is_some());
//! // No answer comes, so the next drive is asked as well.
//! actions.clear();
//! steering.timer(at, timer, &mut actions);
//! let Action::Send { attempt: second, why: Why::Duplicate, .. } = actions[0] else { panic!() };
//! assert_eq!(second.replica, Replica(0));
//! steering.send(at, second, Why::Duplicate);
//! // The first answer is the read's; the other one is nobody's.
//! actions.clear();
//! steering.completed(Nanos::from_micros(600), second, Outcome::Done, &mut actions);
//! assert_eq!(actions, [Action::Answer { read: RequestId(1), outcome: Outcome::Done }]);
//! actions.clear();
//! steering.completed(Nanos::from_micros(900), first, Outcome::Done, &mut actions);
//! assert!(actions.is_empty() && steering.in_flight() == 0);
//! assert_eq!(steering.counts().extra_share(), 1.0);
//! ```

mod action;
pub mod array;
mod costs;
mod kind;
mod panel;
mod probing;
mod random;
mod replica;
mod steering;
pub mod strategies;
mod strategy;
mod turn;

pub use action::{Action, Actions, Attempt, Timer, Why};
pub use costs::Costs;
pub use kind::{Kind, Known, Means, Tuning};
pub use panel::Panel;
pub use probing::Probing;
pub use random::Random;
pub use replica::{MOST_REPLICAS, Order, Replica};
pub use steering::{Counts, Steering};
pub use strategy::{Ended, Strategy};
pub use turn::Turn;
