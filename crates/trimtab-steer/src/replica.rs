//! Names and sets of replicas.

use trimtab_io::mix64;

/// The most drives that may hold a copy of the same data.
pub const MOST_REPLICAS: usize = 8;
/// The most drives of an array, of which each read's data is on some.
pub const MOST_DRIVES: usize = 32;

/// One of the drives that hold a copy, by its number in the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replica(pub u8);

impl Replica {
    /// Its place in a list of all replicas.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Some of the replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replicas(u32);

impl Replicas {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn has(self, replica: Replica) -> bool {
        self.0 >> replica.0 & 1 == 1
    }

    pub(crate) const fn add(&mut self, replica: Replica) {
        self.0 |= 1 << replica.0;
    }

    pub(crate) const fn remove(&mut self, replica: Replica) {
        self.0 &= !(1 << replica.0);
    }

    pub(crate) const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Those in it, by number.
    pub(crate) fn iter(self) -> impl Iterator<Item = Replica> {
        (0..MOST_DRIVES as u8).map(Replica).filter(move |&replica| self.has(replica))
    }
}

impl FromIterator<Replica> for Replicas {
    fn from_iter<I: IntoIterator<Item = Replica>>(replicas: I) -> Self {
        let mut set = Self::NONE;
        replicas.into_iter().for_each(|replica| set.add(replica));
        set
    }
}

/// The order in which a read's replicas are asked: the primary replica first, then the
/// ones that it may fail over to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    replicas: [Replica; MOST_REPLICAS],
    count: u8,
}

impl Order {
    /// These, in this order.
    ///
    /// # Panics
    /// There are none, more than [`MOST_REPLICAS`], two alike, or one beyond [`MOST_DRIVES`].
    #[must_use]
    pub fn new(replicas: &[Replica]) -> Self {
        assert!(replicas.len() <= MOST_REPLICAS, "too many");
        let mut seen = Replicas::NONE;
        for &replica in replicas {
            assert!(replica.index() < MOST_DRIVES && !seen.has(replica), "two alike, or no drive");
            seen.add(replica);
        }
        assert!(!replicas.is_empty(), "there must be a replica");
        let mut order = Self { replicas: [Replica(0); MOST_REPLICAS], count: replicas.len() as u8 };
        order.replicas[..replicas.len()].copy_from_slice(replicas);
        order
    }

    /// `primary` first, then others of `drives` drives, together `copies` of them, in an order drawn
    /// from `random`: each choice and order is equally likely.
    ///
    /// # Panics
    /// `primary` is not below `drives`, there are more of these than [`MOST_DRIVES`], or there are no
    /// copies, more than [`MOST_REPLICAS`], or more than drives.
    #[must_use]
    pub fn shuffled(primary: Replica, drives: usize, copies: usize, random: u64) -> Self {
        assert!(primary.index() < drives && drives <= MOST_DRIVES, "no such drive");
        Self::shuffled_among(primary, (0..drives as u8).map(Replica), copies, random)
    }

    /// The same of these drives, the primary one among them, and all of them if there are fewer
    /// than `copies`.
    ///
    /// # Panics
    /// As [`shuffled`](Self::shuffled).
    #[must_use]
    pub fn shuffled_among(
        primary: Replica,
        among: impl Iterator<Item = Replica>,
        copies: usize,
        mut random: u64,
    ) -> Self {
        let mut all = [Replica(0); MOST_DRIVES];
        all[0] = primary;
        let mut drives = 1;
        for other in among.filter(|&other| other != primary) {
            all[drives] = other;
            drives += 1;
        }
        assert!((1..=MOST_REPLICAS).contains(&copies), "not as many copies");
        let copies = copies.min(drives);
        // Fisher and Yates; twenty drives have 19! orders, so 64 bits suffice for them.
        for i in (2..drives).rev() {
            let choices = i as u64;
            all.swap(i, 1 + (random % choices) as usize);
            random = if i > 20 { mix64(random) } else { random / choices };
        }
        let mut replicas = [Replica(0); MOST_REPLICAS];
        replicas[..copies].copy_from_slice(&all[..copies]);
        Self { replicas, count: copies as u8 }
    }

    /// The place of a replica in the order.
    pub(crate) fn place(&self, replica: Replica) -> Option<usize> {
        self.replicas().iter().position(|&other| other == replica)
    }

    /// The primary replica.
    #[must_use]
    pub const fn primary(&self) -> Replica {
        self.replicas[0]
    }

    /// All of them.
    #[must_use]
    pub fn replicas(&self) -> &[Replica] {
        &self.replicas[..self.count.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn orders_are_equally_likely() {
        let mut seen = std::collections::BTreeMap::<Vec<Replica>, u32>::new();
        for random in 0..6000 {
            let order = Order::shuffled(Replica(2), 4, 4, random);
            assert_eq!(order.primary(), Replica(2));
            *seen.entry(order.replicas().to_vec()).or_default() += 1;
        }
        assert!(seen.len() == 6 && seen.values().all(|&n| n == 1000), "{seen:?}");
    }

    #[test]
    fn copies_are_on_all_drives_alike() {
        let mut seen = [0_u32; 20];
        for number in 0..20_000 {
            let random = trimtab_io::SplitMix64::new(number).next();
            let order = Order::shuffled(Replica(3), 20, 3, random);
            order.replicas()[1..].iter().for_each(|replica| seen[replica.index()] += 1);
        }
        assert_eq!(seen[3], 0);
        let others = seen.iter().filter(|&&count| count > 0);
        // 40,000 of 19 drives: 2,105 of each; four standard deviations.
        assert_eq!(others.filter(|&&count| (1_920..2_290).contains(&count)).count(), 19);
    }

    proptest! {
        #[test]
        fn order_has_each_replica_once(primary in 0_u8..32, more in 0_usize..32, copies in 1_usize..9, random: u64) {
            let drives = (usize::from(primary) + 1 + more).min(MOST_DRIVES);
            let copies = copies.min(drives);
            let order = Order::shuffled(Replica(primary), drives, copies, random);
            prop_assert_eq!(order, Order::new(order.replicas()));
            prop_assert_eq!(order.replicas().len(), copies);
        }
    }
}
