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

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from markupsafe import Markup
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from drpl.cleaning import progress, tables
from drpl.cleaning.claim import PLAN, check_claim, describe_data
from drpl.cleaning.doubts import find_doubts
from drpl.cleaning.estimate import Rate
from drpl.cleaning.exchange.carry_over import Earlier, carry_over, read_earlier
from drpl.cleaning.findings import (
    FINDINGS,
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
from drpl.cleaning.pictures import Pictures, Suspect, can_draw, format_tiles, list_worst
from drpl.cleaning.plan import FEWEST, MARGIN, Choice, Forecast, fit_budget
from drpl.cleaning.planted import plant
from drpl.cleaning.progress import BUDGET, ENCODE, TRAIN, WRITE, Overall, Step
from drpl.cleaning.records import CleanRecord, PlanRecord
from drpl.cleaning.representation import AUTO, represent
from drpl.cleaning.review.strata import draw_look
from drpl.cleaning.sections import write_report
from drpl.cleaning.summary import summarize
from drpl.data.dataset import DatasetSplits
from drpl.data.sources import ReadOptions
from drpl.detection.left_out import Load, predict_left_out
from drpl.errors import ConfigError, DataError, RunError
from drpl.files import check_apart, lock_folder, read_json, read_text, write_atomic, write_json
from drpl.runs.display import duration, parse_duration
from drpl.runs.execute import choose_device, execute
from drpl.runs.experiment import AnyData, Execution
from drpl.runs.folder import Result

KEPT = 60_000  # images that are no files up to which a review can show all of them
PLANTING = 0.2  # share of the budget that planted errors may cost,
LAST = 0.7  # and of what is left of it: the report is still to come
SPARED = 0.15  # share of the budget that no further seed may use: it is for what comes after


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
        return read_text(self.folder / "summary.md")

    @property
    def worst(self) -> list[Suspect]:
        """The first of the issues, with their images."""
        return list_worst(self.folder)

    def __str__(self) -> str:
        return self.text.replace("**", "").replace("`", "").rstrip()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if can_draw(console):
            yield Pictures(self.worst)
        yield Text(str(self))

    def _repr_html_(self) -> str:
        paragraphs = [Markup("<p>{}</p>").format(part) for part in str(self).split("\n\n")[1:-1]]
        return str(Markup().join(paragraphs) + format_tiles(self.worst))


def clean(
    data: AnyData,
    out: Path | str,
    *,
    budget: str | None = None,
    repeats: int | None = None,
    seed: int = 1,
    features: str = AUTO,
    read_options: ReadOptions | None = None,
    device: str | None = None,
    decisions: Path | str | None = None,
    quiet: bool = False,
    display: Overall | None = None,
) -> Cleaning:
    """Find the wrong labels of a data set, say what they should be, and train a robust model.

    `data` is a name, a path, or a data set in memory. `features` is an encoder that makes vectors
    of the images, `none` to train on pixels, or `auto` for what suits the data better. Settings
    follow from the data and from what this machine does in the time of `budget` (10m, 2h; 10m if
    nothing is said); they are kept in the folder, so that a stopped call is continued by the same
    one. `repeats` seeds are trained, by default as many as there is time for with vectors, and one
    with pixels. `decisions` is the decisions.csv of an earlier folder, or a file of another tool in
    one of the formats of `drpl list formats`; what was decided there holds in the new one, too.
    `display` is a bar that is shown already, from whose beginning on the time counts.

    Where images have several labels each, every label is judged against the rest, on features; the
    issues are then entries: labels that should not be there, and labels that are missing.
    """
    seconds = parse_duration(BUDGET if budget is None else budget)
    asked = _Asked(repeats, seed, features, device, budget, decided=decisions is not None)
    earlier = read_earlier(decisions) if decisions else None
    with display or Overall(seconds, quiet=quiet) as shown:
        options = replace(read_options or ReadOptions(), several=True)
        found = _clean(data, Path(out), options, asked, shown)
        if earlier:
            _take_over(found.folder, earlier, shown)
    return found


@dataclass(frozen=True)
class _Asked:
    """What the user wants of a cleaning."""

    repeats: int | None
    seed: int
    features: str
    device: str | None
    budget: str | None  # None: whatever it was planned with
    decided: bool = False  # whether earlier decisions are to hold


def _clean(
    data: AnyData, folder: Path, options: ReadOptions, asked: _Asked, display: Overall
) -> Cleaning:
    """Clean into a folder, or load what an earlier call found there."""
    check_apart(folder, data if isinstance(data, str) else None)
    about = describe_data(data, asked.features, options)
    if unknown := check_claim(folder, about):
        display.note(unknown)
    if about.get("several labels"):
        from drpl.cleaning.tags import clean_tags

        if asked.decided:
            raise ConfigError("decisions are on one label an image, and these have several")
        return clean_tags(data, folder, asked.features, options, about, display)
    if (folder / "clean.json").exists():
        return _load_finished(folder, asked, display)
    with lock_folder(folder):
        choice = _choose(data, folder, options, asked, about, display)
        runs = list(_train(choice, folder, asked, display))
        if count := display.remarks:
            what = "1 remark on a stage is" if count == 1 else f"{count} remarks on stages are"
            display.note(f"{what} in the result.json of each run, not shown here")
        source = data if isinstance(data, str) else choice.data.name
        return _write_results(folder, source, choice, runs, asked.seed, display)


def _choose(
    data: AnyData,
    folder: Path,
    options: ReadOptions,
    asked: _Asked,
    about: dict[str, Any],
    display: Overall,
) -> Choice:
    """The data and the settings that suit them and the time, reported to the user, and kept."""
    display.say("the images, and by what to see them")
    options = replace(options, progress=display.follow(ENCODE))
    if (folder / PLAN).exists():
        if asked.budget is None and (planned := _read_budget(folder)):
            display.budget = parse_duration(planned)
        kept = Choice.load(folder / PLAN, data, options)
        if planned := _find_other_budget(folder, asked.budget):
            display.note(
                f"{folder} was planned with a budget of {planned}, and goes on with that plan; "
                f"for a budget of {asked.budget} name a new folder (-o)"
            )
        _forecast(read_json(folder / PLAN, PlanRecord).get("forecast", ()), display)
        return replace(kept, seeds=asked.repeats, tuned=False) if asked.repeats else kept
    found = represent(data, asked.features, options, display.left)
    if (count := len(found.data.train)) < FEWEST:
        raise DataError(f"{count} images are too few to find wrong labels; bring {FEWEST}")
    display.begin(progress.PLAN, "what fits into the time")
    choice, forecast = fit_budget(found.data, display.left, asked.repeats, asked.device)
    copied, skipped = choose_copies(found.data, display.left)
    notes = (*found.notes, skipped) if skipped else found.notes
    choice = replace(choice, notes=notes, copied=copied)
    seconds = sum(sum(stages.values()) for stages in forecast) / MARGIN
    display.notes((*notes, *choice.find_doubts().texts))
    display.note(f"chosen: {choice.describe()}; at most about {duration(seconds)}")
    if seconds > display.left:
        left = duration(display.left)
        display.note(f"{left} of the budget are left, but nothing quicker would learn enough")
    _forecast(forecast, display)
    choice.save(folder / PLAN, about, forecast, asked.budget or BUDGET)
    return choice


def _forecast(runs: Forecast, display: Overall) -> None:
    """Tell the bar which stages will be trained."""
    steps = []
    for k, stages in enumerate(runs, 1):
        which = f"run {k} of {len(runs)}, " if len(runs) > 1 else ""
        steps += [Step(TRAIN, name, seconds, f"{which}{name}") for name, seconds in stages.items()]
    if steps:
        display.forecast(TRAIN, steps)


def _train(
    choice: Choice, folder: Path, asked: _Asked, display: Overall
) -> Iterator[tuple[Result, Judgement]]:
    """All runs of a choice; those with other seeds only while there is time, if nobody asked."""
    longest = 0.0
    for k, experiment in enumerate(choice.build_all(asked.seed)):
        if k and not asked.repeats and longest > display.left - SPARED * display.budget:
            display.note(
                f"trained with {k} of {choice.seeds + choice.tuned} seeds: the machine is slower "
                "than it was when the time was planned"
            )
            return
        display.begin(TRAIN)
        began = display.elapsed
        place = folder / "repeats" / f"seed-{asked.seed + k}" if k else folder
        execution = Execution(folder=place, device=asked.device, display=display)
        result = execute(experiment, execution)
        yield result, judge(place, experiment, choose_device(asked.device))
        spent = display.elapsed - began
        longest = max(longest, spent if k else spent / 2)  # the first also trains the final model


def _take_over(folder: Path, earlier: Earlier, display: Overall) -> None:
    """Earlier decisions hold here too; the user is told how many do."""
    found = carry_over(CleanedFolder.load(folder), earlier)
    display.note(f"{found.holding:,} of {found.every:,} earlier decisions hold here")
    display.notes(found.notes)


def _read_budget(folder: Path) -> str | None:
    """The budget that a folder was planned with, if that is known."""
    if not (folder / PLAN).exists():
        return None
    budget: str | None = read_json(folder / PLAN, PlanRecord).get("budget")
    return budget


def _find_other_budget(folder: Path, asked: str | None) -> str | None:
    """The budget that a folder was planned with, if that is known and another one is asked for."""
    planned = _read_budget(folder)
    if asked is None or planned is None:
        return None
    return planned if parse_duration(planned) != parse_duration(asked) else None


def _load_finished(folder: Path, asked: _Asked, display: Overall) -> Cleaning:
    """What an earlier call found, if it was asked the same."""
    figures = read_json(folder / "clean.json", CleanRecord)
    wanted = {"seed": asked.seed, "repeats": asked.repeats or figures["repeats"]}
    for name, value in wanted.items():
        if figures[name] != value:
            raise RunError(
                f"{folder} was made with {name} {figures[name]}, but {value} was asked for; "
                "use another folder"
            )
    if planned := _find_other_budget(folder, asked.budget):
        display.note(
            f"{folder} was finished with a budget of {planned}, and this is what was found then; "
            f"for a budget of {asked.budget} name a new folder (-o)"
        )
    return Cleaning(folder, figures)


def _write_results(
    folder: Path,
    source: str,
    choice: Choice,
    runs: list[tuple[Result, Judgement]],
    seed: int,
    display: Overall,
) -> Cleaning:
    """All tables, pictures and texts; last `clean.json`: its presence means that all is there."""
    train, load = choice.data.train, _read_vectors(choice.data)
    display.begin(WRITE, "what a linear classifier says of each label" if load else "")
    began = display.elapsed
    left_out = load and predict_left_out(load, train.labels, len(train.classes)).scores
    once = max(display.elapsed - began, 1e-3)
    display.say("the lists")
    merged = merge([judgement for _, judgement in runs], left_out)
    early = choice.find_doubts()
    doubts = find_doubts(merged, [run for run, _ in runs], early, pixels=left_out is None)
    merged = replace(merged, unsure=doubts.on_rate)
    result = tables.write_judgement(folder, merged, train)
    issues, look = _write_lists(folder, source, choice.data, merged, seed)
    matrix = tables.write_matrix(folder, train, merged)
    if choice.copied:
        display.say("near-duplicates and outliers")
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
    rounds = int(min(PLANTING * display.budget, LAST * display.left) / once)
    if load and rounds:
        display.say("planted errors, to measure what would be found")
    if load and (planted := plant(merged, load, seed, rounds)):
        figures["planted"] = planted.summarize(train.classes)
    elif load and not rounds:
        figures["notes"].append("the budget is too short to measure recall with planted errors")
    if found:
        figures[FINDINGS] = found.summarize()
    display.say("the report")
    write_atomic(folder / "summary.md", summarize(figures, folder))
    write_report(cleaned, result, figures, matrix, found)
    write_json(folder / "clean.json", figures)
    return Cleaning(folder, figures)


def _write_lists(
    folder: Path, source: str, data: DatasetSplits, merged: Judgement, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What is suspicious, and what a review looks at first, as tables and files."""
    train = data.train
    issues = tables.build_issues(merged, train)
    issues["group"] = group_lookalikes(issues, merged.features, merged.given)
    root = _find_root(source, data) if train.paths else None
    write_issues(folder, issues, others=train.columns)
    read = _describe_reading(data)
    write_about(folder, source, root, train.classes, columns=train.columns, read=read)
    chosen = torch.tensor(draw_look(CleanedFolder.load(folder, look=False), seed))
    look = tables.build_issues(merged, train, chosen)
    write_issues(folder, look, LOOK, train.columns)
    return issues, look


def _describe_reading(data: DatasetSplits) -> dict[str, Any]:
    """By what options `apply` reads the same images again; files are named one by one."""
    if not data.origin:
        return {}
    options = data.origin.read_options
    where = str(options.data_dir.resolve()) if options.data_dir else None
    chosen = {"limit": options.limit, "data_dir": where, "outside": options.outside}
    if data.train.paths:
        chosen = {}
    return options.describe_labels() | {name: value for name, value in chosen.items() if value}


def _write_images(cleaned: CleanedFolder, data: DatasetSplits, shown: pd.DataFrame) -> None:
    """What a review shows of data that are no files, if they are images: all, or what is listed."""
    place, train = cleaned.folder / "images", data.train
    pictures = train.images if len(train.images.shape) == 3 else train.pictures
    if pictures:
        listed = tables.list_shown(shown) | cleaned.found
        tables.write_images(place, pictures, range(len(train)) if len(train) <= KEPT else listed)
    if data.test and data.test.pictures:
        paired = cleaned.list_paired("test")
        tables.write_images(place, data.test.pictures, paired, prefix="test-")


def _read_vectors(data: DatasetSplits) -> Load | None:
    """Standardised vectors by row; None for images."""
    if len(data.train.images.shape) != 1:
        return None
    images, mean, std = data.train.images, torch.tensor(data.mean), torch.tensor(data.std)
    return lambda index: (images.load(index) - mean) / std


def _find_root(source: str, data: DatasetSplits) -> Path | None:
    """Where the paths of a data set start: its folder, or that of the list."""
    path = Path(source)
    if data.root and path.exists():
        return data.root
    return path if path.is_dir() else path.parent if path.suffix.lower() in LISTS else None
