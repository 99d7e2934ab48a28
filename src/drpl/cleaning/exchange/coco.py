"""COCO: images, categories, and an annotation without a box for each label of a whole image."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drpl.cleaning.exchange.labels import Export, Label, read_label
from drpl.errors import DataError
from drpl.files import write_json

LISTS = ("images", "annotations", "categories")


def write(export: Export, path: Path) -> None:
    """Write one file; what was decided is in the annotations' attributes, as CVAT has them."""
    numbers = {label: number for number, label in enumerate(export.labels, 1)}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for image in export.images:
        width, height = image.measure()
        place = {"id": image.number, "file_name": image.name, "width": width, "height": height}
        images.append(place)
        for said in export.describe(image):
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image.number,
                    "category_id": numbers[said["label"]],
                    "attributes": {
                        "given_label": image.given,
                        **{name: said[name] for name in said if name != "label"},
                    },
                }
            )
    categories = [{"id": n, "name": name, "supercategory": ""} for name, n in numbers.items()]
    info = {"description": f"labels of {export.cleaned.source}"}
    lists = dict(zip(LISTS, (images, annotations, categories), strict=True))
    write_json(path, {"info": info, "licenses": [], **lists})


def parse(content: Any) -> Iterator[Label] | None:
    """The category of each annotation."""
    if not isinstance(content, dict) or not all(
        isinstance(content.get(name), list) and all(isinstance(one, dict) for one in content[name])
        for name in LISTS
    ):
        return None
    return _parse(content)


def _parse(content: dict[str, Any]) -> Iterator[Label]:
    names = {image.get("id"): image.get("file_name") for image in content["images"]}
    categories = {one.get("id"): one.get("name") for one in content["categories"]}
    for number, annotation in enumerate(content["annotations"], 1):
        if annotation.get("bbox") or annotation.get("segmentation"):
            raise DataError(f"annotation {number} is of a part; wanted are labels of whole images")
        image, category = annotation.get("image_id"), annotation.get("category_id")
        if image not in names or category not in categories:
            raise DataError(f"annotation {number} names an image or a category that is not listed")
        said = annotation.get("attributes")
        said = said if isinstance(said, dict) else {}
        yield read_label(said, names[image], categories[category])
