"""Training for real: stages are fitted, checkpointed, tested and noted in a run's folder."""

import math
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn, optim

from drpl.data.transforms import Transform
from drpl.detection.evidence import Evidence
from drpl.detection.split import Split
from drpl.distributed import barrier, check_agreement, rank
from drpl.errors import RunError
from drpl.files import write_arrays, write_json
from drpl.runs.display import Display, ProgressLine
from drpl.runs.experiment import Execution
from drpl.runs.folder import Row, append_history, drop_history
from drpl.runs.loggers import Logs
from drpl.runs.run import Context
from drpl.training import checkpoint
from drpl.training.checkpoint import Checkpoint, SaveTimer
from drpl.training.evaluate import label_losses, label_margins, predict
from drpl.training.feed import Feed
from drpl.training.loop import fit
from drpl.training.predictions import PredictionMean
from drpl.training.schedule import Schedule
from drpl.training.stage import Stage
from drpl.training.tables import split_rows

F = TypeVar("F", bound=Feed)
LARGEST = 32 * 2**20  # bytes of vectors that go into evidence
CHUNK = 4096  # vectors that are read together
LIMIT = 6e4  # of numbers in half precision


class FolderDriver:
    """Does in a folder what a method asks its run for; what was done before is read back."""

    def __init__(
        self, context: Context, folder: Path, execution: Execution, display: Display, logs: Logs
    ) -> None:
        self._context, self._folder, self._execution = context, folder, execution
        self._display, self._logs = display, logs
        self._tracked: dict[str, list[Tensor]] = {}  # [2, N] losses, margins by epoch
        self._means: dict[str, PredictionMean] = {}
        self._timer = SaveTimer(execution.save_every)

    def fit(self, name: str, stage: Stage, schedule: Schedule, *, best: bool) -> None:
        """Load a finished stage, or train the epochs that are left of it."""
        path = self._folder / "stages" / f"{name}.pt"
        optimizer = schedule.make_optimizer(stage.parameters())
        found = checkpoint.read(path)
        barrier()  # nobody writes before everybody has read
        if found:
            found.restore(stage, optimizer, path)
        labels = self._context.labels
        if found and found.tracked.shape[1:] != (2, len(labels)):
            raise RunError(f"{path} does not fit this run's data; use another folder")
        begun = found or Checkpoint(0, {}, {}, torch.empty(0, 2, len(labels)))
        self._tracked[name] = list(begun.tracked)
        self._means[name] = PredictionMean(labels, schedule.epochs, begun.predictions)
        if not begun.finished:
            self._train(name, stage, schedule, optimizer, begun, best)

    def _train(
        self,
        name: str,
        stage: Stage,
        schedule: Schedule,
        optimizer: optim.SGD,
        begun: Checkpoint,
        wants_best: bool,
    ) -> None:
        """The epochs that are left, each tested, noted and now and then saved."""
        if rank() == 0:
            drop_history(self._folder, name, after=begun.epoch)
            self._logs.follow()
        shown = self._display.track(name, schedule.epochs, begun.epoch, "epoch ")
        best, tracked, means = begun.best, self._tracked[name], self._means[name]
        every, began = self._execution.track_every, time.monotonic()
        open_feed = partial(make_feed, Feed, self._context, name, schedule.batch_size)
        precise = self._context.full_precision
        for epoch in fit(
            stage, open_feed, schedule, optimizer, begun.epoch, full_precision=precise
        ):
            last = epoch.number == schedule.epochs
            means.add(epoch.number, epoch.predictions)
            if every > 0 and epoch.number % every == 0 and not last:
                views = [self._context.train_transform]
                tracked.append(self._look(name, stage.net, epoch.number, views)[0])
            accuracy = self._context.measure_accuracy(stage.net)
            if wants_best and accuracy is not None and (not best or accuracy > best[0]):
                best = accuracy, deepcopy(stage.state_dict())
            if last and best:
                stage.load_state_dict(best[1])
                best = None
            now = time.monotonic()
            row = epoch.to_row(name, self._context.labels, accuracy, now - began)
            self._note(row, shown)
            if rank() == 0 and (last or self._timer.is_due(stage)):
                state = None if last else optimizer.state_dict()
                rows = torch.stack(tracked) if tracked else begun.tracked
                save = Checkpoint(epoch.number, stage.state_dict(), state, rows, best, means.state)
                with self._timer.measure():
                    checkpoint.write(self._folder / "stages" / f"{name}.pt", save)
            began = now
            del epoch  # its predictions are a table of their own, and the next epoch makes another
        check_agreement(stage)
        barrier()

    def _note(self, row: Row, shown: ProgressLine) -> None:
        """Show an epoch to whoever looks, and write it into the history."""
        accuracy = row["accuracy"]
        tested = "" if accuracy is None else f", accuracy {accuracy:.2f} %"
        shown.move(row["epoch"], f"loss {sum(row['terms'].values()):.3f}{tested}")
        if self._execution.on_epoch:
            self._execution.on_epoch(row["stage"], row["epoch"])
        if rank() == 0:
            append_history(self._folder, row)
            self._logs.follow()

    def observe(self, name: str, net: nn.Module, *, augmented: bool, mirrored: bool) -> Evidence:
        """A pass or two over the training samples, beside what training has seen of them."""
        path = self._folder / "evidence" / f"{name}.npz"
        if path.exists():
            try:
                return Evidence.read(path)
            except Exception as error:
                raise RunError(f"{path} is damaged; delete it to observe again") from error
        views = self._context.list_views(augmented=augmented, mirrored=mirrored)
        judged, log_probs = self._look(name, net, 0, views)
        rows, probs = torch.stack([*self._tracked.get(name, []), judged]), log_probs.exp_()
        mean = self._means[name].average(probs) if name in self._means else None
        vectors = show_vectors(self._context)
        evidence = Evidence(name, rows[:, 0], rows[:, 1], probs, **(mean or {}), vectors=vectors)
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
                    self._display.remark(f"{record.stage}: {note}")
        barrier()

    def _look(
        self, name: str, net: nn.Module, epoch: int, views: Sequence[Transform]
    ) -> tuple[Tensor, Tensor]:
        """Losses and margins of the given labels [2, N], and log-probabilities [N, C]."""
        c, key = self._context, (self._context.seed, name, "observe", epoch)
        log_probs = predict(net, c.images, views[0], c.device, key)
        for view in views[1:]:
            other = predict(net, c.images, view, c.device, key)
            torch.logaddexp(log_probs, other, out=log_probs)  # it may be a large table
        if len(views) > 1:
            log_probs -= math.log(len(views))
        found = torch.empty(2, len(c.labels))
        for rows in split_rows(len(c.labels), log_probs):
            for k, of in enumerate((label_losses, label_margins)):
                found[k, rows] = of(log_probs[rows], c.labels[rows])
        return found, log_probs


def show_vectors(context: Context) -> Tensor | None:
    """What a network sees of samples that are vectors, in half precision. [N, D]

    None where samples are images, or where the table would be large beside the rest of a run.
    """
    shape = context.eval_transform.output_shape(context.images.shape)
    if len(shape) > 1 or len(context.images) * shape[0] * 2 > LARGEST:
        return None
    none = torch.empty(0, 0)
    parts = [
        context.eval_transform(context.images.load(index), none).clamp(-LIMIT, LIMIT).half().cpu()
        for index in torch.arange(len(context.images)).split(CHUNK)
    ]
    return torch.cat(parts)


def make_feed(
    kind: Callable[..., F], context: Context, name: str, batch_size: int, epoch: int
) -> F:
    """The feed of one epoch of a stage."""
    seen = context.images, context.train_transform, context.eval_transform
    when = batch_size, epoch, (context.seed, name)
    return kind(*seen, *when, context.device, context.strong_transform)
