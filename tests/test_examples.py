import re
import runpy
import sys
from pathlib import Path

import pytest

from drpl.runs.folder import Result

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_a_method_from_outside_is_used_like_one_inside(tmp_path: Path) -> None:
    own = runpy.run_path(str(EXAMPLES / "own_method.py"))
    result: Result = own["main"](tmp_path, epochs=3)
    assert result.summary["method"] == "own_method"
    assert (result.accuracy["last"] or 0) > 15
    assert len(result.samples) == 1438


def test_a_detector_from_outside_is_scored_like_one_inside(tmp_path: Path) -> None:
    own = runpy.run_path(str(EXAMPLES / "own_detector.py"))
    table = own["main"](tmp_path, epochs=4)
    assert table.detector.tolist() == ["small_loss", "averaged_doubt"]
    assert (table.auroc > 0.7).all()


@pytest.mark.parametrize("loop", ["plain", "lightning", "transformers"])
@pytest.mark.filterwarnings("ignore")
def test_a_loop_of_ones_own_finds_wrong_labels(
    loop: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if loop != "plain":
        pytest.importorskip({"lightning": "lightning", "transformers": "accelerate"}[loop])
    own = runpy.run_path(str(EXAMPLES / "own_loop.py"))
    recorder = own["main"](loop)
    assert own["measure_auroc"](recorder, own["read"]()) > 0.99
    assert "AUROC 0.99" in capsys.readouterr().out


def test_the_demo_plants_as_many_wrong_labels_as_it_says(tmp_path: Path) -> None:
    demo = runpy.run_path(str(EXAMPLES / "demo.py"))
    true = demo["write_digits"](tmp_path)
    assert sorted(true) == sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.png"))
    wrong = sum(label != Path(path).parent.name for path, label in true.items())
    assert wrong == round(demo["WRONG"] * len(true))


@pytest.mark.slow
def test_the_demo_reaches_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mean of three seeds: DRPL >= 97 and 4 points above cross-entropy, stage-2 AUROC >= 0.99."""
    words = ["demo.py", "--seeds", "1", "2", "3", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", words)
    runpy.run_path(str(EXAMPLES / "demo.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert int(re.findall(r"(\d+)% of the \d+ listed labels are really wrong", said)[0]) >= 90

    def mean(method: str) -> tuple[float, float]:
        place = tmp_path / "compared" / "runs" / "uniform-0.6" / method
        runs = [Result.load(place / f"seed-{seed}") for seed in (1, 2, 3)]
        accuracy = sum(run.accuracy["last"] or 0 for run in runs) / 3
        return accuracy, sum((run.detection or {})["auroc"] or 0 for run in runs) / 3

    ours, auroc = mean("drpl")
    assert ours >= 97.0
    assert auroc >= 0.99
    assert ours >= mean("cross_entropy")[0] + 4
