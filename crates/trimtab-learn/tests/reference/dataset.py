"""The samples that the tests train on, made of integers so that Rust makes the
same ones (tests/learn/dataset/mod.rs)."""

import numpy as np

FEATURES = 12


def make(count, seed):
    """`count` samples of 12 features from 0 to 99, and their classes."""
    state = seed

    def below(limit):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) % limit

    features = np.empty((count, FEATURES), dtype=np.int32)
    classes = np.empty(count, dtype=np.int32)
    for row in range(count):
        x = [below(100) for _ in range(FEATURES)]
        score = x[0] * x[1] // 40 + 2 * x[2] - 3 * abs(x[3] - 50)
        score += 90 * (x[4] > 70) - 60 * (x[5] > 30 and x[6] < 40) + below(120)
        features[row] = x
        classes[row] = score > 150
    return features, classes
