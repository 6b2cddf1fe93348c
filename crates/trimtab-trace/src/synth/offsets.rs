//! Offset distributions.

use super::random::Random;
use super::spec::{self, Spec};
use super::zipf::Zipf;

/// Draws offsets for given lengths.
#[derive(Clone, Debug)]
pub(super) struct Offsets {
    pattern: Pattern,
    align: u64,
    capacity: u64,
    /// Multiples of `align` at which the largest request fits.
    blocks: u64,
    random: Random,
}

#[derive(Clone, Debug)]
enum Pattern {
    Uniform,
    Zipf { ranks: Zipf, scatter: Scatter },
    Sequential { streams: Vec<Stream>, run: u64 },
}

/// A stream: its next offset and the requests left in its run.
#[derive(Clone, Debug, Default)]
struct Stream {
    next: u64,
    left: u64,
}

/// A bijection from ranks to blocks, in steps of the golden ratio of the device: of all constant
/// steps the one that keeps the first k blocks, for every k, farthest apart.
#[derive(Clone, Debug)]
struct Scatter {
    blocks: u64,
    step: u64,
    shift: u64,
}

impl Scatter {
    fn new(blocks: u64, shift: u64) -> Self {
        const GOLDEN: u128 = 0x9e37_79b9_7f4a_7c15;
        let near = ((u128::from(blocks) * GOLDEN) >> 64) as u64;
        // Coprime steps reach every block before repeating one.
        let step = (near.max(1)..).find(|&step| gcd(step, blocks) == 1).unwrap_or(1);
        Self { blocks, step, shift }
    }

    const fn block(&self, rank: u64) -> u64 {
        let walked = rank as u128 * self.step as u128 + self.shift as u128;
        (walked % self.blocks as u128) as u64
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Offsets {
    /// `spec` was checked for a device of `capacity` bytes.
    pub(super) fn new(spec: &Spec, capacity: u64, mut random: Random) -> Self {
        let align = spec.align_bytes;
        let sizes = spec.sizes.iter().chain(&spec.write_sizes);
        let largest = sizes.map(|size| size.bytes).max().unwrap_or(align);
        let blocks = (capacity - largest) / align + 1;
        let pattern = match spec.offsets {
            spec::Offsets::Uniform {} => Pattern::Uniform,
            spec::Offsets::Zipf { theta } => Pattern::Zipf {
                ranks: Zipf::new(blocks, theta),
                scatter: Scatter::new(blocks, random.below(blocks)),
            },
            spec::Offsets::Sequential { streams, run_requests } => Pattern::Sequential {
                streams: vec![Stream::default(); streams as usize],
                run: if run_requests == 0 { u64::MAX } else { run_requests },
            },
        };
        Self { pattern, align, capacity, blocks, random }
    }

    #[inline]
    pub(super) fn next(&mut self, length: u64) -> u64 {
        let random = &mut self.random;
        match &mut self.pattern {
            Pattern::Uniform => random.below(self.blocks) * self.align,
            Pattern::Zipf { ranks, scatter } => scatter.block(ranks.rank(random)) * self.align,
            Pattern::Sequential { streams, run } => {
                let chosen = random.below(streams.len() as u64) as usize;
                let stream = &mut streams[chosen];
                if stream.left == 0 || stream.next + length > self.capacity {
                    stream.next = random.below(self.blocks) * self.align;
                    stream.left = *run;
                }
                let offset = stream.next;
                stream.next += length;
                stream.left -= 1;
                offset
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scatter_is_a_bijection_with_distant_hot_blocks() {
        for blocks in [1, 2, 3, 10, 1000, 1024, 30_030] {
            let scatter = Scatter::new(blocks, blocks / 3);
            let mut reached: Vec<_> = (1..=blocks).map(|rank| scatter.block(rank)).collect();
            let mut hot = reached[..(blocks as usize).min(20)].to_vec();
            reached.sort_unstable();
            assert!(reached.into_iter().eq(0..blocks));
            hot.sort_unstable();
            let closest = hot.windows(2).map(|pair| pair[1] - pair[0]).min();
            assert!(closest.is_none_or(|gap| gap >= blocks / 60), "{blocks}: {closest:?}");
        }
    }
}
