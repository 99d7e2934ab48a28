"""Tables of label issues for people who bring probabilities, or who record their own training."""

from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from drpl.data.readers.arrays import to_labels
from drpl.data.sources import explain_data_errors
from drpl.detection.probabilities import judge_probabilities
from drpl.errors import DataError
from drpl.files import load_arrays, unquote_formula
from drpl.registry import find

Array = NDArray[Any]
RankBy = Literal["label_noise", "self_confidence", "normalized_margin"]
LISTED = 0.5  # probability of a wrong label above which it is called so


def match_labels(labels: ArrayLike, classes: int) -> tuple[Tensor, Array]:
    """The column of each label [N], and what the labels of all columns are [C].

    Numbers are columns themselves; the columns of names are in the order of the alphabet.
    """
    values = np.asarray(labels)
    if values.dtype == object and all(isinstance(value, int | np.integer) for value in values.flat):
        values = np.asarray(values.tolist())  # or 10 would come before 2, as a name does
    numbers, names = to_labels(values, None)
    if values.dtype.kind in "iubf":
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < classes:
            raise DataError(
                f"labels must be column numbers from 0 to {classes - 1}, "
                f"got {numbers.min()}..{numbers.max()}"
            )
        return numbers, np.arange(classes)
    if len(names) != classes:
        raise DataError(
            f"the labels have {len(names)} names for {classes} columns of probabilities; give "
            f"labels as column numbers, from 0 to {classes - 1}"
        )
    return numbers, np.array(names, dtype=object)


def map_probabilities(path: Path) -> Array:
    """The array of an .npy file, of which only what is asked for is read."""
    with explain_data_errors(path):
        found: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(found, np.ndarray):
            raise ValueError("one array is wanted, in an .npy file")
        return found


def read_labels(path: Path) -> Array:
    """Labels from an .npy file, or from the column `label` of a CSV file."""
    with explain_data_errors(path):
        if path.suffix.lower() != ".csv":
            return np.asarray(load_arrays(path)["x"])
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
        if "label" not in table:
            raise ValueError("it lacks the column 'label'")
        words = table["label"].str.strip().map(unquote_formula)
        numbers = bool(words.str.fullmatch(r"\d{1,9}").all())
        return np.asarray(words.astype("int64") if numbers else words, None if numbers else object)


def rank_by_probabilities(
    pred_probs: ArrayLike, labels: ArrayLike, rank_by: RankBy = "label_noise"
) -> pd.DataFrame:
    """A table of all samples, worst label first, by probabilities in memory or in a mapped file."""
    find("score", rank_by, dict.fromkeys(get_args(RankBy)))
    probs = pred_probs if isinstance(pred_probs, np.ndarray) else np.asarray(pred_probs)
    if probs.ndim != 2:
        raise DataError(f"probabilities must be [samples, classes], got {probs.shape}")
    given, names = match_labels(labels, probs.shape[1])
    quality = judge_probabilities(probs, given)
    suggested = np.where(quality.label_noise > LISTED, quality.other, quality.predicted)
    table = build_table(given.numpy(), suggested, names, quality.label_noise)
    table["self_confidence"] = quality.self_confidence
    table["normalized_margin"] = quality.normalized_margin
    if rank_by == "label_noise":
        worst_first = np.lexsort((quality.self_confidence, -quality.label_noise))
    else:
        worst_first = np.argsort(getattr(quality, rank_by), kind="stable")
    return table.iloc[worst_first]


def build_table(given: Array, suggested: Array, names: Array, label_noise: Array) -> pd.DataFrame:
    """Given and suggested label, how probably the given one is wrong, and whether it is called so.

    What is suggested is the most probable class; where the label is called wrong, but for it.
    """
    return pd.DataFrame(
        {
            "given": names[given],
            "suggested": names[suggested],
            "label_noise": label_noise,
            "flagged": label_noise > LISTED,
        }
    )
