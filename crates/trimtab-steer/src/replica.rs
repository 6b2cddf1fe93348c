//! Names and sets of replicas.

/// The most drives that may hold a copy of the same data.
pub const MOST_REPLICAS: usize = 8;

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
pub(crate) struct Replicas(u8);

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
        (0..MOST_REPLICAS as u8).map(Replica).filter(move |&replica| self.has(replica))
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
    /// There are none, more than [`MOST_REPLICAS`], or two alike.
    #[must_use]
    pub fn new(replicas: &[Replica]) -> Self {
        let mut seen = Replicas::NONE;
        for &replica in replicas {
            assert!(
                replica.index() < MOST_REPLICAS && !seen.has(replica),
                "two alike, or too many"
            );
            seen.add(replica);
        }
        assert!(!replicas.is_empty(), "there must be a replica");
        let mut order = Self { replicas: [Replica(0); MOST_REPLICAS], count: replicas.len() as u8 };
        order.replicas[..replicas.len()].copy_from_slice(replicas);
        order
    }

    /// `primary` first, then the other ones of `count` replicas in an order drawn from
    /// `random`, each order equally likely.
    ///
    /// # Panics
    /// `primary` is not below `count`, or `count` is above [`MOST_REPLICAS`].
    #[must_use]
    pub fn shuffled(primary: Replica, count: usize, mut random: u64) -> Self {
        assert!(primary.index() < count && count <= MOST_REPLICAS, "no such replica");
        let mut replicas = [Replica(0); MOST_REPLICAS];
        replicas[0] = primary;
        let others = (0..count as u8).map(Replica).filter(|&other| other != primary);
        for (place, other) in replicas[1..].iter_mut().zip(others) {
            *place = other;
        }
        // Fisher and Yates; eight replicas have 40,320 orders, so 64 bits suffice.
        for i in (2..count).rev() {
            let choices = i as u64;
            replicas.swap(i, 1 + (random % choices) as usize);
            random /= choices;
        }
        Self { replicas, count: count as u8 }
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
            let order = Order::shuffled(Replica(2), 4, random);
            assert_eq!(order.primary(), Replica(2));
            *seen.entry(order.replicas().to_vec()).or_default() += 1;
        }
        assert!(seen.len() == 6 && seen.values().all(|&n| n == 1000), "{seen:?}");
    }

    proptest! {
        #[test]
        fn order_has_each_replica_once(primary in 0_u8..8, more in 0_usize..8, random: u64) {
            let count = (usize::from(primary) + 1 + more).min(MOST_REPLICAS);
            let order = Order::shuffled(Replica(primary), count, random);
            prop_assert_eq!(order, Order::new(order.replicas()));
            prop_assert_eq!(order.replicas().len(), count);
        }
    }
}
