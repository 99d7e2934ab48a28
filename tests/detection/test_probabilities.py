"""Labels judged by probabilities: scored as cleanlab does, and the same from parts of a file."""

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from drpl.detection import probabilities
from drpl.detection.noise_model import NoiseModel
from drpl.detection.probabilities import judge_probabilities
from drpl.errors import DataError

Array = NDArray[Any]


def draw(
    count: int = 3000, classes: int = 7, kind: str = "float32"
) -> tuple[Array, Tensor, NDArray[np.bool_]]:
    """Calibrated probabilities, labels of which a fifth is wrong, and which are."""
    draws = torch.Generator().manual_seed(5)
    probs = (3 * torch.randn(count, classes, generator=draws, dtype=torch.float64)).softmax(1)
    true = torch.multinomial(probs, 1, generator=draws).squeeze(1)
    wrong = torch.rand(count, generator=draws) < 0.2
    step = torch.randint(1, classes, (count,), generator=draws)
    labels = torch.where(wrong, (true + step) % classes, true)
    return probs.numpy().astype(kind), labels, wrong.numpy()


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("score", ["self_confidence", "normalized_margin"])
def test_scores_are_those_of_cleanlab_to_the_bit(score: str, kind: str) -> None:
    from cleanlab.rank import get_label_quality_scores

    probs, labels, _ = draw(kind=kind)
    theirs = get_label_quality_scores(labels.numpy(), probs, method=score)
    ours = getattr(judge_probabilities(probs, labels), score)
    np.testing.assert_array_equal(ours, theirs)


def test_the_posterior_is_that_of_the_noise_model() -> None:
    probs, labels, wrong = draw()
    found = judge_probabilities(probs, labels).label_noise
    whole = NoiseModel.fit(torch.from_numpy(probs).double().clamp(min=1e-6).log(), labels)
    np.testing.assert_allclose(found, whole.posterior.numpy(), atol=2e-3)
    assert found.mean() == pytest.approx(wrong.mean(), abs=0.02)


def test_parts_and_files_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probs, labels, _ = draw()
    whole = asdict(judge_probabilities(probs, labels))
    np.save(tmp_path / "probs.npy", probs)
    mapped = np.load(tmp_path / "probs.npy", mmap_mode="r")
    monkeypatch.setattr(probabilities, "CELLS", 700)  # 100 samples
    for again in (probs, mapped, mapped[:]):
        for name, values in asdict(judge_probabilities(again, labels)).items():
            np.testing.assert_allclose(values, whole[name], rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("kind", [">f4", "longdouble"])
def test_other_orders_of_bytes_and_precisions(kind: str) -> None:
    probs, labels, _ = draw(500)
    wanted, found = (judge_probabilities(one, labels) for one in (probs, probs.astype(kind)))
    assert np.array_equal(found.label_noise, wanted.label_noise)
    assert np.array_equal(found.other, wanted.other)


def test_the_other_class_is_never_the_given_one() -> None:
    probs, labels, _ = draw()
    found = judge_probabilities(probs, labels)
    assert (found.other != labels.numpy()).all()
    agree = found.predicted == labels.numpy()
    np.testing.assert_array_equal(found.other[~agree], found.predicted[~agree])


def test_what_are_no_probabilities() -> None:
    probs, labels, _ = draw(50)
    for row, value in ((3, np.nan), (17, -0.5), (49, 4.0)):
        bad = probs.copy()
        bad[row, 2] = value
        with pytest.raises(DataError, match=f"row {row} is not made of probabilities"):
            judge_probabilities(bad, labels)
    with pytest.raises(DataError, match="49 rows of probabilities for 50 labels"):
        judge_probabilities(probs[1:], labels)
    for odd in (probs[:, 0], probs[:, :1], probs.astype(int)):
        with pytest.raises(DataError, match="must be fractions"):
            judge_probabilities(odd, labels)


PEAK = """
import resource, sys
import numpy as np, torch
from drpl.detection import probabilities
probabilities.ENOUGH = 1000  # the fit takes as long for all sizes
probs = np.load(sys.argv[1], mmap_mode="r")
probabilities.judge_probabilities(probs, torch.arange(len(probs)) % probs.shape[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    part = (0.5 * np.eye(200) + 0.0025).astype(np.float32)

    def measure(copies: int) -> int:
        path = tmp_path / "probs.npy"
        about = {"descr": "<f4", "fortran_order": False, "shape": (200 * copies, 200)}
        with path.open("wb") as file:  # not mapped: the peak of this process becomes the child's
            np.lib.format.write_array_header_1_0(file, about)
            for _ in range(copies):
                file.write(part.tobytes())
        words = [sys.executable, "-c", PEAK, str(path)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return int(done.stdout)

    few, many = measure(200), measure(1200)  # 31 and 183 MB
    assert many - few < 60
