//! Selection of vector instructions.
//!
//! All give results identical to the bit. A value of [`Simd`] other than [`Simd::SCALAR`] exists
//! only if the processor has the instructions, so code that holds one may use them.
//!
//! They are compiled for x86-64 with SSE2, which every such processor has; targets without it are
//! kernels, which must not use vector registers.

use core::fmt;

/// A set of vector instructions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Simd(Level);

/// In ascending order: each includes those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Scalar,
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    Avx2,
    /// F and BW: server processors from 2017.
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    Avx512,
    /// Also VNNI: from Cascade Lake, 2019.
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    Avx512Vnni,
}

impl Simd {
    /// No vector instructions.
    pub const SCALAR: Self = Self(Level::Scalar);

    /// The best that the processor has, detected once, or what the process was
    /// [limited](Self::limit) to. Without the feature `std` detection is impossible, and this is
    /// [`SCALAR`](Self::SCALAR).
    #[must_use]
    #[inline]
    pub fn best() -> Self {
        #[cfg(all(feature = "std", target_arch = "x86_64", target_feature = "sse2"))]
        {
            *BEST.get_or_init(detect)
        }
        #[cfg(not(all(feature = "std", target_arch = "x86_64", target_feature = "sse2")))]
        Self::SCALAR
    }

    /// Makes this the [best](Self::best) of the whole process: to measure, on one processor, how
    /// long a decision takes on another. Returns whether it is: the first decision settles it.
    #[cfg(feature = "std")]
    pub fn limit(self) -> bool {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        {
            *BEST.get_or_init(|| self) == self
        }
        #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
        {
            self == Self::SCALAR
        }
    }

    /// Its name in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            Level::Scalar => "scalar",
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Level::Avx2 => "avx2",
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Level::Avx512 => "avx512",
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Level::Avx512Vnni => "avx512-vnni",
        }
    }

    /// AVX2 without detection, such as in a kernel.
    ///
    /// # Safety
    /// The processor has AVX2, and its registers may be used.
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    #[must_use]
    pub const unsafe fn assume_avx2() -> Self {
        Self(Level::Avx2)
    }

    /// AVX-512 with VNNI without detection, such as in a kernel.
    ///
    /// # Safety
    /// The processor has AVX2, AVX-512 F, BW and VNNI, and its registers may be used.
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    #[must_use]
    pub const unsafe fn assume_avx512_vnni() -> Self {
        Self(Level::Avx512Vnni)
    }

    /// All that the processor has, the best last: for comparisons.
    pub fn all() -> impl Iterator<Item = Self> {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        let levels = [Level::Scalar, Level::Avx2, Level::Avx512, Level::Avx512Vnni];
        #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
        let levels = [Level::Scalar];
        #[cfg(all(feature = "std", target_arch = "x86_64", target_feature = "sse2"))]
        let best = detect();
        #[cfg(not(all(feature = "std", target_arch = "x86_64", target_feature = "sse2")))]
        let best = Self::SCALAR;
        levels.into_iter().filter(move |level| *level <= best.0).map(Self)
    }

    pub(crate) const fn level(self) -> Level {
        self.0
    }
}

/// Set once: by the first decision, or by a limit before it.
#[cfg(all(feature = "std", target_arch = "x86_64", target_feature = "sse2"))]
static BEST: std::sync::OnceLock<Simd> = std::sync::OnceLock::new();

#[cfg(all(feature = "std", target_arch = "x86_64", target_feature = "sse2"))]
fn detect() -> Simd {
    use std::arch::is_x86_feature_detected as has;

    let avx2 = has!("avx2");
    let avx512 = avx2 && has!("avx512f") && has!("avx512bw");
    let vnni = avx512 && has!("avx512vnni");
    Simd(match (avx2, avx512, vnni) {
        (_, _, true) => Level::Avx512Vnni,
        (_, true, _) => Level::Avx512,
        (true, _, _) => Level::Avx2,
        _ => Level::Scalar,
    })
}

impl fmt::Display for Simd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self.0 {
            Level::Scalar => "scalar",
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Level::Avx2 => "AVX2",
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Level::Avx512 => "AVX-512",
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Level::Avx512Vnni => "AVX-512 VNNI",
        })
    }
}

impl fmt::Debug for Simd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
