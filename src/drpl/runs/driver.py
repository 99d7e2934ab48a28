"""Training for real: stages are fitted, checkpointed, tested and noted in a run's folder."""

import time
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn, optim

from drpl.detection.evidence import Evidence
from drpl.detection.split import Split
from drpl.distributed import barrier, check_agreement, rank
from drpl.errors import RunError
from drpl.files import write_arrays, write_json
from drpl.runs.display import Display, ProgressLine
from drpl.runs.experiment import Execution
from drpl.runs.folder import append_history, drop_history
from drpl.runs.loggers import Logs
from drpl.runs.run import Context
from drpl.training import checkpoint
from drpl.training.checkpoint import Best, Checkpoint
from drpl.training.evaluate import label_losses, label_margins
from drpl.training.feed import Feed
from drpl.training.loop import Epoch, fit
from drpl.training.predictions import PredictionMean
from drpl.training.schedule import Schedule
from drpl.training.stage import Stage


class FolderDriver:
    """Does in a folder what a method asks its run for; what was done before is read back."""

    def __init__(
        self, context: Context, folder: Path, execution: Execution, display: Display, logs: Logs
    ) -> None:
        self._context, self._folder, self._execution = context, folder, execution
        self._display, self._logs = display, logs
        self._tracked: dict[str, list[Tensor]] = {}  # [2, N] losses, margins by epoch
        self._means: dict[str, PredictionMean] = {}

    def fit(self, name: str, stage: Stage, schedule: Schedule, *, best: bool) -> None:
        """Load a finished stage, or train the epochs that are left of it."""
        path = self._folder / "stages" / f"{name}.pt"
        optimizer = schedule.make_optimizer(stage.parameters())
        found = checkpoint.read(path)
        barrier()  # nobody writes before everybody has read
        if found:
            found.restore(stage, optimizer, path)
        labels, state = self._context.labels, found.predictions if found else None
        self._tracked[name] = list(found.tracked) if found else []
        self._means[name] = PredictionMean(labels, schedule.epochs, state)
        if not (found and found.finished):
            self._train(name, stage, schedule, optimizer, _Progress(found, wanted=best))

    def _train(
        self,
        name: str,
        stage: Stage,
        schedule: Schedule,
        optimizer: optim.SGD,
        progress: "_Progress",
    ) -> None:
        """The epochs that are left, each tested, noted and now and then saved."""
        if rank() == 0:
            drop_history(self._folder, name, after=progress.done)
            self._logs.follow()
        shown = self._display.track(name, schedule.epochs, progress.done, "epoch ")
        saved = began = time.monotonic()
        open_feed = partial(make_feed, self._context, name, schedule.batch_size)
        for epoch in fit(stage, open_feed, schedule, optimizer, progress.done):
            last = epoch.number == schedule.epochs
            self._means[name].add(epoch.number, epoch.predictions)
            if self._execution.tracks(epoch.number) and not last:
                self._tracked[name].append(self._look(name, stage.net, epoch.number, True)[0])
            accuracy = self._context.measure_accuracy(stage.net)
            progress.update(accuracy, stage)
            if last:
                progress.restore(stage)
            now = time.monotonic()
            self._note(name, epoch, accuracy, now - began, shown)
            if rank() == 0 and (last or now - saved >= self._execution.save_every):
                self._save(name, epoch.number, stage, None if last else optimizer, progress)
                saved = now
            began = now
        check_agreement(stage)
        barrier()

    def _note(
        self,
        name: str,
        epoch: Epoch,
        accuracy: float | None,
        seconds: float,
        shown: ProgressLine,
    ) -> None:
        """Show an epoch to whoever looks, and write it into the history."""
        tested = "" if accuracy is None else f", accuracy {accuracy:.2f} %"
        shown.move(epoch.number, f"loss {sum(epoch.terms.values()):.3f}{tested}")
        if self._execution.on_epoch:
            self._execution.on_epoch(name, epoch.number)
        if rank() == 0:
            append_history(self._folder, epoch.to_row(name, accuracy, seconds))
            self._logs.follow()

    def _save(
        self,
        name: str,
        epoch: int,
        stage: Stage,
        optimizer: optim.SGD | None,
        progress: "_Progress",
    ) -> None:
        """Write the checkpoint of a stage; one that is finished keeps no optimiser."""
        rows = self._tracked[name]
        tracked = torch.stack(rows) if rows else torch.empty(0, 2, len(self._context.labels))
        state = optimizer.state_dict() if optimizer else None
        content = Checkpoint(
            epoch, stage.state_dict(), state, tracked, progress.top, self._means[name].state
        )
        checkpoint.write(self._folder / "stages" / f"{name}.pt", content)

    def observe(self, name: str, net: nn.Module, *, augmented: bool) -> Evidence:
        """One pass over the training samples, beside what training itself has seen of them."""
        path = self._folder / "evidence" / f"{name}.npz"
        if path.exists():
            return _read_evidence(path)
        judged, log_probs = self._look(name, net, 0, augmented)
        rows, probs = torch.stack([*self._tracked.get(name, []), judged]), log_probs.exp()
        mean = self._means[name].average(probs) if name in self._means else None
        evidence = Evidence(name, rows[:, 0], rows[:, 1], probs, **(mean or {}))
        self.keep(evidence)
        return evidence

    def keep(self, record: Split | Evidence) -> None:
        """Write a split, and say what is doubtful about it; or evidence."""
        if rank() == 0:
            kind = "splits" if isinstance(record, Split) else "evidence"
            write_arrays(self._folder / kind / f"{record.stage}.npz", record.to_arrays())
            if isinstance(record, Split):
                write_json(self._folder / kind / f"{record.stage}.json", record.to_record())
                for note in record.notes:
                    self._display.note(f"{record.stage}: {note}")
        barrier()

    def _look(
        self, name: str, net: nn.Module, epoch: int, augmented: bool
    ) -> tuple[Tensor, Tensor]:
        """Losses and margins of the given labels [2, N], and log-probabilities [N, C]."""
        log_probs, labels = self._context.predict(name, net, epoch, augmented), self._context.labels
        found = [label_losses(log_probs, labels), label_margins(log_probs, labels)]
        return torch.stack(found), log_probs


class _Progress:
    """How far a stage is: its epochs, and its state after the best one if that is wanted."""

    def __init__(self, found: Checkpoint | None, *, wanted: bool) -> None:
        self.done = found.epoch if found else 0
        self.top: Best | None = found.best if found else None
        self._wanted = wanted

    def update(self, accuracy: float | None, stage: Stage) -> None:
        """Keep the stage if it tested higher than ever before."""
        if self._wanted and accuracy is not None and (not self.top or accuracy > self.top[0]):
            self.top = accuracy, deepcopy(stage.state_dict())

    def restore(self, stage: Stage) -> None:
        """Put the best state back."""
        if self.top:
            stage.load_state_dict(self.top[1])
            self.top = None


def make_feed(
    context: Context, name: str, batch_size: int, epoch: int, kind: Callable[..., Feed] = Feed
) -> Feed:
    """The feed of one epoch of a stage."""
    return kind(
        context.images,
        context.train_transform,
        context.eval_transform,
        batch_size,
        epoch,
        (context.seed, name),
        context.device,
    )


def _read_evidence(path: Path) -> Evidence:
    """Evidence from the folder, or an error that says what to do."""
    try:
        return Evidence.read(path)
    except Exception as error:
        raise RunError(f"{path} is damaged; delete it to observe again") from error
