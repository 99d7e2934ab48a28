"""The folder of a run: what is written into it, and how it is read back without torch.

config.toml       what ran            result.json       written last: its presence means that
history.jsonl     a line per epoch                      all is there
evidence/ splits/ by stage            samples.csv, .npz one row a training image
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drpl.config.compose import OVERLAYS, Tree, flatten, merge
from drpl.errors import RunError
from drpl.files import (
    check_record,
    explain_read_errors,
    explain_write_errors,
    format_table,
    read_json,
    read_toml,
    unquote_formulas,
    write_arrays,
    write_atomic,
)
from drpl.runs.records import (
    ConfigRecord,
    EpochRecord,
    NoiseRecord,
    ProvenanceRecord,
    ResultRecord,
    StageRecord,
)

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]  # of the history: stage, epoch, rate, terms, accuracy, images, seconds
Arrays = dict[str, NDArray[Any]]
HISTORY = "history.jsonl"
OTHERS = {  # keys of the table `run` that say nothing to people; images also change with labels
    "labels": "other labels",
    "test": "another test set",
    "images": "other training images, class names or true labels",
    "method_source": "another method of your own",
    "network_source": "another network of your own",
}


@dataclass(frozen=True)
class Result:
    """The folder of a run and the numbers in it."""

    folder: Path
    summary: dict[str, Any]  # result.json
    finished: bool = True

    @classmethod
    def load(cls, folder: Path | str) -> "Result":
        """Read a finished run."""
        folder = Path(folder)
        if (folder / "result.json").exists():
            return cls(folder, read_json(folder / "result.json", ResultRecord))
        if (folder / "config.toml").exists():
            raise RunError(f"the run in {folder} is not finished; run its command again")
        raise RunError(f"{folder} is not the folder of a run: it has no result.json")

    @classmethod
    def load_partial(cls, folder: Path | str) -> "Result":
        """Read a run that may still be training: what it has found by now, None for the rest."""
        folder = Path(folder)
        if (folder / "result.json").exists() or not (folder / "config.toml").exists():
            return cls.load(folder)
        about = read_toml(folder / "config.toml", ConfigRecord)["run"]
        noise, origin = (
            read_json(path, record) if (path := folder / f"{name}.json").exists() else {}
            for name, record in (("noise", NoiseRecord), ("provenance", ProvenanceRecord))
        )
        summary = summarize(folder, about, noise, origin.get("versions", {}))
        return cls(folder, summary, finished=False)

    @cached_property
    def method(self) -> str:
        """What tables call it: the method, and in brackets overlays: "drpl (literal)"."""
        path, name = self.folder / "config.toml", str(self.summary["method"])
        about = read_toml(path, ConfigRecord)["run"] if path.exists() else {}
        presets = str(about.get("preset", "")).split(", ")
        overlays = [overlay for overlay in OVERLAYS if overlay in presets]
        return f"{name} ({', '.join(overlays)})" if overlays else name

    @property
    def source(self) -> str | None:
        """The name of its data set or the place of its data, as far as its folder says."""
        path = self.folder / "provenance.json"
        made = read_json(path, ProvenanceRecord) if path.exists() else {}
        return (made.get("data") or {}).get("what")

    @property
    def accuracy(self) -> dict[str, float | None]:
        """Test accuracy in percent: `last` and `best`; None without a test set."""
        return dict(self.summary["accuracy"])

    @property
    def detection(self) -> dict[str, float | None] | None:
        """auroc, tpr, fpr, precision, recall; None where the truth is unknown."""
        return dict(self.summary["detection"]) if self.summary["detection"] else None

    @cached_property
    def samples(self) -> "pd.DataFrame":
        """One row a training image."""
        return read_samples(self.folder / "samples.csv")

    @cached_property
    def history(self) -> list[Row]:
        """One row an epoch."""
        return read_history(self.folder)

    def suspicious(self, count: int = 10) -> "pd.DataFrame":
        """The images whose labels are most probably wrong, worst first."""
        ranked = self.samples.sort_values(["p_noisy", "loss"], ascending=False, kind="stable")
        return ranked.head(count)

    def __str__(self) -> str:
        lines = [self._title, *self._list_figures(), "suspicious"]
        for row in self.suspicious().itertuples():
            change = f"{row.given_label} -> {row.suggested_label} (p noisy {row.p_noisy:.3f})"
            lines.append(f"  {row.path or f'image {row.id}'}: {change}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        figures = "<br>".join(map(escape, self._list_figures()))
        table = self.suspicious().to_html(index=False, border=0)  # escapes what it shows
        return f"<p><b>{escape(self._title)}</b><br>{figures}</p>{table}"

    @property
    def _title(self) -> str:
        s = self.summary
        noise = f", noise {s['noise']['spec']}" if s["noise"]["spec"] else ""
        return f"{self.method} on {s['dataset']}{noise}, seed {s['seed']}"

    def _list_figures(self) -> list[str]:
        """A line each."""
        s, accuracy, lines = self.summary, self.accuracy, []
        if accuracy["last"] is not None:
            lines.append(f"accuracy   {accuracy['last']:.2f} % last, {accuracy['best']:.2f} % best")
        lines.append(f"flagged    {s['flagged']} of {s['samples']} labels")
        if found := self.detection:
            known = [f"{key} {value:.3f}" for key, value in found.items() if value is not None]
            lines.append(f"detection  {', '.join(known)}")
        for stage in s["stages"]:
            lines += [f"note       {stage['stage']}: {note}" for note in stage["notes"]]
        return lines


def summarize(folder: Path, about: Tree, noise: Tree, versions: Tree) -> Tree:
    """What a run has found by now, from its table `run` and the manifest of its noise.

    What only a finished run knows is None.
    """
    rows = read_history(folder)
    splits = list_splits(folder, rows)
    return {
        "method": about["method"],
        "goal": None,
        "dataset": about["dataset"],
        "samples": about["samples"],
        "classes": noise.get("classes") or [str(k) for k in range(about["classes"])],
        "noise": {key: noise.get(key) for key in ("spec", "nominal", "realised")},
        "seed": about["seed"],
        "accuracy": find_accuracy(rows),
        "flagged": None,
        "detection": None,
        "notes": [],
        "stages": [read_json(folder / "splits" / f"{name}.json", StageRecord) for name in splits],
        **sum_costs(rows),
        "versions": versions,
    }


def find_difference(folder: Path, wanted: dict[str, Any]) -> str | None:
    """How the run that lives in a folder first differs from `wanted`, if it does."""
    path = folder / "config.toml"
    if not path.exists():
        return None
    found, asked = (flatten(merge({}, tree)) for tree in (read_toml(path, ConfigRecord), wanted))
    keys = found.keys() | asked.keys()
    # Earlier versions did not record the code of users' own functions.
    keys -= {f"run.{name}_source" for name in ("method", "network")} - found.keys()
    if not knows_its_data(folder):
        keys -= {f"run.{name}" for name in ("images", "test", "shape", "encoder")}
    for key in sorted(keys, key=lambda key: (key.split(".")[0], key)):
        if found.get(key) != asked.get(key) and key.removeprefix("run.") not in OTHERS:
            name = key.removeprefix("run.").removeprefix("settings.")
            return f"was made with {name} {found.get(key)}, but {asked.get(key)} was asked for"
    for name, what in OTHERS.items():
        if f"run.{name}" in keys and found.get(f"run.{name}") != asked.get(f"run.{name}"):
            made = "by" if name.endswith("_source") else "of"
            return f"was made {made} {what} than it was now given"
    return None


def knows_its_data(folder: Path) -> bool:
    """Whether a run recorded which images it saw, as before version 0.4 none did."""
    path = folder / "config.toml"
    return not path.exists() or "images" in read_toml(path, ConfigRecord)["run"]


def append_history(folder: Path, row: Row) -> None:
    """Add an epoch."""
    path = folder / HISTORY
    with explain_write_errors(path), path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def drop_history(folder: Path, stage: str, after: int) -> None:
    """Drop the epochs of a stage that its checkpoint does not vouch for."""
    kept = [row for row in read_history(folder) if row["stage"] != stage or row["epoch"] <= after]
    write_atomic(folder / HISTORY, "".join(json.dumps(row) + "\n" for row in kept))


def read_history(folder: Path) -> list[Row]:
    """All whole lines; a kill may have torn the last one."""
    path, rows = folder / HISTORY, list[Row]()
    if not path.exists():
        return rows
    with explain_read_errors(path):
        *lines, _ = path.read_text("utf-8").split("\n")  # what follows the last end is torn
    for number, line in enumerate(lines, 1):
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise RunError(f"{path} is damaged: line {number}: {error}") from error
        check_record(path, rows[-1], EpochRecord)
    return rows


def find_accuracy(rows: list[Row]) -> dict[str, float | None]:
    """Test accuracy of the latest stage: after its last epoch, and after its best one."""
    found = [row["accuracy"] for row in rows if row["stage"] == rows[-1]["stage"]]
    known = found and None not in found
    return {"last": found[-1] if known else None, "best": max(found) if known else None}


def sum_costs(rows: list[Row]) -> dict[str, float]:
    """What the epochs took."""
    return {
        "epochs": len(rows),
        "images": sum(row["images"] for row in rows),
        "seconds": round(sum(row["seconds"] for row in rows), 1),
    }


def list_splits(folder: Path, rows: list[Row]) -> list[str]:
    """The stages that were followed by a split, as they were trained, then splits by several."""
    stages = dict.fromkeys(row["stage"] for row in rows)
    known = {path.stem for path in (folder / "splits").glob("*.json")}
    return [*(name for name in stages if name in known), *sorted(known - stages.keys())]


COLUMNS = ("confidence", "loss", "p_noisy", "p_low", "p_high", "flagged")  # the last of samples.csv


def read_samples(path: Path) -> "pd.DataFrame":
    """`samples.csv`, one row a training image."""
    import pandas as pd

    texts = ("path", "given_label", "suggested_label")
    figures = ("p_noisy", "loss", "confidence")
    kinds = {"id": "int64", **dict.fromkeys(texts, str), **dict.fromkeys(figures, float)}
    with explain_read_errors(path):
        table = pd.read_csv(path, dtype=kinds, keep_default_na=False)
        if missing := kinds.keys() - set(table.columns):
            raise ValueError(f"it lacks the column {min(missing)!r}")
        return unquote_formulas(table, texts)


def write_samples(
    folder: Path,
    table: Arrays,
    classes: tuple[str, ...],
    paths: Any,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """`samples.csv` for people, with what a list said besides, and `samples.npz` for programs."""
    import pandas as pd

    write_arrays(folder / "samples.npz", table)
    names = np.array(classes, dtype=object)
    frame = pd.DataFrame(
        {
            "id": np.arange(len(table["given"])),
            "path": paths or "",
            "given_label": names[table["given"]],
            "suggested_label": names[table["suggested"]],
            **{key: table[key] for key in COLUMNS if key in table},
            **(columns or {}),
        }
    )
    write_atomic(folder / "samples.csv", format_table(frame))
