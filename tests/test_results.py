"""Results show themselves: as text in a terminal, as a table in a notebook."""

from dataclasses import replace
from pathlib import Path

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.experiments.grid import Cell, Comparison
from tests.support.tiny import tiny_config


def name_classes(data: DatasetSplits) -> DatasetSplits:
    """The same data, with classes whose names a page must not take for its own."""
    names = tuple(f"<b>{name}</b>" for name in data.train.classes)
    return replace(data, train=replace(data.train, classes=names), test=None)


def test_a_run_and_a_comparison(tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("mixup", 1)
    run = drpl.train(
        name_classes(tiny), method="mixup", config=config, out=tmp_path / "run", quiet=True
    )
    first, second, *_ = str(run).splitlines()
    assert first.startswith("mixup on ")
    assert second.startswith("flagged ")
    page = run._repr_html_()
    assert "<table" in page
    assert "&lt;b&gt;" in page
    assert "<b>0" not in page.replace("<b>mixup", "")
    (tmp_path / "table.md").write_text("| a table |\n")
    failed = {Cell("uniform:0.2", "drpl", 1): "<script>"}
    compared = Comparison(tmp_path, [run], failed)
    assert str(compared) == "| a table |\n"
    assert "<table" in compared._repr_html_()
    assert "<script>" not in compared._repr_html_()


def test_a_cleaning(tiny: DatasetSplits, tmp_path: Path) -> None:
    found = drpl.clean(name_classes(tiny), tmp_path / "cleaned", budget="1s", quiet=True)
    assert str(found).startswith("# What was found\n")
    assert "**" not in str(found)
    page = found._repr_html_()
    assert page.startswith("<p>")
    assert "<b>" not in page
    assert page.count("<img") == min(10, len(found.issues))
