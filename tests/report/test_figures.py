"""The figures: what they show is what the folders hold, and all of it can be read."""

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy.stats import beta

from drpl.files import write_arrays
from drpl.report import curves, flow, histograms, matrices, roc
from drpl.report.figures import every, figures, of_case, of_run
from drpl.report.runs import arrays, cases, find, observed, samples, split
from drpl.report.style import COLOURS, Picture, strokes
from drpl.runs.folder import Result
from tests.support.run_folders import CLASSES, Recipe, write_run

KINDS = ("histogram", "posterior", "detectors", "transition", "flow")


def pictures(places: list[Path]) -> list[Picture]:
    runs = find(places)
    return list(every(runs, strokes([run.summary["method"] for run in runs])))


def test_all_figures_are_written_twice_and_alike(run: Path, tmp_path: Path) -> None:
    written = figures([run], tmp_path / "first")
    names = {path.name for path in written}
    assert len(names) == 16
    for kind in ("accuracy", "roc", "losses"):
        assert {f"made-uniform-0.4-{kind}.svg", f"made-uniform-0.4-{kind}.png"} <= names
    for kind in KINDS:
        assert f"drpl-made-uniform-0.4-seed-1-{kind}.svg" in names
    for path in figures([run], tmp_path / "second"):
        assert path.read_bytes() == (tmp_path / "first" / path.name).read_bytes(), path.name


def test_text_is_text_and_takes_the_colour_of_the_page(run: Path) -> None:
    drawn = list(pictures([run]))
    assert len(drawn) > len(KINDS)
    for picture in drawn:
        inside, alone = picture.svg(), picture.svg(alone=True)
        assert "<text" in inside
        assert 'aria-label="' in inside
        assert "currentColor" in inside
        assert "prefers-color-scheme:dark" in alone
        assert "prefers-color-scheme" not in inside
        assert "var(" not in alone  # few programs but browsers know it
        assert "http" not in inside.replace("http://www.w3.org/", "")


def texts(figure: Figure) -> list[tuple[str, Any]]:
    """Every text that is seen, and where it stands in pixels."""
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    seen = []
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if text.get_visible() and text.get_text().strip():
            seen.append((text.get_text(), text.get_window_extent(renderer)))
    return seen


def shown_ticks(axes: Axes) -> set[str]:
    return {t.get_text() for t in (*axes.get_xticklabels(), *axes.get_yticklabels())}


@pytest.mark.parametrize("many", [False, True])
def test_no_text_is_cut_off_or_lies_on_another(run: Path, comparison: Path, many: bool) -> None:
    place = comparison / "runs" / "uniform-0.6" if many else run
    runs = find([place])
    look = strokes([one.summary["method"] for one in runs])
    drawn = [p for case, mine in cases(runs).items() for p in of_case(case, mine, look)]
    for picture in [*drawn, *([] if many else of_run(runs[0]))]:
        figure = picture.figure
        found = texts(figure)
        width, height = figure.bbox.width, figure.bbox.height
        ticks = set().union(*(shown_ticks(axes) for axes in figure.axes))
        for words, box in found:
            if words in ticks:  # those beyond the limits of an axis are not drawn
                continue
            assert box.x0 >= -1, (picture.name, words)
            assert box.y0 >= -1, (picture.name, words)
            assert box.x1 <= width + 1, (picture.name, words)
            assert box.y1 <= height + 1, (picture.name, words)
        whole = [(words, box) for words, box in found if words not in ticks]
        for (one, a), (two, b) in combinations(whole, 2):
            across = min(a.x1, b.x1) - max(a.x0, b.x0)
            down = min(a.y1, b.y1) - max(a.y0, b.y0)
            assert across < 2 or down < 2, f"{picture.name}: {one!r} lies on {two!r}"


def test_axes_are_named_and_there_is_a_key(run: Path) -> None:
    for picture in pictures([run]):
        words = [text for text, _ in texts(picture.figure)]
        assert any(axes.get_xlabel() for axes in picture.figure.axes)
        assert any(axes.get_ylabel() for axes in picture.figure.axes)
        if not picture.name.endswith("transition"):  # its cells carry their numbers
            assert picture.figure.legends, picture.name
        assert any("made" in text for text in words)


def test_bands_are_quantiles_of_clean_and_noisy_losses(run: Path) -> None:
    (result,) = find([run])
    figure = curves.losses([result], "title")
    assert figure
    table, truth = arrays(result, "evidence/relabel.npz"), samples(result)
    assert table
    assert truth
    axes = figure.axes[0]
    assert axes.get_title() == "drpl, relabel"
    lines = {line.get_label(): line for line in axes.lines}
    for mask, name in ((~truth["wrong"], "clean"), (truth["wrong"], "noisy")):
        middle = np.median(table["losses"][:, mask], axis=1)
        assert np.allclose(lines[f"{name}, median"].get_ydata(), middle)
        bands = {band.get_label(): band for band in axes.collections}
        band = bands[f"{name}, 10 to 90 %"]
        assert isinstance(band, PolyCollection)
        wanted = np.percentile(table["losses"][:, mask], [10, 90], axis=1)
        heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
        assert np.isclose(heights.min(), wanted.min())
        assert np.isclose(heights.max(), wanted.max())
    assert list(np.asarray(lines["clean, median"].get_xdata())) == [3, 6, 9, 12, 15, 18, 21, 24]
    assert list(np.asarray(lines["then labels are replaced"].get_xdata())) == [6, 6]


def test_when_losses_were_observed_is_found_also_for_older_runs(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", Recipe(epochs=10, every=4))
    (result,) = find([folder])
    assert observed(result, "relabel", 3).tolist() == [4, 8, 10]
    (folder / "provenance.json").write_text("{}")
    assert observed(result, "relabel", 3).tolist() == [4, 8, 10]
    assert observed(result, "relabel", 7).tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_the_threshold_stands_where_labels_stop_being_kept(run: Path) -> None:
    (result,) = find([run])
    for stage in result.summary["stages"]:
        table = split(result, stage["stage"])
        border = histograms.cut(stage, table)
        assert border is not None
        assert (table["clean"] == (table["losses"] < border)).all()
    mixed = {"losses": np.array([1.0, 2, 3]), "noisy": np.array([0.9, 0.1, 0.9])}
    assert histograms.cut({"threshold": 0.5}, mixed) is None  # no single place
    none = {"losses": np.array([1.0, 2]), "noisy": np.array([0.1, 0.1])}
    assert histograms.cut({"threshold": 0.5}, none) is None


def test_histograms_hold_all_samples_and_the_fitted_components(run: Path) -> None:
    (result,) = find([run])
    figure = histograms.losses(result, "title")
    assert figure
    axes, stage = figure.axes[0], result.summary["stages"][0]
    bars = [patch.get_data() for patch in axes.patches if hasattr(patch, "get_data")]
    area = sum(((b.values - b.baseline) * np.diff(b.edges)).sum() for b in bars)
    assert area == pytest.approx(1)
    lines = {line.get_label(): line for line in axes.lines}
    mixture = stage["mixture"]
    low, high = mixture["scale"]
    x, y = (np.asarray(v) for v in lines["fitted, high losses"].get_data())
    density = beta.pdf((x - low) / (high - low), mixture["alpha"][1], mixture["beta"][1])
    assert np.allclose(y, 0.9 * mixture["weight"][1] * density / (high - low))


def test_transitions_and_flows_count_samples(run: Path) -> None:
    (result,) = find([run])
    table = samples(result)
    assert table
    matrix = matrices.transition(table["true"], table["given"], len(CLASSES))
    assert np.allclose(matrix.sum(1), 1)
    a, b = 2, 5
    chosen = table["true"] == a
    assert matrix[a, b] == pytest.approx((table["given"][chosen] == b).mean())
    empty = matrices.transition(np.array([0, 0]), np.array([0, 1]), 3)
    assert np.isnan(empty[1]).all()
    found = flow.stations(result)
    assert list(found) == ["given label", "seen after relabel", "seen by the model"]
    assert (found["given label"] == table["given"]).all()
    many = {"a": np.arange(40) % 20, "b": (np.arange(40) + 1) % 20}
    groups, names = flow.heaped(many, [f"class {k}" for k in range(20)])
    assert len(names) == flow.SHOWN
    assert names[-1] == "9 other classes"
    assert groups.max() == flow.SHOWN - 1


def test_detectors_come_from_the_scores(run: Path, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", Recipe())
    (result,) = find([folder])
    assert list(roc.suspicions(result)["detect"]) == ["split's loss"]
    table = samples(result)
    assert table
    scores = result.samples[["id"]].copy()
    for name in ("small_loss", "margin"):
        scores[f"relabel:{name}"] = table["loss"] + (name == "margin") * table["wrong"] * 100
    scores.to_csv(folder / "scores.csv", index=False)
    figure = roc.detectors(result, "title")
    assert figure
    assert [axes.get_title() for axes in figure.axes] == ["relabel: best is margin (1.000)"]
    stars = [line for line in figure.axes[0].lines if line.get_marker() == "*"]
    (x,), (y,) = (np.asarray(v) for v in stars[0].get_data())
    assert result.detection
    assert (x, y) == (result.detection["fpr"], result.detection["tpr"])


def test_the_accuracy_figure_marks_last_and_best(run: Path) -> None:
    (result,) = find([run])
    figure = curves.accuracy([result], strokes(["drpl"]), "title")
    assert figure
    lines = [line for line in figure.axes[0].lines if np.size(line.get_xdata())]
    marks = {line.get_marker(): [float(np.ravel(v)[0]) for v in line.get_data()] for line in lines}
    assert marks["o"][1] == pytest.approx(result.accuracy["last"])
    assert marks["*"][1] == pytest.approx(result.accuracy["best"])
    best = int(marks["*"][0]) - 1
    assert result.history[best]["accuracy"] == result.accuracy["best"]
    assert result.history[best]["stage"] == "detect"


def test_what_cannot_be_drawn_is_left_out(blind: Path, tmp_path: Path) -> None:
    drawn = [picture.name.rpartition("-")[2] for picture in pictures([blind])]
    assert drawn == ["losses", "histogram", "posterior", "transition", "flow"]
    begun = write_run(tmp_path / "begun", Recipe(), finished=False)
    drawn = [picture.name.rpartition("-")[2] for picture in pictures([begun])]
    assert drawn == ["accuracy", "losses", "histogram", "posterior"]


def test_many_classes_fit(tmp_path: Path) -> None:
    """A hundred classes: no names, and an image instead of ten thousand shapes."""
    folder = write_run(tmp_path / "run", Recipe())
    (result,) = find([folder])
    result.summary["classes"] = [f"class {k}" for k in range(100)]
    table = dict(samples(result) or {})
    for key in ("given", "suggested", "true"):
        table[key] = (np.arange(len(table["given"])) * 7 + len(key)) % 100
    write_arrays(folder / "samples.npz", table)
    for drawn in (matrices.transitions(result, "t"), flow.flow(result, "t")):
        assert drawn is not None
        assert len(Picture("a", "b", "c", drawn).svg()) < 400_000


def test_colours_and_lines_tell_methods_apart() -> None:
    look = strokes([f"method {k}" for k in range(28)])
    assert len(set(look.values())) == 28
    assert len(set(COLOURS)) == len(COLOURS)


def test_nothing_of_the_users_matplotlib_is_touched(run: Path, tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    figures([run], tmp_path)
    assert dict(matplotlib.rcParams) == before


def test_results_so_far(run: Path) -> None:
    assert Result.so_far(run).finished
    assert Result.so_far(run) == Result.load(run)
