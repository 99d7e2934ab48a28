"""What every method must satisfy, for being in METHODS."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from PIL import Image

import drpl
from drpl.config.compose import PRESETS
from drpl.data.dataset import DatasetSplits
from drpl.data.images import FileImages
from drpl.noise.inject import inject
from drpl.registry import METHODS, is_oracle
from drpl.runs.dry_run import dry_run
from drpl.training import checkpoint
from tests.support.killing import Killed, KillInSecondEpoch
from tests.support.tiny import read_preset, tiny_config, tiny_network, tiny_pixels

NOISE = "uniform:0.3"
Finished = Callable[[str], Path]
every_method = pytest.mark.parametrize("method", METHODS)
honest = pytest.mark.parametrize("method", [m for m in METHODS if not is_oracle(m)])
oracle = pytest.mark.parametrize("method", [m for m in METHODS if is_oracle(m)])


def trained(
    method: str,
    data: DatasetSplits,
    out: Path,
    *,
    epochs: int = 3,
    noise: str | None = NOISE,
    on_epoch: Callable[[str, int], None] | None = None,
) -> drpl.Result:
    execution = drpl.Execution(folder=out, save_every=0, quiet=True, on_epoch=on_epoch)
    return drpl.execute(experiment(method, data, epochs, noise), execution)


def experiment(
    method: str, data: DatasetSplits, epochs: int = 3, noise: str | None = NOISE
) -> drpl.Experiment:
    return drpl.Experiment.build(
        data,
        method=method,
        config=tiny_config(method, epochs),
        network=tiny_network if data.train.images.shape[1:] else None,
        noise=noise,
    )


@pytest.fixture(scope="session")
def finished(tiny: DatasetSplits, shared: Path) -> Finished:
    """The folder of a run that nothing disturbed: one a method, for all tests and processes."""

    def find(method: str) -> Path:
        out = shared / "finished" / method
        with FileLock(shared / f"finished-{method}.lock"):  # who comes second finds it there
            if not (out / "result.json").exists():
                trained(method, tiny, out)
        return out

    return find


def products(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in ("model.safetensors", "samples.csv")]


def epochs_of(folder: Path) -> list[tuple[str, int]]:
    """Stage and epoch of every line of the history."""
    return [(row["stage"], row["epoch"]) for row in drpl.Result.load(folder).history]


def training_accuracies(folder: Path) -> list[tuple[float | None, float | None]]:
    """By the given labels and by the targets, of every line of the history."""
    rows = drpl.Result.load(folder).history
    return [(row["train_accuracy"], row["target_accuracy"]) for row in rows]


@every_method
def test_every_stage_records_its_training_accuracy(method: str, finished: Finished) -> None:
    for given, taught in training_accuracies(finished(method)):
        assert given is not None
        assert 0 <= given <= 100
        assert taught is None or 0 <= taught <= 100


@every_method
def test_learns_the_tiny_problem(method: str, tiny: DatasetSplits, tmp_path: Path) -> None:
    result = trained(method, tiny, tmp_path, epochs=8)
    assert (result.accuracy["last"] or 0) > 90
    assert result.detection is not None
    assert (result.detection["auroc"] or 0) > 0.95


@every_method
def test_learns_in_bfloat16_from_colours(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on GPUs: autocast on CPUs leaves even more in bfloat16."""
    monkeypatch.setattr("drpl.training.loop.suits_bfloat16", lambda _: True)
    parts = (tiny_pixels(count, part) for count, part in ((72, "train"), (36, "test")))
    arrays = [part.numpy() for x, y in parts for part in (x.repeat(1, 3, 1, 1), y)]
    result = trained(method, drpl.arrays(*arrays, name="colours"), tmp_path, epochs=8)
    assert (result.accuracy["last"] or 0) > 90


@every_method
def test_resumes_to_the_last_bit_after_any_epoch(
    method: str, tiny: DatasetSplits, finished: Finished, tmp_path: Path
) -> None:
    """Every attempt dies in its second epoch, before that epoch is saved."""
    whole, attempts = finished(method), 0
    while not (tmp_path / "result.json").exists():
        attempts += 1
        try:
            trained(method, tiny, tmp_path, on_epoch=KillInSecondEpoch())
        except Killed:
            assert attempts < 100
    assert attempts > 2
    assert products(tmp_path) == products(whole)
    assert epochs_of(tmp_path) == epochs_of(whole)
    assert training_accuracies(tmp_path) == training_accuracies(whole)


@every_method
def test_resumes_after_a_kill_right_after_saving(
    method: str,
    tiny: DatasetSplits,
    finished: Finished,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, write = finished(method), checkpoint.write

    def dying(path: Path, what: checkpoint.Checkpoint) -> None:
        write(path, what)
        if path not in died:  # once in each stage
            died.append(path)
            raise Killed

    died: list[Path] = []
    monkeypatch.setattr(checkpoint, "write", dying)
    for _ in range(30):
        try:
            trained(method, tiny, tmp_path)
            break
        except Killed:
            continue
    assert len(died) == len({stage for stage, _ in epochs_of(tmp_path)})
    assert products(tmp_path) == products(whole)


@every_method
def test_files_equal_memory(
    method: str, tiny: DatasetSplits, finished: Finished, tmp_path: Path
) -> None:
    paths = []
    for k, image in enumerate(tiny_pixels(72, "train")[0]):
        paths.append(tmp_path / f"{k}.png")
        Image.fromarray(image[0].numpy()).save(paths[-1])
    files = replace(tiny, train=replace(tiny.train, images=FileImages(paths, 8, 1)))
    trained(method, files, tmp_path / "files")
    assert products(tmp_path / "files") == products(finished(method))


@honest
def test_works_without_truth_and_without_test_set(
    method: str, tiny: DatasetSplits, tmp_path: Path
) -> None:
    noisy, _ = inject(tiny, NOISE, 1)
    data = replace(tiny, train=replace(noisy, truth=None), test=None)
    result = trained(method, data, tmp_path, epochs=2, noise=None)
    assert result.detection is None
    assert result.accuracy == {"last": None, "best": None}
    assert len(result.samples) == 72


@oracle
def test_an_oracle_asks_for_the_truth(method: str, tiny: DatasetSplits, tmp_path: Path) -> None:
    noisy, _ = inject(tiny, NOISE, 1)
    data = replace(tiny, train=replace(noisy, truth=None))
    with pytest.raises(drpl.DrplError, match="an oracle needs the true labels"):
        trained(method, data, tmp_path, noise=None)


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
    read_preset(schema, method, preset)
    read_preset(schema, method, preset, "released")


@honest
def test_truth_never_changes_training(
    method: str, tiny: DatasetSplits, finished: Finished, tmp_path: Path
) -> None:
    """The same labels with a false truth give the same model."""
    noisy, _ = inject(tiny, NOISE, 1)
    assert noisy.truth is not None
    lie = replace(noisy.truth, labels=torch.zeros_like(noisy.labels))
    data = replace(tiny, train=replace(noisy, truth=lie))
    trained(method, data, tmp_path, noise=None)
    assert products(tmp_path) == products(finished(method))


@every_method
def test_a_dry_run_foresees_the_stages(
    method: str, tiny: DatasetSplits, finished: Finished
) -> None:
    plan = dry_run(experiment(method, tiny))
    foreseen = [
        (stage.stage, epoch) for stage in plan.stages for epoch in range(1, stage.epochs + 1)
    ]
    assert foreseen == epochs_of(finished(method))
    assert all(stage.steps > 0 for stage in plan.stages)
    assert plan.seconds > 0
