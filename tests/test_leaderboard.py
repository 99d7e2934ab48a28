"""The leaderboard: what is kept follows from the results, and the best stands first."""

from pathlib import Path

import pandas as pd
import pytest
from benchmarks import leaderboard
from benchmarks.lookup import GRID

ROOT = Path(__file__).parents[1]
KEPT = ROOT / leaderboard.RESULTS


def test_the_kept_table_follows_from_the_kept_results() -> None:
    """After new results: make claims."""
    table = leaderboard.make_table(ROOT)
    kept = pd.read_csv(KEPT / "table.csv")
    pd.testing.assert_frame_equal(kept, table, check_dtype=False, rtol=1e-4)
    assert leaderboard.draw_boards(table) == (KEPT / "table.md").read_text("utf-8")


def test_the_figures_of_people_are_the_means_over_seeds() -> None:
    kept = pd.read_csv(KEPT / "table.csv")
    rows = pd.read_csv(ROOT / leaderboard.PEOPLE)
    mine = rows[(rows["detector"] == "DRPL") & (rows["labels"] == "worse_label")]
    [row] = kept[(kept["detector"] == "DRPL") & (kept["labels"] == "worse")].to_dict("records")
    assert row["auroc"] == pytest.approx(mine["auroc"].mean(), rel=1e-4)
    assert row["average_precision"] == pytest.approx(mine["average precision"].mean(), rel=1e-4)


def make_results(folder: Path) -> None:
    """A grid of two methods, one of them given the truth, under two levels of a noise."""
    cells, found = [], []
    for level, noise in enumerate(("uniform:0.2", "uniform:0.4")):
        for method, stage, area in (
            ("cross_entropy", "train", 0.8),
            ("drpl", "detect", 0.9),
            ("drpl", "detect-warmup", 0.99),
            ("nlnl", "train", 0.7),
            ("oracle_ssl", "final", 1.0),
        ):
            where = {"dataset": "cifar10", "noise": noise, "method": method}
            for detector in ("small_loss", "margin", "negative"):
                row = {**where, "stage": stage, "detector": detector, "auroc": area - level / 10}
                found.append({**row, "tpr": 0.9, "fpr": 0.1})
            cells.append({**where, "seed": 1, "auroc": area, "tpr": 1, "fpr": 0, "seconds": 3})
    home = folder / GRID
    home.mkdir(parents=True)
    pd.DataFrame(cells).drop_duplicates(["noise", "method"]).to_csv(home / "table.csv", index=False)
    pd.DataFrame(found).to_csv(home / "detectors.csv", index=False)


def test_a_board_has_each_detector_once_and_the_best_first(tmp_path: Path) -> None:
    make_results(tmp_path)
    lines = leaderboard.draw_boards(leaderboard.make_table(tmp_path)).splitlines()
    assert lines[0] == "**CIFAR-10, features**"
    assert lines[2] == "| detector | AUROC, U-ID | AP | precision | seconds | seeds |"
    assert lines[4:] == [
        "| `small_loss` after `drpl`, own judgement | **0.900** | – | – | 3 | 1 |",
        "| `small_loss` after `drpl`, detect | 0.850 | – | – | 3 | 1 |",
        "| `small_loss` after `cross_entropy`, train | 0.750 | – | – | 3 | 1 |",
        "| `margin` after `cross_entropy`, train | 0.750 | – | – | 3 | 1 |",
        "| `negative` after `nlnl`, train | 0.650 | – | – | 3 | 1 |",
    ]


def test_what_lacks_runs_stands_below_and_is_not_the_best(tmp_path: Path) -> None:
    make_results(tmp_path)
    path = tmp_path / GRID / "detectors.csv"
    found = pd.read_csv(path)  # without the harder level drpl would be first by far
    found = found[(found["method"] != "drpl") | (found["noise"] == "uniform:0.2")]
    found.replace({"method": {"oracle_ssl": "oracle_ssl (fast)"}}).to_csv(path, index=False)
    runs = pd.read_csv(tmp_path / GRID / "table.csv")
    runs = runs[(runs["method"] != "drpl") | (runs["noise"] == "uniform:0.2")]
    runs.to_csv(tmp_path / GRID / "table.csv", index=False)
    lines = leaderboard.draw_boards(leaderboard.make_table(tmp_path)).splitlines()
    assert lines[4].startswith("| `small_loss` after `cross_entropy`, train | **0.750** |")
    lost = "(not ranked) | 0.900 (1 missing) |"
    assert lines[-2].startswith(f"| `small_loss` after `drpl`, detect {lost}")
    assert lines[-1].startswith(f"| `small_loss` after `drpl`, own judgement {lost}")
    assert "oracle" not in "".join(lines)


def test_average_precision_is_shown_once_a_benchmark_writes_it(tmp_path: Path) -> None:
    make_results(tmp_path)
    path = tmp_path / GRID / "detectors.csv"
    pd.read_csv(path).assign(average_precision=0.5, precision=0.25).to_csv(path, index=False)
    text = leaderboard.draw_boards(leaderboard.make_table(tmp_path))
    assert "| `margin` after `cross_entropy`, train | 0.750 | 0.500 | 0.250 | 3 | 1 |" in text


def test_without_results_there_is_no_board(tmp_path: Path) -> None:
    assert leaderboard.draw_boards(leaderboard.make_table(tmp_path)) == ""
