"""Forward correction with the true matrix: what perfect knowledge of the noise is worth.

T[c, j] is counted: the share of the images of true class c that were given the label j. Images
from outside the classes are left out, as they have no true class here.
"""

import torch
from pydantic import Field
from torch import Tensor

from drpl.config.settings import EpochCount
from drpl.data.dataset import Truth
from drpl.methods import cross_entropy as baseline
from drpl.methods.forward import Forward
from drpl.noise.transition import transition_matrix
from drpl.runs.run import OracleRun, Outcome


class Config(baseline.Config):
    """The baseline's schedule, and when the correction begins."""

    begin: EpochCount = Field(default=50, ge=0)
    """This many epochs of plain cross-entropy come first."""


def count_transitions(truth: Truth, given: Tensor, classes: int) -> Tensor:
    """The T that the labels were drawn by, as it came out. [C, C]"""
    inside = truth.in_distribution
    table = transition_matrix(truth.labels[inside], given[inside], classes)
    absent = table.sum(1) == 0  # no image is of this class: believe what little bears its name
    return torch.where(absent[:, None], torch.eye(classes, dtype=table.dtype), table)


def train(run: OracleRun, config: Config) -> Outcome:
    """Train, from `begin` on through the true T; judge labels by the final loss of p itself."""
    known = count_transitions(run.truth, run.labels, run.classes)
    stage = Forward(run.network(), run.labels, run.classes, config.begin, known=known)
    return baseline.fit_and_judge(run, stage, config)
