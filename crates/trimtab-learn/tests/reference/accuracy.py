"""How well scikit-learn does on the tests' samples. The figures that this prints
are constants in tests/learn/accuracy.rs. Run with scikit-learn 1.9.1, NumPy 2.4.6:

    python accuracy.py
"""

import numpy as np
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, average_precision_score, roc_auc_score
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from dataset import make

train, train_classes = make(30_000, 1)
test, test_classes = make(30_000, 2)
print("scikit-learn", sklearn.__version__, "numpy", np.__version__)
print("share of class 1:", test_classes.mean())


def score(name, probabilities):
    print(
        name,
        "accuracy", round(accuracy_score(test_classes, probabilities > 0.5), 4),
        "AUC", round(roc_auc_score(test_classes, probabilities), 4),
        "AP", round(average_precision_score(test_classes, probabilities), 4),
    )


boosted = HistGradientBoostingClassifier(
    max_iter=100,
    learning_rate=0.1,
    max_leaf_nodes=15,
    min_samples_leaf=20,
    l2_regularization=1.0,
    early_stopping=False,
)
boosted.fit(train, train_classes)
score("boosted trees", boosted.predict_proba(test)[:, 1])

scale = StandardScaler().fit(train)
for seed in range(3):
    network = MLPClassifier(
        (64,), alpha=0.0, batch_size=256, max_iter=20, tol=0.0, random_state=seed
    )
    network.fit(scale.transform(train), train_classes)
    score(f"network, seed {seed}", network.predict_proba(scale.transform(test))[:, 1])
