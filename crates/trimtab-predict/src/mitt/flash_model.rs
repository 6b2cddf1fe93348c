//! The times and the layout of host-managed flash.

use serde::{Deserialize, Serialize};
use trimtab_io::{FlashOp, Nanos};

/// Times and layout of a drive whose host manages the flash: the vendor's specification, or what
/// profiling found (MittOS, §4.2.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawModel", into = "RawModel")]
pub struct FlashModel {
    raw: RawModel,
    /// Program time of all pages before each, in a block of `pages_per_block`.
    before: Vec<u64>,
}

/// As it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawModel {
    read_ns: u64,
    program_ns: Vec<u64>,
    erase_ns: u64,
    command_ns: u64,
    channel_ps_per_byte: u64,
    firmware_ns: u64,
    link_ps_per_byte: u64,
    dies: u32,
    dies_per_channel: u32,
    unit_bytes: u32,
    units_per_page: u32,
    units_per_die: u32,
    reads_first: bool,
    preemptive: bool,
    copyback: bool,
}

/// Plain values of a [`FlashModel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashValues<'a> {
    /// Cells to page register.
    pub read: Nanos,
    /// Page register to cells, by page of a block.
    pub program: &'a [Nanos],
    /// A block.
    pub erase: Nanos,
    /// Channel time of each operation's command.
    pub command: Nanos,
    /// Channel time, ps per byte.
    pub channel_ps_per_byte: u64,
    /// Of the controller, for each request.
    pub firmware: Nanos,
    /// Host link, ps per byte; 0: no limit.
    pub link_ps_per_byte: u64,
    /// Dies of the drive.
    pub dies: u32,
    /// Dies that share a channel.
    pub dies_per_channel: u32,
    /// Bytes of a mapping unit.
    pub unit_bytes: u32,
    /// Mapping units of a page.
    pub units_per_page: u32,
    /// Mapping units of a die: unit numbers count over the whole drive, die by die.
    pub units_per_die: u32,
    /// Whether a die serves reads before all else.
    pub reads_first: bool,
    /// Whether requests are served between a cleaning's steps.
    pub preemptive: bool,
    /// Whether cleaning moves pages within the die, not over the channel.
    pub copyback: bool,
}

/// The times of a die's operation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpTimes {
    /// Of the die, before its data wants the channel.
    pub(super) before: Nanos,
    /// On the channel.
    pub(super) transfer: Nanos,
    /// Of the die, after that.
    pub(super) after: Nanos,
}

impl OpTimes {
    /// The die's time if the channel is free.
    #[inline]
    pub(super) fn alone(&self) -> Nanos {
        self.before + self.transfer + self.after
    }
}

/// Why a model is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` must be at least 1")]
pub struct FlashModelError(pub &'static str);

/// Terms of `mitt-ssd`. For experiments: each can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashPrecision {
    /// What dies begin and finish corrects their next free times. Without it these only add up.
    pub feedback: bool,
    /// Transfers of other dies on the channel. Without it the channel is free.
    pub channel: bool,
    /// Program times by page. Without it each is the mean.
    pub page_table: bool,
    /// Erases, and the moves of cleaning. Without it cleaning takes no time.
    pub erase: bool,
}

impl FlashPrecision {
    /// None of them.
    pub const NONE: Self =
        Self { feedback: false, channel: false, page_table: false, erase: false };
}

impl Default for FlashPrecision {
    fn default() -> Self {
        Self { feedback: true, channel: true, page_table: true, erase: true }
    }
}

impl FlashModel {
    /// From plain values.
    ///
    /// # Errors
    /// A count is zero.
    pub fn new(values: &FlashValues<'_>) -> Result<Self, FlashModelError> {
        Self::try_from(RawModel {
            read_ns: values.read.0,
            program_ns: values.program.iter().map(|time| time.0).collect(),
            erase_ns: values.erase.0,
            command_ns: values.command.0,
            channel_ps_per_byte: values.channel_ps_per_byte,
            firmware_ns: values.firmware.0,
            link_ps_per_byte: values.link_ps_per_byte,
            dies: values.dies,
            dies_per_channel: values.dies_per_channel,
            unit_bytes: values.unit_bytes,
            units_per_page: values.units_per_page,
            units_per_die: values.units_per_die,
            reads_first: values.reads_first,
            preemptive: values.preemptive,
            copyback: values.copyback,
        })
    }

    /// Dies of the drive.
    #[must_use]
    pub const fn dies(&self) -> u32 {
        self.raw.dies
    }

    /// Channels of the drive.
    #[must_use]
    pub const fn channels(&self) -> u32 {
        self.raw.dies.div_ceil(self.raw.dies_per_channel)
    }

    pub(super) const fn dies_per_channel(&self) -> u32 {
        self.raw.dies_per_channel
    }

    pub(super) const fn die_of(&self, unit: u32) -> u32 {
        unit / self.raw.units_per_die
    }

    /// The units of the page that holds a unit.
    #[inline]
    pub(super) const fn page_of(&self, unit: u32) -> std::ops::Range<u32> {
        let first = unit - unit % self.raw.units_per_page;
        first..first + self.raw.units_per_page
    }

    pub(super) const fn unit_bytes(&self) -> u64 {
        self.raw.unit_bytes as u64
    }

    pub(super) const fn firmware(&self) -> Nanos {
        Nanos(self.raw.firmware_ns)
    }

    pub(super) const fn reads_first(&self) -> bool {
        self.raw.reads_first
    }

    pub(super) const fn link(&self, bytes: u64) -> Nanos {
        Nanos((bytes * self.raw.link_ps_per_byte).div_ceil(1000))
    }

    /// Channel time of one operation's data.
    pub(super) const fn transfer(&self, bytes: u64) -> Nanos {
        Nanos(self.raw.command_ns + (bytes * self.raw.channel_ps_per_byte).div_ceil(1000))
    }

    /// Program time of some pages, from this one of a block on.
    fn programs(&self, first: u32, count: u32, table: bool) -> Nanos {
        let pages = self.raw.program_ns.len() as u32;
        let whole = self.before[pages as usize];
        if !table {
            return Nanos(whole / u64::from(pages) * u64::from(count));
        }
        // Data that moves may go on in the next block.
        let end = first % pages + count;
        let upto =
            |page: u32| whole * u64::from(page / pages) + self.before[(page % pages) as usize];
        Nanos(upto(end) - upto(first % pages))
    }

    /// A die's time to read a page.
    #[inline]
    pub(super) const fn read_time(&self) -> Nanos {
        Nanos(self.raw.read_ns)
    }

    /// The times of an operation. A cleaning's use of the channel counts as the die's time.
    pub(super) fn times(&self, op: &FlashOp, precision: &FlashPrecision) -> OpTimes {
        let page = self.unit_bytes() * u64::from(self.raw.units_per_page);
        match *op {
            FlashOp::Read { bytes } => OpTimes {
                before: self.read_time(),
                transfer: self.transfer(bytes.into()),
                after: Nanos::ZERO,
            },
            FlashOp::Program { page: first } => {
                let after = self.programs(first, 1, precision.page_table);
                OpTimes { before: Nanos::ZERO, transfer: self.transfer(page), after }
            }
            FlashOp::Clean(_) if !precision.erase => OpTimes::default(),
            FlashOp::Clean(work) => {
                let step = |n: u32| if self.raw.preemptive { n.min(1) } else { n };
                let (reads, programs) = if self.raw.preemptive && work.programs > 0 {
                    (work.reads.div_ceil(work.programs), step(work.programs))
                } else {
                    (work.reads, work.programs)
                };
                let moves = if self.raw.copyback {
                    Nanos::ZERO
                } else {
                    let out = if programs < work.programs { page } else { work.bytes };
                    let commands = u64::from(reads.saturating_sub(1)) * self.raw.command_ns;
                    let out =
                        if reads > 0 { self.transfer(out) + Nanos(commands) } else { Nanos::ZERO };
                    out + Nanos(self.transfer(page).0 * u64::from(programs))
                };
                let read = Nanos(self.raw.read_ns * u64::from(reads));
                let program = self.programs(work.first_page, programs, precision.page_table);
                let erases = !self.raw.preemptive || work.programs == 0;
                let erase = if erases { Nanos(self.raw.erase_ns) } else { Nanos::ZERO };
                OpTimes { before: read + moves + program + erase, ..OpTimes::default() }
            }
        }
    }
}

impl TryFrom<RawModel> for FlashModel {
    type Error = FlashModelError;

    fn try_from(raw: RawModel) -> Result<Self, FlashModelError> {
        let counts = [
            ("program_ns", raw.program_ns.len() as u32),
            ("dies", raw.dies),
            ("dies_per_channel", raw.dies_per_channel),
            ("unit_bytes", raw.unit_bytes),
            ("units_per_page", raw.units_per_page),
            ("units_per_die", raw.units_per_die),
        ];
        if let Some((name, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(FlashModelError(name));
        }
        let sum = |sum: &mut u64, time: &u64| {
            *sum = sum.saturating_add(*time);
            Some(*sum)
        };
        let before = [0].into_iter().chain(raw.program_ns.iter().scan(0, sum)).collect();
        Ok(Self { raw, before })
    }
}

impl From<FlashModel> for RawModel {
    fn from(model: FlashModel) -> Self {
        model.raw
    }
}
