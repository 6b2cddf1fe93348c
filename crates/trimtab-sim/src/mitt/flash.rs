//! Models of host-managed flash.

use trimtab_device::{CopyMode, Profile, Schedule};
use trimtab_io::Nanos;
use trimtab_predict::mitt::{FlashModel, FlashModelError, FlashValues};

/// What the host of a drive with this profile knows of its times and layout.
///
/// # Errors
/// A profile without dies or pages, which [`Profile::parse`] does not accept.
pub fn flash_model(profile: &Profile) -> Result<FlashModel, FlashModelError> {
    let (t, g) = (&profile.timing, &profile.geometry);
    let us = |us: f64| Nanos((us * 1e3).round() as u64);
    let ps_per_byte = |mb_s: f64| if mb_s > 0.0 { (1e6 / mb_s).round() as u64 } else { 0 };
    let program: Vec<Nanos> = match &t.program_pattern_us {
        Some(pattern) => pattern.iter().map(|&time| us(time)).collect(),
        None => vec![us(t.program_us.unwrap_or_default()); g.pages_per_block as usize],
    };
    let units_per_page = g.page_bytes / profile.ftl.unit_bytes;
    let dies_per_channel = g.chips_per_channel * g.dies_per_chip;
    FlashModel::new(&FlashValues {
        read: us(t.read_us),
        program: &program,
        erase: us(t.erase_us),
        command: us(t.command_us),
        channel_ps_per_byte: ps_per_byte(t.channel_mb_s),
        firmware: us(t.firmware_us),
        link_ps_per_byte: ps_per_byte(t.host_link_mb_s),
        dies: g.channels * dies_per_channel,
        dies_per_channel,
        unit_bytes: profile.ftl.unit_bytes,
        units_per_page,
        units_per_die: g.planes_per_die * g.blocks_per_plane * g.pages_per_block * units_per_page,
        reads_first: profile.ftl.schedule == Schedule::ReadsFirst,
        preemptive: profile.gc.preemptive,
        copyback: profile.gc.copy == CopyMode::Copyback,
    })
}
