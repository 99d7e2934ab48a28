"""All figures of some runs, in the order of a page or as files in a folder."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from drpl.files import slugify
from drpl.report import curves, flow, histograms, matrices, roc
from drpl.report.load import Case, format_case, format_run, group_by_case, load_runs
from drpl.report.style import Picture, Strokes, assign_strokes
from drpl.runs.folder import Result


class FigureSpec(NamedTuple):
    """A kind of figure."""

    kind: str  # how its files are called
    title: str  # above the figure itself
    headline: str  # on a page
    about: str
    draw: Callable[..., Figure | None]  # None: the folders have not what it takes


CASE_FIGURES = (
    FigureSpec(
        "accuracy",
        "Test accuracy",
        "Accuracy over epochs",
        "Share of the test images named rightly after every epoch, mean over seeds. The dot is the "
        "last epoch, what one gets; the star is the best one on the test set and flatters. What "
        "lies far below is cut off.",
        curves.draw_accuracy,
    ),
    FigureSpec(
        "roc",
        "Labels kept",
        "Which labels are kept",
        "From the bottom left, more and more labels are kept, least suspicious first. Up is good "
        "(clean labels kept), right is bad (noisy labels kept). Stars are what each run decides, "
        "and thin lines earlier stages.",
        roc.draw_methods,
    ),
    FigureSpec(
        "losses",
        "Losses over epochs",
        "Losses over epochs",
        "Loss of the training samples against their given label: the line is the median, the bands "
        "hold the middle half and the middle four fifths. Where the bands part, the loss tells "
        "clean from noisy.",
        lambda runs, _, title: curves.draw_losses(runs, title),
    ),
)
RUN_FIGURES = (
    FigureSpec(
        "histogram",
        "Losses and mixture",
        "Losses when labels were judged",
        "How often each loss occurs, with both components of the fitted mixture where there is "
        "one. A bar that is cut says how high it is; the last one holds all that lies above.",
        histograms.draw_loss_histograms,
    ),
    FigureSpec(
        "posterior",
        "Probability of noise",
        "Probability of noise",
        "How many samples have which probability; the vertical axis is logarithmic. Two heaps at "
        "the ends mean that the split is sure of itself.",
        histograms.draw_posteriors,
    ),
    FigureSpec(
        "detectors",
        "Detectors",
        "Detectors",
        "Every detector on the evidence of each split's stage; the star is this run's own "
        "decision. Detectors come from drpl score; without it only the loss is drawn.",
        roc.draw_detectors,
    ),
    FigureSpec(
        "transition",
        "Transition matrix",
        "Which classes are mistaken for which",
        "Each row says how the images of a class are labelled, as shares of the row. The estimate "
        "takes the model's prediction for the truth.",
        matrices.draw_transitions,
    ),
    FigureSpec(
        "flow",
        "From labels to predictions",
        "What relabelling did",
        "Each ribbon is as wide as the number of samples that move between two classes. What stays "
        "in its class is pale.",
        flow.draw_flow,
    ),
)


def figures(places: Sequence[Path | str | Result], folder: Path | str) -> list[Path]:
    """Write every figure of these runs (or comparisons) as SVG and PNG; the files."""
    return [path for picture in draw_all(load_runs(places)) for path in picture.write(Path(folder))]


def draw_all(runs: Sequence[Result]) -> Iterator[Picture]:
    """The figures of each case, then those of each run."""
    strokes = assign_strokes([run.summary["method"] for run in runs])
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


def _draw(specs: Sequence[FigureSpec], name: str, text: str, *inputs: Any) -> Iterator[Picture]:
    for kind, title, headline, about, draw in specs:
        figure = draw(*inputs, f"{title}: {text}")
        if figure is not None:
            yield Picture(f"{slugify(name)}-{kind}", headline, about, figure)
