//! Sums over the last while.

use trimtab_io::Nanos;
use zerocopy::FromBytes;

/// A sum over about the last `2^shift` nanoseconds: of the stretch of that length
/// that is going on, and of the one before, as far as the window still reaches
/// into it. Two numbers instead of a list, and integers throughout, so that a
/// kernel can keep the same. The `shift` is always the same for one window.
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
    /// The sums of the stretch that `now` lies in, and of the one before. A clock
    /// may be behind another processor's by a little: then no time has passed.
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
        // What of the stretch before lies in the window, in 256ths.
        let past = (now.0 & ((1 << shift) - 1)) >> (shift - 8);
        current.saturating_add(((before as u64 * (256 - past)) >> 8) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_gradually() {
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
