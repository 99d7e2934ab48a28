"""How good the numbers of a review are: python -m benchmarks.review FOLDER [FOLDER ...]

Each folder was written by `drpl clean` on data with known wrong labels: `wrong` is in samples.npz,
or the folder is one of `benchmarks.photos`.
A reviewer who knows them, and one who errs in 5 % of the cases, decide:

- 100 times a look at 40 images: how wide the interval of the noise rate is, and how often it
  contains the true rate;
- the list in its fixed order and as decisions sort it anew: how many wrong labels are found. It is
  made longer where it ends before the last mark.

Without folders, synthetic tables are measured: 20,000 samples with 0, 9 and 40 % wrong labels whose
scores overlap; once where all classes are alike, once where the list is better in some of them.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit
from scipy.stats import beta

from drpl.cleaning.folder import CleanedFolder
from drpl.cleaning.review.decision_log import Decision
from drpl.cleaning.review.forecast import RERANK, Forecaster
from drpl.cleaning.review.strata import Bools, draw_look
from drpl.errors import DataError
from drpl.files import read_arrays, slugify, write_json
from drpl.report.reliability import draw_found
from drpl.runs.execute import list_versions

RESULTS = Path("benchmarks/results/review")
REVIEWERS = {"knows the truth": 0.0, "errs in 5 %": 0.05}
WIDE = 0.12  # an interval that is of use
REPEATS, MARKS = 100, (500, 1000, 2000)
LONG = 3000  # images in a list that has something left at the last mark
RATES, SAMPLES, CLASSES = (0.0, 0.09, 0.4), 20_000, 10


def main(folders: list[str]) -> None:
    cases = ((name, *read_case(Path(name))) for name in folders) if folders else make_cases()
    found = {}
    for name, cleaned, wrong in cases:
        name = "/".join(Path(name).parts[-2:])
        found[name] = measure(cleaned, wrong, f"found-{slugify(name)}" if folders else "")
        print(name, found[name], flush=True)
    about = {"command": "python -m benchmarks.review FOLDER ...", "versions": list_versions()}
    write_json(RESULTS / "review.json", {**about, "cases": found})


def measure(cleaned: CleanedFolder, wrong: Bools, picture: str = "") -> dict[str, Any]:
    """All figures of one folder; `wrong` has a row for each of its samples."""
    return {
        "samples": len(wrong),
        "wrong": float(wrong.mean()),
        "listed": len(cleaned.issues),
    } | {
        name: measure_intervals(cleaned, wrong, erring)
        | measure_orders(cleaned, wrong, erring, "" if erring else picture)
        for name, erring in REVIEWERS.items()
    }


def read_case(folder: Path) -> tuple[CleanedFolder, Bools]:
    """A cleaned folder and which of its labels are wrong."""
    from benchmarks import photos  # which takes from here, too

    if (folder.parent / photos.WRONG).exists():
        return CleanedFolder.load(folder), photos.read_wrong(folder)
    table = read_arrays(folder / "samples.npz")
    if "wrong" not in table:
        raise DataError(f"{folder}: nobody knows which labels are wrong")
    return CleanedFolder.load(folder), table["wrong"].astype(bool)


def measure_intervals(
    cleaned: CleanedFolder, wrong: Bools, erring: float, repeats: int = REPEATS
) -> dict[str, Any]:
    """The width of the rate's interval, and how often it contains the true rate."""
    rates, true = [], wrong.mean()
    for k in range(repeats):
        ids = draw_look(cleaned, seed=k)
        look = pd.DataFrame(index=pd.Index(ids, name="id"))
        seen = decide(cleaned, ids, wrong, erring, seed=k)
        rate = Forecaster(replace(cleaned, look=look)).learn(seen).rate
        assert rate is not None
        rates.append(rate)
    widths = [rate.high - rate.low for rate in rates]
    return {
        "mean width": round(float(np.mean(widths)), 4),
        "widest": round(float(np.max(widths)), 4),
        "contained": int(sum(rate.low <= true <= rate.high for rate in rates)),
        f"contained and at most {WIDE:g} wide": int(
            sum(rate.low <= true <= rate.high and rate.high - rate.low <= WIDE for rate in rates)
        ),
        "bias": round(float(np.mean([rate.value - true for rate in rates])), 4),
    }


def measure_orders(
    cleaned: CleanedFolder, wrong: Bools, erring: float, picture: str = ""
) -> dict[str, Any]:
    """How many wrong labels are found after some decisions, in both orders; perhaps as a figure."""
    cleaned = lengthen(cleaned)
    every = [int(number) for number in cleaned.issues.index]
    known = decide(cleaned, every, wrong, erring, seed=0)  # of both reviews: they see the same
    is_wrong = dict(zip(cleaned.samples.index, wrong, strict=True))
    forecaster, order = Forecaster(cleaned), list[int]()
    rest = every
    while rest and len(order) < max(MARKS):
        order += rest[:RERANK]
        rest = forecaster.learn({number: known[number] for number in order}).order
    marks = [mark for mark in MARKS if mark <= len(every)] or [len(every) // 2]
    last = max(marks)
    found = {
        name: np.cumsum([is_wrong[number] for number in ids[:last]], dtype=float)
        for name, ids in (("fixed order", every), ("by decisions", order))
    }
    if picture:
        draw_found(picture, found).write(RESULTS)
    return {name: {mark: int(count[mark - 1]) for mark in marks} for name, count in found.items()}


def lengthen(cleaned: CleanedFolder) -> CleanedFolder:
    """With a list that is long enough for all marks, as far as there are samples."""
    if len(cleaned.issues) >= LONG:
        return cleaned
    worst = cleaned.samples.sort_values("p_noisy", ascending=False, kind="stable")
    rest = worst[~worst.index.isin(cleaned.issues.index)][: LONG - len(cleaned.issues)]
    return replace(cleaned, issues=pd.concat([cleaned.issues, rest]))


def decide(
    cleaned: CleanedFolder, ids: list[int], wrong: Bools, erring: float, seed: int
) -> dict[int, Decision]:
    """The decisions of a reviewer who takes a share of the labels for the opposite."""
    draws = np.random.default_rng(seed)
    rows = cleaned.samples.index.get_indexer(pd.Index(ids))
    said = wrong[rows] ^ (draws.random(len(ids)) < erring)
    labels = cleaned.samples["given_label"].to_numpy()[rows]
    decisions = {}
    for number, bad, label in zip(ids, said, labels, strict=True):
        action, left = ("outside", "") if bad else ("keep", str(label))
        decisions[number] = Decision("", "", number, action, left, "")
    return decisions


def make_cases() -> Iterator[tuple[str, CleanedFolder, Bools]]:
    for rate in RATES:
        for spread, words in ((0.0, "classes alike"), (1.5, "classes differ")):
            yield f"synthetic, {rate:.0%} wrong, {words}", *make_table(rate, spread)


def make_table(
    rate: float, spread: float, samples: int = SAMPLES, seed: int = 1
) -> tuple[CleanedFolder, Bools]:
    """Scores of two overlapping beta distributions, calibrated but for the classes.

    By their given and suggested class, labels are wrong more or less often than the networks
    believe; `spread` is the standard deviation of the log-odds.
    """
    draws = np.random.default_rng(seed)
    given = draws.integers(0, CLASSES, samples)
    suggested = (given + draws.integers(1, CLASSES, samples)) % CLASSES
    by_given, by_suggested = spread * draws.standard_normal((2, CLASSES)) / np.sqrt(2)
    effects = by_given[given] + by_suggested[suggested]
    chance = expit(effects) * rate / expit(effects).mean()
    wrong = draws.random(samples) < chance
    scores = np.where(wrong, draws.beta(5, 2, samples), draws.beta(2, 5, samples))
    believed = max(rate, 0.02)
    p_noisy = expit(logit(believed) + beta.logpdf(scores, 5, 2) - beta.logpdf(scores, 2, 5))
    names = np.array([f"class {k}" for k in range(CLASSES)], dtype=object)
    table = pd.DataFrame(
        {
            "path": "",
            "given_label": names[given],
            "suggested_label": names[suggested],
            "p_noisy": p_noisy,
            "confidence": draws.uniform(0.5, 1, samples),
        },
        index=pd.RangeIndex(samples, name="id"),
    )
    listed = scores + draws.normal(0, 0.05, samples) > 0.5
    issues = table[listed].sort_values("p_noisy", ascending=False, kind="stable")
    place = Path("synthetic")
    return CleanedFolder(place, "", None, tuple(names), "", table, issues, issues[:0]), wrong


if __name__ == "__main__":
    main(sys.argv[1:])
