"""All figures of some runs, in the order of a page or as files in a folder."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from drpl.files import check_apart, slugify
from drpl.report import curves, flow, histograms, matrices, roc
from drpl.report.load import Case, format_case, format_run, group_by_case, load_runs
from drpl.report.style import Picture, Strokes, assign_strokes
from drpl.runs.folder import Result


class FigureSpec(NamedTuple):
    """A kind of figure."""

    title: str  # above the figure itself
    headline: str  # on a page
    draw: Callable[..., Figure | None]  # None: the folders have not what it takes


CASE_FIGURES = {  # by how their files are called; page.html has their captions
    "accuracy": FigureSpec("Test accuracy", "Accuracy over epochs", curves.draw_accuracy),
    "training": FigureSpec("Training accuracy", "Training accuracy", curves.draw_training),
    "roc": FigureSpec("Labels kept", "Which labels are kept", roc.draw_methods),
    "losses": FigureSpec("Losses over epochs", "Losses over epochs", curves.draw_losses),
}
RUN_FIGURES = {
    "histogram": FigureSpec(
        "Losses and mixture", "Losses when labels were judged", histograms.draw_loss_histograms
    ),
    "posterior": FigureSpec(
        "Probability of noise", "Probability of noise", histograms.draw_posteriors
    ),
    "detectors": FigureSpec("Detectors", "Detectors", roc.draw_detectors),
    "transition": FigureSpec(
        "Transition matrix", "Which classes are mistaken for which", matrices.draw_transitions
    ),
    "flow": FigureSpec("From labels to predictions", "What relabelling did", flow.draw_flow),
}


def figures(places: Sequence[Path | str | Result], folder: Path | str) -> list[Path]:
    """Write every figure of these runs (or comparisons) as SVG and PNG; the files."""
    runs = load_runs(places)
    check_apart(Path(folder), *(run.source for run in runs))
    return [path for picture in draw_all(runs) for path in picture.write(Path(folder))]


def draw_all(runs: Sequence[Result]) -> Iterator[Picture]:
    """The figures of each case, then those of each run."""
    strokes = assign_strokes([run.method for run in runs])
    for case, mine in group_by_case(runs).items():
        yield from draw_case(case, mine, strokes)
    for run in runs:
        yield from draw_run(run)


def draw_case(case: Case, runs: Sequence[Result], strokes: Strokes) -> Iterator[Picture]:
    """What compares the runs on one data set under one noise, as far as it can be drawn."""
    name = "-".join((case[0], case[1] or "none"))
    return _draw(CASE_FIGURES, name, format_case(case), runs, strokes)


def draw_run(run: Result) -> Iterator[Picture]:
    """What shows how one run decided, as far as it can be drawn."""
    text = format_run(run)
    return _draw(RUN_FIGURES, text.replace(", ", "-"), text, run)


def _draw(specs: Mapping[str, FigureSpec], name: str, text: str, *inputs: Any) -> Iterator[Picture]:
    for kind, spec in specs.items():
        figure = spec.draw(*inputs, f"{spec.title}: {text}")
        if figure is not None:
            yield Picture(f"{slugify(name)}-{kind}", spec.headline, figure, kind)
