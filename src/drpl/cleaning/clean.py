"""From data with doubtful labels to a list of the wrong ones, and all that goes with it.

    pixels, or features of a pretrained network         representation
    settings that suit the data and the time            plan
    DRPL, once with its final model, then with other seeds as time allows
    what the networks say of every label                judge
    how much is wrong, and what is mistaken for what    estimate, tables
    near-duplicates and outliers, by features           findings

The folder is that of a run, with more in it: issues.csv, look.csv, noise-matrix.csv, clean.json,
summary.md, report.html; on features duplicates.csv and outliers.csv, too.
"""

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from drpl.cleaning import tables
from drpl.cleaning.claim import PLAN, check_claim, describe_data
from drpl.cleaning.doubts import find_doubts
from drpl.cleaning.estimate import Rate
from drpl.cleaning.exchange.carry_over import Earlier, carry_over, read_earlier
from drpl.cleaning.findings import (
    FINDINGS,
    build_finding_sections,
    choose_copies,
    write_findings,
)
from drpl.cleaning.folder import (
    ISSUES,
    LISTS,
    LOOK,
    VERDICTS,
    CleanedFolder,
    read_table,
    write_about,
    write_issues,
)
from drpl.cleaning.judge import Judgement, judge, merge
from drpl.cleaning.lookalikes import group_lookalikes
from drpl.cleaning.plan import FEWEST, Choice, fit_budget, parse_duration
from drpl.cleaning.planted import plant
from drpl.cleaning.records import CleanRecord
from drpl.cleaning.reliability import build_trust
from drpl.cleaning.representation import AUTO, represent
from drpl.cleaning.review.strata import draw_look
from drpl.cleaning.sections import build_sections
from drpl.cleaning.summary import summarize
from drpl.data.dataset import DatasetSplits
from drpl.data.sources import ReadOptions
from drpl.detection.left_out import Load, predict_left_out
from drpl.errors import DataError, RunError
from drpl.files import check_apart, lock_folder, read_json, write_atomic, write_json
from drpl.report.page import report
from drpl.runs.display import Display, duration
from drpl.runs.execute import choose_device, execute
from drpl.runs.experiment import AnyData, Execution
from drpl.runs.folder import Result

PLANTING = 0.2  # share of the budget that planted errors may cost


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
    repeats: int | None = None,
    seed: int = 1,
    features: str = AUTO,
    read_options: ReadOptions | None = None,
    device: str | None = None,
    decisions: Path | str | None = None,
    quiet: bool = False,
) -> Cleaning:
    """Find the wrong labels of a data set, say what they should be, and train a robust model.

    `data` is a name, a path, or a data set in memory. `features` is an encoder that makes vectors
    of the images, `none` to train on pixels, or `auto` for what suits the data better. Settings
    follow from the data and from what this machine does in the time of `budget` (10m, 2h); they
    are kept in the folder, so that a stopped call is continued by the same one. `repeats` seeds are
    trained, by default as many as there is time for with vectors, and one with pixels. `decisions`
    is the decisions.csv of an earlier folder, or a file of another tool in one of the formats of
    `drpl list formats`; what was decided there holds in the new one, too.
    """
    folder, asked = Path(out), _Asked(parse_duration(budget), repeats, features, device, quiet)
    earlier = read_earlier(decisions) if decisions else None
    options = read_options or ReadOptions()
    check_apart(folder, data if isinstance(data, str) else None)
    about = describe_data(data, features, options)
    if unknown := check_claim(folder, about):
        with Display(quiet=quiet) as display:
            display.note(unknown)
    if (folder / "clean.json").exists():
        if earlier:
            _take_over(folder, earlier, quiet=quiet)
        return _load_finished(folder, seed, repeats)
    with lock_folder(folder):
        choice = _choose(data, folder, options, asked, about)
        runs = []
        for k, experiment in enumerate(choice.build_all(seed)):
            place = folder / "repeats" / f"seed-{seed + k}" if k else folder
            result = execute(experiment, Execution(folder=place, device=device, quiet=quiet))
            runs.append((result, judge(place, experiment, choose_device(device))))
        source = data if isinstance(data, str) else choice.data.name
        found = _write_results(folder, source, choice, runs, seed, asked.seconds)
    if earlier:
        _take_over(folder, earlier, quiet=quiet)
    return found


@dataclass(frozen=True)
class _Asked:
    """What the user wants of a cleaning."""

    seconds: float
    repeats: int | None
    features: str
    device: str | None
    quiet: bool


def _choose(
    data: AnyData, folder: Path, options: ReadOptions, asked: _Asked, about: dict[str, Any]
) -> Choice:
    """The data and the settings that suit them and the time, reported to the user, and kept."""
    began = time.monotonic()
    with Display(quiet=asked.quiet) as display:
        options = replace(options, progress=display.follow("encode"))
        if (folder / PLAN).exists():
            kept = Choice.load(folder / PLAN, data, options)
            return replace(kept, seeds=asked.repeats or kept.seeds)
        found = represent(data, asked.features, options, asked.seconds)
        if (count := len(found.data.train)) < FEWEST:
            raise DataError(f"{count} images are too few to find wrong labels; bring {FEWEST}")
        left = asked.seconds - (time.monotonic() - began)
        choice, seconds = fit_budget(found.data, left, asked.repeats, asked.device)
        copied, skipped = choose_copies(found.data, asked.seconds)
        notes = (*found.notes, skipped) if skipped else found.notes
        choice = replace(choice, notes=notes, copied=copied)
        display.notes((*notes, *choice.find_doubts().texts))
        display.note(f"chosen: {choice.describe()}; at most about {duration(seconds)}")
        if seconds > left:
            display.note("that is more than the budget, but nothing quicker would learn enough")
    choice.save(folder / PLAN, about)
    return choice


def _take_over(folder: Path, earlier: Earlier, *, quiet: bool) -> None:
    """Earlier decisions hold here too; the user is told how many do."""
    found = carry_over(CleanedFolder.load(folder), earlier)
    with Display(quiet=quiet) as display:
        display.note(f"{found.holding:,} of {found.every:,} earlier decisions hold here")
        display.notes(found.notes)


def _load_finished(folder: Path, seed: int, repeats: int | None) -> Cleaning:
    """What an earlier call found, if it was asked the same."""
    figures = read_json(folder / "clean.json", CleanRecord)
    for name, asked in (("seed", seed), ("repeats", repeats or figures["repeats"])):
        if figures[name] != asked:
            raise RunError(
                f"{folder} was made with {name} {figures[name]}, but {asked} was asked for; "
                "use another folder"
            )
    return Cleaning(folder, figures)


def _write_results(
    folder: Path,
    source: str,
    choice: Choice,
    runs: list[tuple[Result, Judgement]],
    seed: int,
    seconds: float,
) -> Cleaning:
    """All tables, pictures and texts; last `clean.json`: its presence means that all is there."""
    train, load = choice.data.train, _read_vectors(choice.data)
    began = time.monotonic()
    left_out = load and predict_left_out(load, train.labels, len(train.classes)).scores
    rounds = int(PLANTING * seconds / max(time.monotonic() - began, 1e-3))
    merged = merge([judgement for _, judgement in runs], left_out)
    early = choice.find_doubts()
    doubts = find_doubts(merged, [run for run, _ in runs], early, pixels=left_out is None)
    merged = replace(merged, unsure=doubts.on_rate)
    result = tables.write_judgement(folder, merged, train)
    issues = tables.build_issues(merged, train)
    issues["group"] = group_lookalikes(issues, merged.features, merged.given)
    root = _find_root(source) if train.paths else None
    write_issues(folder, issues)
    write_about(folder, source, root, train.classes)
    chosen = torch.tensor(draw_look(CleanedFolder.load(folder, look=False), seed))
    look = tables.build_issues(merged, train, chosen)
    write_issues(folder, look, LOOK)
    matrix = tables.write_matrix(folder, train, merged)
    found = write_findings(choice.data, folder, choice.copied) if choice.copied else None
    cleaned = CleanedFolder.load(folder)
    if train.paths is None:
        _write_images(cleaned, choice.data, pd.concat([issues, look]))
    figures: dict[str, Any] = {
        "seed": seed,
        "repeats": len(runs),
        "samples": len(train),
        "noise rate": asdict(merged.rate),
        "issues": len(issues),
        "verdicts": {name: int((issues["verdict"] == name).sum()) for name in VERDICTS},
        "classes": tables.count_by_class(train, merged),
        "pairs": tables.rank_pairs(matrix, train.classes),
        "doubts": doubts.texts,
        "withheld": doubts.on_rate,
        "notes": [*choice.notes, *choice.data.notes],
    }
    if load and (planted := plant(merged, load, seed, rounds)):
        figures["planted"] = planted.summarize(train.classes)
    elif load and not rounds:
        figures["notes"].append("the budget is too short to measure recall with planted errors")
    if found:
        figures[FINDINGS] = found.summarize()
    write_atomic(folder / "summary.md", summarize(figures, folder))
    sections = [*build_sections(cleaned, figures, matrix), build_trust(cleaned, {})]
    if found:
        sections += build_finding_sections(found, figures, FINDINGS)
    report([result], folder / "report.html", sections=sections, images=root)
    write_json(folder / "clean.json", figures)
    return Cleaning(folder, figures)


def _write_images(cleaned: CleanedFolder, data: DatasetSplits, shown: pd.DataFrame) -> None:
    """What a review shows of data that are no files, if they are images."""
    place, train = cleaned.folder / "images", data.train
    pictures = train.images if len(train.images.shape) == 3 else train.pictures
    if pictures:
        tables.write_images(place, pictures, tables.list_shown(shown) | cleaned.found)
    if data.test and data.test.pictures:
        paired = cleaned.list_paired("test")
        tables.write_images(place, data.test.pictures, paired, prefix="test-")


def _read_vectors(data: DatasetSplits) -> Load | None:
    """Standardised vectors by row; None for images."""
    if len(data.train.images.shape) != 1:
        return None
    images, mean, std = data.train.images, torch.tensor(data.mean), torch.tensor(data.std)
    return lambda index: (images.load(index) - mean) / std


def _find_root(source: str) -> Path | None:
    """Where the paths of a data set start: its folder, or that of the list."""
    path = Path(source)
    return path if path.is_dir() else path.parent if path.suffix in LISTS else None
