"""The commands that run many cells: `compare`, `study` and `reproduce`."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from drpl.cli.answers import Compared, Forecast
from drpl.cli.app import answers, app, say, stoppable
from drpl.cli.options import DATA, DRY, READ, SETUP, WORK, Options, takes
from drpl.config.compose import parse_settings
from drpl.data.sources import ReadOptions
from drpl.errors import ConfigError

if TYPE_CHECKING:
    from drpl.experiments.grid import Comparison

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
    help="Other classes to probe networks on: a data set [default: 25 of those outside, if any]."
)
PROBE_IMAGES = typer.Option(help="Images of each part of the target; 0: all.", min=0)
GOAL = typer.Option(help="Whole methods, or detection of wrong labels only.")


def _split(text: str) -> list[str]:
    """The parts between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def _parse_seeds(text: str) -> list[int]:
    """Whole numbers between commas."""
    try:
        return [int(word) for word in _split(text)]
    except ValueError:
        raise ConfigError(f"--seeds {text}: write whole numbers, for example 1,2,3") from None


GRID: Options = {  # arguments of `drpl.compare`
    "seeds": (Annotated[str, SEEDS], "1", _parse_seeds),
    **{name: SETUP[name] for name in ("ood", "confusion", "preset")},
    "settings": (Annotated[list[str] | None, OWN_SET], None, parse_settings),
    "engine": (Annotated[Literal["local", "ray"], ENGINE], "local"),
    "jobs": (Annotated[int | None, JOBS], None),
    **WORK,
}


@app.command()
@answers
@takes(options=GRID, read_options=READ)
def compare(
    data: Annotated[str, DATA],
    methods: Annotated[str, METHODS],
    out: Annotated[Path, FOLDER],
    noises: Annotated[list[str] | None, NOISES] = None,
    *,
    options: dict[str, Any],
    goal: Annotated[Literal["train", "detect"], GOAL] = "train",
    read_options: ReadOptions,
) -> Compared:
    """Train methods under noises with several seeds, and put them side by side."""
    from drpl.experiments.grid import compare as run

    options |= {"methods": _split(methods), "noises": noises or (), "read_options": read_options}
    with stoppable():
        found = run(data, out=out, goal=goal, **options)
    return _conclude([found])


@app.command()
@answers
@takes(options={**GRID, "track_every": (WORK["track_every"][0], 3)}, read_options=READ)
def study(
    data: Annotated[str, DATA],
    out: Annotated[Path, FOLDER],
    noises: Annotated[list[str] | None, NOISES] = None,
    methods: Annotated[str, METHODS] = "cross_entropy,mixup,drpl",
    target: Annotated[str | None, TARGET] = None,
    probe_images: Annotated[int, PROBE_IMAGES] = 2000,
    *,
    options: dict[str, Any],
    read_options: ReadOptions,
) -> Compared:
    """Compare methods under noises, with every table, figure, map and probe on one page."""
    from drpl.experiments.study import study as run

    options |= {"methods": _split(methods), "noises": noises or (), "read_options": read_options}
    with stoppable():
        found = run(data, out=out, target=target, probe_images=probe_images, **options)
    say(found.comparison)
    for note in found.notes:
        say(f"note: {note}")
    there = sorted(path.name for path in out.iterdir() if path.name[0] != ".")
    say(f"all is in {out}: {', '.join(there)}")
    return _answer([found.comparison], list(found.notes))


@app.command()
@answers
@takes(options=GRID, read_options=READ)
def reproduce(
    table: Annotated[str, typer.Argument(help="A name from `drpl list tables`.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder [default: runs/TABLE-SCALE].")
    ] = None,
    scale: Annotated[
        Literal["paper", "mini"],
        typer.Option(help="As in the paper, or a small version on small data."),
    ] = "paper",
    data: Annotated[
        str | None,
        typer.Option(help="With --scale mini [default: fashion-mnist if found, else digits]."),
    ] = None,
    *,
    options: dict[str, Any],
    read_options: ReadOptions,
    dry_run: Annotated[bool, DRY] = False,
) -> Compared | Forecast:
    """Run the grid of one of the paper's tables, and put its figures beside ours."""
    from drpl.experiments import reproduce as tables
    from drpl.experiments.grid import make_grid

    options |= {"data": data or "", "methods": (), "noises": (), "read_options": read_options}
    asked = make_grid({**options, "out": out or Path("runs") / f"{table}-{scale}"})
    grids = tables.plan_table(table, asked, mini=scale == "mini")
    gone = tables.list_left_out(table)
    notes = [f"not in this library, and left out: {', '.join(gone)}"] if gone else []
    if dry_run:
        lines = []
        for line in chain(tables.list_cells(grids), notes, tables.forecast(grids)):
            say(line)
            lines.append(line)
        return Forecast(lines=lines)
    if scale == "paper":
        tables.check_confusion(table, grids)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    with stoppable():
        found = tables.reproduce(grids)
    return _conclude(found, notes)


def _conclude(found: "Sequence[Comparison]", notes: Sequence[str] = ()) -> Compared:
    """Show the tables, and what failed."""
    for comparison in found:
        say(comparison)
        say(f"all is in {comparison.folder}: table.md, table.csv, stages.csv, roc-*, runs")
    return _answer(found, notes)


def _answer(found: "Sequence[Comparison]", notes: Sequence[str]) -> Compared:
    """All rows and failures; what failed is also said on its own."""
    failures = {str(cell): why for one in found for cell, why in one.failures.items()}
    if failures:
        failed = f"{len(failures)} cells failed"
        typer.echo(f"{failed}; their reasons are above and in table.md", err=True)
    rows = [row for one in found for row in one.table.to_dict("records")]
    folders = [one.folder for one in found]
    return Compared(folders=folders, rows=rows, failures=failures, notes=list(notes))
