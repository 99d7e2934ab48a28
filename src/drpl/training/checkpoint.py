"""Checkpoints: written whole or not at all, checked when read, never executed.

What changes from one to the next is often a small part of it. Large tensors are therefore cut into
parts, each a file of its own that is named by its digest: a part that is there already is not
written again. The checkpoint names the parts and is replaced last; what it no longer names goes.
"""

import hashlib
import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, optim

from drpl.errors import RunError
from drpl.files import explain_read_errors, open_atomic, write_atomic
from drpl.training.stage import Stage
from drpl.training.tables import make_table, release

DIGEST = hashlib.sha256().digest_size
PART = 16 * 2**20  # bytes; tensors of more are stored in parts
PARTS = "parts"  # the key that tells their description from other mappings
SHARE = 0.05  # of the time that saving may take
SPEED = 250e6  # bytes a second that a first save is expected to write

Best = tuple[float, dict[str, Any]]  # the highest test accuracy so far, and the stage at that time


@dataclass(frozen=True)
class Checkpoint:
    """A stage after some epochs. Finished stages keep no optimiser."""

    epoch: int
    stage: dict[str, Any]  # large tensors as they are described; `restore` reads them
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
        large = {name: value for name, value in self.stage.items() if _is_stored(value)}
        small, own = copy(self.stage), stage.state_dict()
        for name in large:
            del small[name]
        try:
            missing, unexpected = stage.load_state_dict(small, strict=False)
            if {*missing} != {*large} or unexpected:
                raise ValueError("other tables")
            if any(tuple(value["shape"]) != own[name].shape for name, value in large.items()):
                raise ValueError("other shapes")
            if self.optimizer is not None:
                optimizer.load_state_dict(self.optimizer)
        except Exception as error:  # torch raises almost anything for other content
            raise RunError(
                f"{path} does not fit this run's network or data; use another folder"
            ) from error
        for name, value in large.items():
            _read_parts(path, value, own[name])  # to where it is used: there is no second one


class SaveTimer:
    """Says when to save: not before `every` seconds, nor oftener than in SHARE of the time."""

    def __init__(self, every: float) -> None:
        self.every, self.cost, self.spent = every, 0.0, 0.0
        self.began = self.saved = time.monotonic()

    def is_due(self, stage: Stage) -> bool:
        """Whether to save the stage now; always if `every` is 0."""
        now = time.monotonic()
        tables = (*stage.parameters(), *stage.buffers())
        cost = self.cost or sum(table.nbytes for table in tables) / SPEED
        room = SHARE * (now - self.began) - self.spent
        waited = now - self.saved >= max(self.every, cost / SHARE)
        # There must be room for the save at the end of the stage, too.
        return not self.every or (waited and room >= 2 * cost)

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Around a save: what it takes decides when the next is due."""
        began = time.monotonic()
        yield
        self.saved = time.monotonic()
        self.cost = self.saved - began
        self.spent += self.cost


def write(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint at `path`; its SHA-256 goes in front."""
    folder, used = _find_folder(path), set[str]()

    def store(value: Any) -> Any:
        if not isinstance(value, Tensor) or value.nbytes <= PART:
            return value
        stored = _write_parts(folder, value)
        used.update(stored[PARTS])
        return stored

    buffer = io.BytesIO()
    torch.save(_walk(vars(checkpoint), store), buffer)
    content = buffer.getvalue()
    write_atomic(path, hashlib.sha256(content).digest() + content)
    for part in folder.iterdir() if folder.exists() else ():
        if part.name not in used:
            part.unlink()


def read(path: Path) -> Checkpoint | None:
    """The checkpoint at `path`, if there is one."""
    if not path.exists():
        return None
    with explain_read_errors(path):
        data = path.read_bytes()
    seal, content = data[:DIGEST], data[DIGEST:]
    if hashlib.sha256(content).digest() != seal:
        raise _blame(path)

    def load(value: Any) -> Any:
        return _read_parts(path, value) if _is_stored(value) else value

    with explain_read_errors(path):
        found = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
        stage = found.pop("stage")
        return _check(Checkpoint(stage=stage, **_walk(found, load)))


def _blame(path: Path) -> RunError:
    return RunError(
        f"checkpoint {path} is damaged (its checksum does not match); "
        "delete it to train this stage again"
    )


def _walk(value: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of nested containers in which everything was changed, from the outside inwards."""
    value = change(value)
    if isinstance(value, dict):
        new = copy(value)  # a state_dict carries more than its items
        for key, inner in value.items():
            new[key] = _walk(inner, change)
        return new
    if isinstance(value, list | tuple):
        return type(value)(_walk(inner, change) for inner in value)
    return value


def _is_stored(value: Any) -> bool:
    return isinstance(value, dict) and PARTS in value


def _find_folder(path: Path) -> Path:
    return path.with_name(f"{path.stem}.parts")


def _write_parts(folder: Path, table: Tensor) -> dict[str, Any]:
    """Write the parts of a tensor that are not there yet; a description of the whole."""
    names = []
    flat = table.detach().contiguous().view(-1).view(torch.uint8)
    for part in flat.split(PART):
        content = memoryview(part.cpu().numpy())
        names.append(hashlib.sha256(content).hexdigest())
        if not (folder / names[-1]).exists():
            with open_atomic(folder / names[-1]) as file:
                file.write(content)
        del content
        release(table)
    kind = str(table.dtype).removeprefix("torch.")
    return {"kind": kind, "shape": list(table.shape), PARTS: names}


def _read_parts(path: Path, stored: dict[str, Any], into: Tensor | None = None) -> Tensor:
    """The tensor that was stored in parts: a new one, or copied into one of its shape."""
    if into is not None and not into.is_contiguous():  # a convolution with the channels last
        return into.copy_(_read_parts(path, stored))
    with explain_read_errors(path):
        kind, shape = getattr(torch, stored["kind"]), stored["shape"]
        parts = [_find_folder(path) / Path(name).name for name in stored[PARTS]]
        if sum(part.stat().st_size for part in parts) != prod(shape) * kind.itemsize:
            raise ValueError("its parts are not of the size that it says")
    table = make_table(*shape, dtype=kind) if into is None else into
    flat, start = table.view(-1), 0
    for part in parts:
        with explain_read_errors(part):
            content = bytearray(part.read_bytes())
        if hashlib.sha256(content).hexdigest() != part.name:
            raise _blame(path)
        numbers = torch.frombuffer(content, dtype=kind)
        flat[start : start + len(numbers)] = numbers
        start += len(numbers)
        release(table)
    return table


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
