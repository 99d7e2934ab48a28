"""Linear probes by depth: which features, which images, which numbers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import drpl
from drpl.analysis.probe import (
    COLUMNS,
    STRENGTH,
    format_probes,
    make_folds,
    prepare_task,
    probe,
    select_parts,
)
from drpl.data.dataset import DatasetSplits
from drpl.data.images import TensorImages
from drpl.data.readers.arrays import arrays
from drpl.errors import ConfigError, DataError
from drpl.networks.depth import extract_features
from drpl.networks.ensemble import Ensemble
from drpl.randomness import rng
from drpl.runs import model as models
from tests.conftest import Command
from tests.support.tiny import tiny_config, tiny_pixels


def run(data: DatasetSplits, out: Path, method: str = "mixup", **more: Any) -> Path:
    config = tiny_config(method, 3)
    return drpl.train(data, method=method, config=config, out=out, quiet=True, **more).folder


def corners(count: int, part: str, channels: int = 1, side: int = 8) -> tuple[Any, Any]:
    """Four other classes: a bright patch in one of the corners."""
    draws = rng("corners", part)
    labels = torch.arange(count) % 4
    pixels = torch.randint(0, 60, (count, channels, side, side), generator=draws)
    half = side // 2
    for i, corner in enumerate(labels.tolist()):
        top, left = half * (corner // 2), half * (corner % 2)
        pixels[i, :, top : top + half, left : left + half] += 150
    return pixels.to(torch.uint8).numpy(), labels.numpy()


def target(channels: int = 1, side: int = 8, *, test: bool = True) -> DatasetSplits:
    tested = corners(40, "test", channels, side) if test else ()
    return arrays(*corners(80, "train", channels, side), *tested, classes=[*"abcd"], name="corners")


@pytest.fixture(scope="module")
def trained(tiny: DatasetSplits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tiny, tmp_path_factory.mktemp("probe") / "run", noise="uniform:0.3")


def test_the_number_is_that_of_scikit_learn(trained: Path) -> None:
    data = target()
    table = probe([trained], data).table
    model = models.load(trained)
    assert data.test
    parts = []
    for part in (data.train, data.test):
        x = model.transform(part.images.load(torch.arange(len(part))), torch.empty(len(part), 0))
        parts.append((extract_features(model.net, x)[2].numpy(), part.labels.numpy()))
    classifier = make_pipeline(StandardScaler(), LogisticRegression(C=STRENGTH, max_iter=1000))
    classifier.fit(*parts[0])
    row = table[(table.method == "mixup") & (table.block == 3)].iloc[0]
    assert row.accuracy == pytest.approx(100 * classifier.score(*parts[1]))
    assert row.features == 16


def test_rows_say_what_the_run_was(trained: Path) -> None:
    table = probe([trained, trained], target()).table  # a run counts once
    own, blank = table[table.method == "mixup"], table[table.method == "untrained"]
    assert own.block.tolist() == blank.block.tolist() == [1, 2, 3, 4]
    assert own.features.tolist() == blank.features.tolist() == [4, 8, 16, 32]
    assert set(own.noise) == {"uniform:0.3"}
    assert set(own.rate) == {0.3}
    assert set(own.seed) == {1}
    assert set(own.run) == {str(trained)}


def test_what_can_be_learnt_is_found_and_what_can_not_is_not(trained: Path) -> None:
    data = target()
    assert probe([trained], data).table.accuracy.max() > 90
    shuffled = data.train.labels[torch.randperm(80, generator=rng("shuffled"))]
    nonsense = replace(data, train=replace(data.train, labels=shuffled))
    assert probe([trained], nonsense).table.accuracy.mean() < 45  # guessing gives 25


def test_the_same_call_gives_the_same_numbers_and_leaves_the_model_alone(trained: Path) -> None:
    before = (trained / "model.safetensors").read_bytes()
    first, second = (probe([trained], target()).table for _ in range(2))
    pd.testing.assert_frame_equal(first, second)
    assert (trained / "model.safetensors").read_bytes() == before


def test_of_two_networks_the_mean_counts(tiny: DatasetSplits, tmp_path: Path) -> None:
    both = run(tiny, tmp_path / "both", "coteaching")
    data = target()
    table = probe([both], data).table
    model = models.load(both)
    assert isinstance(model.net, Ensemble)
    assert data.test
    scores = []
    for net in model.net.members:
        (x, y), (x_test, y_test) = (
            (
                extract_features(
                    net,
                    model.transform(
                        part.images.load(torch.arange(len(part))), torch.empty(len(part), 0)
                    ),
                )[3].numpy(),
                part.labels.numpy(),
            )
            for part in (data.train, data.test)
        )
        classifier = make_pipeline(StandardScaler(), LogisticRegression(C=STRENGTH, max_iter=1000))
        scores.append(classifier.fit(x, y).score(x_test, y_test))
    row = table[(table.method == "coteaching") & (table.block == 4)].iloc[0]
    assert row.accuracy == pytest.approx(100 * np.mean(scores))


def test_without_a_test_part_each_image_is_tested_once() -> None:
    train = target(test=False).train
    uneven = torch.cat([torch.arange(80)[train.labels == c][: 8 * (c + 1)] for c in range(2)])
    part = replace(
        train,
        images=TensorImages(train.images.load(uneven)),
        labels=train.labels[uneven],
        classes=("a", "b"),
    )
    folds = make_folds(part, 1)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(24))
    for first, second in folds:
        assert torch.bincount(part.labels[first]).tolist() == [6, 12]
        assert torch.bincount(part.labels[second]).tolist() == [2, 4]
        assert len({*first, *second}) == 24  # nothing is in both
    assert not np.array_equal(folds[0][1], make_folds(part, 2)[0][1])
    with pytest.raises(DataError, match="class 'b' has 1 images"):
        make_folds(replace(train, labels=(torch.arange(80) == 7).long(), classes=("a", "b")), 1)


def test_classes_by_name_and_from_outside() -> None:
    data = target()
    train, test = select_parts(data, ["d", "b"])
    assert train.classes == ("d", "b")
    assert test is not None
    assert len(train) == 40
    assert len(test) == 20
    own = data.train.images.load((data.train.labels == 3).nonzero().flatten())
    assert torch.equal(train.images.load((train.labels == 0).nonzero().flatten()), own)
    pixels, labels = tiny_pixels(30, "aside")
    other = replace(
        data.train, images=TensorImages(pixels), labels=labels, classes=("top", "left", "middle")
    )
    train, test = select_parts(replace(data, outside=other), ["left", "top"])
    assert test is None  # what is outside has no test part
    assert train.classes == ("left", "top")
    assert torch.equal(train.images.load(torch.arange(20)), pixels[labels < 2])
    with pytest.raises(DataError, match="no class is named 'lefd'; did you mean 'left'"):
        select_parts(replace(data, outside=other), ["lefd", "top"])
    with pytest.raises(DataError, match="at least two classes"):
        select_parts(data, ["a"])


def test_labels_of_the_target_are_the_true_ones(tiny: DatasetSplits) -> None:
    truth = drpl.Truth(tiny.train.labels, torch.ones(72, dtype=torch.bool))
    wrong = replace(tiny.train, labels=(tiny.train.labels + 1) % 3, truth=truth)
    train, _ = select_parts(replace(tiny, train=wrong), [])
    assert torch.equal(train.labels, tiny.train.labels)


def test_fewer_images_are_taken_evenly_after_the_classes() -> None:
    task = prepare_task(target(), ["a", "c"], 10, (1, 8, 8), 1)
    first, second = (torch.from_numpy(part) for part in task.folds[0])
    assert torch.bincount(task.labels[first]).tolist() == [5, 5]
    assert torch.bincount(task.labels[second]).tolist() == [5, 5]
    assert len(task.images) == 20
    own, tested = target().train, target().test
    assert tested
    assert torch.equal(
        task.images.load(first),
        own.images.load((own.labels % 2 == 0).nonzero().flatten()[:10]),
    )
    assert torch.equal(
        task.images.load(second),
        tested.images.load((tested.labels % 2 == 0).nonzero().flatten()[:10]),
    )


def test_images_are_brought_to_the_shape_of_the_run(trained: Path) -> None:
    task = prepare_task(target(3, 16), [], None, (1, 8, 8), 1)
    assert task.images.load(torch.arange(4)).shape == (4, 1, 8, 8)
    assert probe([trained], target(3, 16)).table.accuracy.max() > 90
    vectors = arrays(np.random.rand(20, 5), np.arange(20) % 2, classes=["a", "b"], name="v")
    with pytest.raises(
        DataError, match=r"shape \(5,\), which cannot be brought to the \(1, 8, 8\)"
    ):
        probe([trained], vectors)


def test_what_is_doubtful_is_noted(tiny: DatasetSplits, trained: Path, tmp_path: Path) -> None:
    assert probe([trained], target()).notes == ()
    (note,) = probe([trained], tiny).notes
    assert "was trained on 'left' too" in note
    corner = target().train
    strange = run(replace(tiny, outside=corner), tmp_path / "strange", noise="ood:0.3")
    (note,) = probe([strange], target()).notes
    assert "was shown images from outside" in note


class Own(nn.Module):
    """Two blocks of one's own."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(shape[0], 4, 3), nn.Conv2d(4, 6, 3)
        self.classify = nn.Linear(6, classes)

    def blocks(self) -> list[nn.Module]:
        return [self.first, self.second]

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.second(self.first(x).relu()).mean((2, 3)))  # type: ignore[no-any-return]


def test_a_network_of_ones_own_is_probed_and_looked_at(
    tiny: DatasetSplits, trained: Path, tmp_path: Path
) -> None:
    own = run(tiny, tmp_path / "own", network=Own)
    table = probe([own, trained], target(), network=Own, out=tmp_path).table
    assert table[table.run == str(own)].features.tolist() == [4, 6]
    assert len(table[table.method == "untrained"]) == 2 + 4
    (view,) = drpl.look(own, [1], tiny, network=Own)
    assert view.given_map.shape == (4, 4)
    with pytest.raises(ConfigError, match="a function of your own"):
        probe([own], target())


def test_networks_without_blocks_are_refused(tmp_path: Path) -> None:
    x = torch.randn(40, 6, generator=rng("vectors")).numpy()
    data = arrays(x, np.arange(40) % 2, classes=["a", "b"], name="v")
    with pytest.raises(ConfigError, match="no maps of the image"):
        probe([run(data, tmp_path / "run")], data)
    with pytest.raises(ConfigError, match="nothing to probe"):
        probe([], data)


def test_from_the_command_line(command: Command, trained: Path, tmp_path: Path) -> None:
    x, y = corners(80, "train", 3, 16)
    np.savez(tmp_path / "corners.npz", x=x, y=y, classes=[*"abcd"])
    words = ("--classes", "a", "--classes", "b", "--classes", "d", "--limit", 30)
    answer = command("probe", trained, "--target", "corners.npz", *words, "-o", "out")
    assert answer.code == 0, answer
    table = pd.read_csv("out/probes.csv", keep_default_na=False)
    assert list(table) == list(COLUMNS)
    assert len(table) == 8
    assert format_probes(pd.read_csv("out/probes.csv")).splitlines()[0] in answer.out
    assert Path("out/probes.png").read_bytes().startswith(b"\x89PNG")
    assert "mixup, uniform:0.3" in Path("out/probes.svg").read_text()
