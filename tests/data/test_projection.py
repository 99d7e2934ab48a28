"""Fewer dimensions: a basis that keeps variances, and as many of them as the samples can teach."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import drpl
from drpl.data import projection
from drpl.data.dataset import DatasetSplits
from drpl.data.images import TensorImages
from drpl.data.projection import Components, choose_dimensions, find_basis
from drpl.runs import export as exporting
from drpl.runs import model
from drpl.runs.experiment import suit_settings
from tests.support.killing import Killed, KillInSecondEpoch
from tests.support.tiny import brief_settings

WIDTH, CLASSES = 160, 4


def vectors(count: int, width: int = WIDTH, rank: int = 24, seed: int = 1) -> DatasetSplits:
    """Classes differ a little in each of a few dimensions, some wide, some narrow, among noise."""
    draws = np.random.default_rng(seed)
    places = 0.2 * np.random.default_rng(0).normal(size=(CLASSES, rank))
    turn = np.linalg.qr(np.random.default_rng(9).normal(size=(width, width)))[0][:rank]
    labels = np.arange(count) % CLASSES
    sizes = 1 + 6 * np.exp(-np.arange(rank) / 40)
    signal = (places[labels] + draws.normal(size=(count, rank))) * sizes
    x = signal @ turn + 0.3 * draws.normal(size=(count, width)) + np.linspace(-5, 5, width)
    return drpl.arrays(x.astype(np.float32), labels, name="vectors")


def standardise(data: DatasetSplits) -> Tensor:
    whole = data.train.images.load(torch.arange(len(data.train)))
    return (whole - torch.tensor(data.mean)) / torch.tensor(data.std)


def test_the_basis_is_orthogonal_up_to_one_scale() -> None:
    data = vectors(400)
    basis = find_basis(data, 10)
    assert basis is not None
    assert basis.shape == (WIDTH, 10)
    products = basis.T @ basis
    scale = products[0, 0]
    assert torch.allclose(products, scale * torch.eye(10), atol=1e-5 * float(scale))


def test_variances_are_kept_in_their_order_and_proportion() -> None:
    data = vectors(400)
    basis = find_basis(data, 10)
    assert basis is not None
    variances = (standardise(data) @ basis).var(0, correction=0)
    assert variances.mean() == pytest.approx(1, abs=1e-3)
    assert (variances.diff() < 0).all()
    wanted = torch.linalg.svdvals(standardise(data).double())[:10] ** 2
    assert torch.allclose(variances.double() / variances[0], wanted / wanted[0], atol=1e-3)


def test_which_way_a_direction_points_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    data, eigh = vectors(400), torch.linalg.eigh
    basis = find_basis(data, 10)
    assert basis is not None
    assert (basis.gather(0, basis.abs().argmax(0, keepdim=True)) > 0).all()

    def turned(products: Tensor) -> tuple[Tensor, Tensor]:
        variances, found = eigh(products)
        return variances, found * torch.tensor([1.0, -1.0]).repeat(WIDTH // 2)

    monkeypatch.setattr(torch.linalg, "eigh", turned)
    again = find_basis(vectors(400), 10)
    assert again is not None
    assert torch.equal(again, basis)


def test_directions_are_found_once_for_the_same_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Tensor] = []
    eigh = torch.linalg.eigh

    def count(products: Tensor) -> Any:
        found.append(products)
        return eigh(products)

    monkeypatch.setattr(torch.linalg, "eigh", count)
    data = vectors(400)
    first = find_basis(data, 10)
    again = find_basis(replace(data, notes=("other notes",)), 10)
    assert first is not None
    assert again is not None
    assert torch.equal(first, again)
    assert len(found) == 1
    find_basis(replace(data, std=tuple(2 * value for value in data.std)), 10)  # another scale
    find_basis(vectors(400, seed=2), 10)  # other vectors
    assert len(found) == 3


def test_no_basis_where_none_is_wanted(tiny: DatasetSplits) -> None:
    data = vectors(60, width=20, rank=4)
    assert find_basis(data, None) is None
    assert find_basis(data, 20) is None
    assert find_basis(data, 300) is None
    assert find_basis(tiny, 5) is None  # images


def test_few_samples_of_many_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most variances are 0 then, and the fast way to the others may fail."""
    data = vectors(30)
    first = find_basis(data, 8)

    def failing(products: Tensor) -> Any:
        raise RuntimeError("too many repeated eigenvalues")

    monkeypatch.setattr(torch.linalg, "eigh", failing)
    data = vectors(30)
    second = find_basis(data, 8)
    assert first is not None
    assert second is not None
    assert torch.allclose(first, second, atol=1e-5)
    everything = find_basis(data, WIDTH - 1)
    assert everything is not None
    assert bool(everything.isfinite().all())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_dimensions_grow_with_the_samples(seed: int) -> None:
    few, many = (choose_dimensions(vectors(count, 600, 200, seed)) for count in (300, 3000))
    assert few in (64, 128, 256)
    assert many == 512


def test_narrow_vectors_and_few_samples_stay_as_they_are() -> None:
    assert choose_dimensions(vectors(100, width=32, rank=8)) is None
    assert choose_dimensions(vectors(9)) is None


def test_no_more_samples_are_read_than_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "ENOUGH", 100)
    data = vectors(400)
    chosen = Components.build(data)
    assert len(chosen.samples) == 100
    assert torch.equal(chosen.samples[-1], standardise(data)[-1])  # evenly, up to the last


def test_a_preset_or_setting_goes_before_what_suits() -> None:
    data = vectors(60)
    suited = suit_settings("cross_entropy", data).get("dimensions")
    built = drpl.Experiment.build(data, method="cross_entropy")
    assert suited is not None
    assert built.config.dimensions == suited
    own = drpl.Experiment.build(data, method="cross_entropy", settings={"dimensions": 7})
    assert own.config.dimensions == 7


def trained(out: Path, **how: Any) -> model.Model:
    settings = brief_settings("cross_entropy", 3, {"dimensions": 12})
    experiment = drpl.Experiment.build(vectors(120), method="cross_entropy", settings=settings)
    drpl.execute(experiment, drpl.Execution(out, save_every=0, quiet=True, **how))
    return model.load(out)


def test_a_model_is_saved_loaded_and_exported(tmp_path: Path) -> None:
    again = trained(tmp_path)
    data, samples = vectors(120), drpl.Result.load(tmp_path).samples
    assert again.transform.output_shape(again.shape) == (12,)
    basis = find_basis(data, 12)
    assert basis is not None
    assert again.transform.basis is not None
    assert torch.equal(again.transform.basis, basis)
    probs = again.predict(data.train.images)
    assert np.allclose(probs.max(1).values, samples["confidence"], atol=1e-5)
    assert probs.std(0).min() > 0.05
    for form in ("onnx", "torch"):
        if form == "onnx":
            pytest.importorskip("onnxruntime")
        exporting.export(tmp_path, tmp_path / form, form)
        x = data.train.images.load(torch.arange(50))
        found = exporting.FORMATS[form][1]((tmp_path / form).read_bytes())(x)
        assert torch.allclose(found, again.predict(TensorImages(x)), atol=1e-5)


def test_a_run_resumes_to_the_last_bit(tmp_path: Path) -> None:
    trained(tmp_path / "whole")
    with pytest.raises(Killed):
        trained(tmp_path / "broken", on_epoch=KillInSecondEpoch())
    trained(tmp_path / "broken")
    for name in ("model.safetensors", "samples.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "broken" / name).read_bytes()


def test_noise_in_the_labels_changes_no_basis() -> None:
    """Labels say how many components there are, not which."""
    data = vectors(200)
    other = replace(data, train=replace(data.train, labels=data.train.labels.flip(0)))
    one, two = find_basis(data, 5), find_basis(other, 5)
    assert one is not None
    assert two is not None
    assert torch.equal(one, two)
