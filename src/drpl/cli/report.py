"""The commands that show finished runs: `score`, `report` and `figures`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drpl.cli.app import app, split_names

if TYPE_CHECKING:
    import pandas as pd


@app.command()
def score(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.")],
    detectors: Annotated[
        list[str] | None,
        typer.Option(
            "--detector",
            help="NAME from `drpl list detectors`, or NAME:THRESHOLD; may be repeated "
            "[default: all that the run's evidence allows].",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the table to this CSV file too.")
    ] = None,
) -> None:
    """Judge the labels of finished runs by several detectors; see scores.csv in their folders."""
    import pandas as pd

    from drpl.analysis import scoring
    from drpl.files import write_atomic
    from drpl.report.table import to_csv

    tables = {}
    for run in runs:
        tables[str(run)] = table = scoring.score(run, split_names(detectors) or None)
        typer.echo(f"{run}\n{_format_scores(table)}\nwrote {run / 'scores.csv'}")
    if out:
        whole = pd.concat(tables, names=["run", "row"]).reset_index("run")
        write_atomic(out, to_csv(whole))


def _format_scores(table: "pd.DataFrame") -> str:
    """What detectors make of a run; figures only where the truth is known."""
    judged, skipped = table[table.skipped == ""], table[table.skipped != ""]
    known = judged[["tpr", "fpr"]].notna().any(axis=None)
    figures = ("auroc", "tpr", "fpr") if known else ()
    head = "".join(f"{figure.upper():>8}" for figure in figures)
    lines = [f"{'stage':<15} {'detector':<17} {'flagged':>7}{head}"]
    for row in judged.itertuples():
        cells = "".join(f"{getattr(row, figure):>8.4f}" for figure in figures).replace("nan", "  -")
        lines.append(f"{row.stage:<15} {row.detector:<17} {row.flagged:>7}{cells}")
    if known:
        lines.append("TPR: share of the clean labels that are kept; FPR: of the wrong ones")
    for reason, stages in skipped.groupby("skipped", sort=False).stage:
        lines.append(f"skipped on {', '.join(stages)}: {reason}")
    return "\n".join(lines)


PAGE = typer.Option("--out", "-o", help="The page to write.")
RUNS = typer.Argument(help="Folders of runs, also while they train, or of `drpl compare`.")


@app.command()
def report(
    runs: Annotated[list[Path], RUNS],
    out: Annotated[Path, PAGE] = Path("report.html"),
    watch: Annotated[
        bool, typer.Option("--watch", help="Write it again while training runs, until it ends.")
    ] = False,
    images: Annotated[
        Path | None,
        typer.Option(help="Where the paths in samples.csv start, to take galleries from files."),
    ] = None,
) -> None:
    """Put runs on one HTML page: text, tables, figures and galleries."""
    from drpl.report import page

    if not watch:
        page.report(runs, out, images=images)
        typer.echo(f"wrote {out}")
        return
    try:
        for training in page.watch(runs, out, images=images):
            state = f"{training} still training" if training else "all ended"
            typer.echo(f"wrote {out}; {state}")
            sys.stdout.flush()
    except KeyboardInterrupt:
        page.report(runs, out, images=images)  # a last one, which does not load itself again
        typer.echo(f"\nStopped watching. {out} stays as it is.")


@app.command()
def figures(
    runs: Annotated[list[Path], RUNS],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")],
) -> None:
    """Write every figure of runs as SVG and PNG."""
    from drpl.report.figures import figures as write

    written = write(runs, out)
    typer.echo(f"wrote {len(written) // 2} figures as SVG and PNG to {out}")
