"""`drpl clean` of images that may have several labels each: every label against the rest.

    vectors by a pretrained network                     encoders
    what each image looks like, by all others           detection.left_out
    how probably each entry is wrong                    detection.tag_noise

An entry is an image and a label, which it has or has not. Both can be wrong: the label should not
be there, or it is missing. The folder has label-issues.csv, labels.csv (a row for each label),
samples.csv, summary.md, report.html, data.json, which is written first and says what data it is of,
and clean.json, which is written last.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from markupsafe import Markup
from torch import Tensor

from drpl.cleaning.clean import Cleaning
from drpl.cleaning.folder import write_about
from drpl.cleaning.pictures import WORST, Suspect
from drpl.cleaning.plan import FEWEST
from drpl.cleaning.representation import AUTO, ENCODER, NONE
from drpl.cleaning.tag_report import write_report
from drpl.data.dataset import Dataset, DatasetSplits, select_columns
from drpl.data.sources import ReadOptions, load
from drpl.detection.left_out import predict_tags_left_out
from drpl.detection.tag_noise import TagNoise
from drpl.encoders.encode import encode_splits
from drpl.errors import ConfigError, DataError, RunError
from drpl.files import (
    format_table,
    lock_folder,
    make_printable,
    read_json,
    unquote_formula,
    unquote_formulas,
    write_atomic,
    write_json,
)
from drpl.runs.display import Display
from drpl.runs.experiment import AnyData, as_splits

ISSUES, LABELS = "label-issues.csv", "labels.csv"
WRONG, MISSING = "wrong", "missing"  # the label should not be there, or should be
LISTED = 0.5  # probability above which an entry is listed
FEW = 10  # images with a label, and without it, that it can be judged by
BETWEEN = ";"  # labels in the tables that are written


class TagCleaning(Cleaning):
    """What was found in images that may have several labels each."""

    @property
    def issues(self) -> pd.DataFrame:
        """`label-issues.csv`: entries that are probably wrong, the worst first."""
        numbers = {"id": "int64", "p_wrong": float, "score": float}
        return _read(self.folder / ISSUES, defaultdict(lambda: str, numbers))

    @property
    def worst(self) -> list[Suspect]:
        """None: pictures are of images with one label."""
        return []

    def _repr_html_(self) -> str:
        table: str = self.issues.head(WORST).to_html(index=False, border=0)  # escapes what it shows
        return str(Markup("<p>{}</p>").format(str(self).partition("\n")[0])) + table

    @property
    def labels(self) -> pd.DataFrame:
        """`labels.csv`: a row for each label."""
        return _read(self.folder / LABELS, {"label": str})


def _read(path: Path, kinds: Mapping[str, Any]) -> pd.DataFrame:
    """A table as it was before it was written: a label such as 007 or =1 is a text."""
    table = pd.read_csv(path, keep_default_na=False, dtype=kinds).rename(columns=unquote_formula)
    return unquote_formulas(table, [name for name in table if table[name].dtype.kind not in "biuf"])


@dataclass(frozen=True)
class TagJudgement:
    """What is known of every entry of a data set."""

    tags: Tensor  # [N, C] bool, as given
    scores: Tensor  # [N, C] how much each image looks as if it had each label
    judged: Tensor  # [C] bool, labels that can be

    @cached_property
    def p_wrong(self) -> Tensor:
        """How probably each entry is wrong; 0 for labels that cannot be judged. [N, C]"""
        found = torch.zeros(self.tags.shape, dtype=torch.float64)
        for c in self.judged.nonzero().flatten().tolist():
            found[:, c] = TagNoise.fit(self.scores[:, c], self.tags[:, c]).posterior
        return found

    @property
    def issues(self) -> Tensor:
        """Which entries are more probably wrong than right. [N, C] bool"""
        return self.p_wrong > LISTED


def judge_tags(data: DatasetSplits) -> TagJudgement:
    """Judge every label of vectors against the rest."""
    train = data.train
    if train.tags is None:
        raise DataError(f"{data.name} gives every image one label")
    mean, std = torch.tensor(data.mean), torch.tensor(data.std)
    count = train.tags.sum(0)
    judged = (count >= FEW) & (len(train) - count >= FEW)
    scores = predict_tags_left_out(lambda i: (train.images.load(i) - mean) / std, train.tags)
    return TagJudgement(train.tags, scores, judged)


def clean_tags(
    data: AnyData,
    folder: Path,
    features: str,
    options: ReadOptions,
    about: dict[str, Any],
    display: Display,
) -> TagCleaning:
    """Find the wrong entries of a data set, and write them to a folder."""
    if (folder / "clean.json").exists():
        return TagCleaning(folder, read_json(folder / "clean.json"))
    _check_unfinished(folder, about)
    with lock_folder(folder):
        options = replace(options, progress=display.follow("encode"))
        encoded = _encode(data, features, options)
        display.notes(encoded.notes)
        if (count := len(encoded.train)) < FEWEST:
            raise DataError(f"{count} images are too few to find wrong labels; bring {FEWEST}")
        source = data if isinstance(data, str) else encoded.name
        return _write_results(folder, source, encoded, about)


def _check_unfinished(folder: Path, about: dict[str, Any]) -> None:
    """Raise if a folder without clean.json is no earlier call's for the same data."""
    if (folder / "data.json").exists():
        kept = read_json(folder / "data.json")
        if not kept.get("several") or kept.get("data", about) != about:
            raise RunError(f"{folder} holds something else; use another folder")


def _encode(data: AnyData, features: str, options: ReadOptions) -> DatasetSplits:
    """The data as vectors."""
    asked = replace(options, features=ENCODER if features == AUTO else features)
    plain = load(data, replace(options, lazy=True)) if isinstance(data, str) else as_splits(data)
    if len(plain.train.images.shape) == 1:
        return plain
    if features == NONE:
        raise ConfigError(
            "several labels an image are judged by features of a pretrained network; leave "
            "--features out, or name one from `drpl list encoders`"
        )
    return load(data, asked) if isinstance(data, str) else encode_splits(plain, asked)


def _write_results(
    folder: Path, source: str, data: DatasetSplits, about: dict[str, Any]
) -> TagCleaning:
    """All tables and texts; last `clean.json`: its presence means that all is there."""
    train, found = data.train, judge_tags(data)
    root = data.root if train.paths else None
    columns = train.columns
    write_about(folder, source, root, train.classes, columns=columns, several=True, data=about)
    issues, labels = build_issues(found, train), build_labels(found, train)
    notes = list(data.notes)
    if unjudged := [
        name for name, told in zip(train.classes, found.judged, strict=True) if not told
    ]:
        named = ", ".join(unjudged[:5]) + (", ..." if len(unjudged) > 5 else "")
        notes.append(
            f"{len(unjudged)} labels are not judged, for fewer than {FEW} images have them, or "
            f"have them not: {named}"
        )
    value = float(found.p_wrong.mean())
    figures: dict[str, Any] = {
        "several": True,
        "data": about,
        "samples": len(train),
        "labels": labels.to_dict("records"),
        "issues": len(issues),
        "kinds": {kind: int((issues["kind"] == kind).sum()) for kind in (WRONG, MISSING)},
        # By the model alone, without an interval: nothing bounds what it cannot see.
        "noise rate": {"value": value, "low": 0.0, "high": 1.0},
        "notes": notes,
    }
    write_atomic(folder / ISSUES, format_table(issues))
    write_atomic(folder / LABELS, format_table(labels))
    write_atomic(folder / "samples.csv", format_table(build_samples(found, train)))
    write_atomic(folder / "summary.md", summarize(figures, folder))
    write_report(folder / "report.html", source, figures, issues, train)
    write_json(folder / "clean.json", figures)
    return TagCleaning(folder, figures)


def build_issues(found: TagJudgement, train: Dataset) -> pd.DataFrame:
    """A row for each entry that is more probably wrong than right, the worst first."""
    rows, classes = found.issues.nonzero().unbind(1)
    order = found.p_wrong[rows, classes].argsort(descending=True, stable=True)
    rows, classes = rows[order], classes[order]
    given = found.tags[rows, classes].tolist()
    index = rows.tolist()
    return pd.DataFrame(
        {
            "id": index,
            "path": [train.paths[i] if train.paths else "" for i in index],
            "label": [train.classes[c] for c in classes.tolist()],
            "kind": [WRONG if there else MISSING for there in given],
            "p_wrong": found.p_wrong[rows, classes].numpy(),
            "score": found.scores[rows, classes].double().numpy(),
            "labels": [_join(train, found.tags[i]) for i in index],
            **select_columns(train.columns, index),
        }
    )


def build_labels(found: TagJudgement, train: Dataset) -> pd.DataFrame:
    """A row for each label: how often it is given, and how many of its entries are wrong."""
    issues, tags, p_wrong = found.issues, found.tags, found.p_wrong
    return pd.DataFrame(
        {
            "label": train.classes,
            "judged": found.judged.tolist(),
            "images": tags.sum(0).tolist(),
            "listed_wrong": (issues & tags).sum(0).tolist(),
            "listed_missing": (issues & ~tags).sum(0).tolist(),
            "expected_wrong": (p_wrong * tags).sum(0).tolist(),
            "expected_missing": (p_wrong * ~tags).sum(0).tolist(),
        }
    )


def build_samples(found: TagJudgement, train: Dataset) -> pd.DataFrame:
    """A row for each image: the labels that it has, and those that it should have."""
    suggested = found.tags ^ found.issues
    return pd.DataFrame(
        {
            "id": range(len(train)),
            "path": train.paths or "",
            "labels": [_join(train, row) for row in found.tags],
            "suggested_labels": [_join(train, row) for row in suggested],
            **train.columns,
        }
    )


def _join(train: Dataset, row: Tensor) -> str:
    return BETWEEN.join(train.classes[c] for c in row.nonzero().flatten().tolist())


def summarize(figures: dict[str, Any], folder: Path) -> str:
    """The summary as Markdown."""
    return "\n".join(_summarize(figures, folder)) + "\n"


def _summarize(figures: dict[str, Any], folder: Path) -> Iterator[str]:
    kinds, rate = figures["kinds"], figures["noise rate"]
    entries = figures["samples"] * len(figures["labels"])
    yield (
        f"{figures['samples']:,} images and {len(figures['labels'])} labels, of which an image may "
        f"have several: **{figures['issues']:,} of {entries:,} entries are probably wrong.** "
        f"{kinds[WRONG]:,} labels should not be there, {kinds[MISSING]:,} are missing. "
        f"By the model about {rate['value']:.1%} of all entries are wrong."
    )
    yield "\n| label | images | should not be there | missing |\n| --- | ---: | ---: | ---: |"
    for row in figures["labels"]:
        cells = (row["images"], row["listed_wrong"], row["listed_missing"])
        name = make_printable(row["label"]).replace("|", "\\|")
        yield f"| {name} | {' | '.join(f'{cell:,}' for cell in cells)} |"
    yield ""
    for note in figures["notes"]:
        yield f"Note: {note}.\n"
    yield f"See `{folder / 'report.html'}`; every entry is in `{folder / ISSUES}`."
