"""All that can be seen of a grid of noises, in one folder: what `drpl study` and `drpl.study` do.

The runs are those of `compare`. Everything else is made of their folders, part by part, and
`study.json` says of what each part was made: it is made again only when that has changed.
"""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import RootModel
from rich.console import Console

from drpl import __version__, registry
from drpl.analysis.cam import COUNT, look
from drpl.analysis.probe import probe
from drpl.analysis.scoring import score
from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.sources import ReadOptions
from drpl.errors import ConfigError, DataError, RunError
from drpl.experiments.grid import Comparison, Grid, make_grid, run_grid
from drpl.files import digest, read_json, slugify, write_if_changed, write_json
from drpl.report.figures import figures
from drpl.report.load import (
    find_tracked,
    format_case,
    format_run,
    group_by_case,
    group_by_method,
    read_samples,
)
from drpl.report.page import Section, report
from drpl.report.table import DASH, describe_cell, tabulate_stages, to_csv
from drpl.runs.experiment import AnyData
from drpl.runs.folder import Result
from drpl.runs.records import Record

METHODS = ("cross_entropy", "mixup", "drpl")
TRACK = 3  # epochs between looks at every loss
PROBED = 2000  # images of each part of the target: enough to tell networks apart
PROBED_CLASSES = 25  # of those outside, as many as the paper's probes have
SEPARATES = (
    "AUROC of the loss against the given label, wrong labels being those to find: that of "
    "cross-entropy, and those of DRPL after relabelling (stage 1), after learning from the first "
    "split (stage 2), and of both together where they were pooled."
)
LOOKS = (
    "Where a network sees the given label, and where the true or the next best class: the first "
    "seed of each method, memorised labels first."
)
PROBES = (
    "Accuracy of a linear classifier that tells other classes apart by the features after each "
    "block; the network stays as it is."
)
ONE_CELL = "on images of {} x {} pixels class activation maps have a single cell and show no place"
UNKNOWN = (
    "nobody knows which labels are wrong; left out are AUROC, ROC, and looks at wrong labels that "
    "were not detected"
)
UNTRACKED = "no losses over epochs of {}: trained without --track-every, or for too few epochs"
WIDE = '<div class="wide">{}</div>'
ENDINGS = ("png", "svg", "csv")
CASE = ["dataset", "noise", "rate", "seed"]

Made = tuple[Iterable[Path], Sequence[str]]  # the files of a part, and what to know about it


@dataclass(frozen=True)
class Study:
    """A study's grid, and notes on what was left out or is less than it seems."""

    comparison: Comparison
    notes: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Where all of it is."""
        return self.comparison.folder

    @property
    def separation(self) -> pd.DataFrame:
        """How well losses tell wrong labels from right ones, as in `separation.csv`."""
        return measure_separation(self.comparison.results)

    def __str__(self) -> str:
        return "\n".join([str(self.comparison), *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return self.comparison._repr_html_() + notes


def study(
    data: AnyData,
    *,
    noises: Iterable[str | None] = (),
    methods: Iterable[str] = METHODS,
    seeds: Iterable[int] = (1,),
    out: Path | str,
    target: str | DatasetSplits | None = None,
    probe_images: int = PROBED,
    ood: AnyData | None = None,
    read_options: ReadOptions | None = None,
    confusion: Path | str | None = None,
    preset: str | Iterable[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    engine: str = "local",
    jobs: int | None = None,
    device: str | None = None,
    save_every: float = 10.0,
    track_every: int = TRACK,
    quiet: bool = False,
) -> Study:
    """Train what is missing of a grid, and make every table, figure, map, probe and the page of it.

    The grid is that of `compare`; either reuses the other's runs. Networks are probed on `target`,
    or else on the first 25 classes outside of the data, by `probe_images` of each part (0: all).
    Call it again with the same arguments to continue
    where it stopped, or with more noises to add to it.
    """
    grid = make_grid(locals())
    comparison = run_grid(grid)
    if not comparison.results:
        return Study(comparison, ("no run was finished, so there is nothing to show",))
    parts = _Parts(comparison, quiet)
    _make_parts(parts, grid, target, probe_images)
    return Study(comparison, tuple(parts.notes))


class PartRecord(Record):
    """A part of a study: of what it was made, its files, and what to know about it."""

    of: str
    files: list[str]
    notes: list[str]


class StudyRecord(RootModel[dict[str, PartRecord]]):
    """`study.json`."""


class _Parts:
    """What is made of a study's runs, and of what it was made: `study.json`."""

    def __init__(self, comparison: Comparison, quiet: bool) -> None:
        self.runs, self.folder, self.notes = comparison.results, comparison.folder, list[str]()
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        try:
            self.made = read_json(self.folder / "study.json", StudyRecord)
        except RunError:  # there is none, or it is damaged: all is made again
            self.made = {}

    def make(
        self,
        name: str,
        work: Callable[..., Made],
        runs: Sequence[Result],
        *arguments: Any,
        of: tuple[Any, ...] = (),
    ) -> list[Path]:
        """The files of a part: the work is done unless it was done of these runs and `of`.

        What cannot be done is noted, and has no files.
        """
        part = self.made.get(name, {"of": None})
        kept = part["of"] == _fingerprint(runs, of)
        if not kept or not all((self.folder / file).exists() for file in part["files"]):
            self.console.print(f"making {name}", markup=False)
            try:
                paths, notes = work(runs, *arguments)
            except (ConfigError, DataError, RunError) as error:  # may go well the next time
                self.notes.append(f"{name} was left out: {error}")
                return []
            files = [path.relative_to(self.folder).as_posix() for path in paths]
            part = {"of": _fingerprint(runs, of), "files": files, "notes": list(notes)}
            self.made[name] = part
            write_json(self.folder / "study.json", self.made)
        self.notes += [note for note in part["notes"] if note not in self.notes]
        return [self.folder / file for file in part["files"]]


def _make_parts(parts: _Parts, grid: Grid, target: str | DatasetSplits | None, probed: int) -> None:
    """Make all that can be seen of a grid's runs."""
    runs, folder = parts.runs, parts.folder
    separation = measure_separation(runs)
    write_if_changed(folder / "separation.csv", to_csv(separation))
    parts.make("detectors.csv", _score, runs, folder / "detectors.csv")
    pictures: dict[str, Path] = {}
    for case, mine in group_by_case(runs).items():
        noise = case[1] or "none"
        parts.make(f"figures of {noise}", _draw, mine, folder / "figures")
        if mine[0].detection is None:
            parts.notes.append(f"{format_case(case)}: {UNKNOWN}")
            continue
        for method, (first, *_) in group_by_method(mine).items():
            name = f"look/{slugify(noise)}/{slugify(method)}"
            if files := parts.make(name, _look, [first], grid, folder / name):
                pictures[format_run(first)] = files[0].with_suffix(".svg")
    own = grid.data.outside if isinstance(grid.data, DatasetSplits) else None
    about = [*map(_identify, (target, grid.ood, own)), grid.read_options.outside, probed]
    probes = parts.make(
        "probes", _probe, runs, grid, target, probed, folder / "probes", of=(about,)
    )
    sections = _make_sections(separation, pictures, probes, parts.notes)
    parts.make("report.html", _write_page, runs, folder / "report.html", sections, of=(sections,))


def _fingerprint(runs: Sequence[Result], of: tuple[Any, ...]) -> str:
    """Changes with the runs, with how detectors judged them, and with this library."""
    paths = [run.folder / name for run in runs for name in ("result.json", "scores.csv")]
    contents = [path.read_bytes() if path.exists() else b"" for path in paths]
    return digest(*contents, repr(of).encode(), __version__.encode())


def _identify(data: str | DatasetSplits | Dataset | None) -> str:
    """Tells data from others: a name, or what is known of those in memory."""
    if data is None or isinstance(data, str):
        return repr(data)
    part = data if isinstance(data, Dataset) else data.train
    return digest(part.labels.numpy().tobytes(), repr(part.classes).encode())


def measure_separation(runs: Sequence[Result]) -> pd.DataFrame:
    """A row a noise and seed: AUROC of the losses that methods declare to judge labels by."""
    stages = tabulate_stages(runs)
    stages["loss"] = list(map(_name_loss, stages.method, stages.stage))
    table = stages[CASE].drop_duplicates().reset_index(drop=True)
    for column in stages.loss.dropna().unique():
        own = stages[stages.loss == column][[*CASE, "auroc"]].rename(columns={"auroc": column})
        table = table.merge(own.astype({column: float}), "left", CASE)
    return table


def _name_loss(method: str, stage: str) -> str | None:
    """The column of a stage's loss: cross_entropy, drpl_stage_1, drpl_pooled."""
    name = method.partition(" (")[0]  # without overlays
    stages = getattr(registry.METHODS[name].load(), "EVIDENCE", ())
    if len(stages) < 2:
        return method if stage in stages else None
    return f"{method}_stage_{stages.index(stage) + 1}" if stage in stages else f"{method}_{stage}"


def score_runs(runs: Iterable[Result]) -> pd.DataFrame:
    """Every detector on the evidence of every stage of some runs."""
    tables = []
    for run in runs:
        cell = {key: value for key, value in describe_cell(run).items() if key != "rate"}
        tables.append(score(run.folder).assign(**cell))
    return pd.concat(tables)


def _score(runs: Sequence[Result], path: Path) -> Made:
    """`detectors.csv`, and `scores.csv` in the runs, which figures are drawn from."""
    write_if_changed(path, to_csv(score_runs(runs)))
    return [path, *(run.folder / "scores.csv" for run in runs)], ()


def _draw(runs: Sequence[Result], folder: Path) -> Made:
    """Every figure of the runs under one noise."""
    blind = "; ".join(format_run(run) for run in runs if not find_tracked(run))
    return figures(runs, folder), [UNTRACKED.format(blind)] if blind else ()


def _look(runs: Sequence[Result], grid: Grid, folder: Path) -> Made:
    """Maps of the first run's undetected wrong labels, first of those that were memorised."""
    run = runs[0]
    table = read_samples(run) or {}
    missed = (table["wrong"] & ~table["flagged"]).nonzero()[0]
    if not len(missed):
        return [], [f"{format_run(run)}: no look, for no wrong label went undetected"]
    unlearnt = table["suggested"][missed] != table["given"][missed]
    ids = missed[np.lexsort((-table["confidence"][missed], unlearnt))][:COUNT].tolist()
    first, *_ = look(run.folder, ids, grid.load_data(), out=folder, confusion=grid.confusion)
    notes = [ONE_CELL.format(*first.pixels.shape[:2])] if first.given_map.size == 1 else ()
    return [folder / f"look.{ending}" for ending in ENDINGS], notes


def _probe(
    runs: Sequence[Result],
    grid: Grid,
    target: str | DatasetSplits | None,
    images: int,
    folder: Path,
) -> Made:
    """Linear probes on the target, or on the classes outside of what the runs were trained on."""
    asked = grid.read_options
    read_options = ReadOptions(data_dir=asked.data_dir, download=asked.download)
    target = _splits_of_outside(grid.load_data()) if target is None else target
    folders = [run.folder for run in runs]
    found = probe(folders, target, limit=images or None, read_options=read_options, out=folder)
    return [folder / f"probes.{ending}" for ending in ENDINGS], found.notes


def _splits_of_outside(data: DatasetSplits) -> DatasetSplits:
    """The first of the classes outside as a data set of their own.

    Of the paper's ImageNet these are the 25 that follow its 100 in the permutation of all.
    """
    if data.outside is None:
        raise ConfigError(
            "the data have no classes outside; set some aside with --outside, or name other data "
            "with --target"
        )
    train = data.outside
    if len(train.classes) > PROBED_CLASSES:
        train = train.select_classes(train.classes[:PROBED_CLASSES])
    return replace(data, name=f"{data.name}, outside", train=train, test=None, outside=None)


def _make_sections(
    table: pd.DataFrame, looks: Mapping[str, Path], probes: Sequence[Path], notes: Sequence[str]
) -> list[Section]:
    """What the page has beyond its runs."""
    rates = [f"{value:g}" for value in table.rate]
    shown = table.assign(rate=rates).dropna(axis="columns", how="all")
    text = shown.to_html(index=False, border=0, na_rep=DASH, float_format="{:.3f}".format)
    maps = "".join(f"<h3>{escape(head)}</h3>{_embed(path, head)}" for head, path in looks.items())
    curves = (path for path in probes if path.suffix == ".svg")
    drawn = "".join(_embed(path, "accuracy of linear probes by depth") for path in curves)
    lines = "".join(f"<li>{escape(note)}</li>" for note in notes)
    found = [
        ("How well losses separate", f"<p>{SEPARATES}</p>", WIDE.format(text)),
        ("Wrong labels that went undetected", f"<p>{LOOKS}</p>", maps),
        ("What networks know of other classes", f"<p>{PROBES}</p>", drawn),
        ("What to know about this study", "", lines and f"<ul>{lines}</ul>"),
    ]
    return [Section(title, lead + body) for title, lead, body in found if body]


def _write_page(runs: Sequence[Result], path: Path, sections: Sequence[Section]) -> Made:
    """The page of the runs, and what was made of them."""
    return [report(runs, path, sections=sections)], ()


def _embed(path: Path, text: str) -> str:
    """An SVG file within the page."""
    inside = base64.b64encode(path.read_bytes()).decode()
    return WIDE.format(f'<img src="data:image/svg+xml;base64,{inside}" alt="{escape(text)}">')
