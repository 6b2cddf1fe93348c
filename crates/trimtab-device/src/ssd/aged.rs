//! A shared initial state for many drives.

use trimtab_io::DeviceId;

use super::Ssd;
use crate::profile::{Buffer, Ftl, Gc, Noise, Profile};

/// The state of a drive after long use. A drive is put into it in the time of a copy, even if its
/// profile differs in what does not affect data placement: timing, write buffer, noise, and
/// scheduling.
#[derive(Clone, Debug)]
pub struct AgedState {
    kind: Profile,
    drive: Ssd,
}

impl AgedState {
    /// The state that [`Ssd::age`] produces for this profile.
    #[must_use]
    pub fn new(profile: &Profile, seed: u64, share: f64, overwrites: f64) -> Self {
        let kind = ageing_key(profile);
        let mut drive = Ssd::new(&kind, DeviceId::default(), seed);
        drive.age(&kind, share, overwrites);
        Self { kind, drive }
    }

    /// Whether drives of this profile age the same way.
    #[must_use]
    pub fn is_of(&self, profile: &Profile) -> bool {
        ageing_key(profile) == self.kind
    }

    /// A drive of this profile in this state.
    ///
    /// # Panics
    /// Drives of this profile age differently; see [`is_of`](Self::is_of).
    #[must_use]
    pub fn drive(&self, profile: &Profile, device: DeviceId, seed: u64) -> Ssd {
        assert!(self.is_of(profile), "{} ages differently", profile.name);
        let mut ssd = Ssd::new(profile, device, seed);
        ssd.map.clone_from(&self.drive.map);
        ssd.blocks.clone_from(&self.drive.blocks);
        ssd.buffer.take_turn(&self.drive.buffer);
        ssd
    }
}

/// The profile, with what does not affect ageing set to fixed values.
fn ageing_key(profile: &Profile) -> Profile {
    let mut kind = profile.clone();
    kind.name.clear();
    kind.about.clear();
    let timing = &mut kind.timing;
    (timing.read_us, timing.program_us, timing.program_pattern_us) = (1.0, Some(1.0), None);
    (timing.erase_us, timing.channel_mb_s, timing.command_us) = (1.0, 1000.0, 0.0);
    (timing.host_link_mb_s, timing.firmware_us, timing.regenerate_us) = (0.0, 0.0, 0.0);
    let Ftl { mapping_cache_mb, schedule, .. } = Ftl::default();
    kind.ftl = Ftl { mapping_cache_mb, schedule, ..kind.ftl };
    let Gc { blocks, copy, preemptive, suspend, suspend_us, .. } = Gc::default();
    kind.gc = Gc { blocks, copy, preemptive, suspend, suspend_us, ..kind.gc };
    (kind.buffer, kind.noise) = (Buffer::default(), Noise::default());
    kind
}
