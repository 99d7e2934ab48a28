"""The semi-supervised oracle: DRPL's last training on the perfect split.

Which labels are wrong is read from the truth, so this is no method for data of one's own: it shows
how far a better split could bring DRPL.
"""

import torch

from drpl.detection.split import FEWEST, Split, note_scarce_classes
from drpl.errors import TrainingError
from drpl.methods.pseudo_label import FromSplit, train_semi_supervised
from drpl.runs.run import OracleRun, Outcome


class Config(FromSplit):
    """DRPL's settings from the split on."""


def train(run: OracleRun, config: Config) -> Outcome:
    """Learn from the labels that are right and the images of all."""
    clean = ~run.truth.is_noisy(run.labels)
    if (right := int(clean.sum())) < FEWEST:
        raise TrainingError(f"only {right} labels are right, too few to learn from: add less noise")
    wrong = torch.where(clean, 0.0, 1.0)
    notes = tuple(note_scarce_classes(clean, run.labels, run.classes))
    split = run.keep(Split("final", wrong, wrong, 0.5, clean, None, notes))
    net = train_semi_supervised(run, "final", split, config, config.final_schedule)
    run.observe("final", net)
    return Outcome(net, split)
