"""From data with doubtful labels to a list of the wrong ones, and all that goes with it.

    settings that suit the data and the time            plan
    DRPL, once with its final model, then with other seeds if asked
    what the networks say of every label                judge
    how much is wrong, and what is mistaken for what    estimate, tables

The folder is that of a run, with more in it: issues.csv, noise-matrix.csv, clean.json, summary.md,
report.html.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from drpl.cleaning import tables
from drpl.cleaning.estimate import Rate, estimate_rate
from drpl.cleaning.folder import (
    ISSUES,
    VERDICTS,
    CleanedFolder,
    read_table,
    write_about,
    write_issues,
)
from drpl.cleaning.judge import Judgement, judge
from drpl.cleaning.plan import Choice, fit_budget, parse_duration
from drpl.cleaning.sections import build_sections
from drpl.cleaning.summary import summarize
from drpl.data.dataset import DatasetSplits
from drpl.data.sources import ReadOptions, load
from drpl.errors import RunError
from drpl.files import read_json, write_atomic, write_json
from drpl.report.page import report
from drpl.runs.display import Display, duration
from drpl.runs.execute import choose_device, execute
from drpl.runs.experiment import AnyData, Execution, as_splits
from drpl.runs.folder import Result

PLAN = "plan.json"


@dataclass(frozen=True)
class Cleaning:
    """What `clean` found: its folder, the suspicious samples and the figures in `clean.json`."""

    folder: Path
    figures: dict[str, Any]

    @property
    def issues(self) -> pd.DataFrame:
        """`issues.csv`: suspicious samples, worst first."""
        return read_table(self.folder / "issues.csv", ISSUES).reset_index()

    @property
    def rate(self) -> Rate:
        """The share of wrong labels."""
        return Rate(*self.figures["noise rate"].values())

    @property
    def text(self) -> str:
        """The summary as Markdown."""
        return (self.folder / "summary.md").read_text("utf-8")


def clean(
    data: AnyData,
    out: Path | str,
    *,
    budget: str = "10m",
    repeats: int = 1,
    seed: int = 1,
    read_options: ReadOptions | None = None,
    device: str | None = None,
    quiet: bool = False,
) -> Cleaning:
    """Find the wrong labels of a data set, say what they should be, and train a robust model.

    `data` is a name, a path, or a data set in memory. Settings follow from the data and from what
    this machine does in the time of `budget` (10m, 2h); they are kept in the folder, so that a
    stopped call is continued by the same one. `repeats` trains with more seeds, for a better
    interval of the noise rate.
    """
    folder, seconds = Path(out), parse_duration(budget)
    if (folder / "clean.json").exists():
        return _load_finished(folder, seed, repeats)
    whole = load(data, read_options) if isinstance(data, str) else as_splits(data)
    if (folder / PLAN).exists():
        choice = Choice.load(folder / PLAN, whole)
    else:
        choice = _choose(whole, seconds, repeats, device, quiet)
        choice.save(folder / PLAN)
    judgements = []
    for k in range(repeats):
        place = folder / "repeats" / f"seed-{seed + k}" if k else folder
        experiment = choice.build(seed + k, "detect" if k else "train")
        execute(experiment, Execution(folder=place, device=device, quiet=quiet))
        judgements.append(judge(place, experiment, choose_device(device)))
    source = data if isinstance(data, str) else whole.name
    return _write_results(folder, source, whole, judgements, seed)


def _choose(
    data: DatasetSplits, budget: float, repeats: int, device: str | None, quiet: bool
) -> Choice:
    """The settings that suit data and time, reported to the user."""
    with Display(quiet=quiet) as display:
        choice, seconds = fit_budget(data, budget, repeats, device)
        display.note(f"chosen: {choice.describe()}; at most about {duration(seconds)}")
        if seconds > budget:
            display.note("that is more than the budget, but nothing quicker would learn enough")
    return choice


def _load_finished(folder: Path, seed: int, repeats: int) -> Cleaning:
    """What an earlier call found, if it was asked the same."""
    figures = read_json(folder / "clean.json")
    for name, asked in (("seed", seed), ("repeats", repeats)):
        if figures[name] != asked:
            raise RunError(
                f"{folder} was made with {name} {figures[name]}, but {asked} was asked for; "
                "use another folder"
            )
    return Cleaning(folder, figures)


def _write_results(
    folder: Path, source: str, data: DatasetSplits, judgements: list[Judgement], seed: int
) -> Cleaning:
    """All tables, pictures and texts; last `clean.json`: its presence means that all is there."""
    result, train, first = Result.load(folder), data.train, judgements[0]
    rate = estimate_rate(judgements, seed)
    issues = tables.build_issues(first, train, rate, result.samples["loss"])
    root = _find_root(source)
    write_issues(folder, issues)
    write_about(folder, source, root, train.classes)
    matrix = tables.write_matrix(folder, train, first)
    if train.paths is None and len(train.images.shape) == 3:
        tables.write_images(folder / "images", train, issues)
    figures = {
        "seed": seed,
        "repeats": len(judgements),
        "samples": len(train),
        "noise rate": {"value": rate.value, "low": rate.low, "high": rate.high},
        "issues": len(issues),
        "verdicts": {name: int((issues["verdict"] == name).sum()) for name in VERDICTS},
        "classes": tables.count_by_class(train, first),
        "pairs": tables.rank_pairs(matrix, train.classes),
        "notes": list(data.notes),
    }
    write_atomic(folder / "summary.md", summarize(figures, folder))
    sections = build_sections(CleanedFolder.load(folder), figures, matrix)
    report([result], folder / "report.html", sections=sections, images=root)
    write_json(folder / "clean.json", figures)
    return Cleaning(folder, figures)


def _find_root(source: str) -> Path | None:
    """Where the paths of a data set start: its folder, or that of the list."""
    path = Path(source)
    return path if path.is_dir() else path.parent if path.suffix in (".csv", ".parquet") else None
