"""How long it takes to clean 50,000 vectors of 512 features: python benchmarks/vectors.py

Clouds around a centre for each of ten classes that overlap, as embeddings do; 30 % of the labels
are drawn anew among the other classes. The time is that of `find_label_issues`, all stages.
"""

import time
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from drpl import find_label_issues
from drpl.files import write_json
from drpl.runs.execute import list_versions

SAMPLES, FEATURES, CLASSES, NOISE, SEED = 50_000, 512, 10, 0.3, 1


def main() -> None:
    draws = np.random.default_rng(SEED)
    true = draws.integers(0, CLASSES, SAMPLES)
    x = 0.15 * draws.normal(size=(CLASSES, FEATURES))[true] + draws.normal(size=(SAMPLES, FEATURES))
    wrong = draws.random(SAMPLES) < NOISE
    given = (true + wrong * draws.integers(1, CLASSES, SAMPLES)) % CLASSES
    began = time.monotonic()
    table = find_label_issues(x.astype(np.float32), given, return_scores=True, random_state=SEED)
    seconds = time.monotonic() - began
    table = table.sort_index()
    flagged = table["flagged"].to_numpy()
    found = {
        "command": "python benchmarks/vectors.py",
        "samples": SAMPLES,
        "features": FEATURES,
        "classes": CLASSES,
        "noise": NOISE,
        "seed": SEED,
        "seconds": round(seconds, 1),
        "threads": torch.get_num_threads(),
        "auroc": round(float(roc_auc_score(wrong, table["label_noise"])), 4),
        "precision": round(float(wrong[flagged].mean()), 4),
        "recall": round(float(flagged[wrong].mean()), 4),
        "versions": list_versions(),
    }
    write_json(Path("benchmarks/results/vectors.json"), found)
    print({key: value for key, value in found.items() if key != "versions"})


if __name__ == "__main__":
    main()
