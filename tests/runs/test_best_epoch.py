"""A stage can end with the weights of its best-tested epoch."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from drpl.data.dataset import DatasetSplits
from drpl.methods.cross_entropy import Classify
from drpl.runs.display import Display
from drpl.runs.driver import FolderDriver
from drpl.runs.experiment import Execution, Experiment
from drpl.runs.folder import read_history
from drpl.runs.loggers import Logs
from drpl.runs.run import Context, Run
from drpl.training.losses import one_hot
from tests.support.killing import Killed, KillInSecondEpoch
from tests.support.tiny import make_schedule, tiny_config

Weights = dict[str, Tensor]


def fit(
    folder: Path,
    data: DatasetSplits,
    epochs: int,
    *,
    best: bool,
    on_epoch: Callable[[str, int], None] | None = None,
) -> Weights:
    """The weights after a stage that learns, then unlearns."""
    config = tiny_config("cross_entropy")
    experiment = Experiment.build(data, method="cross_entropy", config=config, noise="uniform:0.3")
    context, display = Context.build(experiment, torch.device("cpu")), Display(quiet=True)
    execution = Execution(save_every=0, on_epoch=on_epoch)
    logs = Logs(folder, (), {}, display)
    run = Run(context, FolderDriver(context, folder, execution, display, logs))
    schedule = make_schedule(epochs, (1, 0.05), (5, 0.4), batch_size=16)
    stage = Classify(run.network(), one_hot(run.labels, run.classes))
    fitted = run.fit("pretrain", stage, schedule, best=best)
    return {name: weights.clone() for name, weights in fitted.state_dict().items()}


def same(a: Weights, b: Weights) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def test_best_gives_the_best_tested_epoch(tiny: DatasetSplits, tmp_path: Path) -> None:
    found = fit(tmp_path / "best", tiny, 8, best=True)
    tested = [row["accuracy"] for row in read_history(tmp_path / "best")]
    winner = tested.index(max(tested)) + 1
    assert winner < 8
    assert max(tested) > tested[-1]
    assert same(found, fit(tmp_path / "short", tiny, winner, best=False))
    assert not same(found, fit(tmp_path / "last", tiny, 8, best=False))
    again = fit(tmp_path / "best", tiny, 8, best=True)  # a finished stage is loaded
    assert same(found, again)


def test_best_without_a_test_set_is_the_last(tiny: DatasetSplits, tmp_path: Path) -> None:
    data = replace(tiny, test=None)
    assert same(
        fit(tmp_path / "best", data, 3, best=True), fit(tmp_path / "last", data, 3, best=False)
    )


def test_the_best_epoch_survives_being_killed(tiny: DatasetSplits, tmp_path: Path) -> None:
    whole = fit(tmp_path / "whole", tiny, 8, best=True)
    resumed, killed = None, 0
    while resumed is None:
        try:
            resumed = fit(tmp_path / "killed", tiny, 8, best=True, on_epoch=KillInSecondEpoch())
        except Killed:
            killed += 1
            assert killed < 8
    assert killed > 3
    assert same(whole, resumed)
