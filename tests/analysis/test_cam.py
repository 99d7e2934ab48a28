"""Class activation maps: where they must point, what they add up to, and whose images they show."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import drpl
from drpl.analysis.cam import choose_ids, choose_other, find_memorised, look
from drpl.data.dataset import DatasetSplits
from drpl.data.images import TensorImages
from drpl.data.readers.arrays import arrays
from drpl.errors import DataError
from drpl.networks.depth import compute_class_maps
from drpl.networks.ensemble import Ensemble
from drpl.randomness import rng
from drpl.runs import model as models
from drpl.runs.folder import Result
from tests.conftest import Command
from tests.support.tiny import lr, tiny_config

SIDE, STAMP = 32, 9
CLASSES = ["plus", "frame", "cross", "nothing"]  # without the last, one kind is known by absence


def scenes(count: int, part: str, kinds: int) -> tuple[Tensor, Tensor, Tensor]:
    """Noise and scattered bars, and somewhere within a quadrant an object, whose kind is the class.

    The last class has no object.
    """
    draws = rng("scenes", part)
    stamps = torch.zeros(4, STAMP, STAMP, dtype=torch.bool)
    stamps[0, 3:6] = stamps[0, :, 3:6] = True
    stamps[1] = True
    stamps[1, 2:7, 2:7] = False
    far = (torch.arange(STAMP)[:, None] - torch.arange(STAMP)).abs() <= 1
    stamps[2] = far | far.flip(1)
    labels = torch.arange(count) % kinds
    quadrants = torch.randint(4, (count,), generator=draws)
    pixels = 70 + 40 * torch.rand(count, 3, SIDE, SIDE, generator=draws)
    for i in range(count):
        for place in torch.randint(SIDE - 4, (SIDE // 4, 2), generator=draws).tolist():
            down, across = (1, 4) if sum(place) % 2 else (4, 1)
            colour = 255 * torch.rand(3, 1, 1, generator=draws)
            pixels[i, :, place[0] : place[0] + down, place[1] : place[1] + across] = colour
        top, left = torch.randint(SIDE // 2 - STAMP + 1, (2,), generator=draws).tolist()
        top += SIDE // 2 * int(quadrants[i] // 2)
        left += SIDE // 2 * int(quadrants[i] % 2)
        spot = pixels[i, :, top : top + STAMP, left : left + STAMP]
        spot[:, stamps[labels[i]]] = 130 + 125 * torch.rand(3, 1, generator=draws)
    return pixels.round().to(torch.uint8), labels, quadrants


@pytest.mark.slow
def test_maps_point_at_the_object(tmp_path: Path) -> None:
    """On 100 fresh images the map of the true class is highest in the object's quadrant."""
    pixels, labels, _ = scenes(600, "train", 4)
    fresh, kinds, quadrants = scenes(100, "fresh", 3)
    data = arrays(
        pixels.numpy(), labels.numpy(), fresh.numpy(), kinds.numpy(), classes=CLASSES, name="scenes"
    )
    settings = {"width": 8, "schedule": lr((1, 0.05), (6, 0.01)), "padding": 0.125}
    config = tiny_config("cross_entropy", 9, settings)
    result = drpl.train(data, method="cross_entropy", config=config, out=tmp_path, quiet=True)
    assert (result.accuracy["last"] or 0) >= 95
    model = models.load(tmp_path)
    maps = compute_class_maps(model.net, model.transform(fresh, torch.empty(100, 0)))
    own = maps[torch.arange(100), kinds]  # [100, 4, 4]
    rows, columns = np.unravel_index(own.flatten(1).argmax(1).numpy(), (4, 4))
    found = 2 * (rows // 2) + columns // 2
    assert (found == quadrants.numpy()).sum() >= 90


def samples(**columns: list[Any]) -> dict[str, Any]:
    return {name: np.array(values) for name, values in columns.items()}


def test_what_was_memorised_comes_first() -> None:
    table = samples(
        given=[0, 0, 1, 1, 0],
        suggested=[0, 0, 1, 0, 0],
        confidence=[0.8, 0.9, 0.7, 0.9, 0.99],
        wrong=[True, True, True, True, False],
        flagged=[False, False, True, False, False],
        p_noisy=[0.1, 0.0, 0.9, 0.3, 0.0],
        loss=[0.1, 0.1, 2.0, 1.0, 0.0],
    )
    assert find_memorised(table).tolist() == [1, 0]
    assert choose_ids(table, 6) == [1, 0]
    del table["wrong"]
    assert choose_ids(table, 2) == [2, 3]  # the most suspicious


def test_the_class_beside_the_given_one() -> None:
    table = samples(given=[0, 0, 0], true=[2, 0, 0], in_distribution=[True, True, False])
    assert choose_other(0, np.array([0.6, 0.3, 0.1]), table) == ("true", 2)
    assert choose_other(1, np.array([0.2, 0.5, 0.3]), table) == ("suggested", 1)
    assert choose_other(2, np.array([0.6, 0.1, 0.3]), table) == ("next best", 2)
    del table["true"]
    assert choose_other(0, np.array([0.2, 0.3, 0.5]), table) == ("suggested", 2)


def noisy_run(
    data: DatasetSplits, out: Path, noise: str | None = "uniform:0.4", **more: Any
) -> Result:
    config = tiny_config("cross_entropy", 3)
    return drpl.train(
        data, method="cross_entropy", config=config, noise=noise, out=out, quiet=True, **more
    )


@pytest.fixture(scope="module")
def noisy(tiny: DatasetSplits, tmp_path_factory: pytest.TempPathFactory) -> Result:
    return noisy_run(tiny, tmp_path_factory.mktemp("noisy"))


def test_a_look_at_a_run(tiny: DatasetSplits, noisy: Result, tmp_path: Path) -> None:
    views = look(noisy.folder, [5, 11, 5], tiny, out=tmp_path / "seen")
    assert [one.id for one in views] == [5, 11]
    for one in views:
        row = noisy.samples.loc[one.id]
        assert one.given == row.given_label
        assert (
            one.pixels[..., 0].tolist()
            == tiny.train.images.load(torch.tensor([one.id])).squeeze().tolist()
        )
        if row.given_label == row.suggested_label:
            assert one.p_given == pytest.approx(row.confidence, abs=1e-4)
        assert one.shows == tiny.train.classes[tiny.train.labels[one.id]]
        assert one.role == "true" or one.shows == one.given
        assert one.given_map.shape == (1, 1)
    assert (tmp_path / "seen" / "look.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "seen" / "look.svg").read_text()
    assert f"given: {views[0].given}" in svg
    assert pd.read_csv(tmp_path / "seen" / "look.csv").id.tolist() == [5, 11]


def test_only_what_the_network_sees_is_shown(tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("cross_entropy", 1, {"crop": 0.75})
    drpl.train(tiny, method="cross_entropy", config=config, out=tmp_path, quiet=True)
    (one,) = look(tmp_path, [2], tiny)
    whole = tiny.train.images.load(torch.tensor([2]))[0, 0]
    assert one.pixels[..., 0].tolist() == whole[1:7, 1:7].tolist()


def test_two_networks_are_looked_at_together(tiny: DatasetSplits, tmp_path: Path) -> None:
    config = tiny_config("coteaching", 2)
    drpl.train(tiny, method="coteaching", config=config, out=tmp_path, quiet=True)
    (one,) = look(tmp_path, [3], tiny)
    model = models.load(tmp_path)
    assert isinstance(model.net, Ensemble)
    x = model.transform(tiny.train.images.load(torch.tensor([3])), torch.empty(1, 0))
    given = tiny.train.labels[3]
    each = [compute_class_maps(net, x)[0, given].numpy() for net in model.net.members]
    assert np.allclose(one.given_map, np.mean(each, axis=0), atol=1e-6)


def test_images_from_outside_are_found_again(tiny: DatasetSplits, tmp_path: Path) -> None:
    """Out-of-distribution noise put other images in place: the same noise brings them back."""
    bright = TensorImages(torch.full((30, 1, 8, 8), 255, dtype=torch.uint8))
    other = replace(
        tiny.train, images=bright, labels=torch.zeros(30).long(), classes=("white", "none")
    )
    data = replace(tiny, outside=other)
    result = noisy_run(data, tmp_path, "ood:0.3")
    with np.load(tmp_path / "samples.npz") as arrays:
        stranger = int((~arrays["in_distribution"]).nonzero()[0][0])
    (one,) = look(result.folder, [stranger], data)
    assert (one.pixels == 255).all()
    assert one.shows == "none of the classes"
    assert one.role != "true"


def test_other_images_are_refused(tiny: DatasetSplits, noisy: Result) -> None:
    mirrored = tiny.train.images.load(torch.arange(72)).flip(0)
    with pytest.raises(DataError, match="not the images that the run"):
        look(noisy.folder, data=replace(tiny.train, images=TensorImages(mirrored)))
    fewer = arrays(mirrored[:60].numpy(), tiny.train.labels[:60].numpy(), classes=[*"abc"])
    with pytest.raises(DataError, match=r"60 training images of 3 classes here.* saw 72 of 3"):
        look(noisy.folder, data=fewer)


def test_data_that_nobody_can_find_must_be_named(noisy: Result) -> None:
    with pytest.raises(DataError, match="does not say where its data 'tiny' are; give the data"):
        look(noisy.folder)


def test_from_the_command_line(
    command: Command,
    mistake: Callable[..., str],
    tiny_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short = ("schedule.epochs=2", "schedule.rates=[[1, 0.05]]", "width=4")
    words = [word for text in short for word in ("--set", text)]
    noise = ("--noise", "ood:0.3", "--outside", "middle", "--limit", 30)
    run = ("--method", "cross_entropy", "--preset", "small", "--out", "run", *noise, *words, "-q")
    assert command("train", tiny_file.name, *run).code == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # the run knows the whole path of its data
    answer = command("look", "../run", "--image", 3, "--image", 4, "-o", "seen")
    assert answer.code == 0, answer
    assert answer.out.count("image ") == 2
    assert Path("seen/look.png").exists()
    assert "ids are 0 to 29" in mistake("look", "../run", "--image", 30)
    assert "saw 30 of 2; give the data" in mistake("look", "../run", "--limit", 20)
    assert "not the folder of a run" in mistake("look", "seen")


def test_vectors_have_no_maps(mistake: Callable[..., str], tmp_path: Path) -> None:
    draws = rng("vectors")
    labels = torch.arange(40) % 2
    x = torch.randn(40, 6, generator=draws) + labels[:, None]
    data = arrays(x.numpy(), labels.numpy(), classes=["a", "b"])
    noisy_run(data, tmp_path / "run", None)
    assert "no maps of the image" in mistake("look", tmp_path / "run")
