"""A grid of runs, methods by noises by seeds: what `drpl compare` and `drpl.compare` do.

Each cell is a run folder of `runs.execute`, which gives back finished runs and continues begun
ones. So a grid that was stopped, killed or partly failed is continued by the same call.
"""

import re
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from html import escape
from multiprocessing import current_process
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console

from drpl.config.compose import OVERLAYS, Tree, default_preset, merge
from drpl.data.dataset import DatasetSplits
from drpl.data.sources import ReadOptions, check_source, load, with_ood
from drpl.errors import ConfigError, DrplError, did_you_mean
from drpl.experiments.executors import ENGINES
from drpl.files import check_apart, read_text, slugify, write_atomic, write_if_changed
from drpl.noise.spec import parse_spec
from drpl.registry import METHODS, NOISES, find
from drpl.report.agreement import judge_by_agreement
from drpl.report.table import tabulate_cells, tabulate_stages, to_csv, to_markdown
from drpl.runs.display import duration
from drpl.runs.execute import execute
from drpl.runs.experiment import AnyData, Execution, Experiment, Goal, as_splits, compose_for
from drpl.runs.folder import Result
from drpl.runs.machine import count_cores

if TYPE_CHECKING:
    import pandas as pd

LOST = (
    "its process was killed, perhaps because memory ran out, or it was never begun; "
    "run the same command again, perhaps with a lower --jobs"
)


@dataclass(frozen=True)
class Cell:
    """One run of a grid."""

    noise: str | None
    method: str  # or METHOD:OVERLAY
    seed: int

    @property
    def folder(self) -> Path:
        """Where it lies in the grid's folder."""
        noise, method = slugify(self.noise or "none"), slugify(self.method)
        return Path("runs") / noise / method / f"seed-{self.seed}"

    def __str__(self) -> str:
        return f"{self.method}, {self.noise or 'no noise'}, seed {self.seed}"


@dataclass(frozen=True)
class Grid:
    """Methods under noises with seeds on one data set, and how they are carried out.

    A preset, or the key of a setting, that starts with a method's name and a colon is meant for
    that method only: `{"drpl:relabel": {"begin": 20}}`. The method `drpl:literal` is `drpl` with
    the overlay `literal` over its presets, a row of its own.
    """

    data: AnyData
    out: Path
    methods: Sequence[str]  # names, or METHOD:OVERLAY
    noises: Sequence[str | None] = ()  # none: the data as they are
    seeds: Sequence[int] = (1,)
    ood: AnyData | None = None
    read_options: ReadOptions = field(default_factory=ReadOptions)
    confusion: Path | str | None = None
    presets: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    goal: Goal = "train"
    execution: Execution = field(default_factory=Execution)  # the folder is each cell's own
    engine: str = "local"
    jobs: int | None = None  # at once; None: as many as there are GPUs or else cores
    agreement: bool = False  # whether tables have a row for TS, which judges cross-entropy's runs
    began: int = field(default_factory=time.time_ns)  # nanoseconds

    def list_cells(self) -> list[Cell]:
        """Every cell once, in the order in which they are begun."""
        return [
            Cell(noise, method, seed)
            for noise in dict.fromkeys(self.noises or [None])
            for method in dict.fromkeys(self.methods)
            for seed in dict.fromkeys(self.seeds)
        ]

    def load_data(self) -> DatasetSplits:
        """The data with the classes outside, read once in each process."""
        data, ood = self.data, self.ood
        if isinstance(data, str) and (ood is None or isinstance(ood, str)):
            return _load_once(data, ood, self.read_options, self.began)
        return with_ood(
            load(data, self.read_options) if isinstance(data, str) else as_splits(data), ood
        )

    def build_experiment(self, cell: Cell) -> Experiment:
        """What a cell runs, as `drpl train` would."""
        method, *overlay = cell.method.split(":")
        return Experiment.build(
            self.load_data(),
            method=method,
            noise=cell.noise,
            confusion=self.confusion,
            preset=[*presets_for(method, self.presets), *overlay],
            settings=settings_for(method, self.settings),
            seed=cell.seed,
            goal=self.goal,
        )

    def check(self) -> None:
        """Raise for names and settings that do not exist before anything is trained."""
        if not self.list_cells():
            raise ConfigError("nothing to compare: give at least one method and one seed")
        sources = [one for one in (self.data, self.ood) if isinstance(one, str)]
        check_apart(self.out, *sources)
        for source in sources:
            check_source(source)
        if (engine := self.engine) not in ENGINES:
            raise ConfigError(f"unknown engine {engine!r}; {did_you_mean(engine, ENGINES)}")
        for noise in self.noises:
            for kind, _ in parse_spec(noise) if noise is not None else ():
                find("noise", kind, NOISES)
        usual = [default_preset(self.data) if isinstance(self.data, str) else "small"]
        for name in dict.fromkeys(self.methods):
            method, *overlay = name.split(":")
            find("method", method, METHODS)
            for one in overlay:
                find("overlay", one, dict.fromkeys(OVERLAYS))
            presets = [*(presets_for(method, self.presets) or usual), *overlay]
            try:
                compose_for(method, presets, settings_for(method, self.settings))
            except ConfigError as error:
                raise ConfigError(
                    f"{method}: {error} (write METHOD:... for a preset or setting of one method)"
                ) from None


@dataclass(frozen=True)
class CellResult:
    """How a cell went."""

    cell: Cell
    fresh: bool  # not finished by an earlier call
    failure: str | None


@dataclass(frozen=True)
class Comparison:
    """A grid's folder, the runs that it has, and why the others failed."""

    folder: Path
    results: list[Result]
    failures: dict[Cell, str]
    judged: list[Result] = field(default_factory=list)  # the same runs as detectors judge them

    @property
    def table(self) -> "pd.DataFrame":
        """One row a cell, and one for each judgement of a detector, as in `table.csv`."""
        return tabulate_cells([*self.results, *self.judged])

    @property
    def text(self) -> str:
        """The means over seeds, as in `table.md`."""
        return read_text(self.folder / "table.md")

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        failed = "".join(f"<li>{escape(f'{c}: {why}')}</li>" for c, why in self.failures.items())
        table: str = self.table.to_html(index=False, border=0)  # escapes what it shows
        return table + (f"<ul>{failed}</ul>" if failed else "")


def compare(
    data: AnyData,
    *,
    methods: Iterable[str],
    noises: Iterable[str | None] = (),
    seeds: Iterable[int] = (1,),
    out: Path | str,
    ood: AnyData | None = None,
    read_options: ReadOptions | None = None,
    confusion: Path | str | None = None,
    preset: str | Iterable[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    goal: Goal = "train",
    engine: str = "local",
    jobs: int | None = None,
    device: str | None = None,
    save_every: float = 10.0,
    track_every: int = 0,
    quiet: bool = False,
) -> Comparison:
    """Train every method under every noise with every seed, and write tables and figures to `out`.

    Without noises the data are taken as they are. A preset or the key of a setting that starts
    with a method's name, such as `{"drpl:relabel": {"begin": 20}}`, is meant for that method only.
    A method such as `drpl:literal` is a row of its own, with that overlay over the presets. A cell
    that fails does not stop the others. Call it again with the same arguments to continue where it
    stopped.
    """
    return run_grid(make_grid(locals()))


def make_grid(arguments: Mapping[str, Any]) -> Grid:
    """The grid that arguments of `compare` describe; others are passed over."""
    execution = {one.name for one in fields(Execution)} & arguments.keys()
    preset = arguments["preset"] or ()
    found = {one.name: arguments[one.name] for one in fields(Grid) if one.name in arguments}
    found |= {name: tuple(found[name]) for name in ("methods", "noises", "seeds")}
    found |= {
        "out": Path(found["out"]),
        "read_options": found["read_options"] or ReadOptions(),
        "presets": (preset,) if isinstance(preset, str) else tuple(preset),
        "settings": found["settings"] or {},
        "execution": Execution(**{name: arguments[name] for name in execution}),
    }
    return Grid(**found)


def run_grid(grid: Grid) -> Comparison:
    """Carry out the cells of a grid that are not finished, and write its tables."""
    grid.check()
    cells = grid.list_cells()
    jobs = min(grid.jobs or _usual_jobs(grid.execution.device), len(cells))
    threads = max(1, min(count_cores() // jobs, torch.get_num_threads()))
    grid = replace(grid, execution=replace(grid.execution, threads=threads))
    console = Console(stderr=True, quiet=grid.execution.quiet, highlight=False)
    ended, began, trained = dict[Cell, str | None](), time.monotonic(), 0
    for one in ENGINES[grid.engine](partial(_attempt, grid), cells, jobs, threads):
        ended[one.cell], trained = one.failure, trained + one.fresh
        said = f"failed, {one.failure}" if one.failure else _summarize(grid.out / one.cell.folder)
        text = f"{len(ended)} of {len(cells)}: {one.cell}: {said}"
        if trained and (left := len(cells) - len(ended)):
            seconds = (time.monotonic() - began) / trained * left
            text += f"; about {duration(seconds)} left"
        console.print(text, soft_wrap=True, markup=False)
    failures = {cell: reason for cell in cells if (reason := ended.get(cell, LOST))}
    results = [Result.load(grid.out / cell.folder) for cell in cells if cell not in failures]
    asked = results if grid.agreement else []
    judged = [found.result for run in asked if (found := judge_by_agreement(run))]
    comparison = Comparison(grid.out, results, failures, judged)
    write_comparison(comparison)
    return comparison


def presets_for(method: str, presets: Iterable[str]) -> list[str]:
    """Presets without the name of a method in front, or with this one's."""
    return [rest for preset in presets for rest in _strip_method(method, preset)]


def settings_for(method: str, settings: Mapping[str, Any]) -> Tree:
    """Settings without the name of a method in front, or with this one's."""
    found: Tree = {}
    for key, value in merge({}, settings).items():
        for rest in _strip_method(method, key):
            merge(found, {rest: value})
    return found


def _strip_method(method: str, text: str) -> Iterator[str]:
    """The text if it is meant for the method, without the method's name."""
    name, colon, rest = text.partition(":")
    if not colon or name not in METHODS:
        yield text
    elif name == method:
        yield rest


def _usual_jobs(device: str | None) -> int:
    """As many as there are GPUs or else cores; one if a certain GPU was asked for."""
    if device and device.startswith("cuda"):
        return 1
    return int((0 if device else torch.cuda.device_count()) or count_cores())


def _own_gpu() -> str | None:
    """The GPU of this worker, if there are any: workers are numbered and take them in turn."""
    count = torch.cuda.device_count()
    number = re.search(r"\d+$", current_process().name)
    return f"cuda:{(int(number[0]) - 1 if number else 0) % count}" if count else None


@lru_cache(maxsize=1)
def _load_once(data: str, ood: str | None, read_options: ReadOptions, began: int) -> DatasetSplits:
    """A data set, read once in each process and each grid: files may change from one to another."""
    return with_ood(load(data, read_options), ood)


def _attempt(grid: Grid, cell: Cell) -> CellResult:
    """Run a cell; what goes wrong becomes the text of its failure."""
    folder = grid.out / cell.folder
    fresh = not (folder / "result.json").exists()
    device = grid.execution.device or _own_gpu()
    # A worker whose grid was killed may still be at this cell; then its result is awaited.
    execution = replace(grid.execution, folder=folder, device=device, quiet=True, wait=True)
    try:
        execute(grid.build_experiment(cell), execution)
    except DrplError as error:
        return CellResult(cell, fresh, str(error))
    except Exception as error:
        trace = folder / "error.txt"
        write_atomic(trace, traceback.format_exc())
        text = " ".join(f"{type(error).__name__}: {error}".split())  # on one line
        return CellResult(cell, fresh, f"{text} (see {trace})")
    (folder / "error.txt").unlink(missing_ok=True)  # of an earlier attempt
    return CellResult(cell, fresh, None)


def _summarize(folder: Path) -> str:
    """The main figures of a run on one line."""
    result = Result.load(folder)
    last, auroc = result.accuracy["last"], (result.detection or {}).get("auroc")
    accuracy = "" if last is None else f"accuracy {last:.2f} %, "
    detection = "" if auroc is None else f"AUROC {auroc:.3f}, "
    return f"{accuracy}{detection}{result.summary['seconds']:.0f} s"


def write_comparison(comparison: Comparison) -> None:
    """Write `table.csv`, `stages.csv`, `table.md` and a ROC figure for each noise."""
    from drpl.report import roc  # here, because workers draw no pictures
    from drpl.report.style import Picture, assign_strokes

    out, results = comparison.folder, comparison.results
    write_if_changed(out / "table.csv", to_csv(comparison.table))
    write_if_changed(out / "stages.csv", to_csv(tabulate_stages(results)))
    cases: dict[str | None, list[Result]] = {}
    for result in [*results, *comparison.judged]:
        cases.setdefault(result.summary["noise"]["spec"], []).append(result)
    look, pictures = assign_strokes([result.method for result in results]), {}
    for noise, runs in cases.items():
        title = f"Labels kept: {runs[0].summary['dataset']}, {noise or 'its own noise'}"
        own = [run for run in runs if run not in comparison.judged]
        figure = roc.draw_methods(own, look, title)
        if figure is not None:
            picture = Picture(f"roc-{slugify(noise or 'none')}", title, figure)
            pictures[noise] = f"{picture.name}.png"
            picture.write(out)
    failures = {str(cell): sentence for cell, sentence in comparison.failures.items()}
    write_if_changed(out / "table.md", to_markdown(cases, pictures, failures))
