"""Non-uniform in-distribution noise: a label moves to a class that looks like its own."""

from collections.abc import Sequence

import torch
from torch import Tensor

from drpl.data.dataset import Dataset
from drpl.errors import ConfigError
from drpl.noise.kind import Noise, NoiseContext, check_rate
from drpl.noise.official import draw_official_categorical, draw_official_first
from drpl.noise.transition import make_transition_noise

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MOVES = {"truck": "automobile", "bird": "airplane", "deer": "horse", "cat": "dog", "dog": "cat"}
# Five is PENCIL's protocol, which the paper cites and the released code follows: cat and dog
# change places. The paper's own list has four: no dog becomes a cat.
FLIPS = {
    "five": {name: MOVES.get(name, name) for name in CIFAR10},
    "four": {name: name if name == "dog" else MOVES.get(name, name) for name in CIFAR10},
}

# CIFAR-100's superclasses. Within each the fine classes stand in the order of their numbers,
# which are not neighbours: loss correction's released blocks 0-4, 5-9 ... mix superclasses.
SUPERCLASSES = (
    "beaver dolphin otter seal whale",
    "aquarium_fish flatfish ray shark trout",
    "orchid poppy rose sunflower tulip",
    "bottle bowl can cup plate",
    "apple mushroom orange pear sweet_pepper",
    "clock keyboard lamp telephone television",
    "bed chair couch table wardrobe",
    "bee beetle butterfly caterpillar cockroach",
    "bear leopard lion tiger wolf",
    "bridge castle house road skyscraper",
    "cloud forest mountain plain sea",
    "camel cattle chimpanzee elephant kangaroo",
    "fox porcupine possum raccoon skunk",
    "crab lobster snail spider worm",
    "baby boy girl man woman",
    "crocodile dinosaur lizard snake turtle",
    "hamster mouse rabbit shrew squirrel",
    "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "bicycle bus motorcycle pickup_truck train",
    "lawn_mower rocket streetcar tank tractor",
)
FOLLOWING = {  # the next fine class within the superclass, the first after the last
    name: following
    for members in map(str.split, SUPERCLASSES)
    for name, following in zip(members, members[1:] + members[:1], strict=True)
}


def nonuniform(
    rate: float, around: NoiseContext, scheme: str = "paper", flips: str = "five"
) -> Noise:
    """A share of each class that has look-alikes gets the label of one of them.

    CIFAR-10 and CIFAR-100 have fixed ones; any other set follows its confusion matrix. On CIFAR-10
    `flips` is five, as in the released code, or four, as in the paper's text.
    """
    check_rate(rate)
    if flips not in FLIPS:
        raise ConfigError(f"unknown flips {flips!r}; known are {', '.join(FLIPS)}")

    def table(dataset: Dataset) -> Tensor:
        """1 - r stays and r moves, in the classes that have a move. [C, C]"""
        moves = find_flips(dataset.classes, flips)
        if moves is None:
            confusion = around.require_confusion("nonuniform", "DATA")
            # The diagonal goes before rows are normalised, or less than r would move.
            errors = confusion.among(dataset.classes, dataset.classes).fill_diagonal_(0)
            matrix = rate * errors / errors.sum(1, keepdim=True)
            return matrix.fill_diagonal_(1 - rate)
        matrix = torch.eye(len(dataset.classes), dtype=torch.float64)
        for a, b in moves.items():
            matrix[a, a], matrix[a, b] = 1 - rate, rate
        return matrix

    def official(dataset: Dataset, matrix: Tensor) -> Tensor:
        known = find_flips(dataset.classes) is not None
        draw = draw_official_categorical if known else draw_official_first
        return draw(dataset, matrix)

    return make_transition_noise(table, official, scheme)


def find_flips(classes: Sequence[str], flips: str = "five") -> dict[int, int] | None:
    """Which class is taken for which, if the classes are those of CIFAR-10 or CIFAR-100."""
    names = [name.lower().replace(" ", "_") for name in classes]
    if flips != "five" and set(names) != {*CIFAR10}:
        raise ConfigError(f"flips={flips} is a variant of CIFAR-10's noise; leave it out here")
    for moves in (FLIPS[flips], FOLLOWING):
        if len(names) == len(moves) and set(names) == moves.keys():
            return {names.index(a): names.index(b) for a, b in moves.items() if a != b}
    return None
