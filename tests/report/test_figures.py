"""The figures as a whole: written twice and alike, and all of their text can be read."""

from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from drpl.report.figures import draw_all, draw_case, draw_run, figures
from drpl.report.load import group_by_case, load_runs
from drpl.report.style import Picture, assign_strokes
from tests.support.run_folders import Recipe, write_run

KINDS = ("histogram", "posterior", "detectors", "transition", "flow")


def test_all_figures_are_written_and_alike(
    run: Path, pictures: list[Picture], tmp_path: Path
) -> None:
    before = dict(matplotlib.rcParams)
    written = figures([run], tmp_path)
    assert dict(matplotlib.rcParams) == before  # the user's are not touched
    names = {path.name for path in written}
    assert len(names) == 18
    for kind in ("accuracy", "training", "roc", "losses"):
        assert {f"made-uniform-0.4-{kind}.svg", f"made-uniform-0.4-{kind}.png"} <= names
    for kind in KINDS:
        assert f"drpl-made-uniform-0.4-seed-1-{kind}.svg" in names
    for picture in pictures:  # drawn a second time
        svg, png = (tmp_path / f"{picture.name}.{ending}" for ending in ("svg", "png"))
        assert picture.render_svg(alone=True) == svg.read_text(), picture.name
        assert picture.render_png() == png.read_bytes(), picture.name


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
    runs = load_runs([place])
    look = assign_strokes([one.summary["method"] for one in runs])
    drawn = [p for case, mine in group_by_case(runs).items() for p in draw_case(case, mine, look)]
    for picture in [*drawn, *([] if many else draw_run(runs[0]))]:
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


def test_axes_are_named_and_there_is_a_key(pictures: list[Picture]) -> None:
    for picture in pictures:
        words = [text for text, _ in texts(picture.figure)]
        assert any(axes.get_xlabel() for axes in picture.figure.axes)
        assert any(axes.get_ylabel() for axes in picture.figure.axes)
        if not picture.name.endswith("transition"):  # its cells carry their numbers
            assert picture.figure.legends, picture.name
        assert any("made" in text for text in words)


def test_what_cannot_be_drawn_is_left_out(blind: Path, tmp_path: Path) -> None:
    drawn = [picture.name.rpartition("-")[2] for picture in draw_all(load_runs([blind]))]
    assert drawn == ["training", "losses", "histogram", "posterior", "transition", "flow"]
    begun = write_run(tmp_path / "begun", Recipe(), finished=False)
    drawn = [picture.name.rpartition("-")[2] for picture in draw_all(load_runs([begun]))]
    assert drawn == ["accuracy", "training", "losses", "histogram", "posterior"]


def test_a_run_without_its_history_has_the_other_figures(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", Recipe())
    (run / "history.jsonl").unlink()
    names = {path.name for path in figures([run], tmp_path / "figures")}
    assert any("histogram" in name for name in names)
    assert not any("accuracy" in name for name in names)
