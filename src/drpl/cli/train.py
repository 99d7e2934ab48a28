"""The commands that train a model and use it: `train`, `detect`, `predict`, `export`."""

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drpl.cli.app import app, split_names, stoppable
from drpl.cli.options import (
    CONFUSION,
    DATA,
    DEVICE,
    DRY,
    LOG,
    METHOD,
    NOISE,
    OOD,
    OUT,
    PRESET,
    QUIET,
    SAVE,
    SEED,
    SET,
    TRACK,
    reads,
)
from drpl.cli.settings import parse_settings
from drpl.data.sources import ReadOptions

if TYPE_CHECKING:
    from drpl.runs.dry_run import Plan
    from drpl.runs.experiment import Goal
    from drpl.runs.folder import Result


def define(goal: "Goal", about: str) -> None:
    """The commands `train` and `detect`, which differ in how far they go."""

    @app.command(goal, help=about)
    @reads
    def command(
        data: Annotated[str, DATA],
        method: Annotated[str, METHOD] = "drpl",
        noise: Annotated[str | None, NOISE] = None,
        ood: Annotated[str | None, OOD] = None,
        confusion: Annotated[Path | None, CONFUSION] = None,
        preset: Annotated[list[str] | None, PRESET] = None,
        settings: Annotated[list[str] | None, SET] = None,
        seed: Annotated[int, SEED] = 1,
        out: Annotated[Path | None, OUT] = None,
        *,
        read_options: ReadOptions,
        device: Annotated[str | None, DEVICE] = None,
        save_every: Annotated[float, SAVE] = 10.0,
        track_every: Annotated[int, TRACK] = 0,
        log: Annotated[list[str] | None, LOG] = None,
        dry_run: Annotated[bool, DRY] = False,
        quiet: Annotated[bool, QUIET] = False,
    ) -> None:
        carry_out(goal, locals())


define("train", "Train a robust model and list the wrong labels.")
define("detect", "List the wrong labels only; `train` in the same folder goes on from there.")


def carry_out(goal: "Goal", arguments: dict[str, Any]) -> None:
    """Train, and say what came out."""
    from drpl import distributed
    from drpl.data.sources import load
    from drpl.runs.dry_run import dry_run
    from drpl.runs.execute import execute
    from drpl.runs.experiment import Execution, Experiment
    from drpl.runs.loggers import check_loggers

    execution = Execution(
        folder=arguments["out"],
        device=arguments["device"],
        save_every=arguments["save_every"],
        track_every=arguments["track_every"],
        # a missing package is reported before the data are read
        loggers=check_loggers(split_names(arguments["log"])),
        quiet=arguments["quiet"],
    )
    with stoppable(), distributed.processes():
        experiment = Experiment.build(
            load(arguments["data"], arguments["read_options"]),
            method=arguments["method"],
            noise=arguments["noise"],
            ood=arguments["ood"],
            confusion=arguments["confusion"],
            preset=split_names(arguments["preset"]),
            settings=parse_settings(arguments["settings"]),
            seed=arguments["seed"],
            goal=goal,
        )
        if arguments["dry_run"]:
            typer.echo(forecast(dry_run(experiment, execution)))
            return
        result = execute(experiment, execution)
        if distributed.rank() == 0:
            typer.echo(summarize(result))


def forecast(plan: "Plan") -> str:
    """What a run would take."""
    head = f"{'stage':<16}{'epochs':>8}{'steps':>8}{'batch':>7}{'hours':>10}"
    rows = [
        f"{p.stage:<16}{p.epochs:>8}{p.steps:>8}{p.batch_size:>7}{p.seconds / 3600:>10.3f}"
        for p in plan.stages
    ]
    epochs, hours = sum(p.epochs for p in plan.stages), plan.seconds / 3600
    total = f"{'all':<16}{epochs:>8}{'':>15}{hours:>10.3f}"
    memory = f"memory at the peak: {plan.memory / 2**30:.2f} GiB"
    return "\n".join(
        [head, *rows, total, memory, "hours are estimated from a few steps here and now"]
    )


def summarize(result: "Result") -> str:
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
    images: Annotated[
        list[Path], typer.Argument(help="Image files, folders, or lists with a column `path`.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV file [default: the terminal].")
    ] = None,
    batch: Annotated[int, typer.Option(help="Images at a time.", min=1)] = 256,
    quiet: Annotated[bool, QUIET] = False,
) -> None:
    """Name what is on images, with probabilities, as CSV; exit code 1 if some can't be read."""
    from contextlib import nullcontext

    from drpl.data.readers.list import find_images
    from drpl.files import open_atomic
    from drpl.runs import model
    from drpl.runs.display import Display

    trained, wanted = model.load(run), list(find_images(images))
    batches, broken = model.classify(trained, wanted, batch), []
    silent = quiet or (out is None and sys.stdout.isatty())  # a bar would run through the table
    with (
        open_atomic(out) if out else nullcontext(sys.stdout.buffer) as file,
        Display(quiet=silent) as display,
    ):
        shown = display.count("predict", len(wanted))
        for number, (table, unread) in enumerate(batches):
            rows = table.to_csv(
                index=False, header=number == 0, float_format="%.6g", lineterminator="\n"
            )
            file.write(rows.encode())
            broken += unread
            shown.add(len(table) + len(unread))
    for complaint in broken:
        typer.echo(f"cannot read {complaint}", err=True)
    if broken:
        typer.echo(f"{len(broken)} of {len(wanted)} files could not be read", err=True)
        raise typer.Exit(1)


class Target(StrEnum):
    """What a model can be exported to."""

    ONNX = "onnx"
    TORCH = "torch"


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    to: Annotated[Target, typer.Option(help="onnx, or torch for a .pt2 file.")] = Target.ONNX,
) -> None:
    """Write a model, its preprocessing and its class names as one file that needs no drpl."""
    from drpl.runs.export import SHOWN
    from drpl.runs.export import export as write

    difference = write(run, out, to.value)
    typer.echo(f"wrote {out}; largest difference on {SHOWN} random samples: {difference:.1e}")
