"""A cleaned data set as it lies on disk: what is suspicious, and where each image is."""

import csv
import io
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

import pandas as pd

from drpl.cleaning.records import AboutRecord, PlanRecord
from drpl.errors import RunError
from drpl.files import (
    digest,
    propose_folder,
    quote_formula,
    read_json,
    unquote_formula,
    unquote_formulas,
    write_atomic,
    write_json,
)

VERDICTS = ("mislabelled", "outside", "ambiguous")  # outside: it shows none of the classes
SAMPLES = {
    "id": "int64",
    "path": str,
    "given_label": str,
    "suggested_label": str,
    "p_noisy": float,
    "confidence": float,
}
ISSUES = SAMPLES | {
    "verdict": str,
    "outlier_score": float,
    "near_given": str,
    "near_suggested": str,
    "group": "int64",
    "p_low": float,
    "p_high": float,
}
SIDES = ("first", "second")  # of a pair of near-duplicates
DUPLICATES: dict[str, Any] = {
    f"{side}_{name}": kind
    for side in SIDES
    for name, kind in (("part", str), ("id", "int64"), ("path", str), ("label", str))
} | {"similarity": float, "kind": str}
OUTLIERS = {
    "id": "int64",
    "path": str,
    "given_label": str,
    "nearest_label": str,
    "outlier_score": float,
}
MOST_FOUND = 2000  # pairs, and outliers, that a review shows
ABSENT = {"group": -1, "p_low": math.nan, "p_high": math.nan}  # what older folders lack; -1: alone
RENAMED = {"strangeness": "outlier_score"}  # columns of folders made before version 0.2
LOOK = "look.csv"  # a stratified sample to look at first
# data sets that name files, which may be anywhere
LISTS = (".csv", ".tsv", ".parquet", ".jsonl", ".npz")


@dataclass(frozen=True)
class CleanedFolder:
    """The folder that `drpl clean` left, checked."""

    folder: Path
    source: str  # what was cleaned, as the user named it
    root: Path | None  # where the paths of the images start; None: the images are no files
    classes: tuple[str, ...]
    time: str  # when the run was finished
    samples: pd.DataFrame  # every image, by id
    issues: pd.DataFrame  # the suspicious ones, by id, worst first
    look: pd.DataFrame  # samples to look at first, in that order; none before version 0.3
    columns: tuple[str, ...] = ()  # of samples and issues that came with the data
    read: Mapping[str, Any] = field(default_factory=dict)  # options by which the data were read

    @classmethod
    def load(cls, folder: Path | str, *, look: bool = True) -> "CleanedFolder":
        """Read a folder, or say what is wrong with it; without `look.csv` if that is to come."""
        folder = Path(folder)
        about = _read_about(folder)
        columns = tuple(about.get("columns", ()))
        samples = read_table(folder / "samples.csv", SAMPLES | dict.fromkeys(columns, str))
        issues = read_table(folder / "issues.csv", ISSUES)
        has_look = look and (folder / LOOK).exists()
        chosen = read_table(folder / LOOK, ISSUES) if has_look else issues[:0]
        classes = tuple(about["classes"])
        path = folder / "issues.csv"
        for column in ("given_label", "suggested_label"):
            if unknown := sorted(set(issues[column]) - set(classes)):
                raise RunError(f"{path}: {column} {unknown[0]!r} is no class of data.json")
        if unknown := sorted(set(issues["verdict"]) - set(VERDICTS)):
            raise RunError(f"{path}: verdict {unknown[0]!r} is none of {', '.join(VERDICTS)}")
        for place, table in ((path, issues), (folder / LOOK, chosen)):
            near = " ".join([*table["near_given"], *table["near_suggested"]]).split()
            named = {*map(str, table.index), *near}
            if unknown := sorted(named - set(map(str, samples.index))):
                raise RunError(f"{place}: samples.csv has no image {unknown[0]!r}; clean again")
        root = Path(about["root"]) if about["root"] else None
        time = about.get("time") or _format_time(path.stat().st_mtime)
        tables, read = (samples, issues, chosen), about.get("read", {})
        return cls(folder, about["source"], root, classes, time, *tables, columns, read)

    @property
    def is_list(self) -> bool:
        """Whether the data set is a list of files."""
        return self.root is not None and PurePath(self.source).suffix.lower() in LISTS

    @cached_property
    def reviewable(self) -> pd.DataFrame:
        """What people may decide on: the issues, then samples to look at that are none."""
        others = self.look[~self.look.index.isin(self.issues.index)]
        return pd.concat([self.issues, others]) if len(others) else self.issues

    @cached_property
    def rows(self) -> dict[int, Any]:
        """What is known of each image, by id: its row of the issues or the look, or of samples."""
        tables = (self.samples, self.reviewable)
        return {row.Index: row for table in tables for row in table.itertuples()}

    @cached_property
    def duplicates(self) -> pd.DataFrame:
        """Pairs of near-duplicates with a training image, the most important first."""
        path = self.folder / "duplicates.csv"
        table = (
            _read_columns(path, DUPLICATES)
            if path.exists()
            else pd.DataFrame(columns=[*DUPLICATES])
        )
        trained = [table[f"{side}_part"] == "train" for side in SIDES]
        for side, mine in zip(SIDES, trained, strict=True):
            self._check_known(path, table.loc[mine, f"{side}_id"])
        return table[trained[0] | trained[1]][:MOST_FOUND]

    @cached_property
    def outliers(self) -> pd.DataFrame:
        """Training images that look like none of the classes, by id, worst first."""
        path = self.folder / "outliers.csv"
        if not path.exists():
            return self.samples[:0]
        table = read_table(path, OUTLIERS)
        self._check_known(path, table.index)
        return table[:MOST_FOUND]

    def _check_known(self, path: Path, ids: Iterable[int]) -> None:
        """Raise for an image that is none of the samples."""
        if unknown := sorted(set(ids) - set(self.samples.index)):
            raise RunError(f"{path}: samples.csv has no image {unknown[0]}; clean again")

    @cached_property
    def found(self) -> set[int]:
        """Training images that are near-duplicates or outliers; people may decide on them, too."""
        return {*self.list_paired("train"), *self.outliers.index}

    def list_paired(self, part: str) -> dict[int, str]:
        """The images of a part that have a near-duplicate: paths by number."""
        found: dict[int, str] = {}
        for side in SIDES:
            mine = self.duplicates[self.duplicates[f"{side}_part"] == part]
            found |= dict(zip(mine[f"{side}_id"], mine[f"{side}_path"], strict=True))
        return found

    @cached_property
    def fingerprint(self) -> str:
        """Tells the cleaned data of one run from those of others."""
        return digest((self.folder / "samples.csv").read_bytes())

    @cached_property
    def identity(self) -> str:
        """Tells these images with their given labels from others, whatever was found of them."""
        return digest(format_csv(self.samples[["path", "given_label"]].itertuples()).encode())

    def image(self, number: int) -> Path | None:
        """The file of an image by its id; None if there is no such image, or it has no file.

        Nobody can ask for a path: only files that samples.csv lists can be reached.
        """
        if number not in self.samples.index:
            return None
        if self.root is None:
            return self.folder / "images" / f"{number}.png"
        return self.file(self.samples.at[number, "path"])

    def test_image(self, number: int) -> Path | None:
        """The file of a test image by its number; only what `duplicates` names can be reached."""
        path = self.list_paired("test").get(number)
        if path is None:
            return None
        return self.file(path) if self.root else self.folder / "images" / f"test-{number}.png"

    def file(self, path: str) -> Path | None:
        """A file of the data set by its path from the root on; None if it is not one of it.

        Links are followed, for whole data sets are made of them; but a path that climbs out of the
        set's folder is not, unless the set is a list, whose files may be anywhere.
        """
        steps = PurePath(path)
        outside = steps.is_absolute() or ".." in steps.parts
        return None if self.root is None or (outside and not self.is_list) else self.root / steps


def _read_about(folder: Path) -> dict[str, Any]:
    """`data.json`: source, root, classes and perhaps time."""
    path = folder / "data.json"
    if not path.exists():
        raise RunError(_explain_missing(folder))
    about = read_json(path, AboutRecord)
    if about.get("several"):
        raise RunError(
            f"the images of {about['source']} have several labels each, and this takes one; what "
            f"was found is in {folder / 'label-issues.csv'} and {folder / 'samples.csv'}"
        )
    return about


def _explain_missing(folder: Path) -> str:
    """Why a folder is not a cleaned one, and what to do; nobody should clean into their photos."""
    from drpl.cleaning.claim import PLAN
    from drpl.data.readers.folder import list_images

    if not folder.exists():
        return f"there is no {folder}; name the folder that `drpl clean` wrote"
    if (folder / PLAN).exists():
        planned = read_json(folder / PLAN, PlanRecord).get("budget")
        budget = ["--budget", planned] if planned else []
        again = shlex.join(["drpl", "clean", "DATA", "-o", str(folder), *budget])
        return f"{folder} is not finished; go on with the same command as before, {again}"
    is_run = (folder / "samples.csv").exists()  # its pictures are not the user's
    if not is_run and (folder.is_file() or next(list_images(folder, ""), None)):
        out = str(propose_folder(folder))
        first = shlex.join(["drpl", "clean", str(folder), "-o", out])
        return (
            f"{folder} is not a folder that `drpl clean` wrote; clean it first, into another "
            f"folder, with: {first}"
        )
    return f"{folder} has no data.json; name the folder that `drpl clean` wrote"


def read_table(path: Path, columns: dict[str, Any]) -> pd.DataFrame:
    """The columns that are wanted of a table, by id."""
    table = _read_columns(path, columns)
    if twice := table["id"][table["id"].duplicated()].tolist():
        raise RunError(f"{path} is damaged: it has image {twice[0]} twice")
    return table.set_index("id")


def _read_columns(path: Path, columns: dict[str, Any]) -> pd.DataFrame:
    """The columns that are wanted of a table, or a word on what is wrong with it."""
    try:
        wanted = columns | {old: columns[new] for old, new in RENAMED.items() if new in columns}
        wanted = {quote_formula(name): kind for name, kind in wanted.items()}
        table = (
            pd.read_csv(
                path,
                usecols=lambda name: name in wanted,
                dtype=wanted,
                keep_default_na=False,  # a class may be called NA
                na_values={name: ["", "nan"] for name in ("p_low", "p_high")},
            )
            .rename(columns=unquote_formula)
            .rename(columns=RENAMED)
        )
        lacking = {name: ABSENT[name] for name in columns if name in ABSENT and name not in table}
        table = table.assign(**lacking)
        if missing := [name for name in columns if name not in table]:
            raise ValueError(f"it lacks the column {missing[0]!r}")
    except FileNotFoundError:
        raise RunError(f"there is no {path}; make the folder with `drpl clean`") from None
    except (OSError, ValueError, OverflowError) as error:  # pandas' of parsing are ValueErrors
        raise RunError(f"{path} is damaged: {str(error).splitlines()[0]}") from error
    texts = [name for name, kind in columns.items() if kind is str]
    return unquote_formulas(table[list(columns)], texts)


def write_issues(
    folder: Path, issues: pd.DataFrame, name: str = "issues.csv", others: Iterable[str] = ()
) -> None:
    """Write `issues.csv`, a row for each suspicious image, worst first, or `look.csv`.

    `others` are the columns that came with the data.
    """
    columns = [column for column in ISSUES if column in issues or column not in ABSENT]
    columns += others
    rows = issues[columns].itertuples(index=False)
    cells = ([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    write_atomic(folder / name, format_csv([columns, *cells]))


def write_about(
    folder: Path,
    source: str,
    root: Path | None,
    classes: Sequence[str],
    *,
    columns: Iterable[str] = (),
    read: Mapping[str, Any] | None = None,
    several: bool = False,
    data: Mapping[str, Any] | None = None,
) -> None:
    """Write `data.json`: what was cleaned, where its files are, its classes, how it was read.

    `data` tells these data from all others, where no plan.json does.
    """
    place = str(root.resolve()) if root else None
    about: dict[str, Any] = {"source": source, "root": place, "classes": list(classes)}
    if columns := list(columns):
        about["columns"] = columns
    if read:
        about["read"] = dict(read)
    if several:
        about["several"] = True  # labels an image
    if data:
        about["data"] = dict(data)
    write_json(folder / "data.json", about)


def format_csv(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV that every reader takes apart again, whatever signs a name has."""
    text = io.StringIO()
    plain = csv.writer(text, lineterminator="\n")
    careful = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        # Older versions of the module leave a lone carriage return without quotes.
        cells = [quote_formula(cell) for cell in row]
        (careful if any("\r" in str(cell) for cell in row) else plain).writerow(cells)
    return text.getvalue()


def read_clock() -> str:
    """This second, as in 2026-01-31T12:30:00Z."""
    return _format_time(datetime.now(UTC).timestamp())


def _format_time(seconds: float) -> str:
    """A moment in world time, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
