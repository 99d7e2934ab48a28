"""Checkpoints: written whole or not at all, checked when read, never executed."""

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, optim

from drpl.errors import RunError
from drpl.files import explain_read_errors, write_atomic
from drpl.training.stage import Stage

DIGEST = hashlib.sha256().digest_size

Best = tuple[float, dict[str, Any]]  # the highest test accuracy so far, and the stage at that time


@dataclass(frozen=True)
class Checkpoint:
    """A stage after some epochs. Finished stages keep no optimiser."""

    epoch: int
    stage: dict[str, Any]
    optimizer: dict[str, Any] | None
    tracked: Tensor  # [E, 2, N] losses and margins observed so far
    best: Best | None = None  # kept only while a stage that wants it is under way
    predictions: dict[str, Tensor] | None = None  # the state of the stage's PredictionMean

    @property
    def finished(self) -> bool:
        """Whether the stage was trained to its end."""
        return self.optimizer is None

    def restore(self, stage: Stage, optimizer: optim.SGD, path: Path) -> None:
        """Put the state back, or say that it belongs to another stage."""
        try:
            stage.load_state_dict(self.stage)
            if self.optimizer is not None:
                optimizer.load_state_dict(self.optimizer)
        except Exception as error:  # torch raises almost anything for other content
            raise RunError(
                f"{path} does not fit this run's network or data; use another folder"
            ) from error


def write(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint at `path`; its SHA-256 goes in front."""
    buffer = io.BytesIO()
    torch.save(vars(checkpoint), buffer)
    content = buffer.getvalue()
    write_atomic(path, hashlib.sha256(content).digest() + content)


def read(path: Path) -> Checkpoint | None:
    """The checkpoint at `path`, if there is one."""
    if not path.exists():
        return None
    with explain_read_errors(path):
        data = path.read_bytes()
    seal, content = data[:DIGEST], data[DIGEST:]
    if hashlib.sha256(content).digest() != seal:
        raise RunError(
            f"checkpoint {path} is damaged (its checksum does not match); "
            "delete it to train this stage again"
        )
    with explain_read_errors(path):
        found = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
        return _check(Checkpoint(**found))


def _check(found: Checkpoint) -> Checkpoint:
    """Raise for content of other kinds than were written."""
    kinds = {
        "epoch": isinstance(found.epoch, int) and found.epoch >= 0,
        "stage": isinstance(found.stage, dict),
        "optimizer": isinstance(found.optimizer, dict | None),
        "tracked": isinstance(found.tracked, Tensor) and found.tracked.ndim == 3,
        "best": found.best is None or len(found.best) == 2,
        "predictions": found.predictions is None
        or all(isinstance(table, Tensor) for table in found.predictions.values()),
    }
    if wrong := [name for name, right in kinds.items() if not right]:
        raise ValueError(f"{wrong[0]} is not what a checkpoint holds")
    return found
