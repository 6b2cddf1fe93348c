//! Training samples of the tests, from integers so that Python generates the same ones
//! (tests/reference/dataset.py).

pub(crate) const FEATURES: usize = 12;

/// `count` samples of 12 features from 0 to 99, row by row, and their classes.
pub(crate) fn make(count: usize, seed: u64) -> (Vec<i32>, Vec<u8>) {
    let mut state = seed;
    let mut below = |limit: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % limit) as i32
    };
    let (mut features, mut classes) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let x: [i32; FEATURES] = std::array::from_fn(|_| below(100));
        let mut score = x[0] * x[1] / 40 + 2 * x[2] - 3 * (x[3] - 50).abs();
        score += 90 * i32::from(x[4] > 70) - 60 * i32::from(x[5] > 30 && x[6] < 40) + below(120);
        features.extend(x);
        classes.push(u8::from(score > 150));
    }
    (features, classes)
}
