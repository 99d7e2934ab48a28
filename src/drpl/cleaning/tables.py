"""The tables that `drpl clean` writes: suspicious samples, confusions, doubted classes."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from drpl.cleaning.estimate import UNKNOWN, estimate_by_class
from drpl.cleaning.judge import Judgement
from drpl.data.dataset import Dataset, select_columns
from drpl.data.decoding import to_picture
from drpl.data.images import Images
from drpl.detection.metrics import score
from drpl.files import read_arrays, read_json, write_atomic, write_json
from drpl.noise.transition import transition_matrix
from drpl.report.noise_figure import draw_noise
from drpl.report.table import to_csv
from drpl.runs.folder import Result, write_samples
from drpl.runs.records import ResultRecord

PAIRS = 10  # confusions that are kept
ENOUGH = 50  # samples of a class that its noise rate is estimated from


def write_judgement(folder: Path, run: Judgement, train: Dataset) -> Result:
    """`samples.csv` and `result.json` by the judgement of all seeds and networks together."""
    table, (confidence, other) = read_arrays(folder / "samples.npz"), run.best
    seen = torch.where(run.issues, other, run.probs.argmax(1))
    sure = run.probs.gather(1, seen[:, None]).squeeze(1)
    for name in ("suggested", "confidence"):  # by the model alone: `drpl look` knows data by it
        table.setdefault(f"model_{name}", table[name])
    table |= {
        "suggested": seen.numpy(),
        "confidence": torch.where(run.issues, confidence, sure).numpy(),
        "loss": run.losses.numpy(),
        **_tabulate_probability(run),
        "flagged": run.issues.numpy(),
    }
    write_samples(folder, table, train.classes, train.paths, train.columns)
    summary = read_json(folder / "result.json", ResultRecord) | {"flagged": int(run.issues.sum())}
    if "wrong" in table:
        summary["detection"] = score(table["p_noisy"], ~table["flagged"], table["wrong"])
    write_json(folder / "result.json", summary)
    return Result.load(folder)


def _tabulate_probability(run: Judgement) -> dict[str, NDArray[np.float64]]:
    """How probably each label is wrong, if the rate is the likely, the lowest, the highest one."""
    low, high = (run.scale_posterior(end).numpy() for end in (run.rate.low, run.rate.high))
    return {"p_noisy": run.p_noisy.numpy(), "p_low": low, "p_high": high}


def build_issues(run: Judgement, train: Dataset, chosen: Tensor | None = None) -> pd.DataFrame:
    """The suspicious samples, worst first; or chosen samples in their order, suspicious or not."""
    index = run.issues.nonzero().flatten() if chosen is None else chosen
    given, (confidence, suggested) = run.given[index], (value[index] for value in run.best)
    names = np.array(train.classes, dtype=object)
    table = pd.DataFrame(
        {
            "id": index.numpy(),
            "path": [train.paths[i] if train.paths else "" for i in index.tolist()],
            "given_label": names[given.numpy()],
            "suggested_label": names[suggested.numpy()],
            **{name: values[index] for name, values in _tabulate_probability(run).items()},
            "confidence": confidence.double().numpy(),
            "verdict": [run.verdicts[i] if run.issues[i] else "" for i in index.tolist()],
            "outlier_score": run.outlier_score[index].double().numpy(),
            "near_given": run.find_near(index, given),
            "near_suggested": run.find_near(index, suggested),
            "loss": run.losses[index].numpy(),
            **select_columns(train.columns, index.tolist()),
        }
    )
    if chosen is not None:
        return table
    order = ["p_noisy", "loss", "id"]
    return table.sort_values(order, ascending=[False, False, True], kind="stable")


def write_matrix(folder: Path, train: Dataset, run: Judgement) -> NDArray[np.float64]:
    """P(given | true) as CSV and picture, beside the true one where that is known."""
    matrix = _write_matrix(folder / "noise-matrix.csv", train, *run.truth)
    title = f"Estimated from {len(train):,} samples: P(given label | true class)"
    image = draw_noise(title, matrix, train.classes, train.classes, [])
    write_atomic(folder / "noise-matrix.png", image)
    if truth := train.truth:
        path = folder / "noise-matrix-true.csv"
        _write_matrix(path, train, truth.labels, truth.in_distribution)
    return matrix


def _write_matrix(path: Path, train: Dataset, true: Tensor, inside: Tensor) -> NDArray[np.float64]:
    names = list(train.classes)
    matrix = transition_matrix(true[inside], train.labels[inside], len(names)).numpy()
    table = pd.DataFrame(matrix, pd.Index(names, name="true"), names)
    write_atomic(path, to_csv(table.reset_index()))
    return matrix


def list_shown(issues: pd.DataFrame) -> set[int]:
    """Numbers of the issues and their neighbours."""
    near = " ".join([*issues["near_given"], *issues["near_suggested"]]).split()
    return {*issues["id"].tolist(), *map(int, near)}


def write_images(folder: Path, pictures: Images, numbers: Iterable[int], prefix: str = "") -> None:
    """Images as files that a review can show, for data that are none."""
    folder.mkdir(exist_ok=True)
    for part in torch.tensor(sorted(numbers), dtype=torch.int64).split(512):
        for number, pixels in zip(part.tolist(), pictures.load(part), strict=True):
            Image.fromarray(to_picture(pixels)).save(folder / f"{prefix}{number}.png")


def count_by_class(train: Dataset, run: Judgement) -> list[dict[str, Any]]:
    """For each class, how many samples are called so, how many of these labels are doubted, and
    the share of wrong ones where there are enough samples to say so."""
    rows = []
    rates = {} if run.unsure else estimate_by_class(run.noise, run.p_noisy, ENOUGH)
    for label, name in enumerate(train.classes):
        index = (train.labels == label).nonzero().flatten()
        count, wrong = len(index), int(run.issues[index].sum())
        share = wrong / max(1, count)
        row: dict[str, Any] = {"name": name, "samples": count, "issues": wrong, "share": share}
        if label in rates:
            row["noise rate"] = asdict(UNKNOWN if run.rate == UNKNOWN else rates[label])
        rows.append(row)
    return rows


def rank_pairs(matrix: NDArray[np.float64], classes: tuple[str, ...]) -> list[dict[str, Any]]:
    """What is mistaken for what, most often first."""
    shares = np.where(np.eye(len(classes), dtype=bool), -1, matrix)
    worst = np.argsort(-shares, axis=None, kind="stable")[: min(PAIRS, shares.size - len(classes))]
    places = zip(*np.unravel_index(worst, shares.shape), strict=True)
    return [
        {"true": classes[true], "given": classes[given], "share": float(shares[true, given])}
        for true, given in places
    ]
