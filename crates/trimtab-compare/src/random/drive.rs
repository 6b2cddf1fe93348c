//! The drives of random arrays.

use std::fmt::Write as _;

use trimtab_device::{Profile, Scope};

use super::draw::{Draw, round};

/// A drive, before it is known how much data the array holds.
#[derive(Clone)]
pub(super) struct Drive {
    /// The profile that it is made from, and the keys that it replaces.
    pub(super) base: String,
    overrides: String,
    pub(super) read_us: f64,
    /// The least capacity that is possible or wanted, GiB.
    pub(super) least: u64,
    /// How it was filled.
    kind: &'static str,
    depth: u32,
}

/// Draws a drive.
pub(super) fn drive(draw: &mut Draw) -> Drive {
    let names: Vec<_> = Profile::builtin_names().collect();
    let base = if draw.chance(0.5) { draw.pick(&names) } else { "reference" };
    let is_random = base == "reference" && draw.chance(0.9);
    let base = Profile::builtin(base).expect("a built-in name");
    let (mut profile, mut overrides) = (base.clone(), String::new());
    if is_random {
        overrides = random_profile(draw, &mut profile);
    }
    // As small as it can be: a small drive is aged sooner, and behaves like a large one under
    // the same load.
    let mut least = draw.pick(&[1_u64, 2, 4]);
    while profile.clone().with_capacity(least << 30).is_err() {
        least *= 2;
    }
    Drive {
        base: base.name,
        overrides,
        read_us: profile.timing.read_us,
        least,
        kind: if draw.chance(0.75) { "aged" } else { "sequential" },
        depth: draw.pick(&[32, 64, 128, 256]),
    }
}

impl Drive {
    /// Its keys, in TOML: with this capacity, GiB, and this share of it filled.
    pub(super) fn text(&self, capacity: u64, share: f64) -> String {
        let Self { base, overrides, kind, depth, .. } = self;
        format!(
            "profile = \"{base}\"\n{overrides}capacity = \"{capacity}G\"\n\
             fill = {{ share = {share}, kind = \"{kind}\" }}\nhost = {{ queue_depth = {depth} }}\n"
        )
    }
}

/// Replaces figures of a profile, and returns the keys that do.
fn random_profile(draw: &mut Draw, profile: &mut Profile) -> String {
    let mut text = String::new();
    let mut set = |key: &str, value: &dyn std::fmt::Display| {
        writeln!(text, "override.{key} = {value}").expect("a string grows");
    };
    let geometry = &mut profile.geometry;
    geometry.channels = draw.pick(&[2, 4, 8, 16]);
    geometry.chips_per_channel = draw.pick(&[1, 2, 4, 8]);
    geometry.page_bytes = draw.pick(&[4096, 8192, 16384]);
    geometry.pages_per_block = draw.pick(&[64, 128, 256]);
    geometry.over_provisioning = round(draw.uniform(0.1, 0.4));
    set("geometry.channels", &geometry.channels);
    set("geometry.chips_per_channel", &geometry.chips_per_channel);
    set("geometry.page_bytes", &geometry.page_bytes);
    set("geometry.pages_per_block", &geometry.pages_per_block);
    set("geometry.over_provisioning", &geometry.over_provisioning);
    let timing = &mut profile.timing;
    timing.read_us = round(draw.scale(5.0, 5000.0));
    let program = round((timing.read_us * draw.scale(2.0, 40.0)).min(20_000.0));
    timing.program_us = Some(program);
    timing.erase_us = round((program * draw.scale(2.0, 10.0)).min(50_000.0));
    timing.channel_mb_s = round(draw.scale(200.0, 1600.0));
    set("timing.read_us", &timing.read_us);
    set("timing.program_us", &program);
    set("timing.erase_us", &timing.erase_us);
    set("timing.channel_mb_s", &timing.channel_mb_s);
    let scopes = [
        (Scope::Plane, "plane"),
        (Scope::Die, "die"),
        (Scope::Channel, "channel"),
        (Scope::Controller, "controller"),
    ];
    let (scope, name) = draw.pick(&scopes);
    profile.gc.blocks = scope;
    profile.gc.preemptive = draw.chance(0.5);
    profile.gc.suspend = draw.chance(0.3);
    set("gc.blocks", &format!("\"{name}\""));
    set("gc.preemptive", &profile.gc.preemptive);
    set("gc.suspend", &profile.gc.suspend);
    if draw.chance(0.6) {
        set("buffer.size_mb", &round(draw.scale(1.0, 64.0)));
        set("buffer.flush_watermark", &round(draw.uniform(0.2, 0.8)));
        let period = if draw.chance(0.5) { round(draw.scale(5.0, 1000.0)) } else { 0.0 };
        set("buffer.flush_period_ms", &period);
        set("buffer.writes_per_die", &draw.pick(&[0, 1, 4]));
    }
    if draw.chance(0.4) {
        set("noise.retry_probability", &round(draw.scale(1e-4, 0.1)));
        set("noise.retry_most", &draw.pick(&[1, 4, 10]));
    }
    if draw.chance(0.3) {
        set("noise.pause_every_ms", &round(draw.scale(20.0, 2000.0)));
        set("noise.pause_ms", &round(draw.scale(0.2, 20.0)));
    }
    text
}
