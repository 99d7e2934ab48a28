"""Run folders as trainings leave them, without training: losses drawn at random."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w
from scipy.stats import beta

from drpl.detection.metrics import score
from drpl.files import write_arrays, write_atomic, write_json
from drpl.runs.folder import find_accuracy, sum_costs
from drpl.runs.gallery import select_images, write_gallery

CLASSES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat 2", "Sandal", "Shirt", "7", "8"]


@dataclass(frozen=True)
class Recipe:
    """What a made run shall be like."""

    method: str = "drpl"
    noise: str | None = "uniform:0.4"
    seed: int = 1
    samples: int = 600
    epochs: int = 24
    every: int = 3  # observations
    truth: bool = True
    test: bool = True
    images: bool = True
    stages: tuple[str, ...] = ("relabel", "detect")


def write_run(folder: Path, recipe: Recipe, *, finished: bool = True) -> Path:
    """A folder like that of `drpl train`."""
    r = recipe
    draws = np.random.default_rng([r.seed, *map(ord, r.method + str(r.noise))])
    n, c = r.samples, len(CLASSES)
    true = np.arange(n) % c
    wrong = draws.random(n) < 0.4
    given = np.where(wrong, (true + draws.integers(1, c, n)) % c, true)
    head: dict[str, Any] = {"method": r.method, "dataset": "made", "samples": n}
    noise = {"spec": r.noise, "nominal": 0.4, "realised": float(wrong.mean())}
    config = head | {"classes": c, "noise": r.noise or "none", "preset": "small", "seed": r.seed}
    settings: dict[str, Any] = {"network": "auto", "relabel": {"begin": 6}}
    write_atomic(folder / "config.toml", tomli_w.dumps({"run": config, "settings": settings}))
    write_json(folder / "noise.json", noise | {"classes": CLASSES})
    versions = {"python": "3.11", "drpl": "0.1.0", "torch": "2.4"}
    made = {"versions": versions, "device": "cpu", "track_every": r.every, "command": None}
    write_json(folder / "provenance.json", made)
    rows, records, p_noisy, losses = [], [], [], np.zeros(n)
    for k, stage in enumerate(r.stages):
        for epoch in range(1, r.epochs + 1):
            accuracy = 85 - 50 * np.exp(-epoch / 5) + draws.random() * 3
            row = {"stage": stage, "epoch": epoch, "rate": 0.1, "terms": {"classify": 1 / epoch}}
            row |= {"accuracy": accuracy if r.test else None, "images": n, "seconds": 0.25}
            row |= {"train_accuracy": accuracy - 20, "target_accuracy": accuracy - 5}
            rows.append(row)
        times = [*range(r.every, r.epochs, r.every), r.epochs]
        spread = draws.gamma(2, 1, n)
        history = [
            np.where(wrong, spread * (0.5 + k + t / r.epochs), spread * (0.2 + np.exp(-t / 9)))
            + 0.01
            for t in times
        ]
        losses = history[-1]
        probs = draws.dirichlet(np.ones(c), n)
        probs[np.arange(n), np.where(draws.random(n) < 0.9, true, given)] += 2
        probs /= probs.sum(1, keepdims=True)
        tables = {"losses": np.stack(history), "margins": -np.stack(history), "probs": probs}
        write_arrays(folder / "evidence" / f"{stage}.npz", tables)
        low, high = np.percentile(losses, [5, 95])
        x = ((losses - low) / (high - low)).clip(0.001, 0.999)
        mixture = {"alpha": [0.5, 4.0], "beta": [3.0, 1.5], "weight": [0.6, 0.4]}
        parts = [w * beta.pdf(x, a, b) for a, b, w in zip(*mixture.values(), strict=True)]
        noisy = np.maximum.accumulate((parts[1] / sum(parts))[np.argsort(losses)])
        noisy = noisy[np.argsort(np.argsort(losses))]
        p_noisy.append(noisy)
        clean = noisy <= 0.5
        write_arrays(
            folder / "splits" / f"{stage}.npz", {"losses": losses, "noisy": noisy, "clean": clean}
        )
        record = {"stage": stage, "threshold": 0.5, "labelled": int(clean.sum())}
        record |= {"unlabelled": int((~clean).sum()), "mixture": mixture, "notes": []}
        mixture["scale"] = [float(low), float(high)]
        write_json(folder / "splits" / f"{stage}.json", record)
        good = {"detection": score(losses, clean, wrong)} if r.truth else {}
        records.append(record | good)
    write_atomic(folder / "history.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    if not finished:
        return folder
    suggested = np.where(draws.random(n) < 0.9, true, given)
    table: dict[str, Any] = {
        "given": given,
        "suggested": suggested,
        "confidence": draws.random(n).astype(np.float32),
        "loss": losses,
        "p_noisy": p_noisy[-1],
        "flagged": p_noisy[-1] > 0.5,
    }
    if r.truth:
        table |= {"true": true, "wrong": wrong, "in_distribution": np.ones(n, bool)}
    write_arrays(folder / "samples.npz", table)
    names = np.array(CLASSES, dtype=object)
    frame = pd.DataFrame({"id": np.arange(n), "path": ""})
    frame = frame.assign(given_label=names[given], suggested_label=names[suggested])
    for key in ("confidence", "loss", "p_noisy", "flagged"):
        frame[key] = table[key]
    write_atomic(folder / "samples.csv", frame.to_csv(index=False, float_format="%.6g"))
    if r.images:
        ids = select_images(table, p_noisy, c).ids
        pixels = draws.integers(0, 255, (len(ids), 1, 14, 14), dtype=np.uint8)
        write_gallery(folder / "gallery.npz", ids, pixels)
    detection = score(losses, ~table["flagged"], wrong) if r.truth else None
    write_json(
        folder / "result.json",
        {
            **head,
            "goal": "train",
            "classes": CLASSES,
            "noise": noise,
            "seed": r.seed,
            "accuracy": find_accuracy(rows),
            "flagged": int(table["flagged"].sum()),
            "detection": detection,
            "notes": [],
            "stages": records,
            **sum_costs(rows),
            "versions": versions,
        },
    )
    return folder


METHODS = [
    "cross_entropy",
    "mixup",
    "reed",
    "gce",
    "forward",
    "joint",
    "pencil",
    "coteaching",
    "dividemix",
    "drpl",
]
NOISES = ("uniform:0.4", "uniform:0.6", "nonuniform:0.4", "ood:0.6")


def write_comparison(folder: Path) -> Path:
    """Ten methods under four noises, with two seeds under the first, as `drpl compare` does."""
    for noise in NOISES:
        for method in METHODS:
            stages = ("relabel", "detect") if method == "drpl" else ("train",)
            for seed in (1, 2) if noise == NOISES[0] else (1,):
                place = folder / "runs" / noise.replace(":", "-") / method / f"seed-{seed}"
                write_run(place, Recipe(method, noise, seed, epochs=60, stages=stages))
    write_atomic(folder / "table.md", "# Comparison\n")
    return folder
