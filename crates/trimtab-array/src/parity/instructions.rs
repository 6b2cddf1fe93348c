//! Selection of vector instructions.

use super::pass::{Pass, run};
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use super::x86;

/// A set of instructions. A value other than `PORTABLE` exists only if the processor has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instructions(Set);

/// In ascending order: each includes those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Set {
    Portable,
    /// Processors from 2006 (Intel), 2011 (AMD).
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    Ssse3,
    /// From 2013, 2015.
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    Avx2,
    /// AVX-512 F and BW with GFNI: from 2019, 2022. Those with AVX-512 but without GFNI slow down
    /// at 512 bits, so they use AVX2.
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    Avx512,
}

impl Instructions {
    pub(super) const PORTABLE: Self = Self(Set::Portable);

    /// The best that the processor has.
    #[inline]
    pub(super) fn best() -> Self {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        {
            static BEST: std::sync::OnceLock<Instructions> = std::sync::OnceLock::new();
            *BEST.get_or_init(detect)
        }
        #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
        Self::PORTABLE
    }

    /// All that the processor has, the best last.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        let sets = [Set::Portable, Set::Ssse3, Set::Avx2, Set::Avx512];
        #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
        let sets = [Set::Portable];
        sets.into_iter().filter(|set| *set <= Self::best().0).map(Self)
    }

    pub(super) const fn name(self) -> &'static str {
        match self.0 {
            Set::Portable => "portable",
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Set::Ssse3 => "SSSE3",
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Set::Avx2 => "AVX2",
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Set::Avx512 => "AVX-512 GFNI",
        }
    }

    /// Runs a pass over its strips.
    pub(super) fn run(self, mut pass: impl Pass) {
        match self.0 {
            // SAFETY: every processor has 64-bit integers.
            Set::Portable => unsafe { run::<u64>(&mut pass) },
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            // SAFETY: the processor has SSSE3, as the value exists.
            Set::Ssse3 => unsafe { x86::ssse3(&mut pass) },
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            // SAFETY: the processor has AVX2, as the value exists.
            Set::Avx2 => unsafe { x86::avx2(&mut pass) },
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            // SAFETY: the processor has AVX-512 F, BW and GFNI, as the value exists.
            Set::Avx512 => unsafe { x86::avx512(&mut pass) },
        }
    }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
fn detect() -> Instructions {
    use std::arch::is_x86_feature_detected as has;

    let ssse3 = has!("ssse3");
    let avx2 = ssse3 && has!("avx2");
    let avx512 = avx2 && has!("avx512f") && has!("avx512bw") && has!("gfni");
    Instructions(match (ssse3, avx2, avx512) {
        (_, _, true) => Set::Avx512,
        (_, true, _) => Set::Avx2,
        (true, _, _) => Set::Ssse3,
        _ => Set::Portable,
    })
}
