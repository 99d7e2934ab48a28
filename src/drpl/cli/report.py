"""The commands that show finished runs: `score`, `report` and `figures`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from drpl.cli.answers import Judged, Scored, Wrote
from drpl.cli.app import answers, app, say, split_names

if TYPE_CHECKING:
    import pandas as pd

    from drpl.runs.issues import RankBy

SHOWN = 10  # labels that are printed


@app.command()
@answers
def score(
    runs: Annotated[list[Path] | None, typer.Argument(help="Folders of finished runs.")] = None,
    detectors: Annotated[
        list[str] | None,
        typer.Option(
            "--detector",
            help="NAME from `drpl list detectors`, or NAME:THRESHOLD; may be repeated "
            "[default: all that the run's evidence allows].",
        ),
    ] = None,
    probs: Annotated[
        Path | None,
        typer.Option(
            help="Judge by these probabilities instead of runs: an .npy file [samples, classes] of "
            "predictions for samples that were not trained on."
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Their labels: a CSV file with a column `label`, or an .npy file."),
    ] = None,
    rank_by: Annotated[
        Literal["label_noise", "self_confidence", "normalized_margin"],
        typer.Option(help="What orders the labels of --probs, worst first."),
    ] = "label_noise",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the table to this CSV file too.")
    ] = None,
) -> Scored | Judged:
    """Judge labels by several detectors on finished runs, or by probabilities that you have.

    The scores of a run's samples are in scores.csv in its folder.
    """
    from drpl.errors import ConfigError

    if probs and labels and not runs and not detectors:
        return _score_probs(probs, labels, rank_by, out)
    if probs or labels or not runs:
        raise ConfigError("name folders of runs, or give --probs with --labels and no --detector")
    return _score_runs(runs, detectors, out)


def _score_runs(runs: list[Path], detectors: list[str] | None, out: Path | None) -> Scored:
    """Every run by every detector."""
    import pandas as pd

    from drpl.analysis import scoring
    from drpl.files import write_atomic
    from drpl.report.table import to_csv

    tables = {}
    for run in runs:
        tables[str(run)] = table = scoring.score(run, split_names(detectors) or None)
        say(f"{run}\n{_format_scores(table)}\nwrote {run / 'scores.csv'}")
    whole = pd.concat(tables, names=["run", "row"]).reset_index("run")
    if out:
        write_atomic(out, to_csv(whole))
    return Scored(rows=whole.to_dict("records"))


def _score_probs(probs: Path, labels: Path, rank_by: "RankBy", out: Path | None) -> Judged:
    """Labels by probabilities; the table has the columns' names of samples.csv."""
    from drpl.files import format_table, write_atomic
    from drpl.runs import issues

    table = issues.rank_by_probabilities(
        issues.map_probabilities(probs), issues.read_labels(labels), rank_by
    )
    flagged = table[table.flagged]
    say(f"flagged    {len(flagged)} of {len(table)} labels")
    for row in flagged.head(SHOWN).itertuples():
        change = f"{row.given} -> {row.suggested} (p noisy {row.label_noise:.3f})"
        say(f"  sample {row.Index}: {change}")
    names = {"given": "given_label", "suggested": "suggested_label", "label_noise": "p_noisy"}
    named = table.rename(columns=names).rename_axis("id").reset_index()
    if out:
        write_atomic(out, format_table(named))
        say(f"wrote {out}")
    worst = named[named.flagged].head(SHOWN).to_dict("records")
    return Judged(samples=len(table), flagged=len(flagged), worst=worst)


def _format_scores(table: "pd.DataFrame") -> str:
    """What detectors make of a run; figures only where the truth is known."""
    judged, skipped = table[table.skipped == ""], table[table.skipped != ""]
    known = judged[["tpr", "fpr"]].notna().any(axis=None)
    figures = ("auroc", "tpr", "fpr") if known else ()
    head = "".join(f"{figure.upper():>8}" for figure in figures)
    lines = [f"{'stage':<15} {'detector':<22} {'flagged':>7}{head}"]
    for row in judged.itertuples():
        cells = "".join(f"{getattr(row, figure):>8.4f}" for figure in figures).replace("nan", "  -")
        lines.append(f"{row.stage:<15} {row.detector:<22} {row.flagged:>7}{cells}")
    if known:
        lines.append("TPR: share of the clean labels that are kept; FPR: of the wrong ones")
    for reason, stages in skipped.groupby("skipped", sort=False).stage:
        lines.append(f"skipped on {', '.join(stages)}: {reason}")
    return "\n".join(lines)


PAGE = typer.Option("--out", "-o", help="The page to write.")
RUNS = typer.Argument(help="Folders of runs, also while they train, or of `drpl compare`.")


@app.command()
@answers
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
) -> Wrote:
    """Put runs on one HTML page: text, tables, figures and galleries."""
    from drpl.report import page

    if not watch:
        page.report(runs, out, images=images)
        say(f"wrote {out}")
        return Wrote(files=[out])
    try:
        for training in page.watch(runs, out, images=images):
            state = f"{training} still training" if training else "all ended"
            say(f"wrote {out}; {state}")
            sys.stdout.flush()
    except KeyboardInterrupt:
        page.report(runs, out, images=images)  # a last one, which does not load itself again
        say(f"\nStopped watching. {out} stays as it is.")
    return Wrote(files=[out])


@app.command()
@answers
def figures(
    runs: Annotated[list[Path], RUNS],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")],
) -> Wrote:
    """Write every figure of runs as SVG and PNG."""
    from drpl.report.figures import figures as write

    written = write(runs, out)
    say(f"wrote {len(written) // 2} figures as SVG and PNG to {out}")
    return Wrote(files=written)
