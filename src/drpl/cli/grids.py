"""The commands that run many cells: `compare`, `study` and `reproduce`."""

from collections.abc import Callable
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drpl.cli.app import app, split_names, stoppable
from drpl.cli.options import (
    CONFUSION,
    DATA,
    DEVICE,
    DRY,
    OOD,
    PRESET,
    QUIET,
    READ,
    SAVE,
    TRACK,
    Command,
    Group,
    takes,
)
from drpl.config.compose import parse_settings
from drpl.data.sources import ReadOptions
from drpl.errors import ConfigError

if TYPE_CHECKING:
    from drpl.experiments.grid import Comparison


class Engine(StrEnum):
    """Who does the work."""

    LOCAL = "local"
    RAY = "ray"


class Goal(StrEnum):
    """How far each cell goes."""

    TRAIN = "train"
    DETECT = "detect"


class Scale(StrEnum):
    """How large a table is run."""

    PAPER = "paper"
    MINI = "mini"


METHODS = typer.Option(help="Names from `drpl list methods`, with commas.")
NOISES = typer.Option("--noise", help="As for `drpl train`; may be repeated [default: none].")
SEEDS = typer.Option(help="With commas; each is a run of its own.")
FOLDER = typer.Option("--out", "-o", help="The folder of the grid.")
OWN_SET = typer.Option(
    "--set", help="Change one setting; METHOD:key=value for that method only (presets likewise)."
)
ENGINE = typer.Option(help="Processes of this machine, or Ray (at $RAY_ADDRESS, or started here).")
JOBS = typer.Option(help="Cells at once [default: one for each GPU, or else core].", min=1)
TARGET = typer.Option(
    help="Other classes to probe networks on: a data set [default: the classes outside, if any]."
)
GOAL = typer.Option(help="Whole methods, or detection of wrong labels only.")

RUNS: dict[str, tuple[Any, Any]] = {  # what the runs of a grid have in common
    "seeds": (Annotated[str, SEEDS], "1"),
    "ood": (Annotated[str | None, OOD], None),
    "confusion": (Annotated[Path | None, CONFUSION], None),
    "preset": (Annotated[list[str] | None, PRESET], None),
    "settings": (Annotated[list[str] | None, OWN_SET], None),
}
WORK: dict[str, tuple[Any, Any]] = {  # how they are carried out
    "engine": (Annotated[Engine, ENGINE], Engine.LOCAL),
    "jobs": (Annotated[int | None, JOBS], None),
    "device": (Annotated[str | None, DEVICE], None),
    "save_every": (Annotated[float, SAVE], 10.0),
    "quiet": (Annotated[bool, QUIET], False),
}


def _split(text: str) -> list[str]:
    """The parts between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def _parse_seeds(text: str) -> tuple[int, ...]:
    """Whole numbers between commas."""
    try:
        return tuple(int(word) for word in _split(text))
    except ValueError:
        raise ConfigError(f"--seeds {text}: write whole numbers, for example 1,2,3") from None


def _describe_runs(
    *, seeds: str, preset: list[str] | None, settings: list[str] | None, **others: Any
) -> dict[str, Any]:
    """What the runs have in common, from the options."""
    presets, own = tuple(split_names(preset)), parse_settings(settings or ())
    return {"seeds": _parse_seeds(seeds), "presets": presets, "settings": own, **others}


def _describe_work(*, engine: Engine, jobs: int | None, **others: Any) -> dict[str, Any]:
    """How they are carried out, from the options."""
    from drpl.runs.experiment import Execution

    return {"engine": engine.value, "jobs": jobs, "execution": Execution(**others)}


def _run_many(track_every: int) -> Callable[[Command], Command]:
    """The options of a command that runs a grid."""
    work = WORK | {"track_every": (Annotated[int, TRACK], track_every)}
    runs = Group(RUNS, _describe_runs)
    return takes(read_options=READ, runs=runs, work=Group(work, _describe_work))


@app.command()
@_run_many(track_every=0)
def compare(
    data: Annotated[str, DATA],
    methods: Annotated[str, METHODS],
    out: Annotated[Path, FOLDER],
    noises: Annotated[list[str] | None, NOISES] = None,
    *,
    runs: dict[str, Any],
    goal: Annotated[Goal, GOAL] = Goal.TRAIN,
    read_options: ReadOptions,
    work: dict[str, Any],
) -> None:
    """Train methods under noises with several seeds, and put them side by side."""
    from drpl.experiments.grid import Grid, run_grid

    grid = Grid(
        data,
        out,
        _split(methods),
        tuple(noises or ()),
        read_options=read_options,
        goal=goal.value,
        **runs,
        **work,
    )
    with stoppable():
        found = run_grid(grid)
    conclude([found])


@app.command()
@_run_many(track_every=3)
def study(
    data: Annotated[str, DATA],
    out: Annotated[Path, FOLDER],
    noises: Annotated[list[str] | None, NOISES] = None,
    methods: Annotated[str, METHODS] = "cross_entropy,mixup,drpl",
    target: Annotated[str | None, TARGET] = None,
    *,
    runs: dict[str, Any],
    read_options: ReadOptions,
    work: dict[str, Any],
) -> None:
    """Compare methods under noises, with every table, figure, map and probe on one page."""
    from drpl.experiments.grid import Grid
    from drpl.experiments.study import study_grid

    chosen = tuple(noises or ())
    grid = Grid(data, out, _split(methods), chosen, read_options=read_options, **runs, **work)
    with stoppable():
        found = study_grid(grid, target)
    typer.echo(found.comparison.text)
    for note in found.notes:
        typer.echo(f"note: {note}")
    there = sorted(path.name for path in out.iterdir() if path.name[0] != ".")
    typer.echo(f"all is in {out}: {', '.join(there)}")
    complain([found.comparison])


@app.command()
@_run_many(track_every=0)
def reproduce(
    table: Annotated[str, typer.Argument(help="A name from `drpl list tables`.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder [default: runs/TABLE-SCALE].")
    ] = None,
    scale: Annotated[
        Scale, typer.Option(help="As in the paper, or a small version on small data.")
    ] = Scale.PAPER,
    data: Annotated[
        str | None,
        typer.Option(help="With --scale mini [default: fashion-mnist if found, else digits]."),
    ] = None,
    *,
    runs: dict[str, Any],
    read_options: ReadOptions,
    work: dict[str, Any],
    dry_run: Annotated[bool, DRY] = False,
) -> None:
    """Run the grid of one of the paper's tables, and put its figures beside ours."""
    from drpl.experiments import reproduce as tables

    request = tables.TableRequest(
        table, scale=scale.value, data=data, read_options=read_options, **runs, **work
    )
    if dry_run:
        for line in chain(tables.list_cells(request), tables.forecast(request)):
            typer.echo(line)
        return
    request.check()
    if gone := request.list_left_out():
        typer.echo(f"note: not in this library, and left out: {', '.join(gone)}", err=True)
    folder = out or Path("runs") / f"{table}-{scale.value}"
    with stoppable():
        found = tables.reproduce(request, folder)
    conclude(found)


def conclude(found: "list[Comparison]") -> None:
    """Show the tables, and what failed."""
    for comparison in found:
        typer.echo(comparison.text)
        typer.echo(f"all is in {comparison.folder}: table.md, table.csv, stages.csv, roc-*, runs")
    complain(found)


def complain(found: "list[Comparison]") -> None:
    """Exit code 1 if a cell failed."""
    if failed := sum(len(comparison.failures) for comparison in found):
        typer.echo(f"{failed} cells failed; their reasons are above and in table.md", err=True)
        raise typer.Exit(1)
