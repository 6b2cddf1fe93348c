//! Who issued a request: what schedulers order by.

use serde::{Deserialize, Serialize};

/// Scheduling class of an I/O, as `ioprio_set(2)` has them. Earlier classes are served first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum IoClass {
    /// Served before all others.
    RealTime = 1,
    /// The class of processes that asked for none.
    #[default]
    BestEffort = 2,
    /// Served when nothing else is there.
    Idle = 3,
}

/// The process that issued a request, and its I/O priority.
///
/// Devices ignore it. Schedulers use it (CFQ and BFQ all of it, mq-deadline the class).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Issuer {
    /// The process, or the thread that has an I/O context of its own.
    pub process: u32,
    /// Its control group.
    pub group: u16,
    /// Its class.
    pub class: IoClass,
    /// Its priority in the class, 0 (first) to 7. Without effect in the idle class.
    pub level: u8,
}

impl Issuer {
    /// The lowest priority of a class.
    pub const LAST_LEVEL: u8 = 7;

    /// A process in group 0, in the class best-effort at the level that Linux gives to a process
    /// which asked for none.
    #[must_use]
    pub const fn of_process(process: u32) -> Self {
        Self { process, group: 0, class: IoClass::BestEffort, level: 4 }
    }
}

impl Default for Issuer {
    fn default() -> Self {
        Self::of_process(0)
    }
}
