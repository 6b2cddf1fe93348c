//! Every set of instructions against bytes and textbook multiplication.

use proptest::prelude::*;

use super::*;

/// Multiplication as for integers, without carries, then the remainder modulo 0x11d: shares
/// nothing with the implementations.
fn product(a: u8, b: u8) -> u8 {
    let mut sum =
        (0..8).filter(|bit| b >> bit & 1 == 1).fold(0, |sum, bit| sum ^ u16::from(a) << bit);
    for bit in (8..16).rev() {
        if sum >> bit & 1 == 1 {
            sum ^= 0x11d << (bit - 8);
        }
    }
    sum as u8
}

fn reference(data: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
    let length = data[0].len();
    let p = (0..length).map(|at| data.iter().fold(0, |sum, strip| sum ^ strip[at]));
    let q = |at: usize| {
        let mut factor = 1;
        data.iter().fold(0, |sum, strip| {
            let term = product(factor, strip[at]);
            factor = product(factor, 2);
            sum ^ term
        })
    };
    (p.collect(), (0..length).map(q).collect())
}

fn random_strips(count: usize, length: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut state = seed;
    let mut byte = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..count).map(|_| (0..length).map(|_| byte()).collect()).collect()
}

fn slices(strips: &[Vec<u8>]) -> Vec<&[u8]> {
    strips.iter().map(Vec::as_slice).collect()
}

/// A buffer whose strip begins at some distance from an aligned address, and which shows if bytes
/// beside the strip are written.
struct Misaligned {
    buffer: Vec<u8>,
    start: usize,
    length: usize,
}

const CANARY: u8 = 0xa5;

impl Misaligned {
    fn new(length: usize, by: usize) -> Self {
        let buffer = vec![CANARY; length + 256];
        let start = buffer.as_ptr().align_offset(64) + by % 64;
        Self { buffer, start, length }
    }

    fn of(strip: &[u8], by: usize) -> Self {
        let mut this = Self::new(strip.len(), by);
        this.strip().copy_from_slice(strip);
        this
    }

    fn strip(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..][..self.length]
    }

    fn bytes(&self) -> &[u8] {
        let (before, rest) = self.buffer.split_at(self.start);
        let (strip, behind) = rest.split_at(self.length);
        assert!(before.iter().chain(behind).all(|byte| *byte == CANARY), "bytes beside a strip");
        strip
    }
}

/// Q of four data by hand: 1·0x01 + 2·0x80 + 4·0x80 + 8·0x01 = 0x01 + 0x1d + 0x3a + 0x08.
#[test]
fn q_of_four_bytes_by_hand() {
    for parity in Parity::all() {
        let (mut p, mut q) = ([0], [0]);
        parity.p_and_q(&[&[0x01], &[0x80], &[0x80], &[0x01]], &mut p, &mut q);
        assert_eq!((p, q), ([0], [0x2e]), "{}", parity.name());
    }
}

/// All products of bytes, through the update of Q for each index.
#[test]
fn all_bytes_times_all_factors() {
    let all: Vec<u8> = (0..=255).collect();
    let mut factor = 1;
    for index in 0..MOST_MEMBERS {
        let expected: Vec<u8> = all.iter().map(|byte| product(*byte, factor)).collect();
        for parity in Parity::all() {
            let mut q = [0; 256];
            parity.update_q(index, &[0; 256], &all, &mut q);
            assert_eq!(q[..], expected, "{} {index}", parity.name());
        }
        factor = product(factor, 2);
    }
}

/// Every single loss and every pair, for all numbers of data of a RAID 6 of up to 32 members.
#[test]
fn all_pairs_of_losses_are_reconstructed() {
    for data in 2..=30 {
        // A block of every set, a vector and some bytes.
        let mut stripe = random_strips(data, 256 + 64 + 13, data as u64);
        let (p, q) = reference(&stripe);
        stripe.extend([p, q]);
        for parity in Parity::all() {
            for x in 0..data + 2 {
                for y in x..data + 2 {
                    reconstructs(parity, &stripe, data, 1 << x | 1 << y);
                }
            }
        }
    }
}

fn reconstructs(parity: Parity, stripe: &[Vec<u8>], data: usize, lost: u32) {
    let mut damaged = stripe.to_vec();
    for (index, strip) in damaged.iter_mut().enumerate() {
        if lost >> index & 1 == 1 {
            strip.fill(CANARY);
        }
    }
    let mut strips: Vec<&mut [u8]> = damaged.iter_mut().map(Vec::as_mut_slice).collect();
    parity.reconstruct(&mut strips, data, lost).unwrap();
    assert_eq!(damaged, stripe, "{} {data} {lost:#b}", parity.name());
}

/// RAID 5 of the most members has a strip for each bit of the mask.
#[test]
fn each_of_32_strips_is_reconstructed() {
    let mut stripe = random_strips(31, 100, 7);
    let (p, _) = reference(&stripe);
    stripe.push(p);
    for parity in Parity::all() {
        (0..32).for_each(|index| reconstructs(parity, &stripe, 31, 1 << index));
    }
}

#[test]
fn more_losses_than_parities_are_an_error() {
    let mut stripe = random_strips(5, 64, 1);
    let before = stripe.clone();
    let mut strips: Vec<&mut [u8]> = stripe.iter_mut().map(Vec::as_mut_slice).collect();
    let error = Parity::best().reconstruct(&mut strips, 3, 0b10101).unwrap_err();
    assert_eq!(error, TooManyLost { lost: 3, parities: 2 });
    let error = Parity::best().reconstruct(&mut strips, 4, 0b10001).unwrap_err();
    assert_eq!(
        error.to_string(),
        "2 strips of a stripe are lost, more than its parities (1) can restore"
    );
    assert_eq!(stripe, before);
}

#[test]
#[should_panic(expected = "strips differ in length")]
fn strips_of_different_length_panic() {
    Parity::best().p(&[&[0; 64], &[0; 63]], &mut [0; 64]);
}

#[test]
#[should_panic(expected = "strips differ in length")]
fn a_shorter_q_panics() {
    Parity::best().p_and_q(&[&[0; 64], &[0; 64]], &mut [0; 64], &mut [0; 63]);
}

#[test]
#[should_panic(expected = "more than 1 strips of data are lost")]
fn two_losses_from_one_parity_panic() {
    Parity::best().data_from_p(&[None, Some(&[0; 8]), None], &[0; 8], &mut [0; 8]);
}

#[test]
#[should_panic(expected = "3 parities")]
fn three_parities_panic() {
    let mut stripe = random_strips(5, 8, 1);
    let mut strips: Vec<&mut [u8]> = stripe.iter_mut().map(Vec::as_mut_slice).collect();
    let _ = Parity::best().reconstruct(&mut strips, 2, 0b1);
}

proptest! {
    #[test]
    fn sums_are_those_of_bytes(
        count in 1_usize..=32, length in 0_usize..300, shift in 0_usize..64, seed: u64,
    ) {
        let data = random_strips(count, length, seed);
        let (p, q) = reference(&data);
        let shifted: Vec<_> =
            data.iter().enumerate().map(|(i, strip)| Misaligned::of(strip, shift * i)).collect();
        let data: Vec<&[u8]> = shifted.iter().map(Misaligned::bytes).collect();
        for parity in Parity::all() {
            let (mut one, mut other) =
                (Misaligned::new(length, shift), Misaligned::new(length, shift / 3));
            parity.p(&data, one.strip());
            prop_assert_eq!(one.bytes(), &p, "{}", parity.name());
            parity.q(&data, one.strip());
            prop_assert_eq!(one.bytes(), &q, "{}", parity.name());
            parity.p_and_q(&data, one.strip(), other.strip());
            prop_assert_eq!((one.bytes(), other.bytes()), (&p[..], &q[..]), "{}", parity.name());
        }
    }

    #[test]
    fn updates_give_the_sums_of_the_new_data(
        count in 1_usize..=32, length in 0_usize..300, index in 0_usize..32, shift in 0_usize..64,
        seed: u64,
    ) {
        let index = index % count;
        let mut data = random_strips(count, length, seed);
        let (old_p, old_q) = reference(&data);
        let old = Misaligned::of(&data[index], shift);
        data[index] = random_strips(1, length, !seed).remove(0);
        let (p, q) = reference(&data);
        let new = &data[index];
        for parity in Parity::all() {
            let fresh = || (Misaligned::of(&old_p, shift), Misaligned::of(&old_q, shift + 1));
            let (mut one, mut other) = fresh();
            parity.update_p_and_q(index, old.bytes(), new, one.strip(), other.strip());
            prop_assert_eq!((one.bytes(), other.bytes()), (&p[..], &q[..]), "{}", parity.name());
            let (mut one, mut other) = fresh();
            parity.update_p(old.bytes(), new, one.strip());
            parity.update_q(index, old.bytes(), new, other.strip());
            prop_assert_eq!((one.bytes(), other.bytes()), (&p[..], &q[..]), "{}", parity.name());
        }
    }

    #[test]
    fn any_loss_is_reconstructed(
        members in 3_usize..=MOST_MEMBERS, parities in 1_usize..=2, losses in prop::array::uniform2(0_usize..32),
        length in 0_usize..300, seed: u64,
    ) {
        let data = members - parities;
        let mut stripe = random_strips(data, length, seed);
        let (p, q) = reference(&stripe);
        stripe.extend([p, q].into_iter().take(parities));
        let lost = losses.iter().take(parities).fold(0, |lost, loss| lost | 1 << (loss % stripe.len()));
        for parity in Parity::all() {
            reconstructs(parity, &stripe, data, lost);
            reconstructs(parity, &stripe, data, 0);
        }
    }

    /// A stripe that is written and updated in random order, and then loses members.
    #[test]
    fn an_updated_stripe_survives_losses(
        data in 2_usize..=12, length in 1_usize..100,
        updates in prop::collection::vec((0_usize..12, any::<u64>()), 0..20),
        losses in prop::array::uniform2(0_usize..14), seed: u64,
    ) {
        let mut strips = random_strips(data, length, seed);
        let (mut p, mut q) = (vec![0; length], vec![0; length]);
        Parity::best().p_and_q(&slices(&strips), &mut p, &mut q);
        for (index, seed) in updates {
            let new = random_strips(1, length, seed).remove(0);
            let old = std::mem::replace(&mut strips[index % data], new);
            let new = &strips[index % data];
            Parity::best().update_p_and_q(index % data, &old, new, &mut p, &mut q);
        }
        strips.extend([p, q]);
        let lost = losses.iter().fold(0, |lost, loss| lost | 1 << (loss % strips.len()));
        reconstructs(Parity::best(), &strips, data, lost);
    }
}
