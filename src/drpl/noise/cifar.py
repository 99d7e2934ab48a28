"""The non-uniform noise of CIFAR-10 and CIFAR-100, by the names of their classes."""

from collections.abc import Sequence

# PENCIL's protocol, which the paper cites: cat and dog change places (the paper's list has
# cat to dog only, the released code both).
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FLIPS = {
    "truck": "automobile",
    "bird": "airplane",
    "deer": "horse",
    "cat": "dog",
    "dog": "cat",
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


def find_flips(classes: Sequence[str]) -> dict[int, int] | None:
    """Which class is taken for which, if the classes are those of CIFAR-10 or CIFAR-100."""
    names = [name.lower().replace(" ", "_") for name in classes]
    following = _follow_in_superclass()
    for known, moves in ((set(CIFAR10), FLIPS), (set(following), following)):
        if len(names) == len(known) and set(names) == known:
            return {names.index(a): names.index(b) for a, b in moves.items()}
    return None


def _follow_in_superclass() -> dict[str, str]:
    """The next fine class within the superclass, the first after the last."""
    return {
        name: members[(place + 1) % len(members)]
        for members in (group.split() for group in SUPERCLASSES)
        for place, name in enumerate(members)
    }
