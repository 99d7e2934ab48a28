"""The paper's tables as grids: at its own scale, or small on data that everybody has."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from drpl.config.compose import default_preset
from drpl.data.dataset import DatasetSplits
from drpl.data.sources import ReadOptions, load
from drpl.data.synthetic import OUTSIDE, SIZES, make_synthetic
from drpl.errors import ConfigError, DataError, did_you_mean
from drpl.experiments.confusion import METHOD, NETWORKS, learn_confusion
from drpl.experiments.grid import Cell, Comparison, Grid, presets_for, run_grid, settings_for
from drpl.noise.spec import parse_spec
from drpl.registry import METHODS
from drpl.report import agreement
from drpl.report.paper import TABLES, read_published
from drpl.runs.display import duration
from drpl.runs.dry_run import Speeds, dry_run
from drpl.runs.execute import choose_device
from drpl.runs.experiment import Execution

ALIKE = ("nonuniform", "ood-nonuniform")  # noises that follow a confusion matrix
OWN_FLIPS = ("cifar10", "cifar100")  # sets whose non-uniform noise needs none
FOREIGN = ("ood", "ood-nonuniform")
# What tables take besides the preset of their data: TS judges the networks of Figure 1.
PRESETS = {"detection": ["figure1"], "webvision-google": ["inception"]}
SIDES = {"webvision-google": 342}  # pixels, where not those of the data set
ANY = "uniform:0.4"  # the time of a run hardly depends on its noise, but an oracle needs some

# What the small grids run on, the first that is there: the classes set aside to be foreign, pixels
# a side, and images.
MINI = {
    "fashion-mnist": (("Shirt", "Coat", "Sneaker", "Bag"), 14, 1200),
    "digits": (("8", "9"), None, None),
}
MINI_WEB = "uniform:0.1+ood:0.1"  # stands in for WebVision's own noise


def plan_table(table: str, asked: Grid, *, mini: bool = False) -> list[Grid]:
    """The grids of a table, one for each of its data sets, or a single small one.

    The table decides on data, noises, methods and goal, and on presets where none are asked for.
    Data may be asked for with a small grid only. Rows that this library lacks are left out; a row
    of TS is one of the runs of cross-entropy, which it judges.
    """
    if table not in TABLES:
        raise ConfigError(f"the paper has no table {table!r}; {did_you_mean(table, TABLES)}")
    if asked.data and not mini:
        raise ConfigError("--data goes with --scale mini; the paper's scale has its own data")
    cells = [figure for figure in read_published() if figure.table == table]
    grids, sides = [], SIDES.get(table)
    for dataset in dict.fromkeys(figure.dataset for figure in cells):
        mine = [figure for figure in cells if figure.dataset == dataset]
        rows = dict.fromkeys(figure.method for figure in mine)
        trained = dict.fromkeys(agreement.METHOD if _is_detector(m) else m for m in rows)
        grid = replace(
            asked,
            data=dataset,
            methods=[method for method in trained if method in METHODS],
            noises=[*dict.fromkeys(None if f.noise == "none" else f.noise for f in mine)],
            presets=asked.presets or [default_preset(dataset), *PRESETS.get(table, [])],
            agreement=any(map(_is_detector, rows)),
            read_options=replace(asked.read_options, size=asked.read_options.size or sides),
            # Where the paper prints no accuracy, no final model is needed.
            goal="train" if any(figure.best is not None for figure in mine) else "detect",
        )
        if not grid.methods:
            raise ConfigError(f"none of the methods of table {table} is in this library")
        grids.append(grid)
    if mini:
        return [_shrink(grids[0], asked)]
    several = len(grids) > 1  # each has a folder of its own
    return [replace(grid, out=asked.out / str(grid.data)) for grid in grids] if several else grids


def _is_detector(row: str) -> bool:
    """Whether a row of a table is no method, but judges the runs of one."""
    return row == agreement.DETECTOR


def _shrink(grid: Grid, asked: Grid) -> Grid:
    """The methods and noises of a grid, small: under the preset `mini`, on data that are here.

    That preset adds something to DRPL, so DRPL without it has a row of its own.
    """
    read = asked.read_options
    data = asked.data or find_mini_data(read)
    noises = grid.noises if any(grid.noises) else [MINI_WEB]
    grid = replace(grid, data=data, noises=noises, presets=asked.presets or ["mini"])
    if "drpl" in grid.methods:
        grid = replace(grid, methods=[*grid.methods, "drpl:literal"])
    outside, size, limit = MINI.get(str(data), ((), None, None))
    foreign = outside if _list_kinds(grid) & {*FOREIGN} else ()
    size, limit = read.size or size, read.limit or limit
    read = replace(read, outside=read.outside or foreign, size=size, limit=limit)
    return replace(grid, read_options=read)


def find_mini_data(read_options: ReadOptions) -> str:
    """The first of the small grids' data sets that is there."""
    for name in MINI:
        try:
            load(name, read_options)
        except DataError:
            continue
        return name
    raise DataError("none of the data sets for small grids is here; name one with --data")


def list_left_out(table: str) -> list[str]:
    """The rows of a table that are no methods of this library."""
    rows = dict.fromkeys(figure.method for figure in read_published() if figure.table == table)
    return [name for name in rows if name not in METHODS and not _is_detector(name)]


def _list_kinds(grid: Grid) -> set[str]:
    """The kinds of noise in a grid."""
    return {kind for noise in grid.noises if noise for kind, _ in parse_spec(noise)}


def _lacks_confusion(grid: Grid) -> bool:
    """Whether some noise must know which classes look alike, and does not."""
    needed = _list_kinds(grid) & {*ALIKE} and grid.data not in OWN_FLIPS
    return bool(needed and not grid.confusion)


def check_confusion(table: str, grids: Sequence[Grid]) -> None:
    """Raise if a file that says which classes look alike is needed and was not given."""
    if needy := [grid.data for grid in grids if _lacks_confusion(grid)]:
        raise ConfigError(
            f"table {table} has non-uniform noise, which needs to know which classes "
            f"look alike: make a confusion matrix with `drpl confusion {needy[0]} -o T.npz` "
            "and give it with --confusion T.npz, or give the authors' ConfMatrix.npy"
        )


def reproduce(grids: Sequence[Grid]) -> list[Comparison]:
    """Run the grids of a table; what they lack of confusion matrices is learnt first."""
    return [run_grid(_learn_confusion(grid) if _lacks_confusion(grid) else grid) for grid in grids]


def _learn_confusion(grid: Grid) -> Grid:
    """The grid with a confusion matrix, learnt once from the clean data and kept."""
    path = grid.out / "confusion.npz"
    if not path.exists():
        found = learn_confusion(
            grid.load_data(),
            runs=grid.out / "confusion",
            preset=presets_for(METHOD, grid.presets),
            settings=settings_for(METHOD, grid.settings),
            execution=Execution(device=grid.execution.device, quiet=True),
        )
        found.write(path)
    return replace(grid, confusion=path)


def list_cells(grids: Sequence[Grid]) -> Iterator[str]:
    """The cells of a table, a line for each noise."""
    for grid in grids:
        yield f"{grid.data}, preset {', '.join(grid.presets)}: {len(grid.list_cells())} cells"
        for noise in grid.noises:
            yield f"  {noise or 'none':<22} {', '.join(grid.methods)}"


def forecast(grids: Sequence[Grid]) -> Iterator[str]:
    """Hours by method and in all, each line as soon as it is known."""
    execution = grids[0].execution
    gpu = choose_device(execution.device).type == "cuda"
    unit, threads = ("GPU", 1) if gpu else ("CPU", torch.get_num_threads())
    cells, seconds = 0, 0.0
    for grid in grids:
        data, note = _load_or_imitate(grid)
        if note:
            yield note
        yield f"{grid.data:<16}{'cells':>8}{'hours a cell':>16}{unit + '-hours':>12}"
        speeds: Speeds = {}
        count = len(grid.list_cells()) // len(grid.methods)
        clean = replace(grid, data=data, ood=None, confusion=None)
        for method in grid.methods:
            cell = Cell(ANY if any(grid.noises) else None, method, 1)
            one = dry_run(clean.build_experiment(cell), execution, speeds).seconds
            cells, seconds = cells + count, seconds + count * one
            hours = one / 3600
            yield f"  {method:<14}{count:>8}{hours:>16.3f}{count * hours * threads:>12.1f}"
        if _lacks_confusion(grid):
            # Whole trainings, not the short ones of Figure 1.
            whole = replace(clean, presets=[name for name in grid.presets if name != "figure1"])
            one = dry_run(whole.build_experiment(Cell(None, METHOD, 1)), execution, speeds).seconds
            one *= _count_confusion_images(data) / len(data.train)
            seconds, hours = seconds + NETWORKS * one, one / 3600
            total = NETWORKS * hours * threads
            yield f"  {'confusion':<14}{NETWORKS:>8}{hours:>16.3f}{total:>12.1f}"
            yield (
                f"confusion is a matrix of {grid.data}'s classes, outside ones too, which its "
                f"non-uniform noise needs: {NETWORKS} networks of {METHOD} by `drpl confusion "
                f"{grid.data}`, which is not the paper's; nothing is trained where --confusion "
                "names a file, as the authors' ConfMatrix.npy"
            )
    yield f"{'all':<16}{cells:>8}{'':>16}{seconds / 3600 * threads:>12.1f}"
    where = "one GPU" if gpu else f"{threads} of this machine's cores"
    yield f"{duration(seconds)} on {where}, estimated from a few steps here and now"


def _count_confusion_images(data: DatasetSplits) -> int:
    """Images that a network for the confusion matrix learns from: see `confusion.make_task`."""
    outside = OUTSIDE.get(data.name, 0) if data.outside is None else len(data.outside)
    return len(data.train) // (1 if data.test else 2) + outside // 2


def _load_or_imitate(grid: Grid) -> tuple[DatasetSplits, str | None]:
    """The grid's data or, if they cannot be read, images of the same shape and number."""
    name = str(grid.data)
    try:
        return load(name, grid.read_options), None
    except DataError as error:
        if name not in SIZES:
            raise
        return make_synthetic(name), f"{error}; estimated on a stand-in of the same size"
