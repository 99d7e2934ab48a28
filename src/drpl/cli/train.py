"""The commands that train a model and use it: `train`, `detect`, `predict`, `export`."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from drpl.cli.app import app, split_names, stoppable
from drpl.cli.options import DATA, DRY, LOG, OUT, QUIET, READ, SETUP, WORK, takes
from drpl.data.sources import ReadOptions

if TYPE_CHECKING:
    from drpl.runs.dry_run import Plan
    from drpl.runs.experiment import Goal
    from drpl.runs.folder import Result


def _define(goal: "Goal", about: str) -> None:
    """The commands `train` and `detect`, which differ in how far they go."""

    @app.command(goal, help=about)
    @takes(setup=SETUP, read_options=READ, work=WORK)
    def command(
        data: Annotated[str, DATA],
        *,
        setup: dict[str, Any],
        out: Annotated[Path | None, OUT] = None,
        read_options: ReadOptions,
        work: dict[str, Any],
        log: Annotated[list[str] | None, LOG] = None,
        dry_run: Annotated[bool, DRY] = False,
    ) -> None:
        from drpl import distributed
        from drpl.data.sources import load
        from drpl.runs import dry_run as forecasts
        from drpl.runs.display import Display
        from drpl.runs.execute import execute
        from drpl.runs.experiment import Execution, Experiment
        from drpl.runs.loggers import check_loggers

        # a missing package is reported before the data are read
        execution = Execution(out, loggers=check_loggers(split_names(log)), **work)
        with stoppable(), distributed.processes():
            with Display(quiet=work["quiet"] or distributed.rank() > 0) as display:
                shown = replace(read_options, progress=display.follow("encode"))
                loaded = load(data, shown)
            experiment = Experiment.build(loaded, goal=goal, **setup)
            if dry_run:
                typer.echo(_format_plan(forecasts.dry_run(experiment, execution)))
                return
            result = execute(experiment, execution)
            if distributed.rank() == 0:
                typer.echo(_summarize(result))


_define("train", "Train a robust model and list the wrong labels.")
_define("detect", "List the wrong labels only; `train` in the same folder goes on from there.")


def _format_plan(plan: "Plan") -> str:
    """What a run would take."""
    lines = [f"{'stage':<16}{'epochs':>8}{'steps':>8}{'batch':>7}{'hours':>10}"]
    lines += [
        f"{p.stage:<16}{p.epochs:>8}{p.steps:>8}{p.batch_size:>7}{p.seconds / 3600:>10.3f}"
        for p in plan.stages
    ]
    epochs, hours = sum(p.epochs for p in plan.stages), plan.seconds / 3600
    lines.append(f"{'all':<16}{epochs:>8}{'':>15}{hours:>10.3f}")
    lines.append(f"memory at the peak: {plan.memory / 2**30:.2f} GiB")
    lines.append("hours are estimated from a few steps here and now")
    return "\n".join(lines)


def _summarize(result: "Result") -> str:
    """A finished run in a few lines."""
    s, accuracy, folder = result.summary, result.accuracy, result.folder
    noise = f", noise {s['noise']['spec']}" if s["noise"]["spec"] else ""
    lines = [f"{s['method']} on {s['dataset']}{noise}, seed {s['seed']}"]
    if accuracy["last"] is not None:
        lines.append(f"accuracy   {accuracy['last']:.2f} % last, {accuracy['best']:.2f} % best")
    lines.append(f"flagged    {s['flagged']} of {s['samples']} labels")
    if found := result.detection:
        known = [f"{key} {value:.3f}" for key, value in found.items() if value is not None]
        lines.append(f"detection  {', '.join(known)}")
    for stage in s["stages"]:
        lines += [f"note       {stage['stage']}: {note}" for note in stage["notes"]]
    lines.append("suspicious")
    for row in result.suspicious(10).itertuples():
        change = f"{row.given_label} -> {row.suggested_label} (p noisy {row.p_noisy:.3f})"
        lines.append(f"  {row.path or f'image {row.id}'}: {change}")
    lines.append(f"all is in {folder}; see it with: drpl report {shlex.quote(str(folder))}")
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

    from drpl.data.readers.folder import LeftOut, describe_left_out
    from drpl.data.readers.list import find_images
    from drpl.files import format_table, open_atomic
    from drpl.runs import model
    from drpl.runs.display import Display

    left_out: LeftOut = {}
    trained, wanted = model.load(run), list(find_images(images, left_out))
    batches, broken = model.classify(trained, wanted, batch), []
    silent = quiet or (out is None and sys.stdout.isatty())  # a bar would run through the table
    with (
        open_atomic(out) if out else nullcontext(sys.stdout.buffer) as file,
        Display(quiet=silent) as display,
    ):
        shown = display.track("predict", len(wanted))
        for number, (table, unread) in enumerate(batches):
            file.write(format_table(table, header=number == 0).encode())
            broken += unread
            shown.move(shown.done + len(table) + len(unread))
    for note in describe_left_out(left_out):
        typer.echo(f"note: {note}", err=True)
    for complaint in broken:
        typer.echo(f"cannot read {complaint}", err=True)
    if broken:
        typer.echo(f"{len(broken)} of {len(wanted)} files could not be read", err=True)
        raise typer.Exit(1)


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    to: Annotated[
        Literal["onnx", "torch"], typer.Option(help="onnx, or torch for a .pt2 file.")
    ] = "onnx",
) -> None:
    """Write a model, its preprocessing and its class names as one file that needs no drpl."""
    from drpl.runs.export import SHOWN
    from drpl.runs.export import export as write

    difference = write(run, out, to)
    typer.echo(f"wrote {out}; largest difference on {SHOWN} random samples: {difference:.1e}")
