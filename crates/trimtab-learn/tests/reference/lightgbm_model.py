"""Writes golden/lightgbm.txt, a model that LightGBM trained, and
golden/lightgbm-scores.txt, its raw scores. Features 0 and 2 have missing values,
which LightGBM treats as such. A second pair of files (lightgbm-zero) is of a
model to which zero is missing. Made with
LightGBM 4.7.0:

    python lightgbm_model.py ../../golden
"""

import sys

import lightgbm
import numpy as np

from dataset import make

features, classes = make(4_000, 3)
features = features[:, :10].astype(float)
features[::3, 0] = np.nan
features[1::4, 2] = np.nan
parameters = {
    "objective": "binary",
    "num_leaves": 8,
    "learning_rate": 0.3,
    "min_data_in_leaf": 20,
    "seed": 1,
    "deterministic": True,
    "num_threads": 1,
    "verbosity": -1,
}
model = lightgbm.train(parameters, lightgbm.Dataset(features, classes), num_boost_round=12)
directory = sys.argv[1]
# Without the list of parameters at its end, which says nothing about the trees.
text = model.model_to_string().split("\nparameters:")[0] + "\n"
open(f"{directory}/lightgbm.txt", "w").write(text)

samples = features[:60]
samples[::7, 3] = np.nan
samples[::5, 2] = np.nan
scores = model.predict(samples, raw_score=True)
with open(f"{directory}/lightgbm-scores.txt", "w") as out:
    out.write("# Raw score, and the ten features, of LightGBM %s.\n" % lightgbm.__version__)
    for score, row in zip(scores, samples):
        values = " ".join("nan" if np.isnan(x) else str(int(x)) for x in row)
        out.write(f"{float(score)!r} {values}\n")

# The same trees where zero is missing.
parameters["zero_as_missing"] = True
features = np.nan_to_num(features)
features[features < 10] = 0.0
model = lightgbm.train(parameters, lightgbm.Dataset(features, classes), num_boost_round=4)
text = model.model_to_string().split("\nparameters:")[0] + "\n"
open(f"{directory}/lightgbm-zero.txt", "w").write(text)
scores = model.predict(features[:40], raw_score=True)
with open(f"{directory}/lightgbm-zero-scores.txt", "w") as out:
    out.write("# Raw score, and the ten features, of LightGBM %s.\n" % lightgbm.__version__)
    for score, row in zip(scores, features[:40]):
        out.write(f"{float(score)!r} {' '.join(str(int(x)) for x in row)}\n")
