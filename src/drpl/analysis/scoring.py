"""Detectors on finished runs: their folders hold all that it takes."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from drpl.detection import metrics
from drpl.detection.detectors import Detector, keep_labels
from drpl.detection.evidence import Evidence
from drpl.errors import ConfigError, DrplError, RunError
from drpl.files import explain_read_errors, format_table, read_arrays, write_atomic
from drpl.registry import DETECTORS, find
from drpl.runs.folder import Result

FIGURES = ("auroc", "tpr", "fpr", "precision", "recall", "average_precision", "auroc_outside")


def score(folder: Path | str, detectors: Iterable[str | Detector] | None = None) -> pd.DataFrame:
    """Score the labels of a finished run by detectors, and write the scores to `scores.csv`.

    `detectors` are names of `drpl list detectors`, perhaps with a threshold ("posterior:0.05"), or
    functions of one's own. By default all are tried, and the column `skipped` says why one that
    the evidence does not allow was left out. A row of the answer is a stage and a detector, with
    how many labels it would flag and, where the truth is known, how good that is; where some wrong
    labels are on images of no class, `auroc_outside` says how the score ranks these among all wrong
    ones.
    """
    folder = Path(folder)
    run = Result.load(folder)
    chosen, broken = _choose(detectors)
    labels, truth = _read_labels(folder / "samples.npz")
    columns: dict[str, NDArray[Any]] = {}
    rows: list[dict[str, Any]] = []
    for path in _list_evidence(run):
        evidence = _read_evidence(path, labels)
        rows += [{"stage": evidence.stage, **one} for one in broken]
        for one in chosen:
            row = {"stage": evidence.stage, "detector": one.text}
            try:
                scores = one.detector(evidence, labels).double()
                clean = keep_labels(scores, one.threshold)
            except Exception as error:
                if detectors is not None or not (isinstance(error, DrplError) or one.package):
                    raise
                rows.append(row | {"skipped": " ".join(str(error).split()) or repr(error)})
                continue
            columns[f"{evidence.stage}:{one.name}"] = scores.numpy()
            good = {} if truth is None else truth.measure(scores.numpy(), clean.numpy())
            rows.append(row | {"flagged": int((~clean).sum()), **good, "skipped": ""})
    _write_scores(run, columns)
    table = pd.DataFrame(rows, columns=["stage", "detector", "flagged", *FIGURES, "skipped"])
    return table.astype({"flagged": "Int64", **dict.fromkeys(FIGURES, float)})


def _choose(
    asked: Iterable[str | Detector] | None,
) -> tuple[list["_Detector"], list[dict[str, str]]]:
    """The detectors asked for, or all; of all, one of another package may be broken."""
    if asked is not None:
        return [_Detector.parse(one) for one in asked], []
    chosen, broken = [], []
    for name in DETECTORS:
        try:
            chosen.append(_Detector.parse(name))
        except DrplError as error:
            broken.append({"detector": name, "skipped": str(error)})
    return chosen, broken


@dataclass(frozen=True)
class _Detector:
    """A detector with its decision."""

    text: str  # as it was asked for
    name: str
    detector: Detector
    threshold: float | None
    package: str = ""  # that brought it

    @classmethod
    def parse(cls, one: str | Detector) -> "_Detector":
        """From NAME, NAME:THRESHOLD, or a function."""
        if not isinstance(one, str):
            return cls(one.__name__, one.__name__, one, getattr(one, "threshold", None))
        name, colon, value = one.partition(":")
        known = find("detector", name, DETECTORS)
        detector = known.load()
        try:
            usual = getattr(detector, "threshold", known.threshold)
            threshold = float(value) if colon else usual
        except ValueError:
            raise ConfigError(
                f"detector {one!r}: the threshold {value!r} is not a number"
            ) from None
        return cls(one, name, detector, threshold, known.package)


def _list_evidence(run: Result) -> list[Path]:
    """The evidence of each stage, in the order they were trained."""
    found = sorted((run.folder / "evidence").glob("*.npz"))
    if not found:
        raise RunError(f"{run.folder} has no evidence to judge by: {run.folder}/evidence is empty")
    stages = list(dict.fromkeys(row["stage"] for row in run.history))
    return sorted(found, key=lambda path: [*stages, path.stem].index(path.stem))


@dataclass(frozen=True)
class _Truth:
    """What is known of the labels."""

    wrong: NDArray[Any]  # [N]
    in_distribution: NDArray[Any]  # [N] whether the image is of any class

    def measure(self, scores: NDArray[Any], kept: NDArray[Any]) -> dict[str, float | None]:
        """How good scores and a decision are."""
        return {
            **metrics.score(scores, kept, self.wrong),
            "average_precision": metrics.average_precision(scores, self.wrong),
            "auroc_outside": metrics.tell_outside(scores, self.wrong, self.in_distribution),
        }


def _read_labels(path: Path) -> tuple[Tensor, _Truth | None]:
    """The given labels and, where it is known, which of them are wrong."""
    arrays = read_arrays(path)
    with explain_read_errors(path):
        given, wrong = torch.from_numpy(arrays["given"]), arrays.get("wrong")
        if wrong is None:
            return given, None
        return given, _Truth(wrong, arrays.get("in_distribution", np.ones(len(given), bool)))


def _read_evidence(path: Path, labels: Tensor) -> Evidence:
    """Whole and finite evidence on the samples with these labels."""
    with explain_read_errors(path):
        evidence = Evidence.read(path)
        rows, samples = max(1, len(evidence.losses)), len(labels)
        classes = max(evidence.probs.shape[-1], int(labels.max()) + 1)
        tables = {
            "losses": (evidence.losses, (rows, samples)),
            "margins": (evidence.margins, (rows, samples)),
            "probs": (evidence.probs, (samples, classes)),
            "mean_probs": (evidence.mean_probs, (samples, classes)),
            "mean_losses": (evidence.mean_losses, (samples,)),
            "mean_margins": (evidence.mean_margins, (samples,)),
            "targets": (evidence.targets, (samples, classes)),
            "vectors": (evidence.vectors, (samples, _count_columns(evidence.vectors))),
        }
        for name, (table, shape) in tables.items():
            if table is None:  # folders of older versions, or a stage that has none
                continue
            if table.shape != shape:
                raise ValueError(f"{name} is {tuple(table.shape)}, not {shape}")
            if not bool(torch.isfinite(table).all()):
                raise ValueError(f"{name} is not finite everywhere")
    return evidence


def _count_columns(table: Tensor | None) -> int:
    """Of a table that may have any number of them, but not none."""
    return 1 if table is None else max(1, table.shape[-1])


def _write_scores(run: Result, columns: dict[str, NDArray[Any]]) -> None:
    """`scores.csv`: a row for each sample, a column for each stage and detector."""
    with explain_read_errors(run.folder / "samples.csv"):
        table = run.samples[["id", "path", "given_label"]].assign(**columns)
    write_atomic(run.folder / "scores.csv", format_table(table))
