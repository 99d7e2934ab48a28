"""Boxes of a detection data set, each an image of its own: labels of boxes can be wrong, too."""

from collections.abc import Iterator
from math import ceil, floor, isfinite
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from drpl.data.address import is_there, name_region
from drpl.data.dataset import DatasetSplits
from drpl.data.readers.folder import Kind, LeftOut
from drpl.data.readers.rows import NOT_THERE, Rows, build
from drpl.data.sources import ReadOptions

SMALLEST = 2  # pixels a side of a box that shows anything
TOO_SMALL = Kind(*(f"{box} of less than {SMALLEST} pixels a side" for box in ("box", "boxes")))
OUTSIDE = Kind(
    "image whose name leads out of its folder", "images whose names lead out of their folder"
)
NO_BOX = Kind("image without a box", "images without a box")


class Box(NamedTuple):
    """A labelled box of an image file, in pixels from the left and the top."""

    file: str  # from the root on
    label: str
    left: float
    top: float
    right: float
    bottom: float
    number: str  # what it is called in its file
    split: str = "train"


def build_boxes(
    source: Path, root: Path, boxes: Iterator[Box], read_options: ReadOptions, left_out: LeftOut
) -> DatasetSplits:
    """The data set of all boxes; the columns `file` and `box` say where each came from."""
    rows, there = Rows(), dict[str, bool]()
    for box in boxes:
        if box.file not in there:
            there[box.file] = is_inside(box.file) and is_there(root / box.file)
        if not there[box.file]:
            _note_once(left_out, NOT_THERE if is_inside(box.file) else OUTSIDE, box.file)
            continue
        sides = (box.left, box.top, box.right, box.bottom)
        if not all(map(isfinite, sides)) or max(sides) > 1e9:
            left_out.setdefault(TOO_SMALL, []).append(f"{box.file} ({box.number})")
            continue
        left, top = max(0, floor(box.left)), max(0, floor(box.top))
        right, bottom = ceil(box.right), ceil(box.bottom)
        if min(right - left, bottom - top) < SMALLEST:
            left_out.setdefault(TOO_SMALL, []).append(f"{box.file} ({box.number})")
            continue
        place = f"{left},{top},{right - left},{bottom - top}"
        cells = {"file": box.file, "box": place, "annotation": box.number}
        rows.add(name_region(box.file, (left, top, right, bottom)), box.label, box.split, **cells)
    return build(source, root, rows, read_options, left_out)


def is_inside(file: str) -> bool:
    """Whether a name stays below the folder that it is looked for in."""
    steps = PurePosixPath(file.replace("\\", "/"))
    return not steps.is_absolute() and ".." not in steps.parts and "\0" not in file


def _note_once(left_out: LeftOut, kind: Kind, name: str) -> None:
    if name not in left_out.setdefault(kind, []):
        left_out[kind].append(name)
