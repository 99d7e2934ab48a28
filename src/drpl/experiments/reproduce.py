"""The paper's tables as grids: at its own scale, or small on data that everybody has."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from drpl.data.dataset import DatasetSplits
from drpl.data.sources import ReadOptions, load, with_ood
from drpl.data.synthetic import SIZES, make_synthetic
from drpl.errors import ConfigError, DataError, did_you_mean
from drpl.experiments.confusion import METHOD, learn_confusion
from drpl.experiments.grid import Comparison, Grid, presets_for, run_grid, settings_for
from drpl.noise.spec import parse_spec
from drpl.registry import METHODS
from drpl.report.paper import TABLES, read_published
from drpl.runs.display import duration
from drpl.runs.dry_run import Speeds, dry_run
from drpl.runs.execute import choose_device
from drpl.runs.experiment import Execution, Experiment, Goal

ALIKE = ("nonuniform", "ood-nonuniform")  # noises that follow a confusion matrix
OWN_FLIPS = ("cifar10", "cifar100")  # sets whose non-uniform noise needs none
FOREIGN = ("ood", "ood-nonuniform")
ANY = "uniform:0.4"  # the time of a run hardly depends on its noise, but an oracle needs some

# What the small grids run on, the first that is there: the classes set aside to be foreign, pixels
# a side, and images.
MINI = {
    "fashion-mnist": (("Shirt", "Coat", "Sneaker", "Bag"), 14, 1200),
    "digits": (("8", "9"), None, None),
}
MINI_WEB = "uniform:0.1+ood:0.1"  # stands in for WebVision's own noise


@dataclass(frozen=True)
class TablePlan:
    """The grid of a table on one data set."""

    data: str
    noises: tuple[str | None, ...]
    methods: tuple[str, ...]
    preset: str
    goal: Goal = "train"
    outside: tuple[str, ...] = ()  # classes of the data that out-of-distribution noise takes
    size: int | None = None
    limit: int | None = None

    @property
    def kinds(self) -> set[str]:
        """The kinds of noise in it."""
        return {kind for noise in self.noises if noise for kind, _ in parse_spec(noise)}

    @property
    def needs_confusion(self) -> bool:
        """Whether some noise must be told which classes look alike."""
        return bool(self.kinds & set(ALIKE)) and self.data not in OWN_FLIPS


def plan_paper_grids(table: str) -> list[TablePlan]:
    """A table as the paper has it: one grid for each of its data sets."""
    if table not in TABLES:
        raise ConfigError(f"the paper has no table {table!r}; {did_you_mean(table, TABLES)}")
    cells = [figure for figure in read_published() if figure.table == table]
    plans = []
    for dataset in dict.fromkeys(figure.dataset for figure in cells):
        mine = [figure for figure in cells if figure.dataset == dataset]
        noises = dict.fromkeys(None if f.noise == "none" else f.noise for f in mine)
        methods = tuple(dict.fromkeys(figure.method for figure in mine))
        # Where the paper prints no accuracy, no final model is needed.
        goal: Goal = "train" if any(figure.best is not None for figure in mine) else "detect"
        plans.append(TablePlan(dataset, tuple(noises), methods, dataset, goal))
    return plans


def plan_mini_grid(table: str, data: str) -> TablePlan:
    """The methods and noises of a table, small: on `data`, under the preset `mini`."""
    first = plan_paper_grids(table)[0]
    noises = first.noises if any(first.noises) else (MINI_WEB,)
    plan = replace(first, data=data, noises=noises, preset="mini")
    outside, size, limit = MINI.get(data, ((), None, None))
    foreign = outside if plan.kinds & set(FOREIGN) else ()
    return replace(plan, outside=foreign, size=size, limit=limit)


@cache
def find_mini_data(read_options: ReadOptions) -> str:
    """The first of the small grids' data sets that is there."""
    for name in MINI:
        try:
            load(name, read_options)
        except DataError:
            continue
        return name
    raise DataError("none of the data sets for small grids is here; name one with --data")


@dataclass(frozen=True)
class TableRequest:
    """What a user may choose about a table."""

    table: str
    scale: str = "paper"
    data: str | None = None
    seeds: tuple[int, ...] = (1,)
    presets: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    ood: str | None = None
    confusion: Path | None = None
    read_options: ReadOptions = field(default_factory=ReadOptions)
    execution: Execution = field(default_factory=Execution)
    engine: str = "local"
    jobs: int | None = None

    def plans(self) -> list[TablePlan]:
        """The grids to run: methods that this library lacks are left out."""
        if self.scale == "mini":
            plans = [plan_mini_grid(self.table, self.data or find_mini_data(self.read_options))]
        elif self.data:
            raise ConfigError("--data goes with --scale mini; the paper's scale has its own data")
        else:
            plans = plan_paper_grids(self.table)
        plans = [
            replace(plan, methods=tuple(m for m in plan.methods if m in METHODS)) for plan in plans
        ]
        if not all(plan.methods for plan in plans):
            raise ConfigError(f"none of the methods of table {self.table} is in this library")
        return plans

    def check(self) -> None:
        """Raise if a file that says which classes look alike is needed and was not given."""
        needy = [plan.data for plan in self.plans() if plan.needs_confusion]
        if needy and not self.confusion and self.scale == "paper":
            raise ConfigError(
                f"table {self.table} has non-uniform noise, which needs to know which classes "
                f"look alike: make a confusion matrix with `drpl confusion {needy[0]} -o T.npz` "
                "and give it with --confusion T.npz"
            )

    def list_left_out(self) -> list[str]:
        """The rows of the table that are no methods of this library."""
        rows = [method for plan in plan_paper_grids(self.table) for method in plan.methods]
        return [name for name in dict.fromkeys(rows) if name not in METHODS]

    def presets_of(self, plan: TablePlan) -> list[str]:
        """The presets asked for, or the plan's own."""
        return list(self.presets) or [plan.preset]

    def read_as(self, plan: TablePlan) -> ReadOptions:
        """How the plan's data are read."""
        return replace(
            self.read_options,
            outside=self.read_options.outside or plan.outside,
            size=self.read_options.size or plan.size,
            limit=self.read_options.limit or plan.limit,
        )

    def make_grid(self, plan: TablePlan, folder: Path) -> Grid:
        """The grid of one of the table's data sets."""
        return Grid(
            plan.data,
            folder,
            plan.methods,
            plan.noises,
            self.seeds,
            self.ood,
            self.read_as(plan),
            self.confusion or self._learn_confusion(plan, folder),
            self.presets_of(plan),
            self.settings,
            plan.goal,
            self.execution,
            self.engine,
            self.jobs,
        )

    def _learn_confusion(self, plan: TablePlan, folder: Path) -> Path | None:
        """A confusion matrix for a small grid, learnt once from the clean data and kept."""
        path = folder / "confusion.npz"
        if not plan.needs_confusion:
            return None
        if not path.exists():
            found = learn_confusion(
                with_ood(load(plan.data, self.read_as(plan)), self.ood),
                runs=folder / "confusion",
                preset=presets_for(METHOD, self.presets_of(plan)),
                settings=settings_for(METHOD, self.settings),
                execution=Execution(device=self.execution.device, quiet=True),
            )
            found.write(path)
        return path


def reproduce(request: TableRequest, out: Path) -> list[Comparison]:
    """Run the grid of a table; a table with two data sets has a folder for each."""
    request.check()
    plans = request.plans()
    return [
        run_grid(request.make_grid(plan, out / plan.data if len(plans) > 1 else out))
        for plan in plans
    ]


@dataclass(frozen=True)
class Cost:
    """What the cells of a method would take, one after the other on this machine."""

    method: str
    cells: int
    seconds: float  # of one cell


def _estimate_costs(plan: TablePlan, data: DatasetSplits, request: TableRequest) -> Iterator[Cost]:
    """A dry run of each method of a plan."""
    speeds: Speeds = {}
    for method in plan.methods:
        experiment = Experiment.build(
            data,
            method=method,
            noise=ANY if any(plan.noises) else None,
            preset=presets_for(method, request.presets_of(plan)),
            settings=settings_for(method, request.settings),
            goal=plan.goal,
        )
        seconds = dry_run(experiment, request.execution, speeds).seconds
        yield Cost(method, len(plan.noises) * len(request.seeds), seconds)


def _load_or_imitate(plan: TablePlan, request: TableRequest) -> tuple[DatasetSplits, str | None]:
    """The plan's data or, if they cannot be read, images of the same shape and number."""
    try:
        return load(plan.data, request.read_as(plan)), None
    except DataError as error:
        if plan.data not in SIZES:
            raise
        return make_synthetic(plan.data), f"{error}; estimated on a stand-in of the same size"


def list_cells(request: TableRequest) -> Iterator[str]:
    """The cells of a table, a line for each noise."""
    for plan in request.plans():
        cells = len(plan.noises) * len(plan.methods) * len(request.seeds)
        yield f"{plan.data}, preset {', '.join(request.presets_of(plan))}: {cells} cells"
        for noise in plan.noises:
            yield f"  {noise or 'none':<22} {', '.join(plan.methods)}"
    if gone := request.list_left_out():
        yield f"not in this library, and left out: {', '.join(gone)}"


def forecast(request: TableRequest) -> Iterator[str]:
    """Hours by method and in all, each line as soon as it is known."""
    gpu = choose_device(request.execution.device).type == "cuda"
    unit, threads = ("GPU", 1) if gpu else ("CPU", torch.get_num_threads())
    cells, seconds = 0, 0.0
    for plan in request.plans():
        data, note = _load_or_imitate(plan, request)
        if note:
            yield note
        yield f"{plan.data:<16}{'cells':>8}{'hours a cell':>16}{unit + '-hours':>12}"
        for cost in _estimate_costs(plan, data, request):
            hours = cost.seconds / 3600
            all_hours = cost.cells * hours * threads
            yield f"  {cost.method:<14}{cost.cells:>8}{hours:>16.3f}{all_hours:>12.1f}"
            cells, seconds = cells + cost.cells, seconds + cost.cells * cost.seconds
    yield f"{'all':<16}{cells:>8}{'':>16}{seconds / 3600 * threads:>12.1f}"
    where = "one GPU" if gpu else f"{threads} of this machine's cores"
    yield f"{duration(seconds)} on {where}, estimated from a few steps here and now"
