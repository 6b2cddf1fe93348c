//! Golden vectors of the integer network, for every implementation.
//!
//! This file generates `golden/integer-network.json` (run the test with `TRIMTAB_WRITE_GOLDEN=1` to
//! rewrite it); `docs/integer-network.md` documents it.

use std::fmt::Write as _;

use trimtab_learn::Simd;
use trimtab_learn::integer::LinnOs;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/integer-network.json");
const SEED: u64 = 31_256_002;
const CASES: usize = 64;

struct Lcg(u64);

impl Lcg {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// From −`limit` to `limit`.
    fn signed(&mut self, limit: i64) -> i64 {
        self.below(2 * limit as u64 + 1) as i64 - limit
    }
}

fn network(lcg: &mut Lcg) -> LinnOs {
    let first: Vec<i16> = (0..31 * 256).map(|_| lcg.signed(32_767) as i16).collect();
    let first_bias: Vec<i32> = (0..256).map(|_| lcg.signed(1_000_000) as i32).collect();
    let second: Vec<i16> = (0..256 * 2).map(|_| lcg.signed(32_767) as i16).collect();
    let second_bias = [lcg.signed(1_000_000_000_000), lcg.signed(1_000_000_000_000)];
    LinnOs::new(&first, &first_bias, &second, second_bias).unwrap()
}

/// Digits; the first case is all 0, the second all 9.
fn inputs(lcg: &mut Lcg, case: usize) -> [u8; 31] {
    match case {
        0 => [0; 31],
        1 => [9; 31],
        _ => std::array::from_fn(|_| lcg.below(10) as u8),
    }
}

#[test]
fn all_instructions_give_the_golden_vectors() {
    let mut lcg = Lcg(SEED);
    let network = network(&mut lcg);
    let mut json = String::from("{\n");
    writeln!(json, "  \"layers\": [31, 256, 2],").unwrap();
    writeln!(json, "  \"seed\": {SEED},\n  \"cases\": [").unwrap();
    for case in 0..CASES {
        let inputs = inputs(&mut lcg, case);
        let [fast, slow] = network.logits(Simd::SCALAR, &inputs);
        for simd in Simd::all() {
            assert_eq!(network.logits(simd, &inputs), [fast, slow], "{simd}");
            assert_eq!(network.margin(simd, &inputs), slow - fast, "{simd}");
        }
        assert_eq!(network.is_slow(&inputs), slow > fast);
        let digits: String = inputs.iter().map(|digit| char::from(b'0' + digit)).collect();
        let comma = if case + 1 < CASES { "," } else { "" };
        let line = format!("{{\"inputs\": \"{digits}\", \"logits\": [{fast}, {slow}]}}{comma}");
        writeln!(json, "    {line}").unwrap();
    }
    json.push_str("  ]\n}\n");
    if std::env::var_os("TRIMTAB_WRITE_GOLDEN").is_some() {
        std::fs::write(PATH, &json).unwrap();
    }
    assert_eq!(std::fs::read_to_string(PATH).unwrap(), json);
}
