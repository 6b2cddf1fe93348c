//! What can be turned of a profile.

use trimtab_device::Profile;

/// A key of a profile, or a few that go together.
#[derive(Clone, Copy, Debug)]
pub(super) enum Knob {
    Read,
    Program,
    Erase,
    Channel,
    Firmware,
    Link,
    Channels,
    Chips,
    BufferSize,
    FlushPeriod,
}

impl Knob {
    pub(super) const ALL: [Self; 10] = [
        Self::Read,
        Self::Program,
        Self::Erase,
        Self::Channel,
        Self::Firmware,
        Self::Link,
        Self::Channels,
        Self::Chips,
        Self::BufferSize,
        Self::FlushPeriod,
    ];

    /// The profile with this knob turned by a factor, if it can be.
    pub(super) fn turn(self, profile: &Profile, factor: f64) -> Option<Profile> {
        let mut turned = profile.clone();
        let (timing, geometry) = (&mut turned.timing, &mut turned.geometry);
        let capacity = profile.capacity_bytes();
        match self {
            Self::Read => timing.read_us *= factor,
            Self::Program => {
                if let Some(program) = &mut timing.program_us {
                    *program *= factor;
                }
                timing.program_pattern_us.iter_mut().flatten().for_each(|time| *time *= factor);
            }
            Self::Erase => timing.erase_us *= factor,
            Self::Channel => timing.channel_mb_s *= factor,
            Self::Firmware => timing.firmware_us = timing.firmware_us.max(0.5) * factor,
            Self::Link => timing.host_link_mb_s = timing.host_link_mb_s.max(1000.0) * factor,
            Self::Channels => geometry.channels = whole(geometry.channels, factor)?,
            Self::Chips => geometry.chips_per_channel = whole(geometry.chips_per_channel, factor)?,
            Self::BufferSize if turned.buffer.size_mb > 0.0 => turned.buffer.size_mb *= factor,
            Self::FlushPeriod if turned.buffer.flush_period_ms > 0.0 => {
                turned.buffer.flush_period_ms *= factor;
            }
            Self::BufferSize | Self::FlushPeriod => return None,
        }
        // The same size of another layout, if it fits.
        turned.with_capacity(capacity).ok()
    }
}

/// Twice as many, or half: nothing between is built.
fn whole(count: u32, factor: f64) -> Option<u32> {
    if factor >= 2.0 {
        count.checked_mul(2)
    } else if factor <= 0.5 && count > 1 {
        Some(count / 2)
    } else {
        None
    }
}
