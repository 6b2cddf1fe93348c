//! A flash drive as a state machine: requests and time in, completions out.
//!
//! ```text
//!   submit ─> firmware ─┬─ read ──> die queue ─> die ─> channel ─> link ─> served
//!                       └─ write ─> link ─> buffer ─> die queue ─> channel ─> die
//!                                                         ▲
//!                              cleaning: read, move, program, erase
//! ```
//!
//! A die works on one operation at a time (or on several planes at once), and is held until the
//! operation's data has crossed the channel. A channel moves one operation's data at a time, first
//! come, first served. So each die and each channel waits for at most one point in time, and the
//! [`TimerQueue`] of these drives the model.
//!
//! Modules: `host` splits requests, `die` runs operations, `write` is the buffer and the path into
//! the flash, `clean` is garbage collection, `coordinate` its permission, `contention` its duration,
//! `blocked` the reads that it blocks, `view` is read access from outside, `open_channel` what the
//! host of managed flash knows.

mod aged;
mod audit;
mod blocked;
mod clean;
mod contention;
mod coordinate;
mod die;
mod fill;
mod host;
mod open_channel;
mod ops;
mod region;
pub(crate) mod save;
mod tune;
mod view;
mod write;

use rand::SeedableRng as _;
use rand_pcg::Pcg64;
use trimtab_io::{Completion, DeviceId, Nanos, Request};

use crate::blocks::Blocks;
use crate::error::Error;
use crate::firmware::{Concerns, Firmware, Standard};
use crate::layout::{Layout, Times};
use crate::map::Map;
use crate::profile::{CopyMode, Profile, Schedule, Scope};
use crate::slab::Slab;
use crate::stats::{LatencyBreakdown, SsdStats};
use crate::timer_queue::{NEVER, TimerQueue};

use audit::Audit;
use clean::{Cleaning, PlaneWork};
use die::{Channel, Die, Lane};
use host::{Host, InFlight, Noise};
use open_channel::OpenChannel;
use ops::Op;
use write::WriteBuffer;

pub use aged::AgedState;
pub use fill::FillProgress;
pub use view::{CleaningInterval, FlashLocation};

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The completion.
    pub completion: Completion,
    /// Where its latency comes from. For analysis; predictors must not use it.
    pub breakdown: LatencyBreakdown,
}

/// A flash drive.
///
/// ```
/// use trimtab_device::{Profile, Ssd};
/// use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};
///
/// let mut ssd = Ssd::new(&Profile::builtin("reference").unwrap(), DeviceId(0), 1);
/// ssd.fill_in_order(1.0);
/// let read = Request::new(RequestId(7), DeviceId(0), Nanos(1000), Op::Read, 4096, 4096);
/// ssd.submit(Nanos(1000), &read)?;
/// while let Some(at) = ssd.next_event() {
///     ssd.advance(at);
/// }
/// let served = ssd.served().next().unwrap();
/// // 40 µs in the die, 5.12 µs on the channel.
/// assert_eq!(served.completion.service_time(), Nanos(45_120));
/// # Ok::<(), trimtab_device::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ssd {
    device: DeviceId,
    layout: Layout,
    times: Times,
    rules: Rules,
    map: Map,
    blocks: Blocks,
    now: Nanos,
    /// When each lane is done.
    timer_queue: TimerQueue,
    /// All other timers.
    others: TimerQueue,
    lanes: Box<[Lane]>,
    dies: Box<[Die]>,
    channels: Box<[Channel]>,
    ops: Slab<Op>,
    requests: Slab<InFlight>,
    host: Host,
    buffer: WriteBuffer,
    planes: Box<[PlaneWork]>,
    cleaning: Cleaning,
    firmware: Box<dyn Firmware>,
    random: Pcg64,
    noise: Noise,
    stats: SsdStats,
    /// Cleaning time of all dies when `stats` was reset.
    cleaned_before: Nanos,
    served: Vec<Served>,
    /// The last prefetched user units, and where the next goes.
    prefetched: [u32; PREFETCH_DEPTH],
    next_prefetched: usize,
    audit: Option<Box<Audit>>,
    cleanings: Option<Vec<CleaningInterval>>,
    open_channel: OpenChannel,
}

/// For this many prefetched requests the model looks behind their map entry: as many as a driver
/// may announce at once.
const PREFETCH_DEPTH: usize = 8;

/// Parameters of the profile on the hot path.
#[derive(Clone, Debug)]
struct Rules {
    scope: Scope,
    copying: CopyMode,
    preemptive: bool,
    suspend: bool,
    reads_first: bool,
    /// Whether dies have several planes, which can work together.
    multi_plane: bool,
    /// What the firmware is asked.
    concerns: Concerns,
}

/// Timers other than those of lanes.
#[derive(Clone, Copy, Debug)]
enum Timer {
    /// A request leaves the firmware.
    Front,
    /// A write's data has crossed the host link.
    LinkIn,
    /// A read's data has crossed the host link.
    LinkOut,
    /// The buffer's flush period has ended.
    Flush,
    /// The firmware policy's decision may have changed.
    Policy,
    /// Data has been regenerated.
    Regenerate,
    /// A read is refused.
    Refuse,
}

impl Timer {
    const ALL: [Self; 7] = [
        Self::Front,
        Self::LinkIn,
        Self::LinkOut,
        Self::Flush,
        Self::Policy,
        Self::Regenerate,
        Self::Refuse,
    ];
}

impl Ssd {
    /// A new, erased drive with the ordinary firmware.
    #[must_use]
    pub fn new(profile: &Profile, device: DeviceId, seed: u64) -> Self {
        Self::with_firmware(profile, device, seed, Box::new(Standard::new(profile)))
    }

    /// A new drive with its own firmware.
    #[must_use]
    pub fn with_firmware(
        profile: &Profile,
        device: DeviceId,
        seed: u64,
        firmware: Box<dyn Firmware>,
    ) -> Self {
        let layout = Layout::new(profile);
        let blocks = Blocks::new(&layout, profile.wear.dynamic);
        Self::with_blocks(profile, device, seed, firmware, layout, blocks)
    }

    /// A drive with the given blocks, on which nothing is mapped.
    fn with_blocks(
        profile: &Profile,
        device: DeviceId,
        seed: u64,
        firmware: Box<dyn Firmware>,
        layout: Layout,
        blocks: Blocks,
    ) -> Self {
        let g = &profile.geometry;
        // If cleaning blocks its plane only, it has lanes of its own beside the dies'.
        let scope = profile.gc.blocks;
        let cleaned = if scope == Scope::Plane { layout.planes } else { 0 };
        let dies = (0..layout.dies).chain((0..cleaned).map(|plane| layout.die_of_plane(plane)));
        let lanes: Box<[_]> = dies.map(|die| Lane::new(layout.channel_of_die(die))).collect();
        let times = Times::new(profile);
        let mut random = Pcg64::seed_from_u64(seed);
        let noise = Noise::new(profile, &mut random);
        let mut ssd = Self {
            device,
            rules: Rules {
                scope,
                copying: profile.gc.copy,
                preemptive: profile.gc.preemptive,
                suspend: profile.gc.suspend,
                reads_first: profile.ftl.schedule == Schedule::ReadsFirst,
                multi_plane: g.planes_per_die > 1,
                concerns: firmware.concerns(),
            },
            map: Map::new(&layout),
            blocks,
            now: Nanos::ZERO,
            timer_queue: TimerQueue::new(lanes.len()),
            others: TimerQueue::new(Timer::ALL.len()),
            lanes,
            dies: vec![Die::default(); layout.dies as usize].into(),
            channels: vec![Channel::default(); layout.channels as usize].into(),
            ops: Slab::new(),
            requests: Slab::new(),
            host: Host::new(profile),
            buffer: WriteBuffer::new(profile, &layout),
            planes: vec![PlaneWork::default(); layout.planes as usize].into(),
            cleaning: Cleaning::new(profile, &layout),
            firmware,
            random,
            noise,
            stats: SsdStats::default(),
            cleaned_before: Nanos::ZERO,
            served: Vec::new(),
            prefetched: [0; PREFETCH_DEPTH],
            next_prefetched: 0,
            audit: None,
            cleanings: None,
            open_channel: OpenChannel::default(),
            layout,
            times,
        };
        ssd.cleaning.target = ssd.cleaning_target();
        ssd
    }

    /// Memory of such a drive when fully written, within some percent. A new drive takes little.
    #[must_use]
    pub fn memory_bytes(profile: &Profile) -> u64 {
        let layout = Layout::new(profile);
        // By block, in `Map` and `Blocks`.
        const BLOCK: u64 = 40;
        Map::bytes(&layout) + BLOCK * u64::from(layout.blocks())
    }

    /// Replaces the firmware. Cleanings queued or in progress keep their timing.
    pub fn replace_firmware(&mut self, firmware: Box<dyn Firmware>) {
        self.take_firmware(firmware);
    }

    /// User capacity, bytes.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.layout.bytes(self.layout.visible_units)
    }

    /// The drive's time.
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// The time of the next event, unless a request is submitted before.
    #[must_use]
    #[inline]
    pub fn next_event(&self) -> Option<Nanos> {
        let at = self.timer_queue.next_time().min(self.others.next_time());
        (at != NEVER).then_some(at)
    }

    /// Requests in flight.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Takes the requests completed since the last call.
    pub fn served(&mut self) -> std::vec::Drain<'_, Served> {
        self.served.drain(..)
    }

    /// Like `served`, without moving them: calls `take` for each in place.
    #[inline]
    pub fn drain(&mut self, take: impl FnMut(&Served)) {
        self.served.iter().for_each(take);
        self.served.clear();
    }

    /// Advances time through all events up to and including `until`.
    #[inline]
    pub fn advance(&mut self, until: Nanos) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Advances time until a request completes, or up to and including `until`; returns the time
    /// reached. Without an event before a distant `until`, time does not advance.
    #[inline]
    pub fn advance_to_answer(&mut self, until: Nanos) -> Nanos {
        while self.served.is_empty() && self.step(until) {}
        if self.served.is_empty() && until != NEVER {
            self.now = self.now.max(until);
        }
        self.now
    }

    /// Processes the next event, unless it is after `until`.
    #[inline]
    fn step(&mut self, until: Nanos) -> bool {
        let (lane, other) = (self.timer_queue.next_time(), self.others.next_time());
        let at = lane.min(other);
        if at > until || at == NEVER {
            return false;
        }
        self.now = at;
        if lane <= other {
            self.lane_is_done(self.timer_queue.next_timer() as u32);
        } else {
            self.happen(Timer::ALL[self.others.next_timer()]);
        }
        true
    }

    fn happen(&mut self, timer: Timer) {
        match timer {
            Timer::Front => self.firmware_done(),
            Timer::LinkIn => self.data_received(),
            Timer::LinkOut => self.data_sent(),
            Timer::Flush => self.flush_period_is_over(),
            Timer::Policy => self.policy_has_changed(),
            Timer::Regenerate => self.regeneration_done(),
            Timer::Refuse => self.refusal_done(),
        }
    }

    /// Sets a timer; [`NEVER`] stops it.
    fn set(&mut self, timer: Timer, at: Nanos) {
        self.others.set(timer as usize, at);
    }

    /// Announces a request at this offset. Affects speed only: if the mapping table exceeds the
    /// caches, lookups dominate, and prefetching hides them. A driver that knows its next requests
    /// calls this a few requests ahead; several at once are better than one by one.
    pub fn prefetch(&mut self, offset: u64) {
        let user = self.layout.unit_of_byte(offset) as u32;
        self.map.prefetch(user);
        // By now the entry of an earlier announced request should have arrived.
        let earlier = &mut self.prefetched[self.next_prefetched];
        self.map.prefetch_unit(std::mem::replace(earlier, user));
        self.next_prefetched = (self.next_prefetched + 1) % PREFETCH_DEPTH;
    }

    /// Submits a request at time `now`. All events up to then happen first.
    ///
    /// # Errors
    /// The request reaches beyond the drive's end, or `now` is in the past. The request is not
    /// accepted.
    pub fn submit(&mut self, now: Nanos, request: &Request) -> Result<(), Error> {
        if now < self.now {
            return Err(Error::TimeRunsBack { now, before: self.now });
        }
        let capacity = self.capacity();
        if request.end() > capacity || (request.offset | request.length) >> 63 != 0 {
            let (offset, length) = (request.offset, request.length);
            return Err(Error::BeyondEnd { offset, length, capacity });
        }
        self.advance(now);
        self.take(request);
        Ok(())
    }
}
