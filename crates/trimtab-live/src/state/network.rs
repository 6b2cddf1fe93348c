//! LinnOS's network in the kernel: bpf/network.h, mirrored, and what a model is made
//! into for it.

use std::mem::offset_of;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use trimtab_learn::integer::LinnOs;
use trimtab_predict::{DIGITS, Verdict};

use super::PATIENCE;
use crate::bpf::mapping::Mapping;
use crate::record::Error;

const HIDDEN: usize = 256;
const WORDS: usize = HIDDEN / 2;
const ANSWERS: usize = 4;
const PAGE_DIGITS: usize = 3;
const LATENCY_DIGITS: usize = 4;
const ANSWER_DIGITS: usize = PAGE_DIGITS + LATENCY_DIGITS;
const HISTORY_DIGITS: usize = ANSWERS * ANSWER_DIGITS;

/// The two kinds of reads for which the kernel decides.
///
/// LinnOS's network asks for the pages in flight with those of the read itself, so a
/// decision that is there before the read must take them to be so and so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeClass {
    /// Up to 64 KiB; decided as for a read of 4 KiB.
    Small,
    /// Larger; decided as for a read of 128 KiB.
    Large,
}

impl SizeClass {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Small, Self::Large];

    /// That of a read of so many bytes.
    #[must_use]
    pub const fn of(length: u64) -> Self {
        if length <= 64 << 10 { Self::Small } else { Self::Large }
    }

    /// The bytes of the read for which is decided.
    #[must_use]
    pub const fn length(self) -> u64 {
        match self {
            Self::Small => 4 << 10,
            Self::Large => 128 << 10,
        }
    }
}

/// What a published word says: the verdict, and the count of the state that it is of.
pub(super) const fn verdict(word: u64) -> (Option<Verdict>, u64) {
    let verdict = match word & 3 {
        1 => Some(Verdict::Fast),
        2 => Some(Verdict::Late),
        _ => None,
    };
    (verdict, word >> 2)
}

/// `struct st_network`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Network {
    busy: u64,
    decided: u64,
    loaded: u32,
    pages: [u32; 2],
    reserved: u32,
    second_bias: i64,
    margins: [i64; 2],
    reserved2: u64,
    history: [u64; ANSWERS],
    queue: [u32; 2],
    reserved3: [u64; 3],
    changes: [[u32; 2]; 32],
    sums: [u64; WORDS],
    second: [[i64; WORDS]; 2],
    first: [[u64; WORDS]; 32],
}

const _: () = {
    assert!(offset_of!(Network, history) == 64);
    assert!(offset_of!(Network, changes) == 128);
    assert!(offset_of!(Network, sums) == 384);
    assert!(offset_of!(Network, second) == 384 + 1024);
    assert!(offset_of!(Network, first) == 384 + 3072);
    assert!(size_of::<Network>() == 384 + 3072 + 32 * 1024);
    assert!(size_of::<Ask>() == 64 + 1024);
};

/// `struct st_ask`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Ask {
    index: u32,
    queue: [u32; 2],
    reserved: u32,
    history: [u64; ANSWERS],
    pub(super) margins: [i64; 2],
    sums: [u64; WORDS],
}

impl Ask {
    /// Of two classes that differ in the digits of the queue.
    pub(super) fn new(index: usize, digits: &[u8; DIGITS], large: [u8; PAGE_DIGITS]) -> Self {
        let small = [digits[0], digits[1], digits[2]];
        let queue = [small, large].map(|d| word(d.into_iter()) as u32);
        let history = std::array::from_fn(|answer| {
            word((0..ANSWER_DIGITS).map(|digit| digits[input(answer, digit)]))
        });
        Self { index: index as u32, queue, reserved: 0, history, margins: [0; 2], sums: [0; WORDS] }
    }

    /// The sums of the first layer, in the answer.
    pub(super) fn sums(&self) -> [i32; HIDDEN] {
        std::array::from_fn(|neuron| unpacked(self.sums[neuron / 2])[neuron % 2])
    }
}

/// Digits as the bytes of a word, the first in the lowest.
fn word(digits: impl DoubleEndedIterator<Item = u8>) -> u64 {
    digits.rev().fold(0, |word, digit| word << 8 | u64::from(digit))
}

/// The network's input for a digit of an answer, which has its own pages before its
/// latency: see [`trimtab_predict::Linnos`].
const fn input(answer: usize, digit: usize) -> usize {
    if digit < PAGE_DIGITS {
        PAGE_DIGITS * (1 + answer) + digit
    } else {
        PAGE_DIGITS * (1 + ANSWERS) + LATENCY_DIGITS * answer + (digit - PAGE_DIGITS)
    }
}

/// Two neurons' numbers in a word.
fn packed(even: i32, odd: i32) -> u64 {
    i64::from(even).wrapping_add(i64::from(odd) << 32).cast_unsigned()
}

/// What is added to sums for each half, so that it is not negative.
const OFFSET: u64 = 1 << 63 | 1 << 31;

/// The two numbers again, of a sum.
const fn unpacked(sum: u64) -> [i32; 2] {
    let halves = sum ^ OFFSET;
    [halves as i32, (halves >> 32) as i32]
}

/// What the kernel keeps for a network before it has decided anything: the digits are
/// zeros, and so the sums are the biases.
fn made_of(network: &LinnOs) -> Box<Network> {
    let row = |input: usize| {
        let weight = |neuron| i32::from(network.first_weight(input, neuron));
        std::array::from_fn(|word| packed(weight(2 * word), weight(2 * word + 1)))
    };
    let history = (0..HISTORY_DIGITS).map(|i| input(i / ANSWER_DIGITS, i % ANSWER_DIGITS));
    let mut first = [[0; WORDS]; 32];
    for (to, input) in first.iter_mut().zip((0..PAGE_DIGITS).chain(history)) {
        *to = row(input);
    }
    let bias = network.first_bias();
    let [fast, slow] = network.second_bias();
    let second = |neuron| {
        i64::from(network.second_weight(neuron, 1)) - i64::from(network.second_weight(neuron, 0))
    };
    Box::new(Network {
        busy: 0,
        decided: u64::MAX,
        loaded: 1,
        pages: SizeClass::ALL.map(|class| (class.length() >> 12) as u32),
        reserved: 0,
        second_bias: slow - fast,
        margins: [0; 2],
        reserved2: 0,
        history: [0; ANSWERS],
        // No digits, so that the first decision is not taken for made.
        queue: [u32::MAX; 2],
        reserved3: [0; 3],
        changes: [[0; 2]; 32],
        sums: std::array::from_fn(|word| {
            packed(bias[2 * word], bias[2 * word + 1]).wrapping_add(OFFSET)
        }),
        second: [0, 1].map(|odd| std::array::from_fn(|word| second(2 * word + odd))),
        first,
    })
}

/// The memory of all drives' networks. Only the keeper has it.
pub(super) struct Networks(pub(super) Mapping<Network>);

impl Networks {
    /// From now on decisions are by this network; `None`: there are none.
    pub(super) fn set(&self, index: usize, network: Option<&LinnOs>) -> Result<(), Error> {
        let new = network.map(made_of);
        self.with(index, |to| {
            // SAFETY: within the mapping, which is writable, and nobody else works with
            // it; `busy` is left alone.
            unsafe {
                let loaded = &raw mut (*to).loaded;
                let Some(mut new) = new else {
                    loaded.write_volatile(0);
                    return;
                };
                new.busy = 1;
                to.write_volatile(*new);
            }
        })
    }

    /// Does something while nobody else works with a network.
    fn with(&self, index: usize, what: impl FnOnce(*mut Network)) -> Result<(), Error> {
        // SAFETY: only the address of a field is taken.
        let busy = self.0.number(index, |network| unsafe { &raw mut (*network).busy });
        let until = Instant::now() + PATIENCE;
        while busy.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            if Instant::now() > until {
                return Err(Error::Kernel("the drive's network is at work all the time".into()));
            }
            thread::yield_now();
        }
        what(self.0.at(index));
        busy.store(0, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_numbers_in_a_word_stay_two() {
        let numbers = [i32::MIN, -65_536, -1, 0, 1, 65_535, i32::MAX];
        for (even, odd) in numbers.into_iter().flat_map(|a| numbers.map(|b| (a, b))) {
            assert_eq!(unpacked(packed(even, odd).wrapping_add(OFFSET)), [even, odd]);
            let [half, other] = [even / 18, odd / 18];
            let nine = packed(half, other).wrapping_mul(9);
            let sum = packed(even / 2, odd / 2).wrapping_add(OFFSET).wrapping_add(nine);
            assert_eq!(unpacked(sum), [9 * half + even / 2, 9 * other + odd / 2]);
        }
    }

    /// As bpf/state_network.h divides.
    #[test]
    fn quotients_by_multiplication_are_exact() {
        for n in 0..10_000_u64 {
            let quotients = [(n * 52_429) >> 19, (n * 5_243) >> 19, (n * 8_389) >> 23];
            assert_eq!(quotients, [n / 10, n / 100, n / 1000]);
        }
        for ns in 0..=10_000_000_u64 {
            assert_eq!((ns * 274_877_907) >> 38, ns / 1000);
        }
    }

    #[test]
    fn every_digit_has_its_input() {
        let mut inputs: Vec<_> = (0..HISTORY_DIGITS).map(|i| input(i / 7, i % 7)).collect();
        inputs.sort_unstable();
        assert_eq!(inputs, (PAGE_DIGITS..DIGITS).collect::<Vec<_>>());
    }
}
