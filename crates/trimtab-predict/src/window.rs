//! Sums over the last while.

use trimtab_io::Nanos;

/// A sum over about the last `2^shift` nanoseconds: of the stretch of that length
/// that is going on, and of the one before, as far as the window still reaches
/// into it. Two numbers instead of a list, and integers throughout, so that a
/// kernel can keep the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    shift: u32,
    /// The number of the stretch that `current` is of.
    stretch: u64,
    current: u32,
    before: u32,
}

impl Window {
    pub(crate) const fn new(shift: u32) -> Self {
        Self { shift, stretch: 0, current: 0, before: 0 }
    }

    /// The sums of the stretch that `now` lies in, and of the one before. A clock
    /// may be behind another processor's by a little: then no time has passed.
    const fn at(&self, now: Nanos) -> (u32, u32) {
        match (now.0 >> self.shift).saturating_sub(self.stretch) {
            0 => (self.current, self.before),
            1 => (0, self.current),
            _ => (0, 0),
        }
    }

    pub(crate) const fn add(&mut self, now: Nanos, amount: u32) {
        let (current, before) = self.at(now);
        let stretch = now.0 >> self.shift;
        if stretch > self.stretch {
            self.stretch = stretch;
        }
        (self.current, self.before) = (current.saturating_add(amount), before);
    }

    pub(crate) const fn sum(&self, now: Nanos) -> u32 {
        let (current, before) = self.at(now);
        // What of the stretch before lies in the window, in 256ths.
        let past = (now.0 & ((1 << self.shift) - 1)) >> (self.shift - 8);
        current.saturating_add(((before as u64 * (256 - past)) >> 8) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_gradually() {
        let mut window = Window::new(10);
        window.add(Nanos(1000), 100);
        assert_eq!(window.sum(Nanos(1000)), 100);
        assert_eq!(window.sum(Nanos(1024)), 100);
        assert_eq!(window.sum(Nanos(1024 + 512)), 50);
        assert_eq!(window.sum(Nanos(2048)), 0);
        window.add(Nanos(1024 + 512), 7);
        assert_eq!(window.sum(Nanos(1024 + 768)), 25 + 7);
        assert_eq!(window.sum(Nanos(1 << 40)), 0);
    }
}
