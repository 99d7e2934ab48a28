"""The commands that run many cells: `compare`, `study` and `reproduce`."""

from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drpl.cli.commands import (
    CONFUSION,
    DATA,
    DEVICE,
    DRY,
    OOD,
    PRESET,
    QUIET,
    SAVE,
    TRACK,
    app,
    named,
    stoppable,
)
from drpl.cli.read_options import READING
from drpl.cli.sharing import Group, takes
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
    "device": (Annotated[str | None, DEVICE], None),
}
WORK: dict[str, tuple[Any, Any]] = {  # how they are carried out
    "engine": (Annotated[Engine, ENGINE], Engine.LOCAL),
    "jobs": (Annotated[int | None, JOBS], None),
    "save_every": (Annotated[float, SAVE], 10.0),
    "quiet": (Annotated[bool, QUIET], False),
}


def words(text: str) -> list[str]:
    """The parts between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def numbers(text: str) -> tuple[int, ...]:
    """Whole numbers between commas."""
    try:
        return tuple(int(word) for word in words(text))
    except ValueError:
        raise ConfigError(f"--seeds {text}: write whole numbers, for example 1,2,3") from None


def alike(
    *, seeds: str, preset: list[str] | None, settings: list[str] | None, **more: Any
) -> dict[str, Any]:
    """What the runs have in common, from the options."""
    chosen = {"preset": tuple(named(preset)), "settings": tuple(settings or ())}
    return {"seeds": numbers(seeds), **chosen, **more}


runs_many = takes(read_options=READING, runs=Group(RUNS, alike), work=Group(WORK, dict))


@app.command()
@runs_many
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
    track_every: Annotated[int, TRACK] = 0,
) -> None:
    """Train methods under noises with several seeds, and put them side by side."""
    from drpl.experiments import grid

    grids: dict[str, Any] = {"methods": words(methods), "noises": noises or (), **runs, **work}
    with stoppable():
        found = grid.compare(
            data, out=out, goal=goal, read_options=read_options, track_every=track_every, **grids
        )
    conclude([found])


@app.command()
@runs_many
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
    track_every: Annotated[int, TRACK] = 3,
) -> None:
    """Compare methods under noises, with every table, figure, map and probe on one page."""
    from drpl.experiments import study as studying

    grids: dict[str, Any] = {"methods": words(methods), "noises": noises or (), **runs, **work}
    with stoppable():
        found = studying.study(
            data,
            out=out,
            target=target,
            read_options=read_options,
            track_every=track_every,
            **grids,
        )
    typer.echo(found.comparison.text)
    for note in found.notes:
        typer.echo(f"note: {note}")
    there = sorted(path.name for path in out.iterdir() if path.name[0] != ".")
    typer.echo(f"all is in {out}: {', '.join(there)}")
    complain([found.comparison])


@app.command()
@runs_many
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
    track_every: Annotated[int, TRACK] = 0,
    dry_run: Annotated[bool, DRY] = False,
) -> None:
    """Run the grid of one of the paper's tables, and put its figures beside ours."""
    from drpl.experiments import reproduce as tables

    wanted = tables.TableRequest(
        table, scale=scale.value, data=data, read_options=read_options, **runs
    )
    if dry_run:
        for line in chain(tables.listing(wanted), tables.forecast(wanted)):
            typer.echo(line)
        return
    wanted.check()
    if gone := wanted.left_out():
        typer.echo(f"note: not in this library, and left out: {', '.join(gone)}", err=True)
    folder = out or Path("runs") / f"{table}-{scale.value}"
    with stoppable():
        found = tables.reproduce(wanted, folder, track_every=track_every, **work)
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
