//! Schedulers described in TOML.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use trimtab_io::{Nanos, Request, RequestId, within};

use super::{Bfq, BfqOptions, Cfq, CfqOptions, Fifo, MqDeadline, MqDeadlineOptions, Scheduler};
use crate::error::Error;

/// A scheduler, as a scenario names it: `kind` and the keys of that kind.
///
/// ```
/// use trimtab_device::scheduler::{BfqOptions, SchedulerKind};
///
/// let kind = SchedulerKind::parse("kind = \"bfq\"\nlow_latency = false")?;
/// assert_eq!(kind, SchedulerKind::Bfq(BfqOptions { low_latency: false, ..BfqOptions::default() }));
/// assert_eq!(kind.name(), "bfq");
/// # Ok::<(), trimtab_device::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SchedulerKind {
    /// First in, first out: [`Fifo`].
    None {},
    /// Time slices by priority: [`Cfq`].
    Cfq(CfqOptions),
    /// By offset, with deadlines: [`MqDeadline`].
    MqDeadline(MqDeadlineOptions),
    /// Budgets by weight: [`Bfq`].
    Bfq(BfqOptions),
}

impl SchedulerKind {
    /// The names, in listing order.
    pub const NAMES: [&'static str; 4] = ["none", "cfq", "mq-deadline", "bfq"];

    /// Parses a description.
    ///
    /// # Errors
    /// As [`check`](Self::check); or it is not TOML, or has an unknown key.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let kind: Self =
            toml::from_str(text).map_err(|e| Error::Profile(e.message().replace('\n', " ")))?;
        kind.check()?;
        Ok(kind)
    }

    /// Checks the ranges of its keys.
    ///
    /// # Errors
    /// A key is out of range. The text names it.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::None {} => Ok(()),
            Self::Cfq(options) => options.check(),
            Self::MqDeadline(options) => options.check(),
            Self::Bfq(options) => options.check(),
        }
    }

    /// Its name, as Linux has it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None {} => Self::NAMES[0],
            Self::Cfq(_) => Self::NAMES[1],
            Self::MqDeadline(_) => Self::NAMES[2],
            Self::Bfq(_) => Self::NAMES[3],
        }
    }

    /// The scheduler, empty.
    #[must_use]
    pub fn scheduler(&self) -> AnyScheduler {
        match self {
            Self::None {} => AnyScheduler::Fifo(Fifo::new()),
            Self::Cfq(options) => AnyScheduler::Cfq(Box::new(Cfq::new(options))),
            Self::MqDeadline(options) => {
                AnyScheduler::MqDeadline(Box::new(MqDeadline::new(options)))
            }
            Self::Bfq(options) => AnyScheduler::Bfq(Box::new(Bfq::new(options))),
        }
    }
}

/// The weight of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupWeight {
    /// The group, as in [`Issuer`](trimtab_io::Issuer).
    pub group: u16,
    /// Its share relative to other groups.
    pub weight: u32,
}

impl GroupWeight {
    pub(super) fn check(all: &[Self], range: RangeInclusive<u32>) -> Result<(), Error> {
        for (entry, i) in all.iter().zip(0..) {
            within("groups.weight", entry.weight, range.clone())
                .map_err(|e| Error::Profile(e.to_string()))?;
            if all[..i].iter().any(|other| other.group == entry.group) {
                return Error::profile(format!("`groups` has group {} twice", entry.group));
            }
        }
        Ok(())
    }

    pub(super) fn of(all: &[Self], group: u16) -> Option<u32> {
        all.iter().find(|entry| entry.group == group).map(|entry| entry.weight)
    }
}

/// One of the schedulers: calls them without a pointer to a function.
#[derive(Clone, Debug)]
pub enum AnyScheduler {
    /// `none`.
    Fifo(Fifo),
    /// `cfq`.
    Cfq(Box<Cfq>),
    /// `mq-deadline`.
    MqDeadline(Box<MqDeadline>),
    /// `bfq`.
    Bfq(Box<Bfq>),
}

/// Calls a method of the scheduler that it is.
macro_rules! each {
    ($self:expr, $scheduler:ident => $call:expr) => {
        match $self {
            Self::Fifo($scheduler) => $call,
            Self::Cfq($scheduler) => $call,
            Self::MqDeadline($scheduler) => $call,
            Self::Bfq($scheduler) => $call,
        }
    };
}

impl Scheduler for AnyScheduler {
    fn insert(&mut self, now: Nanos, request: &Request) {
        each!(self, scheduler => scheduler.insert(now, request));
    }

    fn dispatch(&mut self, now: Nanos, in_device: u32) -> Option<Request> {
        each!(self, scheduler => scheduler.dispatch(now, in_device))
    }

    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        each!(self, scheduler => scheduler.completed(now, request, service));
    }

    fn next_timer(&self) -> Option<Nanos> {
        each!(self, scheduler => scheduler.next_timer())
    }

    fn len(&self) -> usize {
        each!(self, scheduler => scheduler.len())
    }

    fn remove(&mut self, id: RequestId) -> Option<Request> {
        each!(self, scheduler => scheduler.remove(id))
    }
}
