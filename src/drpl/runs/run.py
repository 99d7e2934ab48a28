"""What a method sees of the world. Holds no algorithm, and knows nothing of files."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

from drpl.config.settings import Common, StrongView
from drpl.data.dataset import Dataset, Truth
from drpl.data.images import Images, TensorImages
from drpl.data.projection import find_basis
from drpl.data.strong import StrongImages, StrongVectors, measure_deviations
from drpl.data.transforms import CropFlip, Mirrored, Normalise, Transform
from drpl.detection.evidence import Evidence
from drpl.detection.split import Split, detect
from drpl.distributed import broadcast
from drpl.encoders.pretrained import find_scale, start
from drpl.errors import ConfigError
from drpl.networks.build import Builder, build_network
from drpl.randomness import derive, rng
from drpl.runs.experiment import Experiment
from drpl.training.evaluate import predict
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
    strong_transform: Transform
    network: str | Builder
    width: int
    pretrained: bool
    frozen: int
    seed: int
    device: torch.device
    full_precision: bool = False

    @classmethod
    def build(cls, experiment: Experiment, device: torch.device) -> "Context":
        """From an experiment; its truth stays behind."""
        data, config = experiment.data, experiment.config
        images = _move_to(data.train.images, device)
        network = experiment.network or config.network
        scale = data.mean, data.std
        if config.pretrained:
            scale = find_scale(network, images.shape[0])
        elif config.frozen:
            raise ConfigError("frozen parts would keep random weights; they want pretrained=true")
        basis = find_basis(data, config.dimensions)
        if basis is not None:  # to the last bit the same on every process
            basis = broadcast(basis.to(device)).cpu()
        still = Normalise(*scale, config.crop, basis)
        view = getattr(config, "strong", StrongView())  # methods that ask for such views have it
        moved, strong = _choose_transforms(images, config, still, view)
        return cls(
            images,
            data.train.labels,
            len(data.train.classes),
            data.test,
            moved,
            still,
            strong,
            network,
            config.width,
            config.pretrained,
            config.frozen,
            experiment.seed,
            device,
            config.full_precision,
        )

    def list_views(self, *, augmented: bool, mirrored: bool) -> list[Transform]:
        """The transforms by which samples are observed: as they are, and mirrored if that is asked.

        Data that training does not mirror, such as vectors or writing, are not mirrored here.
        """
        view = self.train_transform if augmented else self.eval_transform
        if mirrored and isinstance(self.train_transform, CropFlip) and self.train_transform.flip:
            return [view, Mirrored(view)]
        return [view]

    def measure_accuracy(self, net: nn.Module) -> float | None:
        """Percent of the test images; None without a test set."""
        if self.test is None:
            return None
        guesses = predict(net, self.test.images, self.eval_transform, self.device).argmax(1)
        return 100 * float((guesses == self.test.labels).double().mean())


class Driver(Protocol):
    """Who does what a method asks for: `FolderDriver` trains, the dry run takes a few steps."""

    def fit(self, name: str, stage: Stage, schedule: Schedule, *, best: bool) -> None:
        """Train a stage."""

    def observe(self, name: str, net: nn.Module, *, augmented: bool, mirrored: bool) -> Evidence:
        """See every training sample as `net` does."""

    def keep(self, record: Split | Evidence) -> None:
        """Keep what was found."""


class Run:
    """What a method may ask for: labels, networks, training, observation, and a place to keep."""

    def __init__(self, context: Context, driver: Driver) -> None:
        self.labels, self.classes = context.labels, context.classes
        self._context, self._driver, self._networks = context, driver, 0

    def network(self) -> nn.Module:
        """A fresh network, initialised from the seed and how many were made before."""
        self._networks += 1
        c = self._context
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(c.seed, "network", self._networks))
            shape = c.eval_transform.output_shape(c.images.shape)
            net = build_network(c.network, shape, c.classes, c.width)
            if c.pretrained:
                net = start(net, c.network, c.frozen)
            return net.to(c.device)

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

    def observe(
        self, name: str, net: nn.Module, *, augmented: bool = True, mirrored: bool = False
    ) -> Evidence:
        """How `net`, trained by the stage `name`, sees every training sample now.

        On one augmented view by default, as the released code tracks its losses. With `mirrored`
        the mean prediction for the view and its mirror image, at the cost of one more pass.
        """
        return self._driver.observe(name, net, augmented=augmented, mirrored=mirrored)

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


def _choose_transforms(
    images: Images, config: Common, still: Normalise, view: StrongView
) -> tuple[Transform, Transform]:
    """What makes weak and strong views of the images to train on."""
    if len(images.shape) == 1:  # vectors are neither cropped nor flipped
        deviations = measure_deviations(images, still)
        return still, StrongVectors(still, deviations, view.noise, view.drop)
    weak = CropFlip(round(config.padding * images.shape[1]), config.flip, still)
    return weak, StrongImages(weak, **view.model_dump(exclude={"noise", "drop"}))


def _move_to(images: Images, device: torch.device) -> Images:
    """Images in memory move to the device once if they fit; others are read as they are needed."""
    if not isinstance(images, TensorImages) or device.type == "cpu":
        return images
    if device.type == "cuda" and images.pixels.nbytes > torch.cuda.mem_get_info(device)[0] // 2:
        return images
    return TensorImages(images.pixels.to(device))
