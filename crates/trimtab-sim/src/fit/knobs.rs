//! The parameters of a profile: numbers to vary, and alternatives to choose from.

use trimtab_device::{Buffer, CopyMode, Noise, Profile, Schedule, Scope, Timing};

/// The size of models during the search, and of the result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Bytes.
    pub(super) tried: u64,
    /// Bytes.
    pub(super) asked: u64,
}

impl Size {
    /// A profile of the size to try, if possible, otherwise of the requested size: as near as
    /// whole blocks permit.
    fn of(self, profile: Profile) -> Option<Profile> {
        let asked = profile.with_capacity(self.asked).ok()?;
        asked.with_capacity(self.tried).ok()
    }
}

/// A key of a profile, or a few that change together.
#[derive(Clone, Copy, Debug)]
pub(super) enum Knob {
    /// All operations on the cells, and the transfer out of them.
    Flash,
    Read,
    Program,
    Erase,
    Channel,
    Firmware,
    Link,
    Channels,
    Chips,
    Spare,
    BufferSize,
    FlushPeriod,
    Retries,
    PausesEvery,
    Pauses,
}

impl Knob {
    pub(super) const ALL: [Self; 15] = [
        Self::Flash,
        Self::Read,
        Self::Program,
        Self::Erase,
        Self::Channel,
        Self::Firmware,
        Self::Link,
        Self::Channels,
        Self::Chips,
        Self::Spare,
        Self::BufferSize,
        Self::FlushPeriod,
        Self::Retries,
        Self::PausesEvery,
        Self::Pauses,
    ];

    /// The profile with this knob multiplied by a factor, if that is valid.
    pub(super) fn turn(self, profile: &Profile, size: Size, factor: f64) -> Option<Profile> {
        let mut turned = profile.clone();
        let (timing, geometry) = (&mut turned.timing, &mut turned.geometry);
        // Buffer and noise stay off if they are off.
        let times = |x: &mut f64| (*x > 0.0).then(|| *x *= factor);
        match self {
            Self::Flash => {
                timing.read_us *= factor;
                timing.erase_us *= factor;
                timing.channel_mb_s /= factor;
                program_times(timing).for_each(|time| *time *= factor);
            }
            Self::Read => timing.read_us *= factor,
            Self::Program => program_times(timing).for_each(|time| *time *= factor),
            Self::Erase => timing.erase_us *= factor,
            Self::Channel => timing.channel_mb_s *= factor,
            Self::Firmware => timing.firmware_us = timing.firmware_us.max(0.5) * factor,
            Self::Link => {
                let limit =
                    if timing.host_link_mb_s > 0.0 { timing.host_link_mb_s } else { 1000.0 };
                timing.host_link_mb_s = limit * factor;
            }
            Self::Channels => geometry.channels = whole(geometry.channels, factor)?,
            Self::Chips => geometry.chips_per_channel = whole(geometry.chips_per_channel, factor)?,
            // Values outside this range do not occur.
            Self::Spare => {
                geometry.over_provisioning = (geometry.over_provisioning * factor).clamp(0.03, 0.5);
            }
            Self::BufferSize => times(&mut turned.buffer.size_mb)?,
            Self::FlushPeriod => times(&mut turned.buffer.flush_period_ms)?,
            Self::Retries => times(&mut turned.noise.retry_probability)?,
            Self::PausesEvery => times(&mut turned.noise.pause_every_ms)?,
            Self::Pauses => times(&mut turned.noise.pause_ms)?,
        }
        // In most flash a program takes longer than a read, and an erase longer than a
        // program.
        if in_order(profile) && !in_order(&turned) {
            return None;
        }
        size.of(turned)
    }
}

/// The same profile with one alternative chosen differently.
pub(super) fn alternatives(profile: &Profile, size: Size) -> Vec<Profile> {
    let mut variants = Vec::new();
    let mut add = |change: &dyn Fn(&mut Profile)| {
        let mut other = profile.clone();
        change(&mut other);
        if other != *profile {
            variants.extend(size.of(other));
        }
    };
    if profile.buffer.size_mb > 0.0 {
        add(&|p| p.buffer = Buffer::default());
        add(&|p| p.buffer.writes_per_die = u32::from(p.buffer.writes_per_die == 0));
    } else {
        add(&|p| p.buffer.size_mb = 1.0);
        add(&|p| p.buffer.size_mb = 32.0);
    }
    add(&|p| {
        p.ftl.schedule = match p.ftl.schedule {
            Schedule::Fifo => Schedule::ReadsFirst,
            Schedule::ReadsFirst => Schedule::Fifo,
        }
    });
    add(&|p| p.gc.preemptive = !p.gc.preemptive);
    add(&|p| p.gc.suspend = !p.gc.suspend);
    for scope in [Scope::Plane, Scope::Die, Scope::Channel] {
        add(&|p| p.gc.blocks = scope);
    }
    add(&|p| {
        p.gc.copy = match p.gc.copy {
            CopyMode::Serial => CopyMode::Copyback,
            CopyMode::Copyback => CopyMode::Serial,
        }
    });
    if profile.noise == Noise::default() {
        add(&|p| (p.noise.retry_probability, p.noise.retry_most) = (0.05, 3));
        add(&|p| (p.noise.pause_every_ms, p.noise.pause_ms) = (50.0, 1.0));
    } else {
        add(&|p| p.noise = Noise::default());
    }
    variants
}

/// Whether programs take longer than reads, and erases longer than those.
fn in_order(profile: &Profile) -> bool {
    let mut timing = profile.timing.clone();
    let flash = timing.read_us..=timing.erase_us;
    program_times(&mut timing).all(|time| flash.contains(time))
}

fn program_times(timing: &mut Timing) -> impl Iterator<Item = &mut f64> {
    timing.program_us.iter_mut().chain(timing.program_pattern_us.iter_mut().flatten())
}

/// A profile to start with, and variants of it: with the same number of dies, with a buffer or
/// without, and with a link no faster than this.
pub(super) fn variants(base: &Profile, size: Size, link_mb_s: Option<f64>) -> Vec<Profile> {
    let mut all: Vec<_> = size.of(base.clone()).into_iter().collect();
    for dies in [4, 8, 16, 32] {
        for buffer_mb in [0.0, 8.0] {
            for link in [Some(base.timing.host_link_mb_s), link_mb_s].into_iter().flatten() {
                let mut variant = base.clone();
                let g = &mut variant.geometry;
                g.channels = g.channels.min(dies);
                (g.chips_per_channel, g.dies_per_chip) = (dies.div_ceil(g.channels), 1);
                variant.timing.host_link_mb_s = link;
                if (variant.buffer.size_mb > 0.0) != (buffer_mb > 0.0) {
                    variant.buffer = Buffer { size_mb: buffer_mb, ..Buffer::default() };
                }
                all.extend(size.of(variant));
            }
        }
    }
    all
}

/// Doubled or halved, if the factor is nearer to that than to one.
fn whole(count: u32, factor: f64) -> Option<u32> {
    if factor >= 1.4 {
        count.checked_mul(2)
    } else if factor <= 1.0 / 1.4 && count > 1 {
        Some(count / 2)
    } else {
        None
    }
}
