//! A flash drive as a state machine: requests and time in, completions out.
//!
//! ```text
//!   submit ─> firmware ─┬─ read ──> die queue ─> die ─> channel ─> link ─> served
//!                       └─ write ─> link ─> buffer ─> die queue ─> channel ─> die
//!                                                         ▲
//!                              cleaning: read, move, program, erase
//! ```
//!
//! A die works on one operation at a time (or on several planes at once), and is
//! held until the operation's data has crossed the channel. A channel moves one
//! operation's data at a time, first come, first served. So each die and each
//! channel waits for at most one moment, and the [`Agenda`] of these moments is
//! all that drives the model on.
//!
//! The rooms of this module: `host` takes requests apart, `die` runs operations,
//! `write` is the buffer and the way into the flash, `clean` is garbage
//! collection, `view` is what may be looked at from outside.

mod aged;
mod audit;
mod clean;
mod die;
mod fill;
mod host;
mod ops;
pub(crate) mod save;
mod tune;
mod view;
mod write;

use rand::SeedableRng as _;
use rand_pcg::Pcg64;
use trimtab_io::{Completion, DeviceId, Nanos, Request};

use crate::agenda::{Agenda, NEVER};
use crate::blocks::Blocks;
use crate::error::Error;
use crate::firmware::{Firmware, Standard};
use crate::layout::{Layout, Times};
use crate::map::Map;
use crate::profile::{Copying, Profile, Schedule, Scope};
use crate::slab::Slab;
use crate::study::{Explained, Study};

use audit::Audit;
use clean::{Cleaning, PlaneWork};
use die::{Channel, Die, Lane};
use host::{Host, InFlight, Noise};
use ops::Op;
use write::WriteBuffer;

pub use aged::Aged;
pub use fill::FillWatch;
pub use view::{Interval, Spot};

/// A request that has been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The answer.
    pub completion: Completion,
    /// Where its time went. For study: no predictor may see it.
    pub explained: Explained,
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
    /// When each lane's work is done.
    agenda: Agenda,
    /// All other moments.
    others: Agenda,
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
    study: Study,
    /// What dies had spent on cleaning when `study` began to count.
    cleaned_before: Nanos,
    served: Vec<Served>,
    /// The last user units that were announced, and where the next goes.
    expected: [u32; EXPECTED],
    next_expected: usize,
    audit: Option<Box<Audit>>,
    cleanings: Option<Vec<Interval>>,
}

/// For so many requests that are announced the drive looks further than where
/// they are: as many as a driver may announce at once.
const EXPECTED: usize = 8;

/// What of the profile is asked again and again.
#[derive(Clone, Debug)]
struct Rules {
    scope: Scope,
    copying: Copying,
    preemptive: bool,
    suspend: bool,
    reads_first: bool,
    /// Whether dies have several planes, which can work together.
    multi_plane: bool,
}

/// The timers of what is no lane.
#[derive(Clone, Copy, Debug)]
enum Timer {
    /// A request leaves the firmware.
    Front,
    /// The data of a write has come over the link.
    LinkIn,
    /// The data of a read has gone over the link.
    LinkOut,
    /// The buffer's period is over.
    Flush,
    /// The firmware's policy may have changed.
    Policy,
    /// Data has been regenerated.
    Regenerate,
}

impl Timer {
    const ALL: [Self; 6] =
        [Self::Front, Self::LinkIn, Self::LinkOut, Self::Flush, Self::Policy, Self::Regenerate];
}

impl Ssd {
    /// A new drive, all of it erased, with the ordinary firmware.
    #[must_use]
    pub fn new(profile: &Profile, device: DeviceId, seed: u64) -> Self {
        Self::with_firmware(profile, device, seed, Box::new(Standard::new(profile)))
    }

    /// A new drive with a firmware of its own.
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

    /// A drive with blocks in a state of their own, on which nothing is mapped.
    fn with_blocks(
        profile: &Profile,
        device: DeviceId,
        seed: u64,
        firmware: Box<dyn Firmware>,
        layout: Layout,
        blocks: Blocks,
    ) -> Self {
        let g = &profile.geometry;
        // Where cleaning occupies no more than its plane, it has lanes of its
        // own beside the dies'.
        let scope = profile.gc.blocks;
        let cleaned = if scope == Scope::Plane { layout.planes } else { 0 };
        let dies = (0..layout.dies).chain((0..cleaned).map(|plane| layout.die_of_plane(plane)));
        let lanes: Box<[_]> = dies.map(|die| Lane::new(layout.channel_of_die(die))).collect();
        let times = Times::new(profile);
        let mut random = Pcg64::seed_from_u64(seed);
        let noise = Noise::new(profile, &mut random);
        Self {
            device,
            rules: Rules {
                scope,
                copying: profile.gc.copy,
                preemptive: profile.gc.preemptive,
                suspend: profile.gc.suspend,
                reads_first: profile.ftl.schedule == Schedule::ReadsFirst,
                multi_plane: g.planes_per_die > 1,
            },
            map: Map::new(&layout),
            blocks,
            now: Nanos::ZERO,
            agenda: Agenda::new(lanes.len()),
            others: Agenda::new(Timer::ALL.len()),
            lanes,
            dies: vec![Die::default(); layout.dies as usize].into(),
            channels: vec![Channel::default(); layout.channels as usize].into(),
            ops: Slab::new(),
            requests: Slab::new(),
            host: Host::new(profile),
            buffer: WriteBuffer::new(profile, layout.stripe(profile)),
            planes: vec![PlaneWork::default(); layout.planes as usize].into(),
            cleaning: Cleaning::new(profile, &layout),
            firmware,
            random,
            noise,
            study: Study::default(),
            cleaned_before: Nanos::ZERO,
            served: Vec::new(),
            expected: [0; EXPECTED],
            next_expected: 0,
            audit: None,
            cleanings: None,
            layout,
            times,
        }
    }

    /// The memory that such a drive takes when all of it has been written, to within some
    /// percent. One that is new takes little.
    #[must_use]
    pub fn memory_bytes(profile: &Profile) -> u64 {
        let layout = Layout::new(profile);
        // By block, in `Map` and `Blocks`.
        const BLOCK: u64 = 40;
        Map::bytes(&layout) + BLOCK * u64::from(layout.blocks())
    }

    /// Replaces the firmware. Cleanings that are queued or under way still take
    /// the time that they took with the one before.
    pub fn replace_firmware(&mut self, firmware: Box<dyn Firmware>) {
        self.firmware = firmware;
    }

    /// Bytes that the user sees.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.layout.bytes(self.layout.user_units)
    }

    /// How far the drive's time is.
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// When something will happen next, if nothing is submitted before.
    #[must_use]
    #[inline]
    pub fn next_event(&self) -> Option<Nanos> {
        let at = self.agenda.next_time().min(self.others.next_time());
        (at != NEVER).then_some(at)
    }

    /// Requests taken and not yet answered.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Takes the answers that have been given since the last call.
    pub fn served(&mut self) -> std::vec::Drain<'_, Served> {
        self.served.drain(..)
    }

    /// The same for one who need not keep them: hands over each where it stands.
    #[inline]
    pub fn drain(&mut self, take: impl FnMut(&Served)) {
        self.served.iter().for_each(take);
        self.served.clear();
    }

    /// Lets time pass: all that happens up to and including `until`.
    #[inline]
    pub fn advance(&mut self, until: Nanos) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Lets time pass until a request is answered, or up to and including
    /// `until`; returns the time that has come. With nothing to happen before
    /// `until`, and that far off, it stays where it is.
    #[inline]
    pub fn advance_to_answer(&mut self, until: Nanos) -> Nanos {
        while self.served.is_empty() && self.step(until) {}
        if self.served.is_empty() && until != NEVER {
            self.now = self.now.max(until);
        }
        self.now
    }

    /// Lets the next thing happen, if it does not lie after `until`.
    #[inline]
    fn step(&mut self, until: Nanos) -> bool {
        let (lane, other) = (self.agenda.next_time(), self.others.next_time());
        let at = lane.min(other);
        if at > until || at == NEVER {
            return false;
        }
        self.now = at;
        if lane <= other {
            self.lane_is_done(self.agenda.next_timer() as u32);
        } else {
            self.happen(Timer::ALL[self.others.next_timer()]);
        }
        true
    }

    fn happen(&mut self, timer: Timer) {
        match timer {
            Timer::Front => self.firmware_is_done(),
            Timer::LinkIn => self.data_has_come(),
            Timer::LinkOut => self.data_has_gone(),
            Timer::Flush => self.flush_period_is_over(),
            Timer::Policy => self.policy_has_changed(),
            Timer::Regenerate => self.data_is_regenerated(),
        }
    }

    /// Sets a timer; [`NEVER`] stops it.
    fn set(&mut self, timer: Timer, at: Nanos) {
        self.others.set(timer as usize, at);
    }

    /// Says that a request for this place will be submitted soon. It changes
    /// nothing but the speed: where a mapping table is larger than the caches,
    /// looking into it is what costs most, and this hides it. A driver that
    /// knows its next requests calls it a few requests ahead, and better for
    /// several at once than for one after the other.
    pub fn expect(&mut self, offset: u64) {
        let user = self.layout.unit_of_byte(offset) as u32;
        self.map.expect(user);
        // By now the place of one that was announced earlier should be known.
        let earlier = &mut self.expected[self.next_expected];
        self.map.expect_unit(std::mem::replace(earlier, user));
        self.next_expected = (self.next_expected + 1) % EXPECTED;
    }

    /// Takes a request at time `now`. All that happens up to then happens first.
    ///
    /// # Errors
    /// The request reaches beyond the drive's end, or `now` is in the past. It
    /// is not taken then.
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
