"""What every method must satisfy, for being in METHODS."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import drpl
from drpl.config.compose import PRESETS, compose
from drpl.data.dataset import DatasetSplits
from drpl.data.images import FileImages
from drpl.noise.inject import inject
from drpl.registry import METHODS
from drpl.runs import display
from drpl.training import checkpoint
from tests.conftest import tiny_config, tiny_pixels


def is_oracle(method: str) -> bool:
    return getattr(METHODS[method].load(), "ORACLE", False)


every_method = pytest.mark.parametrize("method", METHODS)
honest = pytest.mark.parametrize("method", [m for m in METHODS if not is_oracle(m)])
oracle = pytest.mark.parametrize("method", [m for m in METHODS if is_oracle(m)])


class Killed(BaseException):
    """Stands for SIGKILL: nothing may catch it."""


def trained(
    method: str, data: DatasetSplits, out: Path, *settings: str, epochs: int = 3
) -> drpl.Result:
    return drpl.train(
        data,
        method=method,
        config=tiny_config(method, epochs, *settings),
        noise="uniform:0.3",
        out=out,
        save_every=0,
        quiet=True,
    )


def products(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in ("model.safetensors", "samples.csv")]


@every_method
def test_learns_the_tiny_problem(method: str, tiny: DatasetSplits, tmp_path: Path) -> None:
    result = trained(method, tiny, tmp_path, epochs=16)  # with fewer the last epoch is luck
    assert (result.accuracy["last"] or 0) > 80
    assert result.detection is not None
    assert (result.detection["auroc"] or 0) > 0.85


@every_method
def test_resumes_to_the_last_bit_after_any_epoch(
    method: str, tiny: DatasetSplits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every attempt dies in its second epoch, before that epoch is saved."""
    trained(method, tiny, tmp_path / "whole")
    seen, attempts = 0, 0
    report_epoch = display.StageDisplay.epoch

    def dying(self: display.StageDisplay, *what: object) -> None:
        nonlocal seen
        seen += 1
        if seen == 2:
            raise Killed
        report_epoch(self, *what)  # type: ignore[arg-type]

    monkeypatch.setattr(display.StageDisplay, "epoch", dying)
    while not (tmp_path / "killed" / "result.json").exists():
        seen, attempts = 0, attempts + 1
        try:
            result = trained(method, tiny, tmp_path / "killed")
        except Killed:
            assert attempts < 100
    assert attempts > 2
    assert products(tmp_path / "killed") == products(tmp_path / "whole")
    epochs = [(row["stage"], row["epoch"]) for row in result.history]
    whole = drpl.Result.load(tmp_path / "whole")
    assert epochs == [(row["stage"], row["epoch"]) for row in whole.history]


@every_method
def test_resumes_after_a_kill_right_after_saving(
    method: str, tiny: DatasetSplits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(method, tiny, tmp_path / "whole")
    write = checkpoint.write

    def dying(path: Path, what: checkpoint.Checkpoint) -> None:
        write(path, what)
        if path not in died:  # once in each stage
            died.append(path)
            raise Killed

    died: list[Path] = []
    monkeypatch.setattr(checkpoint, "write", dying)
    for _ in range(30):
        try:
            trained(method, tiny, tmp_path / "killed")
            break
        except Killed:
            continue
    assert died
    assert products(tmp_path / "killed") == products(tmp_path / "whole")


@every_method
def test_files_equal_memory(method: str, tiny: DatasetSplits, tmp_path: Path) -> None:
    paths = []
    for k, image in enumerate(tiny_pixels(72, "train")[0]):
        paths.append(tmp_path / f"{k}.png")
        Image.fromarray(image[0].numpy()).save(paths[-1])
    files = replace(tiny, train=replace(tiny.train, images=FileImages(paths, 8, 1)))
    trained(method, tiny, tmp_path / "memory", epochs=2)
    trained(method, files, tmp_path / "files", epochs=2)
    assert products(tmp_path / "memory") == products(tmp_path / "files")


@honest
def test_works_without_truth_and_without_test_set(
    method: str, tiny: DatasetSplits, tmp_path: Path
) -> None:
    noisy, _ = inject(tiny, "uniform:0.3", 1)
    data = replace(tiny, train=replace(noisy, truth=None), test=None)
    config = tiny_config(method, 2)
    if is_oracle(method):
        with pytest.raises(drpl.DrplError, match="an oracle needs the true labels"):
            drpl.train(data, method=method, config=config, out=tmp_path, quiet=True)
        return
    result = drpl.train(data, method=method, config=config, out=tmp_path, quiet=True)
    assert result.detection is None
    assert result.accuracy == {"last": None, "best": None}
    assert len(result.samples) == 72


@oracle
def test_an_oracle_asks_for_the_truth(method: str, tiny: DatasetSplits, tmp_path: Path) -> None:
    noisy, _ = inject(tiny, "uniform:0.3", 1)
    data = replace(tiny, train=replace(noisy, truth=None))
    with pytest.raises(drpl.DrplError, match="an oracle needs the true labels"):
        drpl.train(data, method=method, config=tiny_config(method, 2), out=tmp_path, quiet=True)


@every_method
def test_works_on_vectors(method: str, tmp_path: Path) -> None:
    centres = np.eye(3, 6) * 4
    labels = np.arange(90) % 3
    x = centres[labels] + np.random.default_rng(1).normal(size=(90, 6))
    data = drpl.arrays(x, labels, x, labels, name="vectors")
    result = trained(method, data, tmp_path, epochs=8)
    assert (result.accuracy["last"] or 0) > 60


@every_method
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_valid(method: str, preset: str) -> None:
    schema = METHODS[method].load().Config
    compose(schema, method, [preset], [])
    compose(schema, method, [preset, "released"], [])


@honest
def test_truth_never_changes_training(method: str, tiny: DatasetSplits, tmp_path: Path) -> None:
    """The same labels with a false truth give the same model."""
    noisy, _ = inject(tiny, "uniform:0.3", 1)
    assert noisy.truth is not None
    lie = replace(noisy.truth, labels=torch.zeros_like(noisy.labels))
    config = tiny_config(method, 2)
    for name, truth in (("true", noisy.truth), ("lie", lie)):
        data = replace(tiny, train=replace(noisy, truth=truth))
        drpl.train(data, method=method, config=config, out=tmp_path / name, quiet=True)
    assert products(tmp_path / "true") == products(tmp_path / "lie")
