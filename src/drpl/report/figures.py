"""All figures of some runs, in the order of a page or as files in a folder."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from drpl.files import slugify, write_atomic
from drpl.report import curves, flow, histograms, matrices, roc
from drpl.report.runs import cases, find, named, title
from drpl.report.style import Picture, strokes
from drpl.runs.folder import Result

Strokes = dict[str, tuple[str, str]]
Drawn = tuple[str, str, Figure | None]  # a headline, what to see, and the figure if there is one


def figures(places: Sequence[Path | str | Result], folder: Path | str) -> list[Path]:
    """Write every figure of these runs (or comparisons) as SVG and PNG; the files."""
    runs = loaded(places)
    look = strokes([run.summary["method"] for run in runs])
    written = []
    for picture in every(runs, look):
        for ending, content in ((".svg", picture.svg(alone=True)), (".png", picture.png())):
            written.append(Path(folder) / f"{picture.name}{ending}")
            write_atomic(written[-1], content)
    return written


def loaded(places: Sequence[Path | str | Result]) -> list[Result]:
    """Runs, whether they are read already or not."""
    found: list[Result] = []
    for place in places:
        found += [place] if isinstance(place, Result) else find([place])
    return found


def every(runs: Sequence[Result], look: Strokes) -> Iterator[Picture]:
    """The figures of each case, then those of each run."""
    for case, mine in cases(runs).items():
        yield from of_case(case, mine, look)
    for run in runs:
        yield from of_run(run)


def pictures(name: str, drawn: dict[str, Drawn]) -> Iterator[Picture]:
    """Those that could be drawn."""
    for kind, (head, about, figure) in drawn.items():
        if figure is not None:
            yield Picture(f"{name}-{kind}", head, about, figure)


def of_case(
    case: tuple[str, str | None], runs: Sequence[Result], look: Strokes
) -> Iterator[Picture]:
    """What compares the runs on one data set under one noise."""
    name, text = slugify("-".join(filter(None, (case[0], case[1] or "none")))), named(case)
    drawn: dict[str, Drawn] = {
        "accuracy": (
            "Accuracy over epochs",
            "Share of the test images named rightly after every epoch, mean over seeds. The dot is "
            "the last epoch, what one gets; the star is the best one on the test set and flatters. "
            "What lies far below is cut off.",
            curves.accuracy(runs, look, f"Test accuracy: {text}"),
        ),
        "roc": (
            "Which labels are kept",
            "From the bottom left, more and more labels are kept, least suspicious first. Up is "
            "good (clean labels kept), right is bad (noisy labels kept). Stars are what each run "
            "decides, and thin lines earlier stages.",
            roc.methods(runs, look, f"Labels kept: {text}"),
        ),
        "losses": (
            "Losses over epochs",
            "Loss of the training samples against their given label: the line is the median, the "
            "bands hold the middle half and the middle four fifths. Where the bands part, the loss "
            "tells clean from noisy.",
            curves.losses(runs, f"Losses over epochs: {text}"),
        ),
    }
    return pictures(name, drawn)


def of_run(run: Result) -> Iterator[Picture]:
    """What shows how one run decided."""
    name, text = slugify(title(run).replace(", ", "-").replace(" ", "-")), title(run)
    drawn: dict[str, Drawn] = {
        "histogram": (
            "Losses when labels were judged",
            "How often each loss occurs, with both components of the fitted mixture where there is "
            "one. A bar that is cut says how high it is; the last one holds all that lies above.",
            histograms.losses(run, f"Losses and mixture: {text}"),
        ),
        "posterior": (
            "Probability of noise",
            "How many samples have which probability; the vertical axis is logarithmic. Two heaps "
            "at the ends mean that the split is sure of itself.",
            histograms.posterior(run, f"Probability of noise: {text}"),
        ),
        "detectors": (
            "Detectors",
            "Every detector on the evidence of each split's stage; the star is this run's own "
            "decision. Detectors come from drpl score; without it only the loss is drawn.",
            roc.detectors(run, f"Detectors: {text}"),
        ),
        "transition": (
            "Which classes are mistaken for which",
            "Each row says how the images of a class are labelled, as shares of the row. The "
            "estimate takes the model's prediction for the truth.",
            matrices.transitions(run, f"Transition matrix: {text}"),
        ),
        "flow": (
            "What relabelling did",
            "Each ribbon is as wide as the number of samples that move between two classes. What "
            "stays in its class is pale.",
            flow.flow(run, f"From labels to predictions: {text}"),
        ),
    }
    return pictures(name, drawn)
