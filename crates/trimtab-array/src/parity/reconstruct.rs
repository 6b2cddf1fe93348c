//! Whatever was lost of a stripe, by the method for it.

use super::{MOST_MEMBERS, Parity};

/// More strips are lost than the stripe has parities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{lost} strips of a stripe are lost, more than its parities ({parities}) can restore")]
pub struct TooManyLost {
    /// The number of lost strips.
    pub lost: u32,
    /// The parities of the stripe.
    pub parities: usize,
}

impl Parity {
    /// Computes all lost strips of a stripe from the others. `strips` are the data in the order of
    /// their index, as many as `data`, then P, then Q if there is one. Bit i of `lost` is set where
    /// `strips[i]` is lost: what it holds is not read.
    ///
    /// # Errors
    /// More strips are lost than there are parities. None is changed.
    ///
    /// # Panics
    /// As the other methods, and if there are no parities or more than two, or if `lost` has bits
    /// beyond the strips.
    pub fn reconstruct(
        self,
        strips: &mut [&mut [u8]],
        data: usize,
        lost: u32,
    ) -> Result<(), TooManyLost> {
        assert!(strips.len() <= MOST_MEMBERS, "{} strips", strips.len());
        assert!(u64::from(lost) < 1 << strips.len(), "{lost:#b} lost of {}", strips.len());
        let (data, parities) = strips.split_at_mut(data);
        if lost.count_ones() as usize > parities.len() {
            return Err(TooManyLost { lost: lost.count_ones(), parities: parities.len() });
        }
        let is_lost = |strip: usize| u64::from(lost) >> strip & 1 == 1;
        let (p_lost, q_lost) = (is_lost(data.len()), is_lost(data.len() + 1));

        let mut present: [Option<&[u8]>; MOST_MEMBERS] = [None; MOST_MEMBERS];
        let present = &mut present[..data.len()];
        let (mut first, mut second) = (None, None);
        for (index, strip) in data.iter_mut().enumerate() {
            if !is_lost(index) {
                present[index] = Some(strip);
            } else if first.is_none() {
                first = Some(strip);
            } else {
                second = Some(strip);
            }
        }
        match (parities, first, second) {
            ([_] | [_, _], None, _) if !p_lost && !q_lost => {}
            ([p], None, _) => self.sums_p(present, p),
            ([p], Some(x), None) => self.data_from_p(present, p, x),
            ([p, q], None, _) if p_lost && q_lost => self.sums(present, p, q),
            ([p, _], None, _) if p_lost => self.sums_p(present, p),
            ([_, q], None, _) => self.sums_q(present, q),
            ([p, q], Some(x), None) if p_lost => self.data_and_p(present, q, x, p),
            ([p, q], Some(x), None) if q_lost => self.data_and_q(present, p, x, q),
            ([p, _], Some(x), None) => self.data_from_p(present, p, x),
            ([p, q], Some(x), Some(y)) => self.two_data(present, p, q, [x, y]),
            (parities, ..) => panic!("{} parities", parities.len()),
        }
        Ok(())
    }
}
