"""FiftyOne: its directory of images and labels.json (`FiftyOneImageClassificationDataset`)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drpl.cleaning.exchange.image_tree import write_images
from drpl.cleaning.exchange.labels import Export, Label, read_labels_once
from drpl.errors import DataError
from drpl.files import write_json


def write(export: Export, path: Path) -> None:
    """Write links to the images in `data`, and their labels in `labels.json`."""
    labels = {}
    with write_images(export, path, "fiftyone", "data") as places:
        for image, place in places:
            said = export.describe_once(image)
            label = said.pop("label")
            attributes = {"path": image.name, "given_label": image.given, **said}
            scores = {"p_noisy": image.p_noisy, "predicted": image.predicted}
            labels[place.stem] = {"label": label, "attributes": attributes | scores}
        write_json(path / "labels.json", {"classes": export.labels, "labels": labels})


def parse(content: Any) -> Iterator[Label] | None:
    """The label of each image; several where there are."""
    if not isinstance(content, dict) or not isinstance(content.get("labels"), dict):
        return None
    classes = content.get("classes")
    return _parse(content["labels"], classes if isinstance(classes, list) else [])


def _parse(labels: dict[str, Any], classes: list[Any]) -> Iterator[Label]:
    for name, value in labels.items():
        for one in value if isinstance(value, list) else [value]:
            said = one.get("attributes") if isinstance(one, dict) else None
            label = one.get("label") if isinstance(one, dict) else one
            if isinstance(label, int):
                if not 0 <= label < len(classes):
                    raise DataError(f"the label of {name!r} is {label}, which is no class of it")
                label = classes[label]
            if label is not None:
                yield from read_labels_once(said if isinstance(said, dict) else {}, name, label)
