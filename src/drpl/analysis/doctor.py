"""A look over a data set before hours of training: what is in it, what is odd, what it takes."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import torch
from PIL import Image

from drpl.config.compose import PRESETS
from drpl.data.dataset import Dataset, DatasetSplits
from drpl.errors import DrplError
from drpl.runs.display import duration
from drpl.runs.dry_run import Plan, Speeds, dry_run

FEW = 20  # images of a class below which it can hardly be learnt
SOME = 5  # examples named for each finding


@dataclass(frozen=True)
class Examination:
    """What was found: facts in order, and what a user should look at."""

    facts: list[tuple[str, str]]
    warnings: list[str]
    plans: dict[str, Plan] = field(default_factory=dict)

    def text(self) -> str:
        """For the terminal."""
        lines = [f"{name:<12}{value}" for name, value in self.facts]
        lines += [f"warning: {warning}" for warning in self.warnings] or ["nothing odd was found"]
        if self.plans:
            lines.append("time on this machine, reckoned from a few steps of drpl:")
        for preset, plan in self.plans.items():
            epochs = sum(stage.epochs for stage in plan.stages)
            lines.append(f"  {preset:<14}{epochs:>5} epochs{duration(plan.seconds):>12}")
        return "\n".join(lines)


def examine(
    data: DatasetSplits, root: Path | None = None, presets: Sequence[str] = ()
) -> Examination:
    """Count, compare and rehearse. `root` is where the paths of image files begin."""
    facts = [("data set", data.name), ("images", shape_of(data)), ("training", parts(data.train))]
    if root and data.train.paths:
        facts += seen_in_files(root, data.train.paths)
    if data.test:
        facts.append(("test", parts(data.test)))
    if data.outside:
        facts.append(("outside", parts(data.outside)))
    facts.append(("memory", f"{bytes_of(data) / 2**20:.1f} MiB of pixels"))
    warnings = [*data.notes, *thin_classes(data.train), *twins(data.train)]
    if data.test:
        warnings += leaks(data.train, data.test)
    if data.test is None:
        warnings.append("there is no test part: accuracy will not be known")
    return Examination(facts, warnings, dict(planned(data, presets)))


def shape_of(data: DatasetSplits) -> str:
    """3 x 32 x 32, or vectors of 512."""
    shape = data.train.images.shape
    if len(shape) == 1:
        return f"vectors of {shape[0]}"
    kind = "grey" if shape[0] == 1 else "colour" if shape[0] == 3 else f"{shape[0]} channels"
    return f"{shape[1]} x {shape[2]} pixels, {kind}"


def seen_in_files(root: Path, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Sizes and modes of (at most 2,000 evenly chosen) files, from their first bytes."""
    sizes: list[tuple[int, int]] = []
    modes: Counter[str] = Counter()
    for path in paths[:: max(1, len(paths) // 2000)]:
        with Image.open(root / path) as image:
            sizes.append(image.size)
            modes[f"{image.format} {image.mode}"] += 1
    widths, heights = zip(*sizes, strict=True)
    yield "sizes", f"{min(widths)} x {min(heights)} to {max(widths)} x {max(heights)} pixels"
    yield "modes", ", ".join(f"{count} {mode}" for mode, count in modes.most_common())


def parts(dataset: Dataset) -> str:
    """How many, and how they are spread over the classes."""
    counts = counted(dataset)
    spread = ", ".join(f"{name} {count}" for name, count in list(counts.items())[:12])
    more = ", ..." if len(counts) > 12 else ""
    return f"{len(dataset)} in {len(counts)} classes: {spread}{more}"


def counted(dataset: Dataset) -> dict[str, int]:
    """Images of each class."""
    numbers = torch.bincount(dataset.labels, minlength=len(dataset.classes)).tolist()
    return dict(zip(dataset.classes, numbers, strict=True))


def bytes_of(data: DatasetSplits) -> int:
    """What all pixels take when they are held in memory."""
    each = prod(data.train.images.shape) * (1 if len(data.train.images.shape) == 3 else 4)
    whole = [part for part in (data.train, data.test, data.outside) if part]
    return sum(len(part) for part in whole) * each


def thin_classes(dataset: Dataset) -> Iterator[str]:
    """Classes with hardly any image, and a spread that is far from even."""
    counts = counted(dataset)
    thin = [name for name, count in counts.items() if count < FEW]
    if thin:
        yield f"{len(thin)} classes have fewer than {FEW} images: {some(thin)}"
    if max(counts.values()) > 10 * max(1, min(counts.values())):
        least, most = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
        yield f"classes are uneven: {least!r} has {counts[least]} images, {most!r} {counts[most]}"


def fingerprints(dataset: Dataset) -> list[bytes]:
    """A digest of every image's pixels."""
    marks = []
    for part in torch.arange(len(dataset)).split(1024):
        rows = dataset.images.load(part).cpu().contiguous().numpy()
        marks += [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
    return marks


def twins(dataset: Dataset) -> Iterator[str]:
    """Images that are there twice; with two labels, one of them is wrong for sure."""
    groups: dict[bytes, list[int]] = defaultdict(list)
    for i, mark in enumerate(fingerprints(dataset)):
        groups[mark].append(i)
    doubled = [group for group in groups.values() if len(group) > 1]
    torn = [group for group in doubled if len(set(dataset.labels[group].tolist())) > 1]
    if torn:
        pairs = [" = ".join(called(dataset, i) for i in group[:2]) for group in torn]
        yield f"{len(torn)} images are there twice under different labels: {some(pairs)}"
    if len(doubled) > len(torn):
        alike = sum(len(group) - 1 for group in doubled if group not in torn)
        yield f"{alike} images are exact copies of others with the same label"


def leaks(train: Dataset, test: Dataset) -> Iterator[str]:
    """Test images that are in the training part as well."""
    known = Counter(fingerprints(train))
    both = [i for i, mark in enumerate(fingerprints(test)) if mark in known]
    if both:
        names = some([called(test, i) for i in both])
        yield f"{len(both)} test images are in the training part too: {names}"


def called(dataset: Dataset, i: int) -> str:
    """An image by its path or number, and its label."""
    name = dataset.paths[i] if dataset.paths else f"image {i}"
    return f"{name} ({dataset.classes[int(dataset.labels[i])]})"


def some(names: Sequence[str]) -> str:
    """The first few."""
    return ", ".join(names[:SOME]) + (", ..." if len(names) > SOME else "")


def planned(data: DatasetSplits, presets: Sequence[str]) -> Iterator[tuple[str, Plan]]:
    """What DRPL takes under each preset that fits the data."""
    speeds: Speeds = {}
    vectors = len(data.train.images.shape) == 1
    for preset in presets:
        if (preset == "vectors") != vectors:
            continue
        try:
            yield preset, dry_run(data, preset=preset, speeds=speeds)
        except DrplError:
            continue  # such as a network for images where the data are vectors


def all_presets() -> list[str]:
    """Those that stand on their own."""
    return [name for name in PRESETS if name != "released"]
