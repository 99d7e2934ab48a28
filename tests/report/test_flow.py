"""Flows of samples between classes, also where there are many."""

from pathlib import Path

import numpy as np

from drpl.files import write_arrays
from drpl.report import flow, matrices
from drpl.report.load import load_runs, read_samples
from drpl.report.style import Picture
from tests.support.run_folders import Recipe, write_run


def test_flows_count_samples(run: Path) -> None:
    (result,) = load_runs([run])
    table = read_samples(result)
    assert table
    found = flow.read_stations(result)
    assert list(found) == ["given label", "seen after relabel", "seen by the model"]
    assert (found["given label"] == table["given"]).all()
    many = {"a": np.arange(40) % 20, "b": (np.arange(40) + 1) % 20}
    groups, names = flow.merge_classes(many, [f"class {k}" for k in range(20)])
    assert len(names) == flow.SHOWN
    assert names[-1] == "9 other classes"
    assert groups.max() == flow.SHOWN - 1


def test_many_classes_fit(tmp_path: Path) -> None:
    """A hundred classes: no names, and an image instead of ten thousand shapes."""
    folder = write_run(tmp_path / "run", Recipe())
    (result,) = load_runs([folder])
    result.summary["classes"] = [f"class {k}" for k in range(100)]
    table = dict(read_samples(result) or {})
    for key in ("given", "suggested", "true"):
        table[key] = (np.arange(len(table["given"])) * 7 + len(key)) % 100
    write_arrays(folder / "samples.npz", table)
    for drawn in (matrices.draw_transitions(result, "t"), flow.draw_flow(result, "t")):
        assert drawn is not None
        assert len(Picture("a", "b", drawn).render_svg()) < 400_000
