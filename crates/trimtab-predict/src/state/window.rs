//! Sums over sliding windows of time.

use trimtab_io::Nanos;
use zerocopy::FromBytes;

/// A sum over about the last `2^shift` nanoseconds.
///
/// Time is cut into stretches of that length. The window counts the current stretch, and
/// the one before by the share of it that the window still covers. It takes two integers
/// instead of a list, so that the kernel can compute the same. A window is always used with
/// the same `shift`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes)]
#[repr(C)]
pub struct Window {
    /// The number of the stretch that `current` is of.
    pub stretch: u64,
    /// The sum of that stretch.
    pub current: u32,
    /// The sum of the one before.
    pub before: u32,
}

const _: () = assert!(size_of::<Window>() == 16);

impl Window {
    /// The sums of the stretch that `now` lies in, and of the one before. A clock that is
    /// slightly behind another processor's counts as no time passed.
    const fn at(&self, shift: u32, now: Nanos) -> (u32, u32) {
        match (now.0 >> shift).saturating_sub(self.stretch) {
            0 => (self.current, self.before),
            1 => (0, self.current),
            _ => (0, 0),
        }
    }

    pub(crate) const fn add(&mut self, shift: u32, now: Nanos, amount: u32) {
        let (current, before) = self.at(shift, now);
        let stretch = now.0 >> shift;
        if stretch > self.stretch {
            self.stretch = stretch;
        }
        (self.current, self.before) = (current.saturating_add(amount), before);
    }

    /// The sum over the `2^shift` nanoseconds before `now`.
    #[must_use]
    pub const fn sum(&self, shift: u32, now: Nanos) -> u32 {
        let (current, before) = self.at(shift, now);
        // The share of the stretch before that has left the window, in 256ths.
        let past = (now.0 & ((1 << shift) - 1)) >> (shift - 8);
        current.saturating_add(((before as u64 * (256 - past)) >> 8) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previous_stretch_counts_by_its_share() {
        let mut window = Window::default();
        window.add(10, Nanos(1000), 100);
        assert_eq!(window.sum(10, Nanos(1000)), 100);
        assert_eq!(window.sum(10, Nanos(1024)), 100);
        assert_eq!(window.sum(10, Nanos(1024 + 512)), 50);
        assert_eq!(window.sum(10, Nanos(2048)), 0);
        window.add(10, Nanos(1024 + 512), 7);
        assert_eq!(window.sum(10, Nanos(1024 + 768)), 25 + 7);
        assert_eq!(window.sum(10, Nanos(1 << 40)), 0);
    }
}
