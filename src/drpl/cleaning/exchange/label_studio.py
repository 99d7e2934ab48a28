"""Label Studio: tasks with predictions of the networks, and decisions as annotations.

Beside the tasks a labelling interface is written, to be pasted into the project's settings. Images
are files that Label Studio serves (local storage, document root `/`), or lie below `--images`.
The export of such a project (JSON) comes back: its annotations are decisions, its predictions none.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from drpl import __version__
from drpl.cleaning.exchange.labels import Export, Image, Label, read_label
from drpl.errors import DataError
from drpl.files import write_atomic, write_json

LOCAL = "/data/local-files/?d="
CONTROL, OBJECT = "label", "image"  # names in the labelling interface


def write(export: Export, path: Path) -> None:
    """Write the tasks, and the labelling interface beside them."""
    version = f"drpl {__version__} {export.cleaned.fingerprint}"
    write_json(path, [_make_task(export, image, version) for image in export.images])
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Image", name=OBJECT, value="$image")
    choices = ElementTree.SubElement(view, "Choices", name=CONTROL, toName=OBJECT, choice="single")
    for label in export.labels:
        ElementTree.SubElement(choices, "Choice", value=label)
    ElementTree.indent(view)
    write_atomic(path.with_suffix(".interface.xml"), ElementTree.tostring(view, "unicode") + "\n")


def _make_task(export: Export, image: Image, version: str) -> dict[str, Any]:
    """One image with what the networks predict and what people decided."""
    if export.prefix is not None:
        address = export.prefix + quote(image.name)
    else:
        address = LOCAL + quote(str(image.file.resolve()).lstrip("/") if image.file else image.name)
    told = [said for said in export.describe(image) if said["action"]]
    return {
        "data": {
            "image": address,
            "path": image.name,
            "given_label": image.given,
            "p_noisy": round(image.p_noisy, 4),
        },
        "predictions": [
            {
                "model_version": version,
                "score": round(image.confidence, 4),
                "result": [_make_result(image.predicted)],
            }
        ],
        "annotations": [
            {"result": [_make_result(said["label"], said)], "ground_truth": False} for said in told
        ],
    }


def _make_result(label: str, said: dict[str, str] | None = None) -> dict[str, Any]:
    """A choice as Label Studio has it; it keeps `meta` as it is."""
    result = {
        "from_name": CONTROL,
        "to_name": OBJECT,
        "type": "choices",
        "value": {"choices": [label]},
    }
    return result | ({"meta": said} if said else {})


def parse(content: Any) -> Iterator[Label] | None:
    """The choices of all annotations; those of a task in the order of their time."""
    if not isinstance(content, list) or not all(
        isinstance(task, dict) and "data" in task for task in content
    ):
        return None
    return (label for number, task in enumerate(content, 1) for label in _parse_task(task, number))


def _parse_task(task: dict[str, Any], number: int) -> Iterator[Label]:
    data, annotations = task["data"], task.get("annotations", [])
    if not isinstance(data, dict) or not isinstance(annotations, list):
        raise DataError(f"task {number} has no data, or no list of annotations")
    name = data.get("path") or data.get("image") or _find_address(data)
    if not name:
        raise DataError(f"the data of task {number} name no image")
    timed = []
    for annotation in annotations:
        results = annotation.get("result") if isinstance(annotation, dict) else None
        if not isinstance(results, list) or not all(isinstance(one, dict) for one in results):
            raise DataError(f"an annotation of task {number} has no list of results")
        time = str(annotation.get("updated_at") or annotation.get("created_at") or "")
        timed.append((time, _name_person(annotation.get("completed_by")), annotation, results))
    for time, who, annotation, results in sorted(timed, key=lambda one: one[0]):
        if annotation.get("was_cancelled"):  # skipped
            continue
        chosen = [one for one in results if one.get("type") == "choices"]
        own = [one for one in chosen if one.get("from_name") == CONTROL]
        for result in own or chosen:
            for choice in _list_choices(result, number):
                said = result.get("meta")
                if not isinstance(said, dict) or said.get("label") != choice:  # not ours any more
                    said = {"who": who, "time": time}
                yield read_label(said | {"given_label": data.get("given_label")}, name, choice)


def _list_choices(result: dict[str, Any], number: int) -> list[Any]:
    value = result.get("value")
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(choices, list):
        raise DataError(f"a choice in task {number} has no list of choices")
    return choices


def _find_address(data: dict[str, Any]) -> str:
    """The image of a project that calls it otherwise, if only one thing can be meant."""
    found = [value for value in data.values() if isinstance(value, str) and "/" in value]
    return found[0] if len(found) == 1 else ""


def _name_person(who: Any) -> str:
    """Who annotated: an address, or a number among Label Studio's users."""
    if isinstance(who, dict):
        return str(who.get("email") or f"annotator {who.get('id', '')}".strip())
    return "" if who is None else f"annotator {who}"
