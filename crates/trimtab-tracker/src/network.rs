//! LinnOS's network in the kernel: bpf/network.h, mirrored, and the conversion of a model.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use trimtab_learn::integer::LinnOs;
use trimtab_predict::DIGITS;
use trimtab_shm::{WritableMapping, field};
use trimtab_state::SizeClass;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::{Error, PATIENCE};

const HIDDEN: usize = 256;
const WORDS: usize = HIDDEN / 2;
const ANSWERS: usize = 4;
const PAGE_DIGITS: usize = 3;
const LATENCY_DIGITS: usize = 4;
const ANSWER_DIGITS: usize = PAGE_DIGITS + LATENCY_DIGITS;
const HISTORY_DIGITS: usize = ANSWERS * ANSWER_DIGITS;

/// `struct st_network`
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
pub(crate) struct Network {
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

/// `struct st_query`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Query {
    index: u32,
    queue: [u32; 2],
    reserved: u32,
    history: [u64; ANSWERS],
    pub(crate) margins: [i64; 2],
    sums: [u64; WORDS],
}

impl Query {
    /// A query for two classes that differ in the digits of the queue.
    pub(crate) fn new(index: usize, digits: &[u8; DIGITS], large: [u8; PAGE_DIGITS]) -> Self {
        let small = [digits[0], digits[1], digits[2]];
        let queue = [small, large].map(|d| word(d.into_iter()) as u32);
        let history = std::array::from_fn(|answer| {
            word((0..ANSWER_DIGITS).map(|digit| digits[input(answer, digit)]))
        });
        Self { index: index as u32, queue, reserved: 0, history, margins: [0; 2], sums: [0; WORDS] }
    }

    /// The resulting sums of the first layer.
    pub(crate) fn sums(&self) -> [i32; HIDDEN] {
        std::array::from_fn(|neuron| unpacked(self.sums[neuron / 2])[neuron % 2])
    }
}

/// Packs digits into the bytes of a word, the first in the lowest.
fn word(digits: impl DoubleEndedIterator<Item = u8>) -> u64 {
    digits.rev().fold(0, |word, digit| word << 8 | u64::from(digit))
}

/// The network's input for a digit of a completion, which has its pages before its latency:
/// see [`trimtab_predict::Linnos`].
const fn input(answer: usize, digit: usize) -> usize {
    if digit < PAGE_DIGITS {
        PAGE_DIGITS * (1 + answer) + digit
    } else {
        PAGE_DIGITS * (1 + ANSWERS) + LATENCY_DIGITS * answer + (digit - PAGE_DIGITS)
    }
}

/// Packs two neurons' numbers into a word.
fn packed(even: i32, odd: i32) -> u64 {
    i64::from(even).wrapping_add(i64::from(odd) << 32).cast_unsigned()
}

/// Added to both halves of a sum, so that neither is negative.
const OFFSET: u64 = 1 << 63 | 1 << 31;

/// Unpacks the two numbers of a sum.
const fn unpacked(sum: u64) -> [i32; 2] {
    let halves = sum ^ OFFSET;
    [halves as i32, (halves >> 32) as i32]
}

/// The kernel's form of a network before its first decision: all digits are zero, and so the
/// sums are the biases.
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
        // Invalid digits, so that the first decision is computed.
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

/// The memory of all drives' networks, private to the tracker and the programs.
pub(crate) struct Networks(pub(crate) WritableMapping<Network>);

impl Networks {
    /// Sets the network that decides from now on; `None`: there are no decisions.
    pub(crate) fn set(&self, index: usize, network: Option<&LinnOs>) -> Result<(), Error> {
        let new = network.map(made_of);
        let busy = self.0.word(index, field!(Network.busy));
        let until = Instant::now() + PATIENCE;
        while busy.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            if Instant::now() > until {
                return Err(Error::NetworkBusy);
            }
            thread::yield_now();
        }
        // No program uses the network now.
        match new {
            None => self.0.half_word(index, field!(Network.loaded)).store(0, Ordering::Relaxed),
            Some(mut new) => {
                new.busy = 1;
                self.0.write(index, &*new);
            }
        }
        busy.store(0, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use trimtab_bpf::{STATE, mirrors};

    use super::*;

    #[test]
    fn mirrors_have_the_layout_of_the_header() {
        mirrors!(STATE, "st_network" => Network {
            busy, decided, loaded, pages, second_bias, margins, history, queue, changes, sums,
            second, first,
        });
        mirrors!(STATE, "st_query" => Query { index, queue, history, margins, sums });
    }

    #[test]
    fn packed_numbers_unpack_exactly() {
        let numbers = [i32::MIN, -65_536, -1, 0, 1, 65_535, i32::MAX];
        for (even, odd) in numbers.into_iter().flat_map(|a| numbers.map(|b| (a, b))) {
            assert_eq!(unpacked(packed(even, odd).wrapping_add(OFFSET)), [even, odd]);
            let [half, other] = [even / 18, odd / 18];
            let nine = packed(half, other).wrapping_mul(9);
            let sum = packed(even / 2, odd / 2).wrapping_add(OFFSET).wrapping_add(nine);
            assert_eq!(unpacked(sum), [9 * half + even / 2, 9 * other + odd / 2]);
        }
    }

    /// As in bpf/state_network.h.
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
    fn digits_have_distinct_inputs() {
        let mut inputs: Vec<_> = (0..HISTORY_DIGITS).map(|i| input(i / 7, i % 7)).collect();
        inputs.sort_unstable();
        assert_eq!(inputs, (PAGE_DIGITS..DIGITS).collect::<Vec<_>>());
    }
}
