"""Human labels of CIFAR."""

from pathlib import Path

import pytest

from drpl.config.compose import default_preset
from drpl.data.sources import ReadOptions, load
from drpl.errors import DataError
from tests.support.datasets import make_cifar10, make_cifar100, make_human


def test_human_labels(tmp_path: Path) -> None:
    make_cifar10(tmp_path / "cifar-10-batches-py", batches=2)
    read_options = ReadOptions(data_dir=tmp_path)
    clean = load("cifar10", read_options).train.labels.tolist() + [0] * 60
    worse = [(label + (k % 2)) % 10 for k, label in enumerate(clean)]
    path = tmp_path / "cifar-10n" / "CIFAR-10_human.pt"
    make_human(path, clean_label=clean, worse_label=worse, aggre_label=clean)
    data = load("cifar10n", read_options)
    assert data.name == "cifar10n:worse_label"
    assert data.train.truth is not None
    assert data.train.truth.labels.tolist() == clean[:40]
    assert int(data.train.truth.is_noisy(data.train.labels).sum()) == 20
    assert load("cifar10n:aggre_label", read_options).train.labels.tolist() == clean[:40]
    assert default_preset(data.name) == "cifar10"
    with pytest.raises(DataError, match="did you mean 'worse_label'"):
        load("cifar10n:worst_label", read_options)
    with pytest.raises(DataError, match="has no labels 'clean_label'"):
        load("cifar10n:clean_label", read_options)
    make_human(path, clean_label=clean[::-1], worse_label=worse)
    with pytest.raises(DataError, match="does not belong to these images"):
        load("cifar10n", read_options)
    make_human(path, worse_label=worse)
    with pytest.raises(DataError, match="should hold clean_label"):
        load("cifar10n", read_options)


def test_human_labels_of_cifar100(tmp_path: Path) -> None:
    make_cifar100(tmp_path / "cifar-100-python")
    clean, noisy = [99 - c for c in range(100)], list(range(100))
    make_human(tmp_path / "CIFAR-100_human.pt", clean_label=clean, noisy_label=noisy)
    data = load("cifar100n", ReadOptions(data_dir=tmp_path))
    assert (data.name, data.train.labels.tolist()) == ("cifar100n:noisy_label", noisy)
