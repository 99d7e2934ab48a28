"""The real files, where they are present."""

import torch

from drpl.data.readers.cifar_n import read_human_labels
from drpl.data.sources import ReadOptions, load
from tests.support.datasets import REAL, real_data

pytestmark = real_data
READING = ReadOptions(data_dir=REAL)


def test_cifar10() -> None:
    data = load("cifar10", READING)
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (20_000, 10_000)
    assert data.train.classes[6] == "frog"
    assert data.train.labels[:6].tolist() == [6, 9, 9, 4, 1, 1]
    assert data.test.labels.bincount().tolist() == [1000] * 10
    first = data.train.images.load(torch.tensor([0]))[0]
    assert first[:, 0, 0].tolist() == [59, 62, 63]  # the frog's upper left corner
    assert "batch 1, 2 of 5" in data.notes[0]
    pixels = data.train.images.load(torch.arange(20_000)).double() / 255
    for channel, mean in enumerate((0.4914, 0.4822, 0.4465)):
        assert abs(float(pixels[:, channel].mean()) - mean) < 0.005


def test_cifar10n_rates() -> None:
    known = read_human_labels(REAL / "cifar-10n" / "CIFAR-10_human.pt")
    rates = {
        name: round(100 * float((labels != known["clean_label"]).double().mean()), 3)
        for name, labels in known.items()
    }
    assert rates == {
        "clean_label": 0,
        "random_label1": 17.234,
        "random_label2": 18.122,
        "random_label3": 17.640,
        "aggre_label": 9.010,
        "worse_label": 40.208,
    }
    data = load("cifar10n:random_label2", READING)
    assert data.train.truth is not None
    wrong = data.train.truth.is_noisy(data.train.labels)
    right = known["clean_label"][:20_000]
    assert torch.equal(wrong, known["random_label2"][:20_000] != right)


def test_imagenet32_mini() -> None:
    data = load(str(REAL / "imagenet32-mini"))
    assert data.test is not None
    assert data.outside is not None
    assert (len(data.train.classes), len(data.outside.classes)) == (20, 40)
    assert (len(data.train), len(data.test), len(data.outside)) == (5000, 1000, 10_000)
    assert data.train.labels.bincount().tolist() == [250] * 20
    assert data.test.labels.bincount().tolist() == [50] * 20
    assert data.outside.labels.bincount().tolist() == [250] * 40
    assert data.train.classes[0] == "dugong"
    assert data.train.images.shape == (3, 32, 32)
