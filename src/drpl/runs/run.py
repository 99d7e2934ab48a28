"""What a method sees of the world. Holds no algorithm, and knows nothing of files."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

from drpl.config.settings import Common
from drpl.data.dataset import Dataset, Truth
from drpl.data.images import Images, TensorImages
from drpl.data.transforms import CropFlip, Normalise, Transform
from drpl.detection.evidence import Evidence
from drpl.detection.split import Split, detect
from drpl.networks.build import Builder, build_network
from drpl.randomness import derive, rng
from drpl.runs.experiment import Experiment
from drpl.training.evaluate import measure_accuracy, predict
from drpl.training.schedule import Schedule
from drpl.training.stage import Stage

S = TypeVar("S", bound=Stage)
Kept = TypeVar("Kept", Split, Evidence)


@dataclass(frozen=True)
class Outcome:
    """What a method gives back."""

    net: nn.Module  # what predicts
    split: Split  # its judgement of the labels


@dataclass(frozen=True)
class Context:
    """What is trained on: images as a network is shown them, and where."""

    images: Images
    labels: Tensor  # [N] as given
    classes: int
    test: Dataset | None
    train_transform: Transform
    eval_transform: Normalise
    network: str | Builder
    width: int
    seed: int
    device: torch.device

    @classmethod
    def build(cls, experiment: Experiment, device: torch.device) -> "Context":
        """From an experiment; its truth stays behind."""
        data, config = experiment.data, experiment.config
        images = _move_to(data.train.images, device)
        still = Normalise(data.mean, data.std, config.crop)
        return cls(
            images,
            data.train.labels,
            len(data.train.classes),
            data.test,
            make_train_transform(images.shape, config, still),
            still,
            experiment.network or config.network,
            config.width,
            experiment.seed,
            device,
        )

    def make_network(self, number: int) -> nn.Module:
        """A fresh network, initialised from the seed and its number."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(self.seed, "network", number))
            shape = self.eval_transform.output_shape(self.images.shape)
            net = build_network(self.network, shape, self.classes, self.width)
        return net.to(self.device)

    def predict(self, name: str, net: nn.Module, epoch: int, augmented: bool) -> Tensor:
        """Log-probabilities on one view of each training sample. [N, C]"""
        transform = self.train_transform if augmented else self.eval_transform
        return predict(
            net, self.images, transform, self.device, (self.seed, name, "observe", epoch)
        )

    def measure_accuracy(self, net: nn.Module) -> float | None:
        """Percent of the test images; None without a test set."""
        if self.test is None:
            return None
        images, labels = self.test.images, self.test.labels
        return measure_accuracy(net, images, labels, self.eval_transform, self.device)


class Driver(Protocol):
    """Who does what a method asks for: `FolderDriver` trains, the dry run takes a few steps."""

    def fit(self, name: str, stage: Stage, schedule: Schedule, *, best: bool) -> None:
        """Train a stage."""
        ...

    def observe(self, name: str, net: nn.Module, *, augmented: bool) -> Evidence:
        """See every training sample as `net` does."""
        ...

    def keep(self, record: Split | Evidence) -> None:
        """Keep what was found."""
        ...


class Run:
    """What a method may ask for: labels, networks, training, observation, and a place to keep."""

    def __init__(self, context: Context, driver: Driver) -> None:
        self.labels, self.classes = context.labels, context.classes
        self._context, self._driver, self._networks = context, driver, 0

    def network(self) -> nn.Module:
        """A fresh network, initialised from the seed and how many were made before."""
        self._networks += 1
        return self._context.make_network(self._networks)

    def rng(self, *key: int | str) -> torch.Generator:
        """Draws that depend on the run's seed and this key alone, the same on every process."""
        return rng(self._context.seed, *key)

    def fit(self, name: str, stage: S, schedule: Schedule, *, best: bool = False) -> S:
        """Train a stage: load it if it was finished before, continue it if it was begun.

        With `best` it ends as it was after the epoch with the highest test accuracy, as some
        papers do: a look at the test set. Without a test set it ends as after the last epoch.
        """
        self._driver.fit(name, stage.to(self._context.device), schedule, best=best)
        return stage

    def observe(self, name: str, net: nn.Module, *, augmented: bool = True) -> Evidence:
        """How `net`, trained by the stage `name`, sees every training sample now.

        On one augmented view by default, as the released code tracks its losses.
        """
        return self._driver.observe(name, net, augmented=augmented)

    def keep(self, record: Kept) -> Kept:
        """Record a split, or evidence of the method's own making, in the run's folder."""
        self._driver.keep(record)
        return record

    def judge(self, name: str, net: nn.Module, threshold: float) -> Outcome:
        """Split by the losses of `net`, trained by the stage `name`: the end of most methods."""
        split = detect(self.observe(name, net), self.labels, threshold)
        return Outcome(net, self.keep(split))


class OracleRun(Run):
    """The run of a method that declares itself an oracle: it has the truth."""

    def __init__(self, context: Context, driver: Driver, truth: Truth) -> None:
        super().__init__(context, driver)
        self.truth = truth


def make_train_transform(
    shape: tuple[int, ...], config: Common, eval_transform: Normalise
) -> Transform:
    """Crop and flip for images, nothing for vectors."""
    if len(shape) == 1:
        return eval_transform
    return CropFlip(round(config.padding * shape[1]), config.flip, eval_transform)


def _move_to(images: Images, device: torch.device) -> Images:
    """Images in memory move to the device once if they fit; others are read as they are needed."""
    if not isinstance(images, TensorImages) or device.type == "cpu":
        return images
    if device.type == "cuda" and images.pixels.nbytes > torch.cuda.mem_get_info(device)[0] // 2:
        return images
    return TensorImages(images.pixels.to(device))
