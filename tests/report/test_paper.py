"""The transcription of the paper's tables."""

from collections import Counter

import pytest

from drpl.noise.spec import parse_spec
from drpl.registry import NOISES
from drpl.report.paper import TABLES, find_published, read_published

CELLS = {
    "detection": 3 * 14,
    "imagenet32": 5 * 15,
    "imagenet64": 5 * 15,
    "cifar10": 9 * 8,
    "cifar100": 9 * 8,
    "webvision": 10,
    "webvision-google": 2,
    "oracles": 8,
}


def test_every_cell_is_there_once() -> None:
    figures = read_published()
    assert Counter(figure.table for figure in figures) == CELLS
    assert list(CELLS) == list(TABLES)
    cells = {(f.table, f.dataset, f.noise, f.method) for f in figures}
    assert len(cells) == len(figures) == 356


def test_figures_are_possible() -> None:
    for figure in read_published():
        kind, rate = parse_spec(figure.noise)[0]
        assert kind in NOISES or figure.noise == "none"
        assert (rate or 0.0) == figure.rate
        assert all(v is None or 0 <= v <= 1 for v in (figure.tpr, figure.fpr)), figure
        if figure.best is not None and figure.last is not None and not figure.note:
            assert 1 < figure.last <= figure.best < 100, figure


@pytest.mark.parametrize(
    ("dataset", "noise", "method", "best", "last"),
    [
        ("imagenet32", None, "forward", 71.84, 71.42),
        ("imagenet32", "ood:0.8", "drpl", 54.10, 53.16),
        ("imagenet32", "nonuniform:0.5", "joint", 63.62, 63.22),
        ("imagenet64", "uniform:0.6", "mixup", 60.96, 34.12),
        ("imagenet64", "ood-nonuniform:0.1", "bootstrap", 80.92, 80.76),
        ("cifar10", "uniform:0.8", "pencil", 56.14, 55.99),
        ("cifar10", "nonuniform:0.4", "gce", 88.39, 76.04),
        ("cifar10", "uniform:0.6", "dmi", 75.91, 14.78),
        ("cifar100", "uniform:0.8", "drpl", 53.04, 52.95),
        ("cifar100", "nonuniform:0.1", "cross_entropy", 68.18, 68.10),
        ("webvision", None, "dividemix", 78.16, 76.84),
        ("webvision", None, "drpl", 82.08, 82.00),
        ("webvision:google", None, "drpl", 77.12, None),
        ("webvision:google", None, "dividemix", 77.32, None),
        ("imagenet64", "uniform:0.8", "oracle_ssl", 78.02, None),
        ("imagenet32", "nonuniform:0.5", "oracle_forward", 65.70, None),
    ],
)
def test_accuracies(
    dataset: str, noise: str | None, method: str, best: float, last: float | None
) -> None:
    figures = [
        figure for figure in find_published(dataset, noise, method) if figure.best is not None
    ]
    assert [(figure.best, figure.last) for figure in figures] == [(best, last)]


@pytest.mark.parametrize(
    ("noise", "method", "tpr", "fpr"),
    [
        ("nonuniform:0.1", "two_stage", 0.28, 0.04),
        ("ood:0.8", "two_stage", 0.29, 0.06),
        ("uniform:0.6", "nlnl", 0.34, 0.00),
        ("uniform:0.8", "nlnl", None, None),
        ("ood-nonuniform:0.5", "drpl", 0.85, 0.32),
    ],
)
def test_detection(noise: str, method: str, tpr: float | None, fpr: float | None) -> None:
    found = [f for f in find_published("imagenet32", noise, method) if f.table == "detection"]
    assert [(figure.tpr, figure.fpr) for figure in found] == [(tpr, fpr)]


def test_doubtful_cells_say_so() -> None:
    noted = Counter(figure.note for figure in read_published() if figure.note)
    assert noted == {
        "printed as a dash: no usable result": 2,
        "last is higher than best as printed": 1,
        "best is 64.24 in the supplement and 64.34 in the main table": 1,
        "cross_entropy and forward have the same best as printed: doubtful": 6,
        "the paper gives one figure; taken for the best": 8,
        "from the text; Google's images only and Inception-ResNet-v2 as DivideMix has them; taken "
        "for the best": 2,
    }


def test_the_share_that_is_detected_on_webvision() -> None:
    known = [figure for figure in read_published() if figure.flagged is not None]
    assert [(f.dataset, f.method, f.flagged) for f in known] == [("webvision", "drpl", 0.17)]


def test_a_noise_is_found_however_it_is_written() -> None:
    wanted = find_published("cifar10", "uniform:0.4", "drpl")
    assert len(wanted) == 1
    assert find_published("cifar10", "uniform:.40,scheme=official", "drpl") == wanted
    assert find_published("cifar10", "uniform:0.4+ood:0.1", "drpl") == []
    assert find_published("digits", "uniform:0.4", "drpl") == []
