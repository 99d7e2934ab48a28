"""One method on one data set in one folder. Holds no algorithm."""

import time
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn, optim

from drpl.config.compose import Common
from drpl.data.dataset import DatasetSplits, Truth
from drpl.data.images import Images, TensorImages
from drpl.data.transforms import CropFlip, Normalise, Transform
from drpl.detection.evidence import Evidence
from drpl.detection.split import Split
from drpl.distributed import barrier, check_agreement, rank
from drpl.errors import ConfigError, RunError
from drpl.files import write_arrays, write_json
from drpl.networks.build import Builder, build_network
from drpl.randomness import derive, rng
from drpl.runs import history
from drpl.runs.display import Display
from drpl.runs.loggers import Logs
from drpl.training import checkpoint
from drpl.training.checkpoint import Best, Checkpoint
from drpl.training.evaluate import accuracy, losses, margins, predict
from drpl.training.loop import fit
from drpl.training.schedule import Schedule
from drpl.training.stage import Stage

S = TypeVar("S", bound=Stage)


@dataclass(frozen=True)
class Outcome:
    """What a method gives back."""

    net: nn.Module  # what predicts
    split: Split  # its judgement of the labels


@dataclass(frozen=True)
class Machine:
    """What matters for how a run is carried out but not for what comes out."""

    device: torch.device
    save_every: float = 10.0  # seconds between checkpoints within a stage
    track_every: int = 0  # epochs between observations of every loss; 0: at the end of stages only

    def tracks(self, epoch: int) -> bool:
        """Whether losses are observed after this epoch."""
        return self.track_every > 0 and epoch % self.track_every == 0


class Run:
    """What a method may ask for: labels, networks, training, observation, and a place to keep."""

    def __init__(
        self,
        data: DatasetSplits,
        config: Common,
        seed: int,
        folder: Path,
        machine: Machine,
        display: Display,
        network: Builder | None = None,
        truth: Truth | None = None,
        logs: Logs | None = None,
    ) -> None:
        self.labels, self.classes = data.train.labels, len(data.train.classes)
        self._truth, self._logs = truth, logs
        self._seed, self._folder, self._machine, self._display = seed, folder, machine, display
        self._config, self._test = config, data.test
        self._images = on_device(data.train.images, machine.device)
        self._still = Normalise(data.mean, data.std, config.crop)
        self._view = view_for(self._images.shape, config, self._still)
        self._network, self._networks = network or config.network, 0
        self._tracked: dict[str, list[Tensor]] = {}  # [2, N] losses, margins by epoch

    @property
    def truth(self) -> Truth:
        """The true labels, which only oracles are given."""
        if self._truth is None:
            raise ConfigError("an oracle needs the true labels, and these data come without them")
        return self._truth

    def network(self) -> nn.Module:
        """A fresh network, initialised from the seed and how many were made before."""
        self._networks += 1
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(self._seed, "network", self._networks))
            shape = self._still.output_shape(self._images.shape)
            net = build_network(self._network, shape, self.classes, self._config.width)
        return net.to(self._machine.device)

    def rng(self, *key: int | str) -> torch.Generator:
        """Draws that depend on the run's seed and this key alone, the same on every process."""
        return rng(self._seed, *key)

    def fit(self, name: str, stage: S, schedule: Schedule, *, best: bool = False) -> S:
        """Train a stage: load it if it was finished before, continue it if it was begun.

        With `best` it ends as it was after the epoch with the highest test accuracy, as some
        papers do: a look at the test set. Without a test set it ends as after the last epoch.
        """
        path = self._folder / "stages" / f"{name}.pt"
        stage.to(self._machine.device)
        optimizer = schedule.optimizer(stage.parameters())
        found = checkpoint.read(path)
        barrier()  # nobody writes before everybody has read
        if found:
            found.restore(stage, optimizer, path)
        self._tracked[name] = list(found.tracked) if found else []
        if not (found and found.finished):
            self._train(name, stage, schedule, optimizer, best, found)
        return stage

    def _train(
        self,
        name: str,
        stage: Stage,
        schedule: Schedule,
        optimizer: optim.SGD,
        best: bool,
        found: Checkpoint | None,
    ) -> None:
        """The epochs that are left, each tested, noted and now and then saved."""
        done, top = (found.epoch, found.best) if found else (0, None)
        machine, path = self._machine, self._folder / "stages" / f"{name}.pt"
        diary, tracked = self._folder / "history.jsonl", self._tracked[name]
        if rank() == 0:
            history.forget(diary, name, done)
            self._show()
        shown = self._display.stage(name, schedule.epochs, done)
        saved = began = time.monotonic()
        epochs = fit(
            stage,
            self._images,
            self._view,
            self._still,
            schedule,
            key=(self._seed, name),
            device=machine.device,
            optimizer=optimizer,
            done=done,
        )
        for epoch in epochs:
            last = epoch.number == schedule.epochs
            if machine.tracks(epoch.number) and not last:
                tracked.append(self._judged(self._look(name, stage.net, epoch.number)))
            tested = self._accuracy(stage.net)
            if best:
                top = better(top, tested, stage)
            if top and last:
                stage.load_state_dict(top[1])
                top = None
            now = time.monotonic()
            shown.epoch(epoch.number, tested, sum(epoch.terms.values()))
            if rank() == 0:
                history.append(diary, epoch.row(name, tested, now - began))
                self._show()
            if rank() == 0 and (last or now - saved >= machine.save_every):
                kept = None if last else optimizer.state_dict()
                rows = torch.stack(tracked) if tracked else torch.empty(0, 2, len(self.labels))
                state = stage.state_dict()
                checkpoint.write(path, Checkpoint(epoch.number, state, kept, rows, top))
                saved = now
            began = now
        check_agreement(stage)
        barrier()

    def _show(self) -> None:
        """Let the loggers see what the diary has."""
        if self._logs:
            self._logs.follow()

    def observe(self, name: str, net: nn.Module, *, augmented: bool = True) -> Evidence:
        """How `net`, trained by the stage `name`, sees every training sample now.

        On one augmented view by default, as the released code tracks its losses.
        """
        path = self._folder / "evidence" / f"{name}.npz"
        if path.exists():
            return read_evidence(path)
        log_probs = self._look(name, net, 0, augmented)
        rows = torch.stack([*self._tracked.get(name, []), self._judged(log_probs)])
        return self.keep_evidence(Evidence(name, rows[:, 0], rows[:, 1], log_probs.exp()))

    def keep_evidence(self, evidence: Evidence) -> Evidence:
        """Record what a network, or a method's own table, says of every sample."""
        if rank() == 0:
            write_arrays(self._folder / "evidence" / f"{evidence.stage}.npz", evidence.arrays())
        barrier()
        return evidence

    def keep(self, split: Split) -> Split:
        """Record a split in the folder and say what is doubtful about it."""
        if rank() == 0:
            write_arrays(self._folder / "splits" / f"{split.stage}.npz", split.arrays())
            write_json(self._folder / "splits" / f"{split.stage}.json", split.record())
            for note in split.notes:
                self._display.note(f"{split.stage}: {note}")
        return split

    def _look(self, name: str, net: nn.Module, epoch: int, augmented: bool = True) -> Tensor:
        """Log-probabilities on one view of each sample. [N, C]"""
        key = (self._seed, name, "observe", epoch)
        view = self._view if augmented else self._still
        return predict(net, self._images, view, self._machine.device, key)

    def _judged(self, log_probs: Tensor) -> Tensor:
        """Losses and margins of the given labels. [2, N]"""
        return torch.stack([losses(log_probs, self.labels), margins(log_probs, self.labels)])

    def _accuracy(self, net: nn.Module) -> float | None:
        if self._test is None:
            return None
        return accuracy(
            net, self._test.images, self._test.labels, self._still, self._machine.device
        )


def better(top: Best | None, accuracy: float | None, stage: Stage) -> Best | None:
    """The stage as it is now, if it tested higher than ever before; else what was on top."""
    if accuracy is None or (top and accuracy <= top[0]):
        return top
    return accuracy, deepcopy(stage.state_dict())


def read_evidence(path: Path) -> Evidence:
    """Evidence from the folder, or an error that says what to do."""
    try:
        return Evidence.read(path)
    except Exception as error:
        raise RunError(f"{path} is damaged; delete it to observe again") from error


def on_device(images: Images, device: torch.device) -> Images:
    """Images in memory move to the device once if they fit; others are read as they are needed."""
    if not isinstance(images, TensorImages) or device.type == "cpu":
        return images
    if device.type == "cuda" and images.pixels.nbytes > torch.cuda.mem_get_info(device)[0] // 2:
        return images
    return TensorImages(images.pixels.to(device))


def view_for(shape: tuple[int, ...], config: Common, still: Normalise) -> Transform:
    """The training view: crop and flip for images, nothing for vectors."""
    if len(shape) == 1:
        return still
    return CropFlip(round(config.padding * shape[1]), config.flip, still)
