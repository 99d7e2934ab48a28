"""DRPL's first stage and guard on vectors: python -m benchmarks.tune_drpl --data-dir FOLDER

The images, the noise and the seed are those that every other method was tuned on (see
`benchmarks/tune_vectors.py`), with two more levels of noise and one more seed. What is finished is
kept in the folder of `--out` and not done again.
"""

import argparse
from itertools import product
from pathlib import Path

import pandas as pd

import drpl
from benchmarks import tune_vectors
from benchmarks.paper import RELABEL
from benchmarks.tune_vectors import NOISES, SEED
from drpl.config.compose import merge
from drpl.config.from_data import suit_to_vectors
from drpl.files import slugify, write_atomic, write_json
from drpl.noise.inject import corrupt
from drpl.report.table import to_csv
from drpl.runs.execute import list_versions
from drpl.runs.experiment import load_schema

SEEDS, LEVELS = (SEED, SEED + 1), (*NOISES, "uniform:0.8", "nonuniform:0.4")
GUARDS = (0.35, 0.7)
LONGER = {name.removeprefix("drpl:"): table for name, table in RELABEL.items()}
STAGES = {"preset": {}, "as joint": LONGER}  # the length of the first one
RESULTS = Path("benchmarks/results/drpl-tuning")


def main() -> None:
    words = argparse.ArgumentParser(description="Tune DRPL's first stage and guard on vectors.")
    words.add_argument("--out", type=Path, default=Path("runs/drpl-tuning"), help="the runs")
    words.add_argument("--data-dir", type=Path, help="where the data sets are")
    words.add_argument("--cache", type=Path, help="where features are kept")
    asked = words.parse_args()
    clean, rows = tune_vectors.read(asked.data_dir, asked.cache), []
    for noise, seed in product(LEVELS, SEEDS):
        data = tune_vectors.project(corrupt(clean, noise, seed)[0])
        suited = suit_to_vectors(load_schema("drpl"), len(data.train), len(data.train.classes))
        for stage, guard in product(STAGES, GUARDS):
            settings = merge(merge({}, suited), STAGES[stage])
            result = drpl.train(
                data,
                preset="vectors",
                settings={**settings, "pool": True, "min_labelled": guard},
                seed=seed,
                out=asked.out / slugify(noise) / f"{slugify(stage)}-{guard}" / f"seed-{seed}",
                quiet=True,
            )
            cell = {"noise": noise, "seed": seed, "first stage": stage, "min_labelled": guard}
            auroc = (result.detection or {}).get("auroc")
            rows.append({**cell, "accuracy": result.accuracy["last"], "auroc": auroc})
            print(*rows[-1].values(), flush=True)
    write_atomic(RESULTS.with_suffix(".csv"), to_csv(pd.DataFrame(rows)))
    about = {"command": "python -m benchmarks.tune_drpl", "encoder": "lite0"}
    write_json(RESULTS.with_suffix(".json"), {**about, "versions": list_versions()})


if __name__ == "__main__":
    main()
