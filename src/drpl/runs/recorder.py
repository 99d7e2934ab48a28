"""Evidence from anybody's training loop: what its network says of the samples that it trains on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import tomli_w
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from drpl.detection import metrics
from drpl.detection.evidence import Evidence
from drpl.detection.probabilities import LabelQuality, judge_probabilities
from drpl.detection.split import Split, note_scarce_classes
from drpl.distributed import all_reduce_max, all_reduce_sum, find_device, rank
from drpl.errors import ConfigError, DataError, RunError
from drpl.files import digest, lock_folder, write_arrays, write_atomic, write_json
from drpl.runs.execute import list_versions
from drpl.runs.folder import Arrays, Result, find_difference, summarize, write_samples
from drpl.runs.issues import LISTED, build_table, match_labels
from drpl.training.evaluate import label_losses, label_margins

if TYPE_CHECKING:
    from drpl.runs.lightning_callback import LightningCallback
    from drpl.runs.transformers_callback import TransformersCallback

METHOD = STAGE = "recorded"
WAITING = 2**18  # logits, 1 MB, that are kept until they are worked on together
PART = 2**15  # of these at a time: larger tables are new memory each time, which takes long to get
ROWS = 1024  # of samples that a part has at least, for few rows are padded to whole vectors
VECTOR = 32  # numbers that a processor works on at once, or a multiple of that


class Recorder:
    """Means of what a network predicts for `n` samples of `classes` classes while it is trained.

        recorder = drpl.Recorder(len(dataset), classes=10)
        for images, labels, index in loader:  # index: the numbers of the samples
            logits = network(images)
            recorder.record(index, logits)
            ...
        recorder.issues(all_labels)

    The means are over all epochs that are recorded. Labels are not needed before the end, since the
    recorder keeps what it takes to judge any: four numbers of each sample and class, however many
    epochs there are. Put `state_dict()` into your checkpoint and give it to `load_state_dict` to
    go on where you stopped. Where several processes train together, each has a recorder of its own,
    and `gather()` gives one of what all of them saw.
    """

    def __init__(self, n: int, classes: int) -> None:
        if n < 1 or classes < 2:
            raise ConfigError(f"a recorder needs samples and 2 classes or more, not {n}, {classes}")
        self.n, self.classes = n, classes
        self._state = {
            "latest": torch.zeros(n, classes),  # log-probabilities
            "sums": torch.zeros(n, 3, classes),  # of probabilities, of their logarithms, of margins
            "count": torch.zeros(n, dtype=torch.int64),
            "step": torch.zeros(n, dtype=torch.int64),  # of the latest
        }
        self._steps = 0
        self._waiting: list[tuple[Tensor, Tensor]] = []
        self._waits = 0

    def record(self, index: ArrayLike | Tensor, logits: Tensor) -> None:
        """Take in the logits [B, C] of the samples with these numbers [B]."""
        numbers = index if isinstance(index, Tensor) else torch.as_tensor(index)
        count = numbers.numel()
        if logits.shape != (count, self.classes):
            raise DataError(
                f"wanted are logits [{count}, {self.classes}], one row for each number and one "
                f"column for each class; got {list(logits.shape)}"
            )
        if not count:
            return
        if numbers.dim() != 1:
            numbers = numbers.flatten()
        # Copies, since the loop may go on to change its own; on their device, since to fetch them
        # now would make the loop wait. `cat` copies in less time than `clone`.
        self._waiting.append((torch.cat((numbers,)), torch.cat((logits.detach(),))))
        self._waits += logits.numel()
        if self._waits >= WAITING:
            self._take_in()

    @torch.no_grad()
    def _take_in(self) -> None:
        """Add the batches that wait to the tables."""
        if not self._waiting:
            return
        numbers, logits = zip(*self._waiting, strict=True)
        self._waiting, self._waits = [], 0
        index = torch.cat(numbers).cpu().long()
        low, high = map(int, index.aminmax())
        if low < 0 or high >= self.n:
            raise DataError(f"samples have numbers from 0 to {self.n - 1}, got {low}..{high}")
        s = self._state
        s["count"].index_add_(0, index, torch.ones_like(index))
        first, self._steps = self._steps + 1, self._steps + len(numbers)
        steps, rows = np.arange(first, self._steps + 1), index.numpy()
        # Of a sample that waits several times, numpy keeps what is assigned last.
        s["step"].numpy()[rows] = np.repeat(steps, [len(batch) for batch in numbers])
        latest, sums = s["latest"].numpy(), s["sums"].view(self.n, -1)
        every, length = torch.cat(logits).float().cpu(), max(ROWS, PART // self.classes)
        for at, part in zip(index.split(length), every.split(length), strict=True):
            judged = _judge_logits(part)
            sums.index_add_(0, at, judged)
            latest[at.numpy()] = judged.numpy()[:, self.classes : 2 * self.classes]

    def state_dict(self) -> dict[str, Tensor]:
        """All that was recorded, for a checkpoint."""
        self._take_in()
        return dict(self._state)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state_dict` gave."""
        shapes = {name: tuple(table.shape) for name, table in state.items()}
        wanted = {name: tuple(table.shape) for name, table in self._state.items()}
        if shapes != wanted:
            raise RunError(
                f"what is loaded was not recorded for {self.n} samples of {self.classes} classes"
            )
        self._waiting, self._waits = [], 0
        for name, table in self._state.items():
            table.copy_(state[name])
        self._steps = int(self._state["step"].max())

    def gather(self) -> "Recorder":
        """What the recorders of all processes saw, as one; all of them must call it.

        Without torch.distributed it is a copy.
        """
        self._take_in()
        place = find_device()
        mine = {name: table.clone().to(place) for name, table in self._state.items()}
        newest = all_reduce_max(mine["step"].clone())
        holds = ((mine["step"] == newest) & (newest > 0)).float()
        # The mean, where several saw a sample in the same step: last batches are filled up.
        latest = all_reduce_sum(mine["latest"] * holds[:, None])
        latest /= all_reduce_sum(holds).clamp(min=1)[:, None]
        sums, count = (all_reduce_sum(mine[name]) for name in ("sums", "count"))
        whole = Recorder(self.n, self.classes)
        whole.load_state_dict({"latest": latest, "sums": sums, "count": count, "step": newest})
        return whole

    def resume(self, state: Mapping[str, Tensor]) -> None:
        """Go on from the state of a gathered recorder, which the first process takes over."""
        self.load_state_dict(state)
        if rank():
            for name in ("sums", "count"):
                self._state[name].zero_()

    def evidence(self, labels: ArrayLike) -> Evidence:
        """What detectors take, for labels that are numbers of columns or names in their order."""
        return self._observe(match_labels(labels, self.classes)[0])

    def _observe(self, given: Tensor) -> Evidence:
        self._take_in()
        s = self._state
        if len(given) != self.n:
            raise DataError(f"{len(given)} labels for {self.n} samples")
        if missing := int((s["count"] == 0).sum()):
            raise DataError(
                f"{missing} of {self.n} samples were never recorded; pass over the data once more "
                "with the trained network and record these too"
            )
        latest, at = s["latest"], given[:, None]
        probs, log_probs, margins = s["sums"].unbind(1)
        return Evidence(
            STAGE,
            label_losses(latest, given)[None],
            label_margins(latest, given)[None],
            latest.exp(),
            probs / s["count"][:, None],
            -log_probs.gather(1, at).squeeze(1) / s["count"],
            margins.gather(1, at).squeeze(1) / s["count"],
        )

    def _judge(self, given: Tensor) -> tuple[Evidence, LabelQuality]:
        """Labels by mean probabilities: when training ends, wrong labels may be memorised."""
        evidence = self._observe(given)
        return evidence, judge_probabilities(_get(evidence.mean_probs).numpy(), given)

    def issues(self, labels: ArrayLike) -> pd.DataFrame:
        """A table of all samples, worst first.

        It has the given and the suggested label, the probability that the given one is wrong, by
        the noise model of the mean probabilities, and whether it is called so.
        """
        given, names = match_labels(labels, self.classes)
        found = _tabulate(*self._judge(given), given)
        table = build_table(found["given"], found["suggested"], names, found["p_noisy"])
        return table.iloc[np.lexsort((-found["loss"], -found["p_noisy"]))]

    def save(
        self,
        folder: Path | str,
        labels: ArrayLike,
        *,
        name: str = "recorded",
        paths: Sequence[str] | None = None,
        true_labels: ArrayLike | None = None,
    ) -> Result:
        """Write the folder of a finished run, for `drpl.report`, `drpl.score` and their commands.

        `name` is that of the data, `paths` are the files of the samples. With `true_labels` the
        report says how good the judgement is.
        """
        folder = Path(folder)
        given, names = match_labels(labels, self.classes)
        evidence, quality = self._judge(given)
        split, classes = _split(evidence, quality, given), tuple(map(str, names))
        table = _tabulate(evidence, quality, given)
        if true_labels is not None:
            table["true"] = match_labels(true_labels, self.classes)[0].numpy()
            table["wrong"] = table["true"] != table["given"]
            table["in_distribution"] = np.ones(self.n, bool)
        about = {"method": METHOD, "dataset": name, "samples": self.n, "seed": 0}
        about |= {"classes": self.classes, "labels": digest(table["given"].tobytes())}
        config = {"run": about, "settings": {}}
        with lock_folder(folder):
            if difference := find_difference(folder, config):
                raise RunError(f"run folder {folder} {difference}; use another folder")
            write_atomic(folder / "config.toml", tomli_w.dumps(config))
            write_arrays(folder / "evidence" / f"{STAGE}.npz", evidence.to_arrays())
            write_arrays(folder / "splits" / f"{STAGE}.npz", split.to_arrays())
            write_json(folder / "splits" / f"{STAGE}.json", split.to_record())
            write_samples(folder, table, classes, paths)
            summary = summarize(folder, about, {}, list_versions())
            summary |= {"goal": "detect", "classes": list(classes)}
            summary |= {"flagged": int(table["flagged"].sum())}
            if true_labels is not None:
                found = metrics.score(table["p_noisy"], ~table["flagged"], table["wrong"])
                summary["detection"] = summary["stages"][0]["detection"] = found
            write_json(folder / "result.json", summary)
        return Result.load(folder)

    def make_lightning_callback(self) -> "LightningCallback":
        """A callback for Lightning's Trainer; the recording is then part of its checkpoints.

        `training_step` must return a dict with the loss, `logits` and `index`.
        """
        try:
            from drpl.runs.lightning_callback import LightningCallback
        except ImportError:
            raise ConfigError(
                "this needs the package lightning: pip install 'drpl[lightning]'"
            ) from None
        return LightningCallback(self)

    def make_transformers_callback(self) -> "TransformersCallback":
        """A callback for the Trainer of transformers; checkpoints then hold the recording too.

        Every example must have its number as `index`, and the training arguments
        `remove_unused_columns=False`.
        """
        try:
            from drpl.runs.transformers_callback import TransformersCallback
        except ImportError:
            raise ConfigError(
                "this needs the package transformers: pip install 'drpl[transformers]'"
            ) from None
        return TransformersCallback(self)


def _judge_logits(logits: Tensor) -> Tensor:
    """Probabilities, their logarithms and margins of logits [B, C], side by side. [B, 3 C]

    They are worked out with a row for each class, for short rows are slow; and transposed by numpy,
    which is faster at that than torch.
    """
    count, classes = logits.shape
    # Whole vectors of the processor, since what is left over is rounded in another way; and one
    # more, for rows of a power of two get in each other's way in caches.
    width = (count // VECTOR + 2) * VECTOR
    by_class = np.zeros((classes, width), np.float32)
    found = np.empty((3, classes, width), np.float32)
    by_class[:, :count] = logits.numpy().T
    probs, log_probs = torch.from_numpy(found[:2])
    torch.log_softmax(torch.from_numpy(by_class), 0, out=log_probs)
    torch.exp(log_probs, out=probs)
    np.subtract(by_class, _find_rivals(by_class), out=found[2])  # margins
    return torch.from_numpy(np.ascontiguousarray(found.reshape(-1, width)[:, :count].T))


def _find_rivals(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """The highest logit of the other classes, for each class and sample. [C, B]"""
    rivals = np.empty_like(logits)
    rivals[0] = -np.inf
    for c in range(1, len(logits)):  # the highest of the classes before
        np.maximum(rivals[c - 1], logits[c - 1], out=rivals[c])
    after = logits[-1].copy()
    for c in range(len(logits) - 2, -1, -1):
        np.maximum(rivals[c], after, out=rivals[c])
        np.maximum(after, logits[c], out=after)
    return rivals


def _split(evidence: Evidence, quality: LabelQuality, given: Tensor) -> Split:
    """What is called wrong, in the form of a run's last split."""
    noisy = torch.from_numpy(quality.label_noise)
    clean = noisy <= LISTED
    notes = tuple(note_scarce_classes(clean, given, evidence.probs.shape[1]))
    return Split(STAGE, _get(evidence.mean_losses), noisy, LISTED, clean, None, notes)


def _tabulate(evidence: Evidence, quality: LabelQuality, given: Tensor) -> Arrays:
    """What is known of every sample."""
    flagged = quality.label_noise > LISTED
    return {
        "given": given.numpy(),
        "suggested": np.where(flagged, quality.other, quality.predicted),
        "confidence": _get(evidence.mean_probs).amax(1).numpy(),
        "loss": _get(evidence.mean_losses).numpy(),
        "p_noisy": quality.label_noise,
        "flagged": flagged,
    }


def _get(mean: Tensor | None) -> Tensor:
    assert mean is not None  # noqa: S101  a recorder has all means
    return mean
