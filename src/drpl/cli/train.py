"""The commands that train a model and use it: `train`, `detect`, `predict`, `export`."""

import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from drpl.cli.answers import Planned, Predicted, Ran, Stage, Wrote, list_suspicious
from drpl.cli.app import answers, app, say, split_names, stoppable, wants_json
from drpl.cli.options import DATA, DRY, LOG, OUT, QUIET, READ, SETUP, WORK, takes
from drpl.data.sources import ReadOptions

if TYPE_CHECKING:
    from drpl.runs.experiment import Goal
    from drpl.runs.folder import Result


def _define(goal: "Goal", about: str) -> None:
    """The commands `train` and `detect`, which differ in how far they go."""

    @app.command(goal, help=about)
    @answers
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
    ) -> Ran | Planned | None:
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
                plan = forecasts.dry_run(experiment, execution)
                say(plan)
                stages = [Stage(**asdict(stage)) for stage in plan.stages]
                return Planned(stages=stages, seconds=plan.seconds, memory=plan.memory)
            result = execute(experiment, execution)
            if distributed.rank() > 0:
                return None
        say(result)
        again = shlex.quote(str(result.folder))
        say(f"all is in {result.folder}; see it with: drpl report {again}")
        return _answer(result)


_define("train", "Train a robust model and list the wrong labels.")
_define("detect", "List the wrong labels only; `train` in the same folder goes on from there.")


def _answer(result: "Result") -> Ran:
    """A finished run for programs."""
    same = ("method", "dataset", "seed", "samples", "flagged")
    notes = [note for stage in result.summary["stages"] for note in stage["notes"]]
    return Ran(
        folder=result.folder,
        noise=result.summary["noise"]["spec"],
        accuracy=result.accuracy,
        detection=result.detection,
        suspicious=list_suspicious(result.suspicious()),
        notes=notes,
        **{name: result.summary[name] for name in same},
    )


@app.command()
@answers
def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    images: Annotated[list[Path], typer.Argument(help="Image files, folders, or lists of files.")],
    path_column: Annotated[
        str | None,
        typer.Option(help="Of a list: the column of the files [default: by common names]."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV file [default: the terminal].")
    ] = None,
    batch: Annotated[int, typer.Option(help="Images at a time.", min=1)] = 256,
    quiet: Annotated[bool, QUIET] = False,
) -> Predicted:
    """Name what is on images, with probabilities, as CSV; exit code 1 if some can't be read."""
    from contextlib import nullcontext

    from drpl.data.readers.folder import LeftOut, describe_left_out
    from drpl.data.readers.list import find_images
    from drpl.files import check_not_in_run, format_table, open_atomic
    from drpl.runs import model
    from drpl.runs.display import Display

    if out:
        check_not_in_run(out)
    left_out: LeftOut = {}
    trained, wanted = model.load(run), list(find_images(images, left_out, path_column))
    batches, broken = model.classify(trained, wanted, batch), list[str]()
    rows: list[dict[str, Any]] = []
    stdout = None if wants_json() else sys.stdout.buffer
    silent = quiet or (out is None and sys.stdout.isatty())  # a bar would run through the table
    with (
        open_atomic(out) if out else nullcontext(stdout) as file,
        Display(quiet=silent) as display,
    ):
        shown = display.track("predict", len(wanted))
        for number, (table, unread) in enumerate(batches):
            if file:
                file.write(format_table(table, header=number == 0).encode())
            if wants_json():
                rows += table.to_dict("records")
            broken += unread
            shown.move(shown.done + len(table) + len(unread))
    for note in describe_left_out(left_out):
        typer.echo(f"note: {note}", err=True)
    for complaint in broken:
        typer.echo(f"cannot read {complaint}", err=True)
    if broken:
        typer.echo(f"{len(broken)} of {len(wanted)} files could not be read", err=True)
    return Predicted(rows=rows, unread=broken, notes=list(describe_left_out(left_out)))


@app.command()
@answers
def export(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    to: Annotated[
        Literal["onnx", "torch"], typer.Option(help="onnx, or torch for a .pt2 file.")
    ] = "onnx",
) -> Wrote:
    """Write a model, its preprocessing and its class names as one file that needs no drpl."""
    from drpl.files import check_not_in_run
    from drpl.runs.export import SHOWN
    from drpl.runs.export import export as write

    check_not_in_run(out)
    difference = write(run, out, to)
    say(f"wrote {out}; largest difference on {SHOWN} random samples: {difference:.1e}")
    return Wrote(files=[out], counts={"largest difference": difference})
