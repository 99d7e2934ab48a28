"""Pascal VOC's format of boxes: an XML file for each image in Annotations, images in JPEGImages."""

from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from drpl.data.dataset import DatasetSplits
from drpl.data.readers.boxes import NO_BOX, Box, build_boxes
from drpl.data.readers.folder import Kind, LeftOut
from drpl.data.readers.rows import SPLITS
from drpl.data.sources import ReadOptions, explain_data_errors
from drpl.errors import DataError
from drpl.files import parse_xml

SIDES = ("xmin", "ymin", "xmax", "ymax")
IMAGES = "JPEGImages"
LARGEST = 16 * 2**20  # bytes of one image's annotation
UNUSED = Kind(
    "annotation that no list in ImageSets/Main names",
    "annotations that no list in ImageSets/Main names",
)


def read(root: Path, read_options: ReadOptions) -> DatasetSplits:
    """Every box as an image of its own; parts are those of ImageSets/Main, if that is there."""
    left_out: LeftOut = {}
    splits = _read_splits(root)
    boxes: list[Box] = []
    for path in sorted((root / "Annotations").glob("*.xml")):
        split = splits.get(path.stem, "") if splits else "train"
        if not split:
            left_out.setdefault(UNUSED, []).append(path.name)
            continue
        boxes += _read_boxes(path, split, left_out)
    if not boxes:
        raise DataError(f"{root / 'Annotations'} has no box")
    return build_boxes(root, root, iter(boxes), read_options, left_out)


def _read_splits(root: Path) -> dict[str, str]:
    """The part of each image, by the lists train.txt, test.txt and val.txt."""
    found: dict[str, str] = {}
    for split in reversed(SPLITS):  # an image of several lists is of the first of them
        path = root / "ImageSets" / "Main" / f"{split}.txt"
        if path.is_file():
            with explain_data_errors(path):
                lines = path.read_text("utf-8").splitlines()
            found |= {line.split()[0]: split for line in lines if line.split()}
    return found if "train" in found.values() else {}


def _read_boxes(path: Path, split: str, left_out: LeftOut) -> Iterator[Box]:
    """The boxes of one annotation."""
    with explain_data_errors(path):
        if path.stat().st_size > LARGEST:
            raise DataError(f"{path} has more than {LARGEST:,} bytes")
        tree = parse_xml(path.read_bytes())
        name = (tree.findtext("filename") or "").strip()
        file = f"{IMAGES}/{name or f'{path.stem}.jpg'}"
        found = list(tree.iter("object"))
        if not found:
            left_out.setdefault(NO_BOX, []).append(file)
        for number, one in enumerate(found):
            label = (one.findtext("name") or "").strip()
            left, top, right, bottom = _read_sides(one, path)
            # The format counts pixels from 1, and names the last one of a box.
            yield Box(file, label, left - 1, top - 1, right, bottom, f"{path.name}:{number}", split)


def _read_sides(one: Element, path: Path) -> tuple[float, ...]:
    box = one.find("bndbox")
    texts = [box.findtext(side) if box is not None else None for side in SIDES]
    if None in texts:
        raise DataError(f"{path}: an object has no bndbox with {', '.join(SIDES)}")
    return tuple(float(str(text)) for text in texts)
