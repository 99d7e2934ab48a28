"""Examine a data set before hours of training: what is in it, what is odd, what it takes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import prod
from pathlib import Path, PurePath

import torch

from drpl.analysis.findings import Findings, look_over
from drpl.config.compose import OVERLAYS, PRESETS
from drpl.data.conflicts import (
    Marks,
    find_leaks,
    find_two_labels,
    group_copies,
    have_same_labels,
    list_some,
    mark_pixels,
)
from drpl.data.dataset import Dataset, DatasetSplits, EmptyClassError
from drpl.data.decoding import open_file
from drpl.data.sources import ReadOptions, is_plain_folder, load
from drpl.encoders.lite import find_weights
from drpl.errors import ConfigError, DrplError
from drpl.runs.display import duration
from drpl.runs.dry_run import Plan, Speeds, dry_run
from drpl.runs.experiment import Experiment

FEW = 20  # images of a class below which it can hardly be learnt
ENCODER = "lite0"  # that is recommended


@dataclass(frozen=True)
class Examination:
    """What was found: facts in order, and what a user should look at."""

    facts: list[tuple[str, str]]
    warnings: list[str]
    plans: dict[str, Plan] = field(default_factory=dict)
    findings: Findings | None = None  # of data that were read as features

    def __str__(self) -> str:
        lines = [f"{name:<12}{value}" for name, value in self.facts]
        lines += [f"warning: {warning}" for warning in self.warnings] or ["nothing odd was found"]
        if self.plans:
            lines.append("time on this machine, estimated from a few steps of drpl:")
        for preset, plan in self.plans.items():
            epochs = sum(stage.epochs for stage in plan.stages)
            lines.append(f"  {preset:<14}{epochs:>5} epochs{duration(plan.seconds):>12}")
        return "\n".join(lines)


def load_what_has_images(what: str, read_options: ReadOptions) -> DatasetSplits:
    """The data set at a path; classes without an image that can be read are noted and left out.

    Other commands stop there, for a model would learn nothing of such a class.
    """
    told: list[str] = []
    while True:
        try:
            data = load(what, read_options)
        except EmptyClassError as error:
            told.append(str(error))
            if not _can_go_on(error.others, read_options):
                raise EmptyClassError("; ".join(told), error.others) from None
            read_options = replace(read_options, classes=error.others)
        else:
            notes = tuple(f"{sentence}, as is done here" for sentence in told)
            return replace(data, notes=notes + data.notes)


def _can_go_on(others: Sequence[str], read_options: ReadOptions) -> bool:
    """Whether classes that have images are enough, and fewer than were read."""
    left, outside = set(others), set(read_options.outside)
    return outside <= left and len(left - outside) > 1 and left != set(read_options.classes)


def examine(
    data: DatasetSplits, root: Path | None = None, presets: Sequence[str] = ()
) -> Examination:
    """Count, compare and estimate times. `root` is where the paths of image files begin."""
    train, test = data.train, data.test
    facts = [("data set", data.name), ("images", _describe_shape(train.images.shape))]
    facts.append(("training", _describe_classes(train)))
    if root and train.paths:
        facts += _describe_files(root, train.paths)
    if test:
        facts.append(("test", _describe_classes(test)))
    if data.outside:
        facts.append(("outside", _describe_classes(data.outside)))
    count = sum(len(part) for part in (train, test, data.outside) if part)
    size = prod(train.images.shape) * (1 if len(train.images.shape) == 3 else 4)
    facts.append(("memory", f"{count * size / 2**20:.1f} MiB of pixels"))
    marks = mark_pixels(train)
    warnings = [
        *data.notes,
        *_find_deeper(data),
        *_find_small_classes(train),
        *find_two_labels(train, marks),
    ]
    warnings += _find_copies(train, marks)
    if test:
        warnings += find_leaks(marks, test, mark_pixels(test))
    else:
        warnings.append("there is no test part: accuracy will not be known")
    single = train.tags is None
    findings = look_over(data) if single and (data.encoding or train.pictures) else None
    if findings:
        facts.append(("copies", findings.describe_search()))
        warnings += findings.list_warnings()
    elif single and len(train.images.shape) == 3:
        facts.append(("not done", _explain_missing()))
    warnings = list(dict.fromkeys(warnings))  # some are noted as data are read
    plans = dict(_estimate_times(data, presets)) if single else {}
    return Examination(facts, warnings, plans, findings)


def _explain_missing() -> str:
    """What features would tell, and how to have it."""
    try:
        find_weights(ENCODER)
        remedy = f"ask for it with --features {ENCODER}"
    except ConfigError:
        remedy = "install what it takes with: pip install 'drpl[features]'"
    return f"near-duplicates, outliers and classes that look like one were not looked for; {remedy}"


def _describe_shape(shape: tuple[int, ...]) -> str:
    """3 x 32 x 32, or vectors of 512."""
    if len(shape) == 1:
        return f"vectors of {shape[0]}"
    kind = {1: "grey", 3: "colour"}.get(shape[0], f"{shape[0]} channels")
    return f"{shape[1]} x {shape[2]} pixels, {kind}"


def _describe_files(root: Path, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Sizes and modes of (at most 2,000 evenly chosen) files, from their first bytes."""
    sizes: list[tuple[int, int]] = []
    modes: Counter[str] = Counter()
    for path in paths[:: max(1, len(paths) // 2000)]:
        with open_file(root / path) as image:
            sizes.append(image.size)
            modes[f"{image.format} {image.mode}"] += 1
    widths, heights = zip(*sizes, strict=True)
    yield "sizes", f"{min(widths)} x {min(heights)} to {max(widths)} x {max(heights)} pixels"
    yield "modes", ", ".join(f"{count} {mode}" for mode, count in modes.most_common())


def _describe_classes(dataset: Dataset) -> str:
    """How many images, and how they are spread over the classes."""
    counts = _count_classes(dataset)
    spread = ", ".join(f"{name} {count}" for name, count in islice(counts.items(), 12))
    more = ", ..." if len(counts) > 12 else ""
    classes = "1 class" if len(counts) == 1 else f"{len(counts)} classes"
    return f"{len(dataset)} in {classes}: {spread}{more}"


def _count_classes(dataset: Dataset) -> dict[str, int]:
    """Images of each class."""
    numbers = torch.bincount(dataset.entries, minlength=len(dataset.classes)).tolist()
    return dict(zip(dataset.classes, numbers, strict=True))


def _find_small_classes(dataset: Dataset) -> Iterator[str]:
    """Classes with hardly any image, and a spread that is far from even."""
    counts = _count_classes(dataset)
    small = [name for name, count in counts.items() if count < FEW]
    if small:
        what = "1 class has" if len(small) == 1 else f"{len(small)} classes have"
        yield f"{what} fewer than {FEW} images: {list_some(small)}"
    if max(counts.values()) > 10 * max(1, min(counts.values())):
        least, most = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
        yield f"classes are uneven: {least!r} has {counts[least]} images, {most!r} {counts[most]}"


def _find_deeper(data: DatasetSplits) -> Iterator[str]:
    """Folders inside of all class folders, which may be the classes that are meant."""
    origin, paths, classes = data.origin, data.train.paths, data.train.classes
    if not origin or not paths or origin.read_options.label_pattern:
        return
    if not is_plain_folder(Path(origin.what)):
        return
    depth = origin.read_options.depth or 1
    labels = [tuple(name.split("/")) for name in classes]
    inner: set[tuple[str, ...]] = set()  # folders right below the classes', with those
    deepest = 0
    for path, label in zip(paths, data.train.labels.tolist(), strict=True):
        parts = PurePath(path).parts
        parts = parts if parts[:depth] == labels[label] else parts[1:]  # train/
        if len(parts) < depth + 2:
            return
        inner.add(parts[: depth + 1])
        deepest = max(deepest, len(parts))
    if len(inner) == len(classes):
        return  # one in each
    yield (
        f"every image is in a folder inside of its class's, as {'/'.join(min(inner))}; if these "
        f"{len(inner):,} are the classes, read them with --depth {depth + 1}"
    )
    names = {parts[-1] for parts in inner}
    if deepest == depth + 2 and 1 < len(names) < len(inner):
        yield (
            f"these folders have {len(names):,} names: {list_some(sorted(names))}; if the names "
            "are the classes, read them with --label-pattern '([^/]+)/[^/]+$'"
        )


def _find_copies(dataset: Dataset, marks: Marks) -> Iterator[str]:
    """Images that are there twice under one label."""
    groups = group_copies(marks)
    alike = [g for g in groups if have_same_labels(dataset, g)]
    if alike:
        count = sum(len(group) - 1 for group in alike)
        what = "1 image is an exact copy of another"
        if count > 1:
            what = f"{count} images are exact copies of others"
        yield f"{what} with the same label"


def _estimate_times(data: DatasetSplits, presets: Sequence[str]) -> Iterator[tuple[str, Plan]]:
    """What DRPL takes under each preset that fits the data."""
    speeds: Speeds = {}
    vectors = len(data.train.images.shape) == 1
    for preset in presets:
        if (preset == "vectors") != vectors:
            continue
        try:
            yield preset, dry_run(Experiment.build(data, preset=preset), speeds=speeds)
        except DrplError:
            continue  # such as a network for images where the data are vectors


def list_presets() -> list[str]:
    """Those that stand on their own."""
    return [name for name in PRESETS if name not in (*OVERLAYS, "figure1", "inception")]
