"""Vectors brought to few dimensions, to be run by torchrun: `-m tests.runs.two_projections FOLDER`.

Each process finds components that depart by rounding, as on machines of several kinds.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import drpl
from drpl.data.dataset import DatasetSplits
from drpl.data.projection import find_basis
from drpl.distributed import all_reduce_sum, leave, processes, rank, world
from drpl.runs import run as running
from tests.support.tiny import tiny_config


def depart(data: DatasetSplits, dimensions: int | None) -> Tensor | None:
    basis = find_basis(data, dimensions)
    return None if basis is None else basis * (1 + 1e-5 * rank())


if __name__ == "__main__":
    vars(running)["find_basis"] = depart
    labels = np.arange(96) % 3
    x = np.eye(3, 20)[labels] * 4 + np.random.default_rng(1).normal(size=(96, 20))
    config = tiny_config("cross_entropy", 3, {"dimensions": 6})
    with processes():
        data = drpl.arrays(x, labels)
        experiment = drpl.Experiment.build(data, method="cross_entropy", config=config)
        drpl.execute(experiment, drpl.Execution(Path(sys.argv[1]), quiet=True))
        basis = running.Context.build(experiment, torch.device("cpu")).eval_transform.basis
        if basis is None or not torch.equal(all_reduce_sum(basis.clone()), world() * basis):
            raise SystemExit("the processes have other components")
    leave(0)
