"""Which method for which noise: what is kept follows from the results, and is read out rightly."""

from pathlib import Path

import pandas as pd
from benchmarks import which
from benchmarks.lookup import GRID

ROOT = Path(__file__).parents[1]
KEPT = ROOT / which.RESULTS


def test_what_is_kept_follows_from_the_kept_results() -> None:
    """After new results: make claims."""
    cells = which.read_cells(ROOT)
    kept = pd.read_csv(KEPT / "table.csv")
    pd.testing.assert_frame_equal(kept, which.make_table(cells), check_dtype=False, rtol=1e-4)
    for name, text in which.make_texts(cells).items():
        assert (KEPT / f"{name}.md").read_text("utf-8") == text


def write_results(root: Path, accuracies: dict[str, list[float]]) -> None:
    """A grid with two levels, one of them no main one."""
    rows = [
        {"dataset": "cifar10", "noise": noise, "method": method, "seed": seed, "auroc": 0.9}
        | {"accuracy_last": value + (noise == "uniform:0.2")}
        for method, values in accuracies.items()
        for seed, value in enumerate(values, 1)
        for noise in ("none", "uniform:0.2", "uniform:0.4")
    ]
    (root / GRID).mkdir(parents=True)
    pd.DataFrame(rows).to_csv(root / GRID / "table.csv", index=False)


def test_the_first_is_named_with_those_that_are_level(tmp_path: Path) -> None:
    found = {"joint": [80.0, 81, 82], "mixup": [80.1, 80.9, 81.9], "drpl": [78.0, 79, 80.1]}
    write_results(tmp_path, found | {"oracle_ssl": [90.0, 90, 91]})
    cells = which.read_cells(tmp_path)
    assert set(cells["noise"]) == {"uniform:0.4"}
    assert which.read_out(cells) == (
        "- **CIFAR-10, features: U-ID**: `joint` has the highest accuracy; its lead is not "
        "significant over `mixup`; `drpl` is 1.97 points behind.\n"
    )
    line = which.draw_leaders(cells).splitlines()[2]
    assert line.startswith("| CIFAR-10, features: U-ID: accuracy (%) | `joint` 81.0 | `mixup` 81.0")
    assert line.endswith("| 3 of 3 | – |")


def lose(root: Path, method: str, seed: int) -> None:
    """Remove a run, as if it had failed."""
    path = root / GRID / "table.csv"
    runs = pd.read_csv(path)
    lost = (runs["method"] == method) & (runs["seed"] == seed) & (runs["noise"] == "uniform:0.4")
    runs[~lost].to_csv(path, index=False)


def test_a_method_that_lacks_runs_is_shown_and_not_ranked(tmp_path: Path) -> None:
    found = {"joint": [80.0, 10, 82], "mixup": [70.0, 71, 72], "drpl": [60.0, 61, 62]}
    write_results(tmp_path, found | {"reed": [50.0, 51, 52]})
    lose(tmp_path, "joint", 2)  # the mean of what is left is the highest
    cells = which.read_cells(tmp_path)
    line = which.draw_leaders(cells).splitlines()[2]
    assert "| `mixup` 71.0 | `drpl` 61.0 | `reed` 51.0 |" in line
    assert line.endswith("| 2 of 3 | `joint` (1 missing) |")
    text = which.read_out(cells)
    assert "`mixup` has the highest accuracy" in text
    assert text.endswith("; not ranked: `joint` (1 missing).\n")
    table = which.make_table(cells)
    assert which.order_methods(table) == ["mixup", "drpl", "reed", "joint"]
    texts = [text.get_text() for text in which.draw_map(table).axes[0].texts]
    assert texts == ["71.0", "61.0", "51.0", "81.0*"]


def test_a_method_of_which_every_run_failed_is_named(tmp_path: Path) -> None:
    write_results(tmp_path, {"mixup": [70.0], "drpl": [60.0], "reed": [50.0], "joint": [80.0]})
    lose(tmp_path, "joint", 1)
    assert "not ranked: `joint` (1 missing)" in which.read_out(which.read_cells(tmp_path))


def test_an_oracle_under_an_overlay_is_not_ranked(tmp_path: Path) -> None:
    write_results(tmp_path, {"oracle_ssl (fast)": [90.0], "mixup": [79.0], "drpl": [80.0]})
    cells = which.read_cells(tmp_path)
    assert list(which.rank(cells, "accuracy_last").index) == ["drpl", "mixup"]
    assert which.order_methods(which.make_table(cells))[-1] == "oracle_ssl (fast)"


def test_one_seed_tells_nothing_of_chance(tmp_path: Path) -> None:
    write_results(tmp_path, {"joint": [80.0], "mixup": [79.0], "drpl": [79.9, 70.0]})
    assert "the highest accuracy; `drpl` is 5.05 points behind, but the first has one seed" in (
        which.read_out(which.read_cells(tmp_path))
    )


def test_the_map_has_a_row_for_each_method_and_oracles_last(tmp_path: Path) -> None:
    write_results(tmp_path, {"oracle_ssl": [90.0], "mixup": [79.0], "drpl": [80.0]})
    table = which.make_table(which.read_cells(tmp_path))
    assert which.order_methods(table) == ["drpl", "mixup", "oracle_ssl"]
    figure = which.draw_map(table)
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == [
        *("drpl", "mixup", "oracle_ssl"),
    ]
