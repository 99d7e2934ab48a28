"""COCO's format of boxes: one JSON file with the lists images, annotations and categories."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drpl.data.address import is_there
from drpl.data.dataset import DatasetSplits
from drpl.data.readers.boxes import NO_BOX, Box, build_boxes, is_inside
from drpl.data.readers.folder import Kind, LeftOut
from drpl.data.sources import ReadOptions, explain_data_errors
from drpl.errors import DataError

LISTS = ("images", "annotations", "categories")
LARGEST = 2**30  # bytes of a file that is read at once; it takes several times that in memory
CROWD = Kind("box around a crowd", "boxes around crowds")
NO_PLACE = Kind("annotation without a box", "annotations without a box")


def read(path: Path, read_options: ReadOptions) -> DatasetSplits:
    """Every box as an image of its own.

    Images are looked for beside the file, in a folder `images` or one of the file's own name
    (`instances_val2017.json`: `val2017`), there or one folder up.
    """
    if (size := path.stat().st_size) > LARGEST:
        raise DataError(f"{path} has {size:,} bytes; at most {LARGEST:,} are read, so split it")
    with explain_data_errors(path):
        content = json.loads(path.read_bytes())
    if not isinstance(content, dict) or not all(_is_list(content.get(name)) for name in LISTS):
        raise DataError(
            f"{path} is not in COCO's format, an object with the lists {', '.join(LISTS)}; lists "
            "of images are read as .jsonl, with an object on each line"
        )
    left_out: LeftOut = {}
    with explain_data_errors(path):
        files = {image["id"]: str(image["file_name"]) for image in content["images"]}
        names = {one["id"]: str(one["name"]) for one in content["categories"]}
        boxes = list(_list_boxes(content["annotations"], files, names, left_out))
    if not boxes:
        raise DataError(f"{path} has no annotation with a box")
    boxed = {box.file for box in boxes}
    if empty := [file for file in files.values() if file not in boxed]:
        left_out[NO_BOX] = empty
    root = _find_root(path, [file for file in files.values() if is_inside(file)])
    return build_boxes(path, root, iter(boxes), read_options, left_out)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _list_boxes(
    annotations: list[dict[str, Any]],
    files: dict[Any, str],
    names: dict[Any, str],
    left_out: LeftOut,
) -> Iterator[Box]:
    for one in annotations:
        number = str(one.get("id", ""))
        if one.get("iscrowd"):
            left_out.setdefault(CROWD, []).append(number)
        elif not one.get("bbox"):
            left_out.setdefault(NO_PLACE, []).append(number)
        else:
            if one["image_id"] not in files or one["category_id"] not in names:
                raise DataError(f"annotation {number} is of an image or category that is not there")
            x, y, width, height = map(float, one["bbox"])
            place = (x, y, x + width, y + height)
            yield Box(files[one["image_id"]], names[one["category_id"]], *place, number)


def _find_root(path: Path, files: list[str]) -> Path:
    """The folder that the names of the images start from."""
    own = path.stem.rpartition("_")[2]
    homes = [up / name for up in (path.parent, path.parent.parent) for name in ("", "images", own)]
    found = (home for home in homes if any(is_there(home / file) for file in files[:100]))
    root = next(found, None)
    if root is None:
        first = files[0] if files else "any image"
        raise DataError(f"{path}: {first} is in none of {', '.join(map(str, homes[:5]))}")
    return root
