//! The passes: sums, updates, and the solutions of P and Q for what is lost.

use super::MOST_MEMBERS;
use super::field::{inverse, power, product};
use super::pass::{Pass, add, double, load, store, times};
use super::vector::Vector;

/// A strip of data, which may be lost.
pub(super) trait Strip {
    fn bytes(&self) -> Option<&[u8]>;
}

impl Strip for &[u8] {
    #[inline(always)]
    fn bytes(&self) -> Option<&[u8]> {
        Some(self)
    }
}

impl Strip for Option<&[u8]> {
    #[inline(always)]
    fn bytes(&self) -> Option<&[u8]> {
        *self
    }
}

/// Requires data of one length. The passes' accesses rely on it.
fn same_length<S: Strip>(data: &[S], length: usize) {
    assert!((1..=MOST_MEMBERS).contains(&data.len()), "{} strips of data", data.len());
    for strip in data.iter().filter_map(Strip::bytes) {
        assert_eq!(strip.len(), length, "strips differ in length");
    }
}

/// The indices of the lost data.
fn lost<const N: usize>(data: &[Option<&[u8]>]) -> [usize; N] {
    let mut found = data.iter().enumerate().filter(|(_, strip)| strip.is_none());
    let lost = [(); N].map(|()| found.next().expect("data are lost").0);
    assert!(found.next().is_none(), "more than {N} strips of data are lost");
    lost
}

/// Σ Dᵢ and Σ gⁱ·Dᵢ over the data that are not lost. A sum that is not used costs nothing.
///
/// # Safety
/// The processor has the instructions of `V`, and all strips have `N * V::BYTES` bytes at `at`.
#[inline(always)]
unsafe fn sums<V: Vector, S: Strip, const N: usize>(data: &[S], at: usize) -> ([V; N], [V; N]) {
    // SAFETY: the caller guarantees the instructions.
    let (mut p, mut q) = unsafe { ([V::zero(); N], [V::zero(); N]) };
    for (index, strip) in data.iter().enumerate().rev() {
        if let Some(strip) = strip.bytes() {
            // SAFETY: the caller guarantees instructions and bytes.
            let vectors = unsafe { load(strip, at) };
            add(&mut p, vectors);
            add(&mut q, vectors);
        }
        if index > 0 {
            double(&mut q);
        }
    }
    (p, q)
}

/// P and Q of data, or one of them.
pub(super) struct Sums<'a, S, const P: bool, const Q: bool> {
    data: &'a [S],
    p: &'a mut [u8],
    q: &'a mut [u8],
    length: usize,
}

impl<'a, S: Strip, const P: bool, const Q: bool> Sums<'a, S, P, Q> {
    pub(super) fn new(data: &'a [S], p: &'a mut [u8], q: &'a mut [u8]) -> Self {
        let length = if P { p.len() } else { q.len() };
        same_length(data, length);
        assert!(!Q || q.len() == length, "strips differ in length");
        Self { data, p, q, length }
    }
}

// SAFETY: `new` checks the lengths of the strips that are used.
unsafe impl<S: Strip, const P: bool, const Q: bool> Pass for Sums<'_, S, P, Q> {
    fn length(&self) -> usize {
        self.length
    }

    #[inline(always)]
    unsafe fn block<V: Vector, const N: usize>(&mut self, at: usize) {
        // SAFETY: the caller guarantees instructions and bytes.
        unsafe {
            let (p, q) = sums::<V, S, N>(self.data, at);
            if P {
                store(p, self.p, at);
            }
            if Q {
                store(q, self.q, at);
            }
        }
    }
}

/// P or Q or both after a change of one strip: + (old + new), and + gⁱ·(old + new).
pub(super) struct Update<'a, const P: bool, const Q: bool> {
    factor: u8,
    old: &'a [u8],
    new: &'a [u8],
    p: &'a mut [u8],
    q: &'a mut [u8],
}

impl<'a, const P: bool, const Q: bool> Update<'a, P, Q> {
    pub(super) fn new(
        index: usize,
        old: &'a [u8],
        new: &'a [u8],
        p: &'a mut [u8],
        q: &'a mut [u8],
    ) -> Self {
        assert!(index < MOST_MEMBERS, "data {index}");
        same_length(&[old], new.len());
        assert!(!P || p.len() == new.len(), "strips differ in length");
        assert!(!Q || q.len() == new.len(), "strips differ in length");
        Self { factor: power(index), old, new, p, q }
    }
}

// SAFETY: `new` checks the lengths of the strips that are used.
unsafe impl<const P: bool, const Q: bool> Pass for Update<'_, P, Q> {
    fn length(&self) -> usize {
        self.new.len()
    }

    #[inline(always)]
    unsafe fn block<V: Vector, const N: usize>(&mut self, at: usize) {
        // SAFETY: the caller guarantees instructions and bytes.
        unsafe {
            let mut change = load::<V, N>(self.old, at);
            add(&mut change, load(self.new, at));
            if P {
                let mut p = load(self.p, at);
                add(&mut p, change);
                store(p, self.p, at);
            }
            if Q {
                let mut q = load(self.q, at);
                add(&mut q, times(change, self.factor));
                store(q, self.q, at);
            }
        }
    }
}

/// One strip of data from P: P + Σ Dᵢ. And Q, if it is lost.
pub(super) struct FromP<'a, const Q: bool> {
    data: &'a [Option<&'a [u8]>],
    p: &'a [u8],
    lost: &'a mut [u8],
    q: &'a mut [u8],
    /// Of the lost data in Q.
    factor: u8,
}

impl<'a, const Q: bool> FromP<'a, Q> {
    pub(super) fn new(
        data: &'a [Option<&'a [u8]>],
        p: &'a [u8],
        lost: &'a mut [u8],
        q: &'a mut [u8],
    ) -> Self {
        same_length(data, p.len());
        assert_eq!(lost.len(), p.len(), "strips differ in length");
        assert!(!Q || q.len() == p.len(), "strips differ in length");
        let [x] = self::lost(data);
        Self { data, p, lost, q, factor: power(x) }
    }
}

// SAFETY: `new` checks the lengths of the strips that are used.
unsafe impl<const Q: bool> Pass for FromP<'_, Q> {
    fn length(&self) -> usize {
        self.p.len()
    }

    #[inline(always)]
    unsafe fn block<V: Vector, const N: usize>(&mut self, at: usize) {
        // SAFETY: the caller guarantees instructions and bytes.
        unsafe {
            let (mut lost, mut q) = sums::<V, _, N>(self.data, at);
            add(&mut lost, load(self.p, at));
            store(lost, self.lost, at);
            if Q {
                add(&mut q, times(lost, self.factor));
                store(q, self.q, at);
            }
        }
    }
}

/// One strip of data from Q: (Q + Σ gⁱ·Dᵢ) / gˣ. And P, if it is lost.
pub(super) struct FromQ<'a, const P: bool> {
    data: &'a [Option<&'a [u8]>],
    q: &'a [u8],
    lost: &'a mut [u8],
    p: &'a mut [u8],
    /// 1/gˣ.
    factor: u8,
}

impl<'a, const P: bool> FromQ<'a, P> {
    pub(super) fn new(
        data: &'a [Option<&'a [u8]>],
        q: &'a [u8],
        lost: &'a mut [u8],
        p: &'a mut [u8],
    ) -> Self {
        same_length(data, q.len());
        assert_eq!(lost.len(), q.len(), "strips differ in length");
        assert!(!P || p.len() == q.len(), "strips differ in length");
        let [x] = self::lost(data);
        Self { data, q, lost, p, factor: inverse(power(x)) }
    }
}

// SAFETY: `new` checks the lengths of the strips that are used.
unsafe impl<const P: bool> Pass for FromQ<'_, P> {
    fn length(&self) -> usize {
        self.q.len()
    }

    #[inline(always)]
    unsafe fn block<V: Vector, const N: usize>(&mut self, at: usize) {
        // SAFETY: the caller guarantees instructions and bytes.
        unsafe {
            let (mut p, mut q) = sums::<V, _, N>(self.data, at);
            add(&mut q, load(self.q, at));
            let lost = times(q, self.factor);
            store(lost, self.lost, at);
            if P {
                add(&mut p, lost);
                store(p, self.p, at);
            }
        }
    }
}

/// Two strips of data, x and y, from P and Q. With A = P + Σ Dᵢ and B = Q + Σ gⁱ·Dᵢ:
///
/// ```text
///      Dx +      Dy = A              Dx = (gʸ·A + B) / (gˣ + gʸ)
///   gˣ·Dx +   gʸ·Dy = B              Dy = A + Dx
/// ```
pub(super) struct TwoData<'a> {
    data: &'a [Option<&'a [u8]>],
    p: &'a [u8],
    q: &'a [u8],
    x: &'a mut [u8],
    y: &'a mut [u8],
    /// gʸ / (gˣ + gʸ).
    of_a: u8,
    /// 1 / (gˣ + gʸ).
    of_b: u8,
}

impl<'a> TwoData<'a> {
    pub(super) fn new(
        data: &'a [Option<&'a [u8]>],
        p: &'a [u8],
        q: &'a [u8],
        lost: [&'a mut [u8]; 2],
    ) -> Self {
        let [x, y] = lost;
        same_length(data, p.len());
        for length in [q.len(), x.len(), y.len()] {
            assert_eq!(length, p.len(), "strips differ in length");
        }
        let [gx, gy] = self::lost(data).map(power);
        let of_b = inverse(gx ^ gy);
        Self { data, p, q, x, y, of_a: product(gy, of_b), of_b }
    }
}

// SAFETY: `new` checks the lengths of all strips.
unsafe impl Pass for TwoData<'_> {
    fn length(&self) -> usize {
        self.p.len()
    }

    #[inline(always)]
    unsafe fn block<V: Vector, const N: usize>(&mut self, at: usize) {
        // SAFETY: the caller guarantees instructions and bytes.
        unsafe {
            let (mut a, mut b) = sums::<V, _, N>(self.data, at);
            add(&mut a, load(self.p, at));
            add(&mut b, load(self.q, at));
            let mut x = times(a, self.of_a);
            add(&mut x, times(b, self.of_b));
            store(x, self.x, at);
            add(&mut a, x);
            store(a, self.y, at);
        }
    }
}
