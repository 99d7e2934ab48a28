"""One thin function a command. Heavy libraries are imported when a command needs them."""

import shlex
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drpl.catalogue import Entry
from drpl.data import Hold

if TYPE_CHECKING:
    from drpl.result import Result

app = typer.Typer(
    help="Learning from images whose labels can't be trusted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

DATA = typer.Argument(help="A name from `drpl list datasets`, a folder of images, or an .npz file.")
METHOD = typer.Option(help="A name from `drpl list methods`.")
NOISE = typer.Option(help="Corrupt the labels first, for example uniform:0.6.")
PRESET = typer.Option(help="Settings by name or TOML file; several are laid over each other.")
SET = typer.Option("--set", help="Change one setting, for example relabel.begin=20.")
SEED = typer.Option(help="Decides every random draw.")
OUT = typer.Option(help="The run's folder [default: runs/DATA-NOISE/METHOD/seed-SEED].")
HOLD = typer.Option(
    help="Keep the pixels of files in memory, in a cache on disk, or decode the files each time; "
    "auto: in memory if they fit, else in a cache."
)
CACHE = typer.Option(help="Folder of that cache [default: .drpl-cache].")
SKIP = typer.Option("--skip-broken", help="Leave out files that cannot be read.")
SIZE = typer.Option(help="Pixels a side that files are scaled to [default: by the images].", min=4)
DEVICE = typer.Option(help="cpu, cuda, cuda:1 ... [default: a GPU if there is one].")
SAVE = typer.Option(help="Seconds between checkpoints.", min=0)
TRACK = typer.Option(
    help="Observe every sample's loss each so many epochs; 0: at ends only.", min=0
)
QUIET = typer.Option("--quiet", "-q", help="Show no progress.")


@app.command()
def train(
    data: Annotated[str, DATA],
    method: Annotated[str, METHOD] = "drpl",
    noise: Annotated[str | None, NOISE] = None,
    preset: Annotated[list[str] | None, PRESET] = None,
    settings: Annotated[list[str] | None, SET] = None,
    seed: Annotated[int, SEED] = 1,
    out: Annotated[Path | None, OUT] = None,
    size: Annotated[int | None, SIZE] = None,
    hold: Annotated[Hold, HOLD] = "auto",
    cache: Annotated[Path | None, CACHE] = None,
    skip_broken: Annotated[bool, SKIP] = False,
    device: Annotated[str | None, DEVICE] = None,
    save_every: Annotated[float, SAVE] = 10.0,
    track_every: Annotated[int, TRACK] = 0,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Train a robust model and list the wrong labels."""
    carry_out("train", **locals())


@app.command()
def detect(
    data: Annotated[str, DATA],
    method: Annotated[str, METHOD] = "drpl",
    noise: Annotated[str | None, NOISE] = None,
    preset: Annotated[list[str] | None, PRESET] = None,
    settings: Annotated[list[str] | None, SET] = None,
    seed: Annotated[int, SEED] = 1,
    out: Annotated[Path | None, OUT] = None,
    size: Annotated[int | None, SIZE] = None,
    hold: Annotated[Hold, HOLD] = "auto",
    cache: Annotated[Path | None, CACHE] = None,
    skip_broken: Annotated[bool, SKIP] = False,
    device: Annotated[str | None, DEVICE] = None,
    save_every: Annotated[float, SAVE] = 10.0,
    track_every: Annotated[int, TRACK] = 0,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """List the wrong labels only; `train` in the same folder goes on from there."""
    carry_out("detect", **locals())


def carry_out(
    goal: str,
    *,
    data: str,
    size: int | None,
    hold: Hold,
    cache: Path | None,
    skip_broken: bool,
    preset: list[str] | None,
    settings: list[str] | None,
    **more: object,
) -> None:
    """Train, and say what came out; Ctrl-C leaves a run that the same command continues."""
    from drpl import distributed, pipeline
    from drpl.data import Reading, load

    names = [name for text in preset or () for name in text.split(",")]
    try:
        with distributed.processes():
            chosen = {"goal": goal, "preset": names, "settings": settings or (), **more}
            reading = Reading(size, hold=hold, cache=cache, skip_broken=skip_broken)
            result = pipeline.train(load(data, reading), **chosen)  # type: ignore[arg-type]
            if distributed.rank() == 0:
                typer.echo(summary(result))
    except KeyboardInterrupt:
        again = shlex.join(["drpl", *sys.argv[1:]])
        typer.echo(f"\nStopped. What was finished is kept; go on with:\n  {again}", err=True)
        raise typer.Exit(130) from None


def summary(result: "Result") -> str:
    """A finished run in a few lines."""
    s = result.summary
    noise = f", noise {s['noise']['spec']}" if s["noise"]["spec"] else ""
    lines = [f"{s['method']} on {s['dataset']}{noise}, seed {s['seed']}"]
    if result.accuracy["last"] is not None:
        lines.append(
            f"accuracy   {result.accuracy['last']:.2f} % last, {result.accuracy['best']:.2f} % best"
        )
    lines.append(f"flagged    {s['flagged']} of {s['samples']} labels")
    if result.detection:
        shown = (
            f"{key} {value:.3f}" for key, value in result.detection.items() if value is not None
        )
        lines.append("detection  " + ", ".join(shown))
    lines += [
        f"note       {stage['stage']}: {note}" for stage in s["stages"] for note in stage["notes"]
    ]
    lines.append("suspicious")
    for row in result.suspicious(10).itertuples():
        where = row.path or f"image {row.id}"
        lines.append(
            f"  {where}: {row.given_label} -> {row.suggested_label} (p noisy {row.p_noisy:.3f})"
        )
    lines.append(
        f"all is in {result.folder}; see it with: drpl report {shlex.quote(str(result.folder))}"
    )
    return "\n".join(lines)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    images: Annotated[list[Path], typer.Argument(help="Image files.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV file [default: the terminal].")
    ] = None,
) -> None:
    """Name what is on images, with probabilities, as CSV."""
    from drpl import files, model

    table = model.classify(model.load(run), images)
    text = table.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    if out:
        files.write_whole(out, text)
    else:
        typer.echo(text, nl=False)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
) -> None:
    """Put runs side by side on one HTML page."""
    from drpl.report.page import report as write
    from drpl.result import Result

    write([Result.load(run) for run in runs], out)
    typer.echo(f"wrote {out}")


class Kind(StrEnum):
    """What can be listed."""

    METHODS = "methods"
    DATASETS = "datasets"
    NOISES = "noises"
    NETWORKS = "networks"
    PRESETS = "presets"


@app.command("list")
def list_names(
    kind: Annotated[Kind | None, typer.Argument(help="What to list; all by default.")] = None,
) -> None:
    """List methods, data sets, noises, networks and presets."""
    from drpl.config import PRESETS
    from drpl.data import DATASETS, SOURCES
    from drpl.methods import METHODS
    from drpl.networks import NETWORKS
    from drpl.noise import NOISES

    known: dict[Kind, Mapping[str, Entry | str]] = {
        Kind.METHODS: METHODS,
        Kind.DATASETS: {**DATASETS, **SOURCES},
        Kind.NOISES: NOISES,
        Kind.NETWORKS: NETWORKS,
        Kind.PRESETS: PRESETS,
    }
    for one in [kind] if kind else list(Kind):
        typer.echo(f"{one.value}:")
        for name, entry in known[one].items():
            typer.echo(f"  {name:<16} {entry if isinstance(entry, str) else entry.about}")


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False,
) -> None:
    """Options of the command itself."""
    if version:
        from drpl import __version__

        typer.echo(__version__)
        raise typer.Exit
