//! A synthetic recording of a drive that can be learnt.

use std::fmt::Write as _;

/// Deterministic pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % most
    }
}

/// A recording in MSR format: `reads` reads, and a third as many writes, in bursts, on a drive
/// (`srv.0`) of eight units that serve one request at a time and pause for 2 ms now and then,
/// five times as often in busy times.
pub(crate) fn recording(reads: usize, seed: u64, busy: bool) -> String {
    let mut numbers = Numbers(seed);
    // In the format's unit of 100 ns.
    let (mut now, mut free) = (128_166_372_000_000_000_u64, [0; 8]);
    let (mut text, mut left) = (String::new(), reads);
    while left > 0 {
        let burst = numbers.below(100) < 90;
        now += 1 + numbers.below(if burst { 250 } else { 4_000 });
        let page = numbers.below(1 << 14);
        let write = numbers.below(4) == 0;
        let free = &mut free[page as usize % 8];
        let pause = if numbers.below(if busy { 30 } else { 150 }) == 0 { 20_000 } else { 0 };
        *free = now.max(*free) + 700 + numbers.below(100) + pause;
        let (op, done) = if write { ("Write", now + 300) } else { ("Read", *free) };
        left -= usize::from(!write);
        let (offset, response) = (page * 4096, done - now);
        writeln!(text, "{now},srv,0,{op},{offset},4096,{response}").unwrap();
    }
    text
}
