"""A grid of runs, methods by noises by seeds: what `drpl compare` and `drpl.compare` do.

Each cell is a run folder of `pipeline.train`, which gives back finished runs and continues begun
ones. So a grid that was stopped, killed or partly failed is continued by the same call.
"""

import re
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import current_process
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
import torch
from filelock import FileLock
from rich.console import Console

from drpl.config.compose import default_preset
from drpl.data.dataset import Dataset, DatasetSplits
from drpl.data.outside import with_outside
from drpl.data.sources import ReadOptions, load
from drpl.errors import ConfigError, DrplError, did_you_mean
from drpl.experiments.executors import ENGINES
from drpl.files import explain_write_errors, slugify, write_atomic, write_if_changed
from drpl.noise.inject import asked
from drpl.registry import METHODS, NOISES, find
from drpl.report.table import tabulate_cells, tabulate_stages, to_csv, to_markdown
from drpl.runs.display import duration
from drpl.runs.execute import prepare, train
from drpl.runs.folder import Result

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
    method: str
    seed: int

    @property
    def case(self) -> str:
        """The noise as a folder's name."""
        return slugify(self.noise or "none")

    @property
    def place(self) -> Path:
        """Where it lies in the grid's folder."""
        return Path("runs") / self.case / self.method / f"seed-{self.seed}"

    def __str__(self) -> str:
        return f"{self.method}, {self.noise or 'no noise'}, seed {self.seed}"


@dataclass(frozen=True)
class Grid:
    """What all cells share."""

    data: str | DatasetSplits | Dataset
    ood: str | DatasetSplits | Dataset | None
    read_options: ReadOptions
    out: Path
    threads: int
    device: str | None
    presets: Sequence[str]
    settings: Sequence[str]
    more: Mapping[str, Any]  # for `train`, the same for every cell
    began: int  # nanoseconds


@dataclass(frozen=True)
class Ended:
    """How a cell went."""

    cell: Cell
    fresh: bool  # not finished by an earlier call
    failure: str | None


@dataclass(frozen=True)
class Comparison:
    """A grid's folder, the runs that it has, and in words why the others failed."""

    folder: Path
    results: list[Result]
    failures: dict[Cell, str]

    @property
    def table(self) -> "pd.DataFrame":
        """One row a cell, as in `table.csv`."""
        return tabulate_cells(self.results)

    @property
    def text(self) -> str:
        """The means over seeds, as in `table.md`."""
        return (self.folder / "table.md").read_text("utf-8")


def compare(
    data: str | DatasetSplits | Dataset,
    *,
    methods: Iterable[str],
    noises: Iterable[str | None] = (),
    seeds: Iterable[int] = (1,),
    out: Path | str,
    ood: str | DatasetSplits | Dataset | None = None,
    read_options: ReadOptions | None = None,
    preset: str | Iterable[str] | None = None,
    settings: Iterable[str] = (),
    engine: str = "local",
    jobs: int | None = None,
    device: str | None = None,
    quiet: bool = False,
    **more: Any,
) -> Comparison:
    """Train every method under every noise with every seed, and write tables and figures to `out`.

    Without noises the data are taken as they are. A preset or a setting that starts with a
    method's name, such as `"drpl:relabel.begin=20"`, is meant for that method only. `more` goes
    to `train`: confusion, goal, save_every, track_every. A cell that fails does not stop the
    others. Call it again with the same arguments to continue where it stopped.
    """
    cells = [
        Cell(noise, method, seed)
        for noise in dict.fromkeys(list(noises) or [None])
        for method in dict.fromkeys(methods)
        for seed in dict.fromkeys(seeds)
    ]
    jobs = min(jobs or usual_jobs(device), len(cells)) or 1
    grid = Grid(
        data,
        ood,
        read_options or ReadOptions(),
        Path(out),
        max(1, min(joblib.cpu_count() // jobs, torch.get_num_threads())),
        device,
        [preset] if isinstance(preset, str) else list(preset or ()),
        list(settings),
        more,
        time.time_ns(),
    )
    check(grid, cells, engine)
    news, ended = GridProgress(len(cells), quiet), {}
    for one in ENGINES[engine](partial(attempt, grid), cells, jobs, grid.threads):
        ended[one.cell] = one
        news.tell(one, grid.out)
    failures = {cell: LOST for cell in cells if cell not in ended}
    failures |= {cell: one.failure for cell, one in ended.items() if one.failure}
    results = [Result.load(grid.out / cell.place) for cell in cells if cell not in failures]
    return written(Comparison(grid.out, results, failures))


def check(grid: Grid, cells: Sequence[Cell], engine: str) -> None:
    """Raise for names and settings that do not exist before anything is trained."""
    if not cells:
        raise ConfigError("nothing to compare: give at least one method and one seed")
    if engine not in ENGINES:
        raise ConfigError(f"unknown engine {engine!r}; {did_you_mean(engine, ENGINES)}")
    for noise in {cell.noise for cell in cells}:
        for kind, _ in asked(noise) if noise else ():
            find("noise", kind, NOISES)
    usual = [default_preset(grid.data)] if isinstance(grid.data, str) else ["small"]
    for method in dict.fromkeys(cell.method for cell in cells):
        find("method", method, METHODS)
        try:
            prepare(
                method,
                None,
                meant_for(method, grid.presets) or usual,
                meant_for(method, grid.settings),
            )
        except ConfigError as error:
            raise ConfigError(
                f"{method}: {error} (write METHOD:... for a preset or setting of one method)"
            ) from None


def meant_for(method: str, texts: Iterable[str]) -> list[str]:
    """Presets or settings without the name of a method in front, or with this one's."""
    meant = []
    for text in texts:
        name, colon, rest = text.partition(":")
        if not colon or name not in METHODS:
            meant.append(text)
        elif name == method:
            meant.append(rest)
    return meant


def usual_jobs(device: str | None) -> int:
    """As many as there are GPUs or else cores; one if a certain GPU was asked for."""
    if device and device.startswith("cuda"):
        return 1
    return int((0 if device else torch.cuda.device_count()) or joblib.cpu_count())


def own_gpu() -> str | None:
    """The GPU of this worker, if there are any: workers are numbered and take them in turn."""
    count = torch.cuda.device_count()
    number = re.search(r"\d+$", current_process().name)
    return f"cuda:{(int(number[0]) - 1 if number else 0) % count}" if count else None


@lru_cache(maxsize=1)
def loaded(data: str, ood: str | None, read_options: ReadOptions, began: int) -> DatasetSplits:
    """A data set, read once in each process and each grid: files may change from one to another."""
    return with_outside(load(data, read_options), ood)


def attempt(grid: Grid, cell: Cell) -> Ended:
    """Run a cell; what goes wrong is put in words."""
    folder = grid.out / cell.place
    fresh = not (folder / "result.json").exists()
    torch.set_num_threads(grid.threads)
    try:
        with explain_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        # A worker whose grid was killed may still be at this cell; then its result is awaited.
        with FileLock(folder / ".lock"):
            run(grid, cell, folder)
    except DrplError as error:
        return Ended(cell, fresh, str(error))
    except Exception as error:
        trace = folder / "error.txt"
        write_atomic(trace, traceback.format_exc())
        words = " ".join(f"{type(error).__name__}: {error}".split())  # on one line
        return Ended(cell, fresh, f"{words} (see {trace})")
    (folder / "error.txt").unlink(missing_ok=True)  # of an earlier attempt
    return Ended(cell, fresh, None)


def run(grid: Grid, cell: Cell, folder: Path) -> None:
    """Train a cell, as `drpl train` would."""
    data, ood = grid.data, grid.ood
    if isinstance(data, str) and (ood is None or isinstance(ood, str)):
        data, ood = loaded(data, ood, grid.read_options, grid.began), None
    train(
        data,
        method=cell.method,
        noise=cell.noise,
        seed=cell.seed,
        ood=ood,
        preset=meant_for(cell.method, grid.presets),
        settings=meant_for(cell.method, grid.settings),
        device=grid.device or own_gpu(),
        out=folder,
        quiet=True,
        **grid.more,
    )


class GridProgress:
    """A line for every cell that ends, and how long the others may take."""

    def __init__(self, cells: int, quiet: bool) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self.cells, self.ended, self.fresh = cells, 0, 0
        self.began = time.monotonic()

    def tell(self, one: Ended, out: Path) -> None:
        """Print the line of a cell."""
        self.ended += 1
        self.fresh += one.fresh
        said = one.failure or achieved(Result.load(out / one.cell.place))
        text = f"{self.ended} of {self.cells}: {one.cell}: {'failed, ' * bool(one.failure)}{said}"
        left = self.cells - self.ended
        if left and self.fresh:
            seconds = (time.monotonic() - self.began) / self.fresh * left
            text += f"; about {duration(seconds)} left"
        self.console.print(text, soft_wrap=True, markup=False)


def achieved(result: Result) -> str:
    """The main figures of a run in a few words."""
    last, auroc = result.accuracy["last"], (result.detection or {}).get("auroc")
    parts = [f"accuracy {last:.2f} %" if last is not None else None]
    parts += [f"AUROC {auroc:.3f}" if auroc is not None else None]
    return ", ".join([*filter(None, parts), f"{result.summary['seconds']:.0f} s"])


def written(comparison: Comparison) -> Comparison:
    """Write `table.csv`, `stages.csv`, `table.md` and a ROC figure for each noise."""
    from drpl.report import roc  # here, because workers draw no pictures
    from drpl.report.style import Picture, assign_strokes

    out, results = comparison.folder, comparison.results
    write_if_changed(out / "table.csv", to_csv(tabulate_cells(results)))
    write_if_changed(out / "stages.csv", to_csv(tabulate_stages(results)))
    cases: dict[str | None, list[Result]] = {}
    for result in results:
        cases.setdefault(result.summary["noise"]["spec"], []).append(result)
    look, pictures = assign_strokes([result.summary["method"] for result in results]), {}
    for noise, runs in cases.items():
        title = f"Labels kept: {runs[0].summary['dataset']}, {noise or 'its own noise'}"
        figure = roc.draw_methods(runs, look, title)
        if figure is not None:
            picture = Picture(f"roc-{slugify(noise or 'none')}", title, figure)
            pictures[noise] = f"{picture.name}.png"
            write_if_changed(out / f"{picture.name}.png", picture.render_png())
            write_if_changed(out / f"{picture.name}.svg", picture.render_svg(alone=True))
    failures = {str(cell): sentence for cell, sentence in comparison.failures.items()}
    write_if_changed(out / "table.md", to_markdown(cases, pictures, failures))
    return comparison
