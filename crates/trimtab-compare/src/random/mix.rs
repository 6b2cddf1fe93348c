//! The workloads of random arrays.

use super::draw::{Draw, round};

/// Reads and writes of a workload, per request.
#[derive(Clone, Debug)]
pub(super) struct Mix {
    pub(super) read_share: f64,
    /// Bytes and weights.
    pub(super) reads: Vec<(u64, u32)>,
    pub(super) writes: Vec<(u64, u32)>,
    pub(super) offsets: String,
}

/// How requests arrive, relative to their mean rate.
#[derive(Clone, Copy)]
pub(super) enum Pattern {
    Poisson,
    Bursty { on: f64, off: f64, on_ms: f64, off_ms: f64 },
}

/// The most bytes that are written for each read, in the mean, and the shortest request.
const WRITTEN: f64 = 65_536.0;
const SECTOR: u64 = 512;

/// Draws a mix.
pub(super) fn mix(draw: &mut Draw) -> Mix {
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
    let (reads, mut writes) = (sizes(), sizes());
    // Large writes among few reads would take hours to simulate, and wear the drive out.
    let mean = |sizes: &[(u64, u32)]| {
        let weight: u32 = sizes.iter().map(|size| size.1).sum();
        sizes.iter().map(|&(bytes, w)| bytes as f64 * f64::from(w)).sum::<f64>() / f64::from(weight)
    };
    while mean(&writes) * (1.0 - read_share) / read_share > WRITTEN
        && writes.iter().any(|size| size.0 > SECTOR)
    {
        writes.iter_mut().for_each(|size| size.0 = (size.0 / 2).max(SECTOR));
    }
    let offsets = match draw.pick(&[0, 0, 1, 2]) {
        0 => "{ kind = \"uniform\" }".to_owned(),
        1 => format!("{{ kind = \"zipf\", theta = {} }}", round(draw.uniform(0.5, 1.2))),
        _ => "{ kind = \"uniform\" }".to_owned(),
    };
    Mix { read_share, reads, writes, offsets }
}

/// Draws a pattern for this utilisation.
pub(super) fn pattern(draw: &mut Draw, utilisation: f64) -> Pattern {
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

impl Pattern {
    /// Arrivals of so many requests per second in the mean, in TOML.
    pub(super) fn arrivals(self, iops: f64) -> String {
        match self {
            Self::Poisson => format!("{{ kind = \"poisson\", iops = {} }}", round(iops)),
            Self::Bursty { on, off, on_ms, off_ms } => format!(
                "{{ kind = \"bursty\", on_iops = {}, off_iops = {}, on_ms = {on_ms}, \
                 off_ms = {off_ms} }}",
                round(on * iops),
                round(off * iops),
            ),
        }
    }
}

impl Mix {
    /// A workload with these arrivals, in TOML.
    pub(super) fn workload(&self, arrivals: &str) -> String {
        let list = |sizes: &[(u64, u32)]| {
            let of =
                |(bytes, weight): &(u64, u32)| format!("{{ bytes = {bytes}, weight = {weight} }}");
            sizes.iter().map(of).collect::<Vec<_>>().join(", ")
        };
        let writes = match self.read_share < 1.0 {
            true => format!(", write_sizes = [{}]", list(&self.writes)),
            false => String::new(),
        };
        format!(
            "{{ read_share = {}, sizes = [{}]{writes}, offsets = {}, arrivals = {arrivals} }}",
            self.read_share,
            list(&self.reads),
            self.offsets
        )
    }
}
