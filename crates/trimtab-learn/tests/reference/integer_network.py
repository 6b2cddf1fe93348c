"""The golden vectors, recomputed from docs/integer-network.md alone. Prints
how many of them agree. Needs nothing but Python:

    python integer_network.py ../../golden/integer-network.json
"""

import json
import sys

golden = json.load(open(sys.argv[1]))
inputs, hidden, outputs = golden["layers"]
state = golden["seed"]


def below(limit):
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    return (state >> 33) % limit


def signed(limit):
    return below(2 * limit + 1) - limit


first = [[signed(32767) for _ in range(hidden)] for _ in range(inputs)]
first_bias = [signed(1_000_000) for _ in range(hidden)]
second = [[signed(32767) for _ in range(outputs)] for _ in range(hidden)]
second_bias = [signed(1_000_000_000_000) for _ in range(outputs)]

agree = 0
for case in golden["cases"]:
    x = [int(digit) for digit in case["inputs"]]
    sums = [b + sum(x[i] * first[i][n] for i in range(inputs)) for n, b in enumerate(first_bias)]
    relu = [max(s, 0) for s in sums]
    logits = [b + sum(relu[n] * second[n][o] for n in range(hidden)) for o, b in enumerate(second_bias)]
    agree += logits == case["logits"]
print(f"{agree} of {len(golden['cases'])} agree")
