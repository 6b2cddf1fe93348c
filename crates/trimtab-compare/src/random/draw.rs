//! Arrays drawn at random from a documented space.
//!
//! An array is drawn as the text of a scenario, so that one on which a strategy does badly can
//! be kept, read, and run again by itself.

use std::fmt::Write as _;

use trimtab_device::{Profile, Scope};
use trimtab_io::{SplitMix64, derived_seed};

/// A drawn array.
#[derive(Clone, Debug)]
pub struct RandomArray {
    /// Its number in its series, from 0.
    pub number: u64,
    /// The scenario, in TOML, without its strategies.
    pub text: String,
    /// What was drawn, by dimension.
    pub traits: Traits,
}

/// The dimensions by which results are grouped.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Traits {
    /// The number of replicas.
    pub replicas: usize,
    /// Whether all drives have the same profile.
    pub alike: bool,
    /// The first drive's profile.
    pub profile: String,
    /// Time of a page read of the first drive's flash, µs.
    pub read_us: f64,
    /// The estimated utilisation of the busiest drive, 0 to 1.
    pub utilisation: f64,
    /// Share of reads among the requests, 0 to 1.
    pub read_share: f64,
    /// Bytes of the most frequent read.
    pub read_bytes: u64,
    /// Cost of a failover, µs.
    pub failover_us: f64,
    /// Kind of the arrivals.
    pub arrivals: &'static str,
    /// What happens to a drive in phase two.
    pub event: &'static str,
}

/// Reads of phase one and of phase two, of all drives together.
const READS: (u64, u64) = (25_000, 25_000);

/// Draws from the space.
struct Draw(SplitMix64);

impl Draw {
    fn chance(&mut self, probability: f64) -> bool {
        self.0.unit() <= probability
    }

    fn uniform(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.0.unit()
    }

    /// Uniform in the logarithm.
    fn scale(&mut self, least: f64, most: f64) -> f64 {
        self.uniform(least.ln(), most.ln()).exp()
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.0.next() % of.len() as u64) as usize]
    }
}

/// Three significant digits: figures of a scenario are to be read.
fn round(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let unit = 10_f64.powi(2 - value.abs().log10().floor() as i32);
    (value * unit).round() / unit
}

/// Reads and writes of a workload, per request.
#[derive(Clone)]
struct Mix {
    read_share: f64,
    reads: Vec<(u64, u32)>,
    writes: Vec<(u64, u32)>,
    offsets: String,
}

/// How requests arrive, relative to their mean rate.
#[derive(Clone, Copy)]
enum Pattern {
    Poisson,
    Bursty { on: f64, off: f64, on_ms: f64, off_ms: f64 },
}

/// The `number`th array of the series with this seed.
#[must_use]
pub fn random_array(seed: u64, number: u64) -> RandomArray {
    let mut draw = Draw(SplitMix64::new(derived_seed(seed, number)));
    let replicas = 2 + (draw.0.next() % 7) as usize;
    let alike = draw.chance(0.5);
    let first = drive(&mut draw);
    let mut profiles = vec![first.clone()];
    while profiles.len() < replicas {
        let next = if alike {
            first.clone()
        } else if draw.chance(0.5) {
            drive(&mut draw)
        } else {
            profiles[profiles.len() - 1].clone()
        };
        profiles.push(next);
    }
    let failover_us = if draw.chance(0.25) { 0.0 } else { round(draw.scale(1.0, 1000.0)) };
    let utilisation = draw.uniform(0.01, 0.95);
    let shared = mix(&mut draw);
    let pattern = pattern(&mut draw, utilisation);
    let own_workloads = draw.chance(0.3);
    let mut devices = String::new();
    let mut busiest: f64 = 0.0;
    for profile in &profiles {
        let (mix, share) = if own_workloads {
            (mix(&mut draw), draw.uniform(0.3, 1.0))
        } else {
            (shared.clone(), 1.0)
        };
        busiest = busiest.max(share * utilisation);
        let iops = share * utilisation / profile.demand(&mix);
        let workload = workload(&mix, pattern, iops);
        let Drive { text, .. } = profile;
        write!(devices, "\n[[device]]\n{text}workload = {workload}\n").expect("a string grows");
    }
    let correlated = draw.chance(0.5);
    let text = format!(
        "# Array {number} of the series {seed}.\n\
         seeds = [{}]\n\
         phase_one = {{ reads = {} }}\n\
         phase_two = {{ reads = {} }}\n\
         correlated_bursts = {correlated}\n\
         refusal_samples = 0\n\
         costs.failover_us = {failover_us}\n\
         {devices}",
        1 + number,
        READS.0,
        READS.1,
    );
    let traits = Traits {
        replicas,
        alike,
        profile: first.profile.name.clone(),
        read_us: first.profile.timing.read_us,
        utilisation: busiest,
        read_share: shared.read_share,
        read_bytes: shared.reads[0].0,
        failover_us,
        arrivals: match pattern {
            Pattern::Poisson => "poisson",
            Pattern::Bursty { .. } => "bursty",
        },
        event: "none",
    };
    RandomArray { number, text, traits }
}

/// A drive: the text of its keys, and what is estimated from its profile.
#[derive(Clone)]
struct Drive {
    text: String,
    profile: Profile,
    /// Share of the drive that is aged data, 0 to 1.
    aged: f64,
}

fn drive(draw: &mut Draw) -> Drive {
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
    let mut bytes = draw.pick(&[1_u64, 2, 4]) << 30;
    let profile = loop {
        match profile.clone().with_capacity(bytes) {
            Ok(sized) => break sized,
            Err(_) => bytes *= 2,
        }
    };
    let (share, kind, aged) = if draw.chance(0.75) {
        let share = round(draw.uniform(0.5, 1.0));
        (share, "aged", share)
    } else {
        (if draw.chance(0.7) { 1.0 } else { 0.0 }, "sequential", 0.0)
    };
    let depth = draw.pick(&[32, 64, 128, 256]);
    let text = format!(
        "profile = \"{}\"\n{overrides}capacity = \"{}G\"\n\
         fill = {{ share = {share}, kind = \"{kind}\" }}\nhost = {{ queue_depth = {depth} }}\n",
        base.name,
        bytes >> 30,
    );
    Drive { text, profile, aged }
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

fn mix(draw: &mut Draw) -> Mix {
    let read_share = if draw.chance(0.25) { 1.0 } else { round(draw.uniform(0.1, 0.98)) };
    let mut sizes = || {
        let size = |draw: &mut Draw, most: f64| 512 << (draw.uniform(0.0, most) as u64);
        // Mostly of up to 64 KiB, some of up to 1 MiB.
        let mut sizes = vec![(size(draw, 8.0), 3)];
        if draw.chance(0.3) {
            let other = size(draw, 12.0);
            if other != sizes[0].0 {
                sizes.push((other, 1));
            }
        }
        sizes
    };
    let (reads, writes) = (sizes(), sizes());
    let offsets = match draw.pick(&[0, 0, 1, 2]) {
        0 => "{ kind = \"uniform\" }".to_owned(),
        1 => format!("{{ kind = \"zipf\", theta = {} }}", round(draw.uniform(0.5, 1.2))),
        _ => "{ kind = \"uniform\" }".to_owned(),
    };
    Mix { read_share, reads, writes, offsets }
}

fn pattern(draw: &mut Draw, utilisation: f64) -> Pattern {
    if draw.chance(0.5) {
        return Pattern::Poisson;
    }
    let (on_ms, off_ms) = (round(draw.scale(10.0, 2000.0)), round(draw.scale(10.0, 10_000.0)));
    let busy = on_ms / (on_ms + off_ms);
    // The rate of a burst, as a multiple of the mean: rarely more than the drives can serve.
    let most = if draw.chance(0.2) { 1.5 } else { 0.95 } / utilisation;
    let on = draw.uniform(1.0, 20.0).min(most.max(1.0)).min(1.0 / busy);
    let off = (1.0 - on * busy) / (1.0 - busy);
    Pattern::Bursty { on, off: off.max(0.0), on_ms, off_ms }
}

fn workload(mix: &Mix, pattern: Pattern, iops: f64) -> String {
    let arrivals = match pattern {
        Pattern::Poisson => format!("{{ kind = \"poisson\", iops = {} }}", round(iops)),
        Pattern::Bursty { on, off, on_ms, off_ms } => format!(
            "{{ kind = \"bursty\", on_iops = {}, off_iops = {}, on_ms = {on_ms}, off_ms = {off_ms} }}",
            round(on * iops),
            round(off * iops),
        ),
    };
    let list = |sizes: &[(u64, u32)]| {
        let of = |(bytes, weight): &(u64, u32)| format!("{{ bytes = {bytes}, weight = {weight} }}");
        sizes.iter().map(of).collect::<Vec<_>>().join(", ")
    };
    let writes = match mix.read_share < 1.0 {
        true => format!(", write_sizes = [{}]", list(&mix.writes)),
        false => String::new(),
    };
    format!(
        "{{ read_share = {}, sizes = [{}]{writes}, offsets = {}, arrivals = {arrivals} }}",
        mix.read_share,
        list(&mix.reads),
        mix.offsets
    )
}

impl Drive {
    /// The estimated time that a request keeps the drive's busiest part occupied, divided by
    /// the number of such parts, s: the reciprocal of the drive's throughput. Cleaning is
    /// estimated by the write amplification of greedy cleaning under random writes.
    fn demand(&self, mix: &Mix) -> f64 {
        let (geometry, timing) = (&self.profile.geometry, &self.profile.timing);
        let page = f64::from(geometry.page_bytes);
        let channels = f64::from(geometry.channels);
        let dies_per_channel = f64::from(geometry.chips_per_channel * geometry.dies_per_chip);
        let mean = |sizes: &[(u64, u32)], of: &dyn Fn(f64) -> f64| {
            let weight: f64 = sizes.iter().map(|&(_, weight)| f64::from(weight)).sum();
            sizes.iter().map(|&(bytes, w)| f64::from(w) * of(bytes as f64)).sum::<f64>() / weight
        };
        let pages = |bytes: f64| (bytes / page).ceil();
        let write_share = 1.0 - mix.read_share;
        let (reads, writes) =
            (mix.read_share * mean(&mix.reads, &pages), write_share * mean(&mix.writes, &pages));
        let used = self.aged * (1.0 - geometry.over_provisioning);
        let spare = (1.0 - used) / used.max(1e-9);
        let amplification =
            if self.aged > 0.0 { ((1.0 + spare) / (2.0 * spare)).max(1.0) } else { 1.0 };
        let pattern = timing.program_pattern_us.as_ref();
        let program = timing
            .program_us
            .or_else(|| pattern.map(|pattern| pattern.iter().sum::<f64>() / pattern.len() as f64));
        let program = program.unwrap_or_default();
        let transfer = page / timing.channel_mb_s;
        let moved = (amplification - 1.0) * writes;
        // Cleaning keeps other dies idle as well.
        let held = match self.profile.gc.blocks {
            Scope::Plane | Scope::Die => 1.0,
            Scope::Channel => dies_per_channel,
            Scope::Controller => dies_per_channel * channels,
        };
        let erases = amplification * writes / f64::from(geometry.pages_per_block);
        let cleaning = moved * (timing.read_us + program) + erases * timing.erase_us;
        let dies = reads * timing.read_us + writes * program + cleaning * held;
        let bus = (reads + writes + 2.0 * moved) * transfer;
        let link = |bytes: f64| bytes;
        let bytes =
            mix.read_share * mean(&mix.reads, &link) + write_share * mean(&mix.writes, &link);
        let host = if timing.host_link_mb_s > 0.0 { bytes / timing.host_link_mb_s } else { 0.0 };
        (dies / (channels * dies_per_channel)).max(bus / channels).max(host).max(1e-3) / 1e6
    }
}
